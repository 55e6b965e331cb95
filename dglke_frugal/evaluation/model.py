"""A trained model as evaluation and the tools see it: its tables and how two vectors combine into a score.

Every score of DGL-KE can be written as f(query vector, candidate row): the query joins the relation with the entity
that stays, the row is the candidate in the other place. Ranking all entities is then one blocked product of the query
vectors with the table. Formulas: DGL-KE, models/pytorch/score_fun.py, checked against its recorded ranks.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from .._native import Operation
from ..arrays import is_tensor, rounded_product
from ..divergence import check_scores
from ..errors import InputError
from ..models import Model, RowDims, built_in_model, is_custom, model_names
from ..score_rule import SCORE_RULES, compares_two_formulas

if TYPE_CHECKING:
    import torch

    from ..models import TorchModel

HEAD, TAIL = "head", "tail"
SIDES = (HEAD, TAIL)

_OPERATIONS = {"dot": Operation.DOT, "l2": Operation.L2, "l1": Operation.L1, "modulus": Operation.MODULUS}


def columns_of(side: str, triples: Tuple) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(entities that stay, relations, entities whose place candidates take), (n,) int64 each, of triples (heads,
    relations, tails)."""
    heads, relations, tails = (np.asarray(column, dtype=np.int64) for column in triples)
    return (tails, relations, heads) if side == HEAD else (heads, relations, tails)


def _lets_overflow_pass(method):
    """Wrap a method whose numbers are refused by who takes them, so that NumPy need not warn of them."""

    @functools.wraps(method)
    def passing(*arguments, **options):
        with np.errstate(over="ignore", invalid="ignore"):
            return method(*arguments, **options)

    return passing


