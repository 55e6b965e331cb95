"""Evaluation of a model on a set of triples: which candidates, which known answers left out, how ties count."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from ..arguments import Columns, integer, one_of, read_triples
from ..errors import InputError, shown
from ..progress import progress
from .breakdown import BreakdownRow, by_relation
from .candidates import Sampling, rank_against_sample
from .known_triples import KnownTriples
from .metrics import RANK_TIES, Metrics, ranks
from .model import SIDES, EmbeddingModel
from .ranking import CandidateTable, Comparison, Share, rank_against_all
from .release_rule import known_still_better

KNOWN = ("excluded", "penalized", "kept")


@dataclass(frozen=True)
class Protocol:
    """How triples are ranked; the defaults are DGL-KE's.

    Attributes:
        ties: how candidates with an equal score count, one of metrics.RANK_TIES.
        known: what happens to candidates that are known to be true, one of KNOWN. "excluded" leaves them out (the
            filtered protocol, as in DGL-KE's git HEAD), "penalized" lowers their scores (as in DGL-KE 0.1.2, see
            release_rule.py), "kept" lets them compete. The triple itself never competes with itself.
        sampling: rank against sampled candidates; None ranks against all entities.
    """

    ties: str = "pessimistic"
    known: str = "excluded"
    sampling: Optional[Sampling] = None

    @classmethod
    def from_flags(
        cls, flags: Mapping[str, Any], ties: str = "pessimistic", filter_rule: str = "excluded", seed: int = 0
    ) -> "Protocol":
        """The protocol of DGL-KE's evaluation flags, by their names."""
        sampling = None
        if flags["neg_sample_size_eval"] > 0:
            sampling = Sampling(
                flags["neg_sample_size_eval"], flags["batch_size_eval"], flags["neg_deg_sample_eval"], seed
            )
        return cls(ties, "kept" if flags["no_eval_filter"] else filter_rule, sampling)

    def among(self, entities: int, say: Callable[[str], None] = lambda line: None) -> "Protocol":
        """The protocol on a model of so many entities: samples of as many or more are all entities, each once. `say` is
        told of that."""
        if self.sampling is None or self.sampling.count < entities:
            return self
        say(f"--neg_sample_size_eval {self.sampling.count}: there are {entities} entities, each triple is ranked "
            "against all of them")
        return replace(self, sampling=None)

    def __post_init__(self):
        one_of("rule for ties", self.ties, RANK_TIES)
        one_of("rule for known triples", self.known, KNOWN)
        if self.sampling is not None and not isinstance(self.sampling, Sampling):
            raise InputError(f"sampling is {shown(repr(self.sampling))}; give an evaluation.Sampling, or None for all "
                             "entities")
        if self.sampling and self.sampling.by_degree and self.known != "kept":
            raise InputError("--neg_deg_sample_eval cannot filter known triples; add --no_eval_filter")
        if self.sampling and self.known == "penalized":
            raise InputError("sampled candidates that are known are left out; the rule of 0.1.2 is for all entities")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Ranks of triples in both directions.

    Sides are HEAD and TAIL, rules for ties those of metrics.RANK_TIES; InputError for others.

    Attributes:
        triples: (heads, relations, tails), each (n,).
        compared: for HEAD and TAIL, how many candidates were better or equal.
        protocol: how the ranks were made.
    """

    triples: Columns
    compared: Dict[str, Comparison]
    protocol: Protocol

    def __repr__(self) -> str:
        metrics = self.metrics()
        return f"<Evaluation of {len(self.triples[0]):,} triples: MRR {metrics.mrr:.4f}, MR {metrics.mr:.1f}>"

    def ranks(self, side: str, ties: Optional[str] = None) -> np.ndarray:
        """Ranks (n,) of the true entity among the candidates for `side`; another rule for ties costs nothing."""
        comparison = self.compared[one_of("side", side, SIDES)]
        return ranks(comparison.better, comparison.equal, self.protocol.ties if ties is None else ties)

    def metrics(self, side: Optional[str] = None, ties: Optional[str] = None) -> Metrics:
        """Metrics over both directions, heads first as in DGL-KE, or over one."""
        return Metrics.of([self.ranks(each, ties) for each in (SIDES if side is None else [side])])

    def by_relation(self) -> List[BreakdownRow]:
        """Metrics over all relations, then of each that occurs, most frequent first, each in both directions."""
        return by_relation(self)


def evaluate(
    model: EmbeddingModel,
    triples: Any,
    known: Optional[KnownTriples] = None,
    protocol: Protocol = Protocol(),
    show: bool = True,
    share: Optional[Share] = None,
) -> Evaluation:
    """Ranks triples against candidates in place of their heads and of their tails.

    Args:
        model: its `device` says where it is ranked against all entities; samples are ranked on the CPU.
        triples: integer ids in any form of arguments.read_triples, such as an array (n, 3) or a tuple of three columns.
        known: train, valid and test triples; needed unless the protocol keeps them.
        protocol: see Protocol; that of the result is Protocol.among the model's entities.
        show: whether to show how far it is.
        share: the entities that compete, where each of several machines has some; the result counts those alone.

    Raises:
        InputError: triples in another form, an id that is out of range, or a filter without its triples.
        Diverged: a score, or what it is made of, is NaN or infinite.
    """
    for name, value, kind in (("model", model, EmbeddingModel), ("protocol", protocol, Protocol),
                              ("known", known, (KnownTriples, type(None)))):
        if not isinstance(value, kind):
            raise InputError(f"{name} of evaluate() is {shown(repr(value))}; give an evaluation."
                             f"{getattr(kind, '__name__', 'KnownTriples')}")
    triples, protocol = read_triples(triples), protocol.among(len(model.entity))
    check_ids(model, triples)
    if protocol.known == "kept":
        known = None
    elif known is None:
        raise InputError("filtered ranking needs the known triples; give them, or switch the filter off")
    else:
        known.check_ids(model)
    if model.is_own:
        if protocol.sampling or protocol.known == "penalized":
            raise InputError(
                f"the model {model.name} is your own; rank it against all entities, known triples left out or kept"
            )
        from .own_model import rank_own_model

        with _bar(triples, show) as done:
            compared = {side: rank_own_model(model, side, triples, known, done) for side in SIDES}
        return Evaluation(triples, compared, protocol)
    if protocol.sampling:
        return Evaluation(
            triples,
            {side: rank_against_sample(model, side, triples, known, protocol.sampling) for side in SIDES},
            protocol,
        )
    rows = model.entity if share is None else share.rows
    table = None if model.projects else CandidateTable.of(rows, model.operation, model.device)
    with _bar(triples, show) as done:
        compared = {side: rank_against_all(model, side, triples, known, table, done=done, share=share)
                    for side in SIDES}
    if protocol.known == "penalized":
        for side, comparison in compared.items():
            more = known_still_better(model, side, triples, known)
            compared[side] = replace(comparison, better=comparison.better + more)
    return Evaluation(triples, compared, protocol)


@contextmanager
def _bar(triples, show: bool) -> Iterator[Callable[[int], None]]:
    """A display of both directions' progress: a function that is told of so many ranks more."""
    if not show:
        yield lambda count: None
        return
    with progress(len(SIDES) * len(triples[0]), "ranking", "ranks") as bar:
        yield bar.update


