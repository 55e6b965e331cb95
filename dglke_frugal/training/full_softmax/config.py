"""The configuration of a step against all entities, and the flags that go with it."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InputError
from ...models import MODELS, built_in_model, find_model
from ...options import AUTO, LARGEST, TrainConfig
from ...score_rule import compares_two_formulas
from ..step.step_config import KERNEL_MODELS, StepConfig


@dataclass(frozen=True)
class FullSoftmaxConfig:
    """The configuration of a step: `step` as elsewhere; its loss is the penalty's coefficient and norm alone.

    optimizer: one of options.OPTIMIZERS. regularizer: "lp", of real numbers, or "n3", of moduli (penalty.py).
    entity_dropout, relation_dropout: rates in [0, 1). seed: of dropout. kvsall: whether a query's answers share its
    softmax, rather than each having its own. label_smoothing: what of it goes to all entities alike.
    relation_prediction: weight of the softmax over all relations of (head, ?, tail), 0 for none. binary: whether each
    entity has a cross-entropy of its own, rather than all a softmax. unit_entities: whether entity rows have length 1
    after each step.
    """

    step: StepConfig
    optimizer: str = "row_adagrad"
    regularizer: str = "lp"
    entity_dropout: float = 0.0
    relation_dropout: float = 0.0
    seed: int = 0
    kvsall: bool = False
    label_smoothing: float = 0.0
    relation_prediction: float = 0.0
    binary: bool = False
    unit_entities: bool = False

    @property
    def bound(self) -> float:
        """Of scores, 0 for none."""
        return find_model(self.step.model).bound


def full_softmax_config(config: TrainConfig, step: StepConfig) -> FullSoftmaxConfig:
    """The step that the flags describe; `step`: as for sampled negatives."""
    loss = config.loss
    return FullSoftmaxConfig(step, loss.optimizer, loss.regularizer, loss.entity_dropout, loss.relation_dropout,
                             config.run.seed or 0, loss.labels == "kvsall", loss.label_smoothing,
                             loss.relation_prediction, loss.loss_genre == "BCE",
                             config.model.normalize_entities)


def _check_in_place(config: TrainConfig, flag: str, what_it_does: str) -> None:
    """Of a flag whose steps update float32 rows of one process where they lie."""
    model, store = config.model, config.store
    if model.is_half:
        raise InputError(f"{flag} keeps rows in float32; leave --row_dtype {model.row_dtype} out")
    if config.device.ranks > 1:
        raise InputError(f"{flag} trains in one process; leave --num_proc out and give one --gpu")
    if store.flush not in (AUTO, "none") or store.cache_size is not None or store.cache_ratio != AUTO:
        raise InputError(f"{flag} {what_it_does}, so nothing is cached or flushed; leave --flush, --cache_size and "
                         "--cache_ratio out")


def _check_summed(config: TrainConfig) -> None:
    """Of sampled negatives with another optimizer than row-wise Adagrad (step/summed_updates.py)."""
    flag, name = f"--optimizer {config.loss.optimizer}", find_model(config.model.model_name).name
    if name not in KERNEL_MODELS:
        raise InputError(f"{flag} with sampled negatives is for {', '.join(sorted(KERNEL_MODELS))}, and not for "
                         f"{name}; leave it out")
    _check_in_place(config, flag, "updates rows where they lie")


def _check_binary(config: TrainConfig) -> None:
    loss = config.loss
    if loss.labels != "kvsall":
        raise InputError("--loss_genre BCE --neg_sample_size all asks for each entity whether it is an answer, and so "
                         "needs all answers of a query; add --labels kvsall, or use --loss_genre Softmax")
    for flag, given in (("--pairwise", loss.pairwise), ("-adv", loss.neg_adversarial_sampling)):
        if given:
            raise InputError(f"{flag} weighs sampled negatives, and --neg_sample_size all has none; leave it out")
    if config.device.gpu[0] >= 0:
        raise InputError("--loss_genre BCE --neg_sample_size all trains on the CPU; leave --gpu out, or use "
                         "--loss_genre Softmax")


def check_full_softmax(config: TrainConfig) -> None:
    """Raise InputError for flags that do not go together, and for what only a softmax over all entities has."""
    loss = config.loss
    if not config.batch.against_all:
        only = {"--regularizer": loss.regularizer != "lp",
                "--entity_dropout": loss.entity_dropout, "--relation_dropout": loss.relation_dropout,
                "--labels": loss.labels != "1vsall", "--label_smoothing": loss.label_smoothing,
                "--relation_prediction": loss.relation_prediction}
        for flag in (flag for flag, given in only.items() if given):
            raise InputError(f"{flag} goes with --loss_genre Softmax --neg_sample_size all; leave it out")
        if loss.optimizer != "row_adagrad":
            _check_summed(config)
        return
    model = find_model(config.model.model_name).name
    if loss.loss_genre not in ("Softmax", "BCE"):
        raise InputError(f"--neg_sample_size all does not go with --loss_genre {loss.loss_genre}; add "
                         "--loss_genre Softmax")
    if loss.loss_genre == "BCE":
        _check_binary(config)
    allowed = [each.name for each in MODELS if each.reference and not each.projects]
    if model not in allowed:
        raise InputError(f"--neg_sample_size all is for {', '.join(allowed)}, and not for {model}; give a number of "
                         "negatives")
    predicting = [each.name for each in MODELS if each.predicts_relations]
    if loss.relation_prediction and model not in predicting:
        raise InputError(f"--relation_prediction is for {', '.join(predicting)}, and not for {model}; leave it out")
    if compares_two_formulas(model, config.model.score_rule):
        raise InputError("--neg_sample_size all does not go with --score_rule dglke; leave that out")
    _check_in_place(config, "--neg_sample_size all", "reads the whole table in every step")
    if config.batch.neg_deg_sample:
        raise InputError("--neg_deg_sample has nothing to add to --neg_sample_size all; leave it out")
    if loss.regularizer == "n3" and not built_in_model(model).complex_rows:
        raise InputError(f"--regularizer n3 is of complex numbers, which {model} does not have; use ComplEx, or lp "
                         "with --regularization_norm 3")
    for flag in ("neg_chunk_size", "exclude_positive"):
        if getattr(config.batch, flag):
            raise InputError(f"--{flag} is of sampled negatives, and --neg_sample_size all has none; leave it out")
    if loss.labels == "kvsall" and config.weights_per_triple:
        flag = "--subsampling" if loss.subsampling != "none" else "--has_edge_importance"
        raise InputError(
            f"--labels kvsall puts triples together, and has no place for {flag}; leave one of the two out")
    if loss.label_smoothing and loss.labels != "kvsall":
        raise InputError("--label_smoothing goes with --labels kvsall; add that, or leave it out")
    if not 0 <= loss.relation_prediction <= LARGEST:
        raise InputError(f"--relation_prediction is {loss.relation_prediction}; give a weight between 0 and "
                         f"{LARGEST:.0f}")
    if loss.relation_prediction and loss.labels == "kvsall":
        raise InputError("--relation_prediction asks for the relation of each triple, and --labels kvsall puts triples "
                         "together; leave one of the two out")
    for flag in ("entity_dropout", "relation_dropout", "label_smoothing"):
        if not 0 <= getattr(loss, flag) < 1:
            raise InputError(f"--{flag} is {getattr(loss, flag)}; give a share of at least 0 and below 1")
