"""The space of a search: flags that all trials have, and ranges and choices for the others, from a YAML file.

    flags: {model_name: ComplEx, neg_adversarial_sampling: true, max_step: 4000}
    search:
      lr: {low: 0.01, high: 1.0, log: true}
      hidden_dim: {low: 64, high: 512, step: 64}
      batch_size: [512, 1024, 2048]
    start:                       # tried first; what a point leaves out is chosen by the search
      - {lr: 0.1, batch_size: 1024}
    full: {max_step: 20000}      # goes over the flags of the best trial in a full run

Where flags go together in some ways only, a space has variants, of which each trial has one. The parameters of a
variant are called by both names, all.lr below.

    variants:
      negatives: {flags: {neg_adversarial_sampling: true}, search: {gamma: {low: 3.0, high: 30.0}}}
      all: {flags: {loss_genre: Softmax, neg_sample_size: all}, search: {lr: {low: 0.01, high: 1.0, log: true}},
            full: {max_step: 40000}}
    start:
      - {variant: all, lr: 0.1}
"""

from __future__ import annotations

import math
import re
from argparse import ArgumentTypeError
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple, Union

from ..arguments import path
from ..errors import InputError, shown
from ..nearest import or_nearest
from ..options import OPTIONS, TrainConfig
from ..removed_flags import instead_of_flag

if TYPE_CHECKING:
    from optuna import Trial

SPACES = Path(__file__).parent / "spaces"  # the spaces of the package, by model
PARTS = ("flags", "search", "variants", "start", "full")
VARIANT, PARTS_OF_VARIANT = "variant", ("flags", "search", "full")
# How often a full run is validated goes with its length, and how long it waits with how often that is.
GOES_WITH = {"max_step": {"eval_interval", "early_stop_patience"}, "eval_interval": {"early_stop_patience"}}
Value = Union[str, int, float, bool]


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    values: Tuple[Value, ...]

    def suggest(self, trial: Trial, name: str) -> Value:
        """A value for an optuna.Trial."""
        return trial.suggest_categorical(name, list(self.values))

    def holds(self, value: Any) -> bool:
        """Whether the search could come to `value`."""
        return value in self.values


