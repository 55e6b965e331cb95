"""What a search tries: flags that all trials have, and ranges and choices for the others, from a YAML file.

    flags: {model_name: ComplEx, neg_adversarial_sampling: true, max_step: 4000}
    search:
      lr: {low: 0.01, high: 1.0, log: true}
      hidden_dim: {low: 64, high: 512, step: 64}
      batch_size: [512, 1024, 2048]
    start:                       # tried first; what a point leaves out is chosen by the search
      - {lr: 0.1, batch_size: 1024}
    full: {max_step: 20000}      # goes over the flags of the best trial in the recipe
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ..config import TrainConfig
from ..errors import InputError, shown
from ..nearest import or_nearest

SPACES = Path(__file__).parent / "spaces"  # those that come with the package, by model
PARTS = ("flags", "search", "start", "full")
Value = Union[str, int, float, bool]


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    values: Tuple[Value, ...]

    def suggest(self, trial, name: str) -> Value:
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

    def suggest(self, trial, name: str) -> Value:
        """A value for an optuna.Trial."""
        if self.is_integer:
            return trial.suggest_int(name, self.low, self.high, step=self.step or 1, log=self.log)
        return trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log)

    def holds(self, value: Any) -> bool:
        """Whether the search could come to `value`."""
        return isinstance(value, (int, float)) and not isinstance(value, bool) and self.low <= value <= self.high


@dataclass(frozen=True)
class Space:
    """See the module. `name`: of its file, for sentences."""

    name: str
    flags: Dict[str, Any] = field(default_factory=dict)
    search: Dict[str, Union[Choice, Range]] = field(default_factory=dict)
    start: Sequence[Dict[str, Any]] = ()
    full: Dict[str, Any] = field(default_factory=dict)
    source: Any = None  # by which a search is known again: the file's content, and what was given over it

    @classmethod
    def read(cls, name: str) -> "Space":
        """The space in a file, or that of a model by its name. Raises InputError, with file and line."""
        path = Path(name)
        if not path.suffix and not path.exists():
            path = SPACES / f"{name.lower()}.yaml"
            if not path.is_file():
                known = [each.stem for each in SPACES.glob("*.yaml")]
                raise InputError(f"there is no space '{shown(name)}'{or_nearest(name, known)}, or give a YAML file")
        content, lines = _load(path)
        return _checked(str(path), content, lines)

    def with_flags(self, flags: Mapping[str, Any]) -> "Space":
        """The space with other or further flags for all trials."""
        return replace(self, flags={**self.flags, **flags}, source={"file": self.source, "flags": dict(flags)})

    def suggest(self, trial) -> Dict[str, Any]:
        """Flags of an optuna.Trial, those of all trials included."""
        return {**self.flags, **{name: domain.suggest(trial, name) for name, domain in self.search.items()}}

    def any_flags(self) -> Dict[str, Any]:
        """Flags that a trial might have, for a look at whether they go together."""
        first = {name: domain.values[0] if isinstance(domain, Choice) else domain.low
                 for name, domain in self.search.items()}
        return {**self.flags, **first, **(self.start[0] if self.start else {})}


def _load(path: Path) -> Tuple[Any, Dict[Tuple, int]]:
    """What a YAML file holds, and on which line each key stands, by the way to it."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        node, content = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; give a YAML file of a search space") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}," if mark else ""
        raise InputError(f"{path}{where} is not YAML; see docs/search.md for what a space looks like") from error
    lines: Dict[Tuple, int] = {}

    def walk(at, way):
        if isinstance(at, yaml.MappingNode) and len(way) < 3:
            for key, value in at.value:
                lines[(*way, str(key.value))] = key.start_mark.line + 1
                walk(value, (*way, str(key.value)))

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
    parts = {part: content.get(part) or {} for part in ("flags", "search", "full")}
    start = content.get("start") or []
    if not isinstance(start, list) or not all(isinstance(point, dict) for point in start):
        raise wrong("'start' must be a list of mappings from flags to values", "start")
    for part, flags in parts.items():
        if not isinstance(flags, dict):
            raise wrong(f"'{part}' must map flags to values", part)
        for name in flags:
            if name not in known:
                raise wrong(f"there is no flag '{shown(name)}'{or_nearest(name, known)}", part, str(name))
    domains = {name: _domain(value, lambda said, name=name: wrong(f"'{name}' {said}", "search", name))
               for name, value in parts["search"].items()}
    if not domains:
        raise wrong("'search' names no flag to search; give ranges or choices", "search")
    twice = sorted(set(domains) & set(parts["flags"]))
    if twice:
        raise wrong(f"'{twice[0]}' stands under 'flags', too; remove one of them", "search", twice[0])
    for point in start:
        for name, value in point.items():
            value = point[name] = _number(value) if name in domains and isinstance(domains[name], Range) else value
            if name not in domains or not domains[name].holds(value):
                why = "is not searched" if name not in domains else f"cannot be {shown(repr(value))}"
                raise wrong(f"'{shown(name)}' of a starting point {why}; give a value of 'search'", "start")
    return Space(path, parts["flags"], domains, tuple(start), parts["full"], content)


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
            raise wrong(f"has {shown(repr(number))} where a number must be")
    if not low <= high or (log and not low > 0) or (step is not None and (log or not step > 0)):
        raise wrong("needs low at most high, above 0 with log, and a step above 0 or log, not both")
    if isinstance(low, int) != isinstance(high, int):
        low, high = float(low), float(high)
    if isinstance(low, int) and isinstance(step, float):
        raise wrong("has integers for low and high, so its step must be one, too")
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
