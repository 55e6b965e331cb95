"""The package's spaces, made for FB15k-237 and wn18rr, fitted to a graph: variants, steps, dimensions and batches.

Every fitted space starts with the flags of --preset auto. On a small graph trials take a few seconds, and the cheapest
variants come first.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Dict, List, Mapping, Sequence, Union

from ..options import TrainConfig
from ..presets.auto import SMALL_ON_GPU, Situation, auto_flags
from .space import VARIANT, Choice, Range, Space, Variant

TRIAL_FLOPS = 6e10  # of a trial against all entities: about a second of two cores
FLOPS = 12  # of a number of a row, for a query that is compared with it: its score twice, and two gradients
TRIAL_EPOCHS, LEAST_EPOCHS, LEAST_STEPS = 30, 4, 20
BATCHES, NEGATIVES = (64, 128, 256, 512), (32, 64, 128, 256)
VALIDATIONS = 5

Domain = Union[Choice, Range]


def fitted(space: Space, at: Situation, every: bool = False) -> Space:
    """The space for graphs like this one. Flags that are given in `at` are not searched for its sake. every: whether it
    keeps variants that cost too much, because they are asked for."""
    affordable = every or (at.size <= SMALL_ON_GPU if at.on_gpu else at.small)
    variants = {name: each for name, each in space.variants.items() if affordable or not _against_all(each)}
    if at.small:
        variants = {name: _small(each, at) for name, each in variants.items()}
        variants = dict(sorted(variants.items(), key=lambda item: _cost(item[1], at)))
        search, dim = _smaller(space.search, at), _auto(at).get("hidden_dim", 64)
        if "hidden_dim" in search or "hidden_dim" not in at.given:
            search["hidden_dim"] = Choice((dim // 2, dim, 2 * dim))
        fit = ("hidden_dim", "max_step", "eval_interval")
        flags = {name: value for name, value in space.flags.items() if name not in fit}
        space = replace(space, flags=flags, search=search, full=_full(at))
    else:
        variants = {name: replace(each, flags=_longer(each.flags, at)) for name, each in variants.items()}
        space = replace(space, flags=_longer(space.flags, at))
    space = replace(space, variants=variants, source={"file": space.source, "fitted": {**asdict(at), "given": None}})
    start: List[Dict[str, Any]] = [point for point in space.start if point[VARIANT] in variants]
    if at.small:  # what these leave out is chosen by the search
        start = [{VARIANT: name} for name in variants]
    return _starting_with(replace(space, start=tuple(start)), at)


def _auto(at: Situation) -> Dict[str, Any]:
    """Of --preset auto on the same device, with no flag given."""
    return auto_flags(replace(at, given={name: at.given[name] for name in ("gpu", "num_proc") if name in at.given}))


def _against_all(variant: Variant) -> bool:
    return variant.flags.get("neg_sample_size") == "all"


def _longer(flags: Mapping[str, Any], at: Situation) -> Dict[str, Any]:
    """Trials of two epochs at least."""
    least = 2 * at.triples // TrainConfig().batch.batch_size
    if least <= flags.get("max_step", least):
        return dict(flags)
    return {**flags, "max_step": least, "eval_interval": least // VALIDATIONS}


def _small(variant: Variant, at: Situation) -> Variant:
    batch = sorted(_fit(BATCHES, at.triples // 8))
    epochs = float(TRIAL_EPOCHS)
    if _against_all(variant):
        dim = _auto(at).get("hidden_dim", 64)
        epochs = min(epochs, max(LEAST_EPOCHS, TRIAL_FLOPS / (FLOPS * dim * at.entities * at.triples)))
    steps = max(LEAST_STEPS, round(epochs * at.triples / batch[len(batch) // 2]))
    flags = {**variant.flags, "max_step": steps, "eval_interval": max(1, steps // VALIDATIONS)}
    return Variant(flags, _smaller(variant.search, at), {})


def _smaller(search: Mapping[str, Domain], at: Situation) -> Dict[str, Domain]:
    """Batches and negatives of a small graph."""
    found = dict(search)
    for name, values, most in (("batch_size", BATCHES, at.triples // 8), ("neg_sample_size", NEGATIVES, at.entities)):
        if name in found:
            found[name] = Choice(_fit(values, most))
    if "gamma" in found and at.products:
        found["gamma"] = Range(4.0, 60.0, log=True)  # the scale of start values, for rows that are shorter
    return found


def _fit(values: Sequence[int], most: int) -> tuple:
    return tuple(value for value in values if value <= most) or values[:1]


def _cost(variant: Variant, at: Situation) -> float:
    """Candidates that a trial's queries are compared with, about."""
    met = at.entities if _against_all(variant) else NEGATIVES[-1]
    return float(variant.flags["max_step"] * met)


def _full(at: Situation) -> Dict[str, Any]:
    """Of a full run: as long, and as often validated, as by --preset auto."""
    auto = _auto(at)
    return {name: auto[name] for name in ("max_step", "valid", "eval_interval", "early_stop_patience")}


def _starting_with(space: Space, at: Situation) -> Space:
    """With the flags of --preset auto as the first point, in whose domains they then are."""
    auto = {**TrainConfig().to_flags(), **_auto(at)}
    own = [name for name, each in space.variants.items() if _trains(each, auto)]
    if space.variants and not own:
        return space
    variant = own[0] if own else ""
    point: Dict[str, Any] = {VARIANT: variant} if variant else {}

    def with_value(search: Mapping[str, Domain], prefix: str = "") -> Dict[str, Domain]:
        found = {}
        for name, domain in search.items():
            found[name], point[prefix + name] = _holding(domain, auto[name])
        return found

    search, variants = with_value(space.search), dict(space.variants)
    if variant:
        each = variants[variant]
        variants[variant] = replace(each, search=with_value(each.search, f"{variant}."))
    others = [each for each in space.start if each not in (point, {VARIANT: variant})]
    return replace(space, search=search, variants=variants, start=(point, *others))


def _trains(variant: Variant, auto: Mapping[str, Any]) -> bool:
    """Whether the flags of the variant say what is minimised as --preset auto does."""
    default = TrainConfig().to_flags()
    return all({**default, **variant.flags}[name] == auto[name] for name in
               ("loss_genre", "neg_adversarial_sampling", "labels")) and (
        _against_all(variant) == (auto["neg_sample_size"] == "all")) and (
        not _against_all(variant) or variant.flags.get("optimizer", "row_adagrad") == auto["optimizer"])


def _holding(domain: Domain, value: Any):
    """(the domain, widened so that it has the value; the value, or the nearest that a logarithm has)."""
    if isinstance(domain, Choice):
        return (domain if domain.holds(value) else Choice((*domain.values, value))), value
    if domain.log and not value > 0:
        return domain, domain.low
    return replace(domain, low=min(domain.low, value), high=max(domain.high, value)), value