@dataclass(frozen=True)
class Range:
    """A number from low to high, both included; of its logarithm, or in steps; integers if low and high are."""

    low: float
    high: float
    log: bool = False
    step: Optional[float] = None

    @property
    def is_integer(self) -> bool:
        """Whether it holds integers alone."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def suggest(self, trial: Trial, name: str) -> Value:
        """A value for an optuna.Trial."""
        if self.is_integer:
            return trial.suggest_int(name, self.low, self.high, step=self.step or 1, log=self.log)
        return trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log)

    def holds(self, value: Any) -> bool:
        """Whether the search could come to `value`."""
        return isinstance(value, (int, float)) and not isinstance(value, bool) and self.low <= value <= self.high


@dataclass(frozen=True)
class Variant:
    """One way to train: flags, searched flags, and flags of the full run, besides those of all trials."""

    flags: Dict[str, Any] = field(default_factory=dict)
    search: Dict[str, Union[Choice, Range]] = field(default_factory=dict)
    full: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Space:
    """See the module. `name`: of its file, for sentences. Starting points name parameters as trials do."""

    name: str
    flags: Dict[str, Any] = field(default_factory=dict)
    search: Dict[str, Union[Choice, Range]] = field(default_factory=dict)
    start: Sequence[Dict[str, Any]] = ()
    full: Dict[str, Any] = field(default_factory=dict)
    variants: Dict[str, Variant] = field(default_factory=dict)
    source: Any = None  # by which a search is known again: the file's content, and what was given over it

    @classmethod
    def read(cls, name: str) -> "Space":
        """The space in a file, or that of a model by its name. Raises InputError, with file and line."""
        file = path("the space", name)
        if not file.suffix and not file.exists():
            file = SPACES / f"{str(name).lower()}.yaml"
            if not file.is_file():
                known = [each.stem for each in SPACES.glob("*.yaml")]
                raise InputError(f"there is no space '{shown(name)}'{or_nearest(name, known)}, or give a YAML file")
        content, lines = _load(file)
        return _checked(str(file), content, lines)

    def with_flags(self, flags: Mapping[str, Any]) -> "Space":
        """The space with other or further flags for all trials, and for the full run."""
        of_full = {*flags}.union(*(GOES_WITH.get(name, ()) for name in flags))

        def others(mapping: Mapping[str, Any], names: Set[str] = of_full) -> Dict[str, Any]:
            return {name: value for name, value in mapping.items() if name not in names}

        variants = {name: replace(each, flags=others(each.flags, {*flags}), full=others(each.full))
                    for name, each in self.variants.items()}
        return replace(self, flags={**self.flags, **flags}, full=others(self.full), variants=variants,
                       source={"file": self.source, "flags": dict(flags)})

    def with_variants(self, names: Sequence[str]) -> "Space":
        """The space with these variants alone. Raises InputError for one that it does not have."""
        if not self.variants:
            raise InputError(f"{self.name} has no variants; leave --variants out")
        for name in names:
            if name not in self.variants:
                raise InputError(f"{self.name} has no variant '{shown(name)}'{or_nearest(name, list(self.variants))}")
        return replace(self, variants={name: self.variants[name] for name in names},
                       start=[point for point in self.start if point[VARIANT] in names],
                       source={"file": self.source, "variants": list(names)})

    @property
    def of_package(self) -> bool:
        """Whether it comes with the package."""
        return SPACES in Path(self.name).parents

    @property
    def parameters(self) -> Dict[str, Union[Choice, Range]]:
        """The choices of a trial, by the names of its parameters."""
        variant = {VARIANT: Choice(tuple(self.variants))} if self.variants else {}
        return {**variant, **self.search, **{f"{name}.{flag}": domain for name, each in self.variants.items()
                                             for flag, domain in each.search.items()}}

    @property
    def searched(self) -> Set[str]:
        """Flags that some trial's search chooses."""
        return {flag for each in (self, *self.variants.values()) for flag in each.search}

    def suggest(self, trial: Trial) -> Dict[str, Any]:
        """Flags of an optuna.Trial, those of all trials included."""
        params, variant = {}, ""
        if self.variants:
            params[VARIANT] = variant = trial.suggest_categorical(VARIANT, list(self.variants))
        for name, domain in self.parameters.items():
            if name in self.search or (variant and name.startswith(f"{variant}.")):
                params[name] = domain.suggest(trial, name)
        return self.flags_of(params)

    def flags_of(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """The flags of a trial by its parameters, those of all trials included."""
        return {**self.flags, **self._variant_of(params).flags, **bare(params)}

    def full_of(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """Flags that override the others in a full run."""
        return {**self.full, **self._variant_of(params).full}

    def _variant_of(self, params: Mapping[str, Any]) -> Variant:
        return self.variants[params[VARIANT]] if VARIANT in params else Variant()

    def examples(self) -> List[Dict[str, Any]]:
        """Parameters that trials might have, of each variant, for a look at whether their flags go together."""
        def first(domain):
            return domain.values[0] if isinstance(domain, Choice) else domain.low

        found = []
        for variant in self.variants or [""]:
            own = {VARIANT: variant} if variant else {}
            params = {name: first(domain) for name, domain in self.parameters.items()
                      if name in self.search or (variant and name.startswith(f"{variant}."))}
            start = next((point for point in self.start if point.get(VARIANT, "") == variant), {})
            found.append({**own, **params, **start})
        return found


def bare(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Parameters by the names of their flags, without the variant that they are of."""
    return {name.rpartition(".")[2]: value for name, value in params.items() if name != VARIANT}


def _load(path: Path) -> Tuple[Any, Dict[Tuple, int]]:
    """The contents of a YAML file, and the line of each key, by its path."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        node, content = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; give a YAML file of a search space") from error
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError, OverflowError) as error:
        # besides errors of YAML, those of Python for a !!tag or an escape that its text does not fit
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}," if mark else ""
        raise InputError(f"{path}{where} is not YAML; see docs/search.md for what a space looks like") from error
    lines: Dict[Tuple, int] = {}

    def walk(at, way):
        if isinstance(at, yaml.MappingNode) and len(way) < 4:
            for key, value in at.value:
                here, line = (*way, str(key.value)), key.start_mark.line + 1
                if here in lines:
                    raise InputError(f"{path}, line {line}: '{shown(here[-1])}' stands on line {lines[here]}, too; "
                                     "remove one of them")
                lines[here] = line
                walk(value, here)

    walk(node, ())
    return content, lines