@dataclass(frozen=True, eq=False)
class EmbeddingModel:
    """Tables of a trained model; nothing is copied.

    Args:
        name: one of models.model_names(), or MODULE:CLASS of a custom models.TorchModel (ranked against all
            entities only).
        gamma: margin of the distance models.
        hidden_dim: DGL-KE's --hidden_dim (entity rows are twice as long with --double_ent).
        entity: (entities, entity dim) float32; rows may be strided, memory-mapped, or a torch tensor on `device`; where
            samples or a GPU rank, also what only answers to slices and lists of rows, with float32 arrays.
        relation: (relations, relation dim) float32; RESCAL: (relations, relation dim * entity dim).
        projection: TransR only, (relations, entity dim * relation dim) float32.
        device: the torch device that ranks and searches (device.py), None for the C++ kernels on the CPU. The entity
            table is a tensor there, or numpy in host memory.
        score_rule: one of score_rule.SCORE_RULES: how candidates are scored where they are ranked.
        scorer: a custom model, if it has a state (models/custom_state.py).
        reciprocal: whether `relation` has 2 R rows, of which r + R is the inverse of relation r. Then heads of
            (?, r, t) are scored as tails of (t, r + R, ?), and triples by r.

    Raises:
        InputError: an unknown model, or shapes that do not belong together.
    """

    name: str
    gamma: float
    hidden_dim: int
    entity: np.ndarray
    relation: np.ndarray
    projection: Optional[np.ndarray] = None
    device: Optional[torch.device] = None
    score_rule: str = "textbook"
    scorer: Optional[TorchModel] = None
    reciprocal: bool = False

    def __post_init__(self):
        if self.device is None and is_tensor(self.entity):
            object.__setattr__(self, "device", self.entity.device)
        if self.score_rule not in SCORE_RULES:
            raise InputError(f"unknown score rule {self.score_rule}; choose one of {', '.join(SCORE_RULES)}")
        if self.reciprocal:
            self._check_reciprocal()
        if self.is_custom:
            return
        model = built_in_model(self.name)
        if model is None:
            raise InputError(f"unknown model {self.name}; known are {', '.join(model_names())}")
        tables = (self.entity, self.relation, self.projection if model.projects else None)
        model.check_rows(RowDims(*(table if table is None else table.shape[1] for table in tables)))
        if model.projects and len(self.projection) != len(self.relation):
            raise InputError(f"{self.name} has {len(self.projection)} projections for {len(self.relation)} relations; "
                             "give the folder of one run")

    def _check_reciprocal(self):
        if self.is_custom or self.projects or self.compares_two_formulas:
            raise InputError(f"{self.name} by --score_rule {self.score_rule} cannot have reciprocal relations")
        if len(self.relation) % 2:
            raise InputError(f"the relation table has {len(self.relation)} rows, but reciprocal relations come in "
                             "pairs; copy it again from the run that wrote it")

    @property
    def n_relations(self) -> int:
        """Relations that triples may have: inverses do not count."""
        return len(self.relation) // 2 if self.reciprocal else len(self.relation)

    def __repr__(self) -> str:
        return (f"<{self.name}: {len(self.entity):,} entities, {self.n_relations:,} relations, hidden_dim "
                f"{self.hidden_dim}>")

    @property
    def is_custom(self) -> bool:
        """Whether the score function is a TorchModel: a custom one, or one of the package."""
        return is_custom(self.name)

    @property
    def description(self) -> Model:
        """The package's description of the model. InputError for a custom model, which has none."""
        if self.is_custom:
            raise InputError(f"the model {self.name} is a custom one, which this does not work with")
        return built_in_model(self.name)

    @property
    def compares_two_formulas(self) -> bool:
        """Whether ranks compare true triples with tails that another formula scores (score_rule.py)."""
        return compares_two_formulas(self.name, self.score_rule)

    @property
    def operation(self) -> Operation:
        """How query vectors and candidate rows combine. InputError for a custom model, of which that is unknown."""
        return _OPERATIONS[self.description.similarity]

    @property
    def projects(self) -> bool:
        """Whether candidates are rows of `candidate_rows(relation)`, another table for each relation (TransR)."""
        return not self.is_custom and self.description.projects

    @property
    def bound(self) -> float:
        """Scores are clamped to plus and minus this; 0: they are not."""
        return 0.0 if self.is_custom else self.description.bound

    @_lets_overflow_pass
    def candidate_rows(self, rows: Any, relation: int) -> Any:
        """Entity rows (n, entity dim), numpy or torch, as they are scored for queries of `relation`: themselves, or
        projected."""
        if not self.projects:
            return rows
        matrix = take_rows(self.projection, [relation]).reshape(self.entity.shape[1], self.relation.shape[1])
        return rounded_product(rows, matrix)

    @_lets_overflow_pass
    def queries(self, side: str, entities: np.ndarray, relations: np.ndarray, as_negative: bool = False) -> np.ndarray:
        """Query vectors for candidates in place of `side`, given the entity rows that stay and the relations.

        Args:
            side: HEAD or TAIL, the place that candidates take.
            entities: (n, entity dim) float32 rows of the other place.
            relations: (n,) relation ids.
            as_negative: as DGL-KE scores corrupted triples, which for tails of RESCAL (relation matrix transposed) and
                TransR (relation vector negated) is not how it scores the true triple. Only ranking by the rule "dglke"
                wants that.

        Returns:
            (n, dim of a candidate row) float32.
        """
        entities = np.ascontiguousarray(entities, dtype=np.float32)
        if self.reciprocal and side == HEAD:
            side, relations = TAIL, np.asarray(relations) + self.n_relations
        model = self.description
        if model.matrices:
            return self._queries_by_relation(side, entities, np.asarray(relations), as_negative)
        relation = take_rows(self.relation, relations)
        return model.queries(side == HEAD, entities, relation, model.embedding_range(self.gamma, self.hidden_dim))

    def _queries_by_relation(self, side, entities, relations, as_negative):
        dim = self.entity.shape[1]
        out = np.empty((len(relations), self.relation.shape[1] if self.projects else dim), dtype=np.float32)
        order = np.argsort(relations, kind="stable")
        starts = np.flatnonzero(np.diff(relations[order], prepend=-1))
        for members in np.split(order, starts[1:]):
            if not len(members):
                continue
            relation = relations[members[0]]
            vector = take_rows(self.relation, [relation])[0]
            fixed = self.candidate_rows(entities[members], relation)
            out[members] = self.description.queries_of(side == HEAD, fixed, vector, as_negative)
        return out

    def clamped(self, keys: np.ndarray) -> np.ndarray:
        """Exact keys within the bound of scores, if the model has one."""
        return np.clip(keys, -self.bound, self.bound) if self.bound else keys

    @_lets_overflow_pass
    def scores(self, keys: np.ndarray, gamma: Optional[float] = None) -> np.ndarray:
        """DGL-KE's float32 scores of exact float64 keys (see csrc/ranking/operation.h); monotone in the key.

        gamma: another margin than the model's, such as the 0 that dglke_predict scores with.

        Raises Diverged for a score that is NaN or infinite.
        """
        if self.is_custom:  # its keys are scores that rankable_scores has let pass
            return keys.astype(np.float32)
        if self.operation == Operation.DOT:
            return check_scores(self.clamped(check_scores(keys, self.name)).astype(np.float32), self.name)
        distances = np.sqrt(-keys) if self.operation == Operation.L2 else -keys
        scores = np.float32(self.gamma if gamma is None else gamma) - distances.astype(np.float32)
        return check_scores(scores, self.name)


def take_rows(table, ids) -> np.ndarray:
    """Rows `ids` of a numpy or torch table as a (n, dim) float32 numpy array."""
    if not is_tensor(table):
        return np.ascontiguousarray(table[ids], dtype=np.float32)
    import torch

    return table.detach()[torch.tensor(np.asarray(ids), device=table.device)].float().cpu().numpy()


def rows_of(table, ids: np.ndarray):
    """Rows `ids` of a numpy or torch table, where it lies; the table itself if they are all of its rows in order."""
    if np.array_equal(ids, np.arange(len(table))):
        return table
    if not is_tensor(table):
        return table[ids]
    import torch

    return table.detach()[torch.as_tensor(ids, device=table.device)]