def share_of(triples: Any, percent: float, seed: int = 0) -> Columns:
    """The share of the triples that --eval_percent asks for, at least one, drawn with repetition as in DGL-KE; all of
    them for 1.

    Raises InputError: triples in no form of arguments.read_triples, no share in (0, 1], or a negative seed.
    """
    columns, seed = read_triples(triples), integer("the seed of the share", seed, 0)
    if not isinstance(percent, (int, float, np.number)) or not 0 < percent <= 1:
        raise InputError(f"the share of triples is {shown(repr(percent))}; give a number in (0, 1]")
    if percent >= 1 or not len(columns[0]):
        return columns
    chosen = np.random.default_rng(seed).integers(0, len(columns[0]), max(1, int(len(columns[0]) * percent)))
    return tuple(column[chosen] for column in columns)


def check_ids(model: EmbeddingModel, triples) -> None:
    """InputError if a triple names an entity or relation that the tables do not have."""
    for what, column, rows in (
        ("head", triples[0], len(model.entity)),
        ("relation", triples[1], model.n_relations),
        ("tail", triples[2], len(model.entity)),
    ):
        if len(column) and not (column.min() >= 0 and column.max() < rows):
            wrong = int(np.flatnonzero((column < 0) | (column >= rows))[0])
            raise InputError(
                f"{what} {column[wrong]} of triple {wrong} is not in the model, which has {rows} of them; "
                "evaluate with the dataset the model was trained on"
            )