def _checked(path: str, content: Any, lines: Mapping[Tuple, int]) -> Space:
    def wrong(sentence: str, *way: str) -> InputError:
        line = f", line {lines[way]}" if way in lines else ""
        return InputError(f"{path}{line}: {sentence}")

    if not isinstance(content, dict):
        raise InputError(f"{path} must hold the parts {', '.join(PARTS)}; see docs/search.md")
    for part in content:
        if part not in PARTS:
            raise wrong(f"there is no part '{shown(part)}'{or_nearest(part, PARTS)}", str(part))
    known = TrainConfig().to_flags()

    def check_values(values: Iterable[Any], *way: str) -> None:
        """Of a flag, by what the command line makes of them."""
        option = OPTIONS[way[-1]]
        for value in values:
            try:
                if not option.is_switch and value is not None:
                    option.parse(str(value))
            except (ValueError, TypeError, ArgumentTypeError, InputError) as error:
                raise wrong(f"'{way[-1]}' cannot be {shown(value, repr)}; give what --{way[-1]} takes", *way) from error

    def flags_in(holder: Mapping, part: str, *way: str) -> Dict[str, Any]:
        flags = holder.get(part) or {}
        if not isinstance(flags, dict):
            raise wrong(f"'{part}' must map flags to values", *way, part)
        for name in flags:
            if name not in known:
                raise wrong(f"there is no flag '{shown(name)}'{instead_of_flag(name, known)}", *way, part, str(name))
        return flags

    def read(holder: Mapping, *way: str) -> Variant:
        flags, full = (flags_in(holder, part, *way) for part in ("flags", "full"))
        domains = {name: _domain(value, lambda message, name=name: wrong(f"'{name}' {message}", *way, "search", name))
                   for name, value in flags_in(holder, "search", *way).items()}
        return Variant(flags, domains, full)

    start, variants = content.get("start") or [], content.get("variants") or {}
    if not isinstance(start, list) or not all(isinstance(point, dict) for point in start):
        raise wrong("'start' must be a list of mappings from flags to values", "start")
    if not isinstance(variants, dict):
        raise wrong("'variants' must map names to parts", "variants")
    for name, holder in variants.items():
        if not re.fullmatch(r"\w+", str(name)) or not isinstance(holder, dict) or set(holder) - set(PARTS_OF_VARIANT):
            raise wrong(f"a variant has a name without dots and some of the parts {', '.join(PARTS_OF_VARIANT)}",
                        "variants", str(name))
    common = read(content)
    variants = {str(name): read(holder, "variants", str(name)) for name, holder in variants.items()}
    if not common.search and not any(each.search for each in variants.values()):
        raise wrong("'search' names no flag to search; give ranges or choices", "search")
    for way, each in (((), common), *((("variants", name), each) for name, each in variants.items())):
        others = each.flags if each is common else {**each.flags, **common.search}
        twice = sorted(set(each.search) & set(others))
        if twice:
            raise wrong(f"'{twice[0]}' stands under 'flags', too; remove one of them" if twice[0] in each.flags else
                        f"'{twice[0]}' is searched by all variants, too; remove one of them", *way, "search", twice[0])
        for part, given in (("flags", each.flags), ("full", each.full)):
            for name, value in given.items():
                check_values(value if isinstance(value, list) else [value], *way, part, name)
        for name, domain in each.search.items():
            tried = domain.values if isinstance(domain, Choice) else (domain.low, domain.high)
            check_values(tried, *way, "search", name)
    space = Space(path, common.flags, common.search, (), common.full, variants, content)
    return replace(space, start=tuple(_starting_point(point, space, wrong) for point in start))


def _starting_point(point: Mapping[str, Any], space: Space, wrong) -> Dict[str, Any]:
    """By the names of parameters."""
    found, variant = {}, point.get(VARIANT)
    if space.variants and variant not in space.variants:
        raise wrong(f"a starting point needs 'variant', one of {', '.join(space.variants)}", "start")
    for name, value in point.items():
        own = name != VARIANT and name not in space.search and variant is not None
        parameter = f"{variant}.{name}" if own else str(name)
        domain = space.parameters.get(parameter)
        value = _number(value) if isinstance(domain, Range) else value
        if domain is None or not domain.holds(value):
            why = "is not searched" if domain is None else f"cannot be {shown(value, repr)}"
            raise wrong(f"'{shown(name)}' of a starting point {why}; give a value of 'search'", "start")
        found[parameter] = value
    return found


def _domain(value: Any, wrong) -> Union[Choice, Range]:
    if isinstance(value, list):
        if not value or not all(isinstance(item, (str, int, float, bool)) for item in value):
            raise wrong("must list the values to choose from")
        return Choice(tuple(value))
    if not isinstance(value, dict) or not {"low", "high"} <= set(value) <= {"low", "high", "log", "step"}:
        raise wrong("must be a list of values, or {low: A, high: B} with log: true or step: S")
    low, high, step, log = (_number(value.get(key)) for key in ("low", "high", "step", "log"))
    for number in (low, high, *([] if step is None else [step])):
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
            raise wrong(f"has {shown(number, repr)} where a number must be")
    if not low <= high or (log and not low > 0) or (step is not None and (log or not step > 0)):
        raise wrong("needs low at most high, above 0 with log, and a step above 0 or log, not both")
    if isinstance(low, int) != isinstance(high, int):
        low, high = float(low), float(high)
    if isinstance(low, int) and isinstance(step, float):
        raise wrong("has integers for low and high, so its step must be one, too")
    if step is not None and abs((high - low) / step - round((high - low) / step)) > 1e-8:
        raise wrong("has a step that does not lead from low to high; move high")
    return Range(low, high, bool(log), step)


def _number(value: Any) -> Any:
    """YAML 1.1 reads 1e-3 as text."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def plain(flags: Mapping[str, Any]) -> Dict[str, Any]:
    """Flags as YAML and JSON have them."""
    return {name: list(value) if isinstance(value, (list, tuple)) else value for name, value in flags.items()}


def listed(params: Mapping[str, Any]) -> List[str]:
    """Parameters for people: `lr 0.123`."""
    return [f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in params.items()]
