"""`--preset auto/MODEL`: flags that follow from a graph's size, by the rules of one table.

Rules are read from top to bottom; all that apply give flags, and a later one overrides an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from ..errors import InputError, shown
from ..models import built_in_model, is_custom, model_names

if TYPE_CHECKING:
    from ..data import KnowledgeGraph, Triples

PREFIX = "auto"
DEFAULT_MODEL = "ComplEx"
SMALL = 1.2e8  # training triples times entities: an epoch against all entities then takes a second of two cores
SMALL_L1 = SMALL / 16  # likewise for TransE_l1, whose scores are no products of matrices
SMALL_ON_GPU = 1e10  # likewise: an epoch takes seconds of a GPU, with rows of 2,000 numbers
DENSEST, DENSE, SPARSE, SPARSEST = 40, 8, 4, 2  # triples per entity
MANY = 20  # relations
VALIDATIONS = 20  # of a run on a small graph at least, where it does not end before; half of them on others
MOST_EPOCHS = 3  # between validations of a small graph: some are learnt by heart after ten epochs
PATIENCE, PATIENCE_IF_SMALL = 5, 8  # validations
# Flags that mean sampled negatives, or that a softmax over all entities does not have.
SAMPLED = ("neg_chunk_size", "exclude_positive", "neg_deg_sample", "neg_adversarial_sampling", "pairwise", "flush",
           "cache_size", "cache_ratio", "adversarial_temperature")


@dataclass(frozen=True)
class Situation:
    """What the rules go by.

    entities, relations, triples: of the graph; triples are those to train on. has_valid: whether it has validation
        triples. model: a --model_name. given: flags that the user gives, by name. one_symmetric: whether the graph has
        one relation, which links most of its pairs both ways.
    """

    entities: int
    relations: int
    triples: int
    has_valid: bool
    model: str
    given: Mapping[str, Any]
    one_symmetric: bool = False

    @classmethod
    def of(cls, graph: KnowledgeGraph, model: str, given: Mapping[str, Any]) -> Situation:
        """That of a graph."""
        return cls(graph.n_entities, graph.n_relations, len(graph.train),
                   graph.valid is not None and len(graph.valid) > 0, model, given,
                   graph.n_relations == 1 and _links_both_ways(graph.train, graph.n_entities))

    @property
    def name(self) -> str:
        """Of the model, without aliases."""
        model = built_in_model(self.model)
        return self.model if model is None else model.name

    @property
    def on_gpu(self) -> bool:
        """Whether the run is on GPUs."""
        return list(self.given.get("gpu") or [-1])[0] >= 0

    @property
    def ranks(self) -> int:
        """Processes of the run."""
        return max(self.given.get("num_proc") or 1, len(list(self.given.get("gpu") or [-1])))

    @property
    def size(self) -> int:
        """Scores of an epoch against all entities, in one direction."""
        return self.triples * self.entities

    @property
    def small(self) -> bool:
        """Whether scores of all entities cost little on a CPU."""
        return self.size <= SMALL

    @property
    def degree(self) -> float:
        """Training triples per entity."""
        return self.triples / max(1, self.entities)

    @property
    def like_fb15k(self) -> bool:
        """Large, with many triples and many relations, as FB15k-237, and on a GPU."""
        return self.on_gpu and not self.small and self.degree >= DENSE and self.relations >= 50

    @property
    def like_wn18rr(self) -> bool:
        """Large and sparse, as wn18rr, and on a GPU."""
        return self.on_gpu and not self.small and self.degree < DENSE

    @property
    def products(self) -> bool:
        """Whether scores are products of rows, which a softmax over all entities may have."""
        model = built_in_model(self.model)
        return model is not None and model.similarity == "dot" and model.reference is not None

    @property
    def against_all(self) -> bool:
        """Whether it trains by a softmax over all entities, rather than by sampled negatives."""
        given = self.given
        if given.get("neg_sample_size") == "all":
            return True
        losses = ("Softmax", "BCE") if given.get("labels") == "kvsall" else ("Softmax",)
        if self.ranks > 1 or any(given.get(name) for name in SAMPLED) or given.get("row_dtype", "fp32") != "fp32" or (
                "neg_sample_size" in given or given.get("loss_genre", "Softmax") not in losses
                or given.get("score_rule", "textbook") != "textbook"):
            return False
        if self.products:
            return self.size <= (SMALL_ON_GPU if self.on_gpu else SMALL)
        least, most = {"TransE_l1": (DENSE, SMALL_L1), "TransE_l2": (SPARSEST, SMALL)}.get(self.name, (0, 0))
        bound = self.degree >= least or self.relations >= MANY  # each row by many triples, which no margin fits
        return bound and self.size <= most and not (self.one_symmetric and self.name == "TransE_l2")


@dataclass(frozen=True)
class Rule:
    """One row of the table: when, what, why. flags: a mapping, or what makes one of a situation."""

    when: str
    applies: Callable[[Situation], bool]
    flags: Mapping[str, Any]
    why: str


def _is(*names: str) -> Callable[[Situation], bool]:
    return lambda at: at.name in names


def _sampled(*names: str) -> Callable[[Situation], bool]:
    return lambda at: not at.against_all and (not names or at.name in names)


def _few_triples_of(*names: str) -> Callable[[Situation], bool]:
    return lambda at: _sampled(*names)(at) and at.small and at.degree < SPARSE


# `epochs` and `batch_share` are no flags: they become --max_step and bound --batch_size.
RULES: Tuple[Rule, ...] = (
    Rule("sampled negatives", _sampled(),
         dict(neg_adversarial_sampling=True, hidden_dim=128, gamma=12.0, lr=0.1, regularization_coef=0.0,
              batch_size=256, neg_sample_size=128, epochs=100),
         "weighted negatives learn more per step than uniform ones, and row-wise Adagrad takes large rates"),
    Rule("sampled negatives, more than 10,000 triples", lambda at: not at.against_all and at.triples > 10_000,
         dict(batch_size=1024, neg_sample_size=256),
         "steps of 1,024 triples cost little more than those of 256"),
    Rule("sampled negatives on a CPU, more than 100,000 triples",
         lambda at: not at.against_all and not at.on_gpu and at.triples > 100_000, dict(epochs=30),
         "30 epochs of them are 3,000 steps or more, and take minutes"),
    Rule("softmax over all entities", lambda at: at.against_all,
         dict(loss_genre="Softmax", neg_sample_size="all", reciprocal=True, optimizer="adagrad", lr=0.1, hidden_dim=128,
              init="normal", regularization_coef=0.02, batch_size=256, epochs=60),
         "no negatives to choose, and a larger MRR than theirs on most small graphs"),
    Rule("the same, at most 20 million training triples x entities",
         lambda at: at.against_all and at.size <= SMALL / 6, dict(epochs=120),
         "steps are cheap, and a run ends by itself where fewer are enough"),
    Rule("the same, at most 10 million training triples x entities",
         lambda at: at.against_all and at.size <= SMALL / 12, dict(epochs=200), "likewise"),
    Rule("the same, more than 40 million training triples x entities",
         lambda at: at.against_all and at.size > SMALL / 3, dict(epochs=30),
         "steps are many, and longer"),
    Rule("softmax over all entities, TransE_l1", lambda at: at.against_all and at.name == "TransE_l1", dict(epochs=60),
         "its steps are several times longer"),
    Rule("softmax over all entities, ComplEx", lambda at: at.against_all and at.name == "ComplEx",
         dict(regularizer="n3", regularization_coef=0.05), "the penalty of Lacroix et al., ICML 2018"),
    Rule("the same, at most 10 million training triples x entities, 8 triples per entity and more",
         lambda at: at.against_all and at.name == "ComplEx" and at.size <= SMALL / 12 and at.degree >= DENSE,
         dict(hidden_dim=256), "many triples bind a longer row"),
    Rule("softmax over all entities, TransE and RotatE",
         lambda at: at.against_all and at.name in ("TransE_l1", "TransE_l2", "RotatE"),
         dict(optimizer="row_adagrad", init="uniform", gamma=6.0, regularization_coef=0.0),
         "they measure distances, which a penalty on the size of rows would shrink"),
    Rule("softmax over all entities, TransE_l2, fewer than 50 triples per relation",
         lambda at: at.against_all and at.name == "TransE_l2" and at.triples < 50 * at.relations, dict(lr=0.3),
         "a relation's row moves in few steps of an epoch, and must move far in each"),
    Rule("softmax over all entities, TransE_l2, 40 triples per entity and more",
         lambda at: at.against_all and at.name == "TransE_l2" and at.degree >= DENSEST, dict(normalize_entities=True),
         "rows of length 1 keep similar entities near each other, and do not learn triples by heart"),
    Rule("RotatE", _is("RotatE"), dict(hidden_dim=64, gamma=6.0),
         "an entity has a complex number for each of 64 angles, and the margin is that of small distances"),
    Rule("RotatE, small", lambda at: _sampled("RotatE")(at) and at.small, dict(reciprocal=True),
         "a relation has a second row, which asks for heads"),
    Rule("RotatE, small, fewer than 4 triples per entity", _few_triples_of("RotatE"),
         dict(gamma=3.0), "few triples turn a row, and a smaller margin asks for less"),
    Rule("SimplE", _is("SimplE"), dict(hidden_dim=64),
         "its rows have two halves"),
    Rule("TransE, sampled negatives", _sampled("TransE_l1", "TransE_l2"), dict(gamma=6.0, lr=0.3),
         "its start values have the size of the margin, which is for small distances"),
    Rule("TransE_l2, sampled negatives", _sampled("TransE_l2"), dict(gamma=2.0),
         "the root of a sum of squares is smaller than a sum of absolute values"),
    Rule("TransE_l1, sampled negatives, more than 10,000 triples",
         lambda at: _sampled("TransE_l1")(at) and at.triples > 10_000, dict(lr=0.1),
         "a row's gradients in a step of 1,024 triples are applied one after the other, and overshoot together"),
    Rule("TransE, sampled negatives, small, fewer than 4 triples per entity", _few_triples_of("TransE_l1", "TransE_l2"),
         dict(lr=0.1, epochs=300, reciprocal=True),
         "a row moves in few steps of an epoch, and large ones lose what many triples share; a second row of a "
         "relation asks for heads"),
    Rule("the same, TransE_l2", _few_triples_of("TransE_l2"), dict(gamma=4.0), "entities with many triples need room"),
    Rule("TransE_l2, sampled negatives, one relation, which is symmetric",
         lambda at: _sampled("TransE_l2")(at) and at.one_symmetric, dict(gamma=8.0, lr=0.1),
         "it is a translation by nearly nothing, so that neighbours gather, and others need room"),
    Rule("TransR, sampled negatives", _sampled("TransR"), dict(hidden_dim=64, gamma=6.0, lr=0.03),
         "a relation has a matrix of dim x dim numbers"),
    Rule("RESCAL", _is("RESCAL"), dict(hidden_dim=64), "a relation has a matrix of dim x dim numbers"),
    Rule("like FB15k-237, sampled negatives, products", lambda at: at.like_fb15k and at.products and not at.against_all,
         dict(hidden_dim=400, gamma=143.0, lr=0.05, regularization_coef=6e-6, batch_size=2048, neg_sample_size=2048,
              adversarial_temperature=3.5, epochs=226),
         "the preset fb15k_237/complex"),
    Rule("like FB15k-237, RESCAL, sampled", lambda at: at.like_fb15k and at.name == "RESCAL" and not at.against_all,
         dict(hidden_dim=72, gamma=29.0, neg_sample_size=512, adversarial_temperature=2.5, epochs=120),
         "the preset fb15k_237/rescal"),
    Rule("like FB15k-237, RotatE", lambda at: at.like_fb15k and _sampled("RotatE")(at),
         dict(hidden_dim=400, gamma=4.4, lr=0.008, regularization_coef=5e-6, batch_size=2048, neg_sample_size=1024,
              adversarial_temperature=1.7, epochs=150, decay=(0.65,), lr_factor=0.2),
         "the preset fb15k_237/rotate"),
    Rule("like FB15k-237, TransE_l2", lambda at: at.like_fb15k and _sampled("TransE_l2")(at),
         dict(neg_adversarial_sampling=False, loss_genre="Softmax", reciprocal=True, hidden_dim=512, gamma=2.9, lr=0.06,
              regularization_coef=2e-9, batch_size=2048, neg_sample_size=1024, epochs=120),
         "the preset fb15k_237/transe_l2"),
    Rule("like wn18rr, sampled negatives, products", lambda at: at.like_wn18rr and at.products and not at.against_all,
         dict(hidden_dim=512, gamma=200.0, lr=0.1, regularization_coef=1e-5, batch_size=1024, neg_sample_size=256,
              epochs=118),
         "the preset wn18rr/complex"),
    Rule("like wn18rr, RESCAL, sampled", lambda at: at.like_wn18rr and at.name == "RESCAL" and not at.against_all,
         dict(hidden_dim=160, gamma=38.0, regularization_coef=3e-6, adversarial_temperature=1.4, epochs=147),
         "the preset wn18rr/rescal"),
    Rule("like wn18rr, RotatE", lambda at: at.like_wn18rr and _sampled("RotatE")(at),
         dict(hidden_dim=800, gamma=6.0, lr=0.006, regularization_coef=1e-8, batch_size=2048, neg_sample_size=256,
              adversarial_temperature=0.5, subsampling="uniq", epochs=259, decay=(0.59, 0.86), lr_factor=0.3),
         "the preset wn18rr/rotate"),
    Rule("like wn18rr, TransE_l2", lambda at: at.like_wn18rr and _sampled("TransE_l2")(at),
         dict(neg_adversarial_sampling=False, loss_genre="Softmax", reciprocal=True, hidden_dim=256, gamma=6.4,
              lr=0.094, regularization_coef=2e-9, batch_size=1024, neg_sample_size=1024, epochs=707),
         "the preset wn18rr/transe_l2"),
    Rule("more than 5 million triples", lambda at: at.triples > 5_000_000,
         dict(hidden_dim=200, batch_size=1024, neg_sample_size=256, epochs=10, decay=()),
         "an epoch takes minutes, and rows take most of the memory"),
    Rule("softmax over all entities, not small, ComplEx", lambda at: _large(at, "ComplEx"),
         dict(hidden_dim=2000, regularization_coef=0.15, relation_prediction=4.0, batch_size=1000, epochs=200),
         "the preset fb15k_237/complex_softmax_relations"),
    Rule("the same, less than 500 triples per relation",
         lambda at: _large(at, "ComplEx") and at.triples < 500 * at.relations,
         dict(hidden_dim=1000, regularization_coef=0.03, relation_prediction=0.0),
         "the preset fb15k/complex_softmax: relations repeat each other, and bind the rows enough"),
    Rule("the same, less than 8 triples per entity", lambda at: _large(at, "ComplEx") and at.degree < 8,
         dict(hidden_dim=2000, regularization_coef=0.3, relation_prediction=0.05, batch_size=100, epochs=160),
         "the preset wn18rr/complex_softmax_relations"),
    Rule("softmax over all entities, not small, DistMult", lambda at: _large(at, "DistMult"),
         dict(hidden_dim=256, lr=0.16, regularization_coef=0.0, entity_dropout=0.42, relation_dropout=0.41,
              init="uniform", init_scale=0.93, batch_size=1024, epochs=400),
         "the preset fb15k_237/distmult_softmax"),
    Rule("the same, less than 8 triples per entity", lambda at: _large(at, "DistMult") and at.degree < 8,
         dict(hidden_dim=512, lr=0.33, labels="kvsall", label_smoothing=0.074, entity_dropout=0.37,
              relation_dropout=0.5, init_scale=0.72, epochs=292),
         "the preset wn18rr/distmult_softmax"),
    Rule("softmax over all entities, not small, RESCAL", lambda at: _large(at, "RESCAL"),
         dict(hidden_dim=128, optimizer="adam", lr=7.4e-4, regularization_coef=0.0, reciprocal=False,
              entity_dropout=0.43, relation_dropout=0.16, init_scale=0.12, batch_size=512, epochs=169,
              decay=(0.55, 0.83), lr_factor=0.3),
         "the preset fb15k_237/rescal_softmax"),
    Rule("the same, less than 8 triples per entity", lambda at: _large(at, "RESCAL") and at.degree < 8,
         dict(hidden_dim=160, lr=1.7e-3, reciprocal=True, labels="kvsall", label_smoothing=0.3, entity_dropout=0.0,
              relation_dropout=0.24, init="uniform", init_scale=0.41, epochs=354, decay=(0.58, 0.83)),
         "the preset wn18rr/rescal_softmax"),
    Rule("fewer than 4,096 triples", lambda at: at.triples < 4096,
         dict(batch_share=16), "an epoch has sixteen steps at least"))


def _links_both_ways(triples: Triples, entities: int) -> bool:
    heads, tails = (np.asarray(column, np.int64) for column in (triples.head, triples.tail))
    there, back = heads * entities + tails, tails * entities + heads
    return 2 * np.count_nonzero(np.isin(back, there)) > len(there)


def _large(at: Situation, name: str) -> bool:
    return at.against_all and not at.small and at.name == name


def is_auto(preset: Optional[str]) -> bool:
    """Whether a --preset is auto or auto/MODEL."""
    return str(preset or "").partition("/")[0].strip().lower() == PREFIX


def auto_model(preset: str) -> Optional[str]:
    """The model that auto/MODEL names, whatever its case; None for auto alone. Raises InputError."""
    named = preset.partition("/")[2].strip()
    if not named or is_custom(named):
        return named or None
    for name in model_names():
        if name.lower() == named.lower():
            return name
    raise InputError(f"there is no preset '{shown(preset)}'; auto/MODEL takes one of {', '.join(model_names())}, or "
                     "MODULE:CLASS for your own")


def auto_flags(at: Situation) -> Dict[str, Any]:
    """The flags of the rules that apply, those of validations included, without those that are given."""
    model = built_in_model(at.model)
    doubled = model.doubled if model else (False, False)
    flags: Dict[str, Any] = {name: True for name, needed in zip(("double_ent", "double_rel"), doubled) if needed}
    for rule in RULES:
        if rule.applies(at):
            flags.update(rule.flags)
    epochs, share, decay = (flags.pop(name, default) for name, default in
                            (("epochs", 100), ("batch_share", 1), ("decay", ())))
    epochs = at.given.get("max_epoch") or epochs
    flags["batch_size"] = max(1, min(flags["batch_size"], at.triples // share))
    for name in _contradicted(at, flags):
        flags.pop(name, None)
    batch = at.given.get("batch_size", flags["batch_size"])
    steps = at.given.get("max_step", max(1, round(epochs * at.triples / max(1, batch))))
    flags["max_step"] = steps
    if decay and at.ranks == 1:
        flags["lr_decay_at"] = sorted({max(1, round(share * steps)) for share in decay})
    else:
        flags.pop("lr_factor", None)
    if at.has_valid and steps > 0:
        interval = steps // (VALIDATIONS if at.small else VALIDATIONS // 2)
        if at.small:
            interval = min(interval, MOST_EPOCHS * at.triples // max(1, batch))
        flags.update(valid=True, eval_interval=max(1, interval))
        asked = at.given.get("eval_interval", 1)
        if at.given.get("valid", True) and (isinstance(asked, str) or asked <= steps):
            flags["early_stop_patience"] = PATIENCE_IF_SMALL if at.small else PATIENCE
    if "max_epoch" in at.given:  # validations are then by epochs, too
        flags.pop("eval_interval", None)
    return {name: value for name, value in flags.items() if name not in at.given}


def advice(at: Situation) -> Optional[str]:
    """A sentence on a model that cannot represent what graphs of this kind have, or None."""
    if at.name != "TransE_l2" or at.degree < DENSE:
        return None
    return ("TransE_l2 cannot let a relation decide which tails go with which heads, for its distance is a sum of one "
            f"term for each pair of the three; with {at.degree:.0f} triples per entity TransE_l1 mostly has a larger "
            "MRR, and so have RotatE and ComplEx")


def _contradicted(at: Situation, flags: Mapping[str, Any]) -> List[str]:
    """Flags of rules that do not go with those that are given."""
    given, found = at.given, []
    loss = given.get("loss_genre", flags.get("loss_genre", "Logsigmoid"))
    if loss == "Softmax" or given.get("pairwise"):
        found += ["neg_adversarial_sampling", "adversarial_temperature"]
    if given.get("neg_adversarial_sampling") or given.get("pairwise"):
        found.append("loss_genre")
    if given.get("has_edge_importance"):
        found.append("subsampling")
    if given.get("labels") == "kvsall" or given.get("loss_genre") == "BCE":
        found.append("relation_prediction")
    weighted = given.get("subsampling", "none") != "none" or given.get("has_edge_importance")
    if flags.get("labels") == "kvsall" and (weighted or given.get("relation_prediction")):
        found += ["labels", "label_smoothing"]
    if given.get("score_rule", "textbook") != "textbook":
        found.append("reciprocal")
    return found


def rows_of_table() -> List[Tuple[str, str, str]]:
    """(when, flags, why) of each rule, for people."""
    return [(rule.when, ", ".join(f"{name} {_said(value)}" for name, value in rule.flags.items()), rule.why)
            for rule in RULES]


def _said(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else f"{value}"
