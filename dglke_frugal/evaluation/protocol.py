"""Evaluation of a model on a set of triples: which candidates, which known answers left out, how ties count."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

import numpy as np

from ..arguments import Columns, integer, is_single, one_of, read_triples
from ..errors import InputError, shown
from ..progress import progress
from ..frames import data_frame, html_table
from .breakdown import BreakdownRow, by_relation, columns_by_relation, numbers
from .candidates import Sampling, rank_against_sample
from .chance import candidate_counts
from .known_triples import KnownTriples
from .metrics import RANK_TIES, Metrics, ranks
from .model import SIDES, EmbeddingModel
from .ranking import CandidateTable, Comparison, Share, rank_against_all
from .release_rule import known_still_better

if TYPE_CHECKING:
    from pandas import DataFrame

KNOWN = ("excluded", "penalized", "kept")
_KS = (1, 3, 10)
_METRICS = ("MRR", "MR", "AMRI", *(f"HITS@{k}" for k in _KS))


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
    def from_flags(cls, flags: Mapping[str, Any], ties: str = "pessimistic", filter_rule: str = "excluded",
                   seed: int = 0) -> "Protocol":
        """The protocol of DGL-KE's evaluation flags, by their names."""
        sampling = None
        if flags["neg_sample_size_eval"] > 0:
            sampling = Sampling(flags["neg_sample_size_eval"], flags["batch_size_eval"], flags["neg_deg_sample_eval"],
                                seed)
        return cls(ties, "kept" if flags["no_eval_filter"] else filter_rule, sampling)

    def among(self, entities: int, log: Callable[[str], None] = lambda line: None) -> "Protocol":
        """The protocol on a model of so many entities: samples of as many or more are all entities, each once. `log` is
        told of that."""
        if self.sampling is None or self.sampling.count < entities:
            return self
        log(f"--neg_sample_size_eval {self.sampling.count}: there are {entities} entities, each triple is ranked "
            "against all of them")
        return replace(self, sampling=None)

    def __post_init__(self):
        one_of("rule for ties", self.ties, RANK_TIES)
        one_of("rule for known triples", self.known, KNOWN)
        if self.sampling is not None and not isinstance(self.sampling, Sampling):
            raise InputError(f"sampling is {shown(self.sampling, repr)}; give an evaluation.Sampling, or None for all "
                             "entities")
        if self.sampling and self.sampling.by_degree and self.known != "kept":
            raise InputError("--neg_deg_sample_eval cannot filter known triples; add --no_eval_filter")
        if self.sampling and self.known == "penalized":
            raise InputError("sampled candidates that are known are left out; the rule of 0.1.2 is for all entities")


def _checked_ks(ks: Union[int, Sequence[int]]) -> List[int]:
    each: Any = [ks] if is_single(ks) else ks
    return [integer("k", k, 1) for k in each]


@dataclass(frozen=True, eq=False)
class Evaluation(Mapping[str, float]):
    """Ranks of triples in both directions, and a mapping from the names of metrics to their values over both: MRR, MR,
    AMRI, HITS@1, HITS@3 and HITS@10, and HITS@k of any other k when it is asked for.

        evaluation["HITS@5"], dict(evaluation), evaluation.to_dict(), evaluation.to_pandas()

    Sides are HEAD and TAIL, rules for ties those of metrics.RANK_TIES; InputError for others.

    Attributes:
        triples: (heads, relations, tails), each (n,).
        compared: for HEAD and TAIL, how many candidates were better or equal.
        protocol: how the ranks were made.
        count_candidates: makes (2 n,) candidates of each rank, heads before tails; None where nobody knows them, so
            that AMRI is NaN.
        relation_names: by id; None for ids in tables.
    """

    triples: Columns
    compared: Dict[str, Comparison]
    protocol: Protocol
    count_candidates: Optional[Callable[[], np.ndarray]] = None
    relation_names: Optional[Sequence[str]] = None

    __eq__ = object.__eq__  # its metrics may be equal to others'
    __hash__ = object.__hash__

    def candidate_counts(self) -> Optional[np.ndarray]:
        """Candidates (2, n) of each rank, the true entity counted, heads in the first row; None if not known."""
        return None if self.count_candidates is None else self.count_candidates().reshape(len(SIDES), -1)

    def __getitem__(self, name: str) -> float:
        wanted = re.fullmatch(r"hits@([1-9][0-9]{0,17})", name.lower()) if isinstance(name, str) else None
        if wanted is None and name not in _METRICS:
            raise KeyError(f"{name!r} is no metric; there are {', '.join(_METRICS)} and HITS@k of any k")
        return self.to_dict()[name] if wanted is None else self.hits(int(wanted[1]))

    def __iter__(self) -> Iterator[str]:
        return iter(_METRICS)

    def __len__(self) -> int:
        return len(_METRICS)

    def hits(self, k: int, side: Optional[str] = None) -> float:
        """The share of ranks that are at most k, over both directions or one side, "head" or "tail". InputError for a k
        below 1."""
        k = integer("k", k, 1)
        every = np.concatenate([self.ranks(each) for each in (SIDES if side is None else [side])])
        return float(np.mean(every <= k)) if len(every) else float("nan")

    def to_dict(self, ks: Union[int, Sequence[int]] = _KS, side: Optional[str] = None) -> Dict[str, float]:
        """MRR, MR, AMRI and HITS@k for each k of ks, over both directions or one side, "head", "tail". InputError for a
        k below 1."""
        sides = SIDES if side is None else [one_of("side", side, SIDES)]
        counts = self.candidate_counts()
        rows = [SIDES.index(each) for each in sides]
        return numbers(np.stack([self.ranks(each) for each in sides]), None if counts is None else counts[rows],
                       _checked_ks(ks))

    def to_pandas(self, ks: Union[int, Sequence[int]] = _KS) -> DataFrame:
        """A DataFrame with the columns relation, side, ranks, MRR, MR, AMRI and HITS@k for each k: rows for all
        triples, then for each relation that occurs, most frequent first; sides are "both", "head" and "tail".

        Raises InputError without pandas, or for a k below 1.
        """
        return data_frame(columns_by_relation(self, _checked_ks(ks)), "to_pandas()")

    def _repr_html_(self) -> str:
        rows = [("both", None), *((side, side) for side in SIDES)]
        found = [{"side": title, **self.to_dict(side=side)} for title, side in rows]
        return html_table({name: [row[name] for row in found] for name in found[0]},
                          f"{len(self.triples[0]):,} triples, known ones {self.protocol.known}")

    def __repr__(self) -> str:
        metrics = self.metrics()
        return f"<Evaluation of {len(self.triples[0]):,} triples: MRR {metrics.mrr:.4f}, MR {metrics.mr:.1f}>"

    def ranks(self, side: str, ties: Optional[str] = None) -> np.ndarray:
        """Ranks (n,) of the true entity among the candidates for a side, "head" or "tail"; another rule for ties costs
        nothing. InputError for another side."""
        comparison = self.compared[one_of("side", side, SIDES)]
        return ranks(comparison.better, comparison.equal, self.protocol.ties if ties is None else ties)

    def metrics(self, side: Optional[str] = None, ties: Optional[str] = None) -> Metrics:
        """Metrics over both directions, heads first as in DGL-KE, or one side; ties: as for `ranks`, and errors."""
        return Metrics.of([self.ranks(each, ties) for each in (SIDES if side is None else [side])])

    def by_relation(self) -> List[BreakdownRow]:
        """Metrics over all relations, then of each that occurs, most frequent first, each in both directions."""
        return by_relation(self)


def evaluate(model: EmbeddingModel, triples: Any, known: Optional[KnownTriples] = None, protocol: Protocol = Protocol(),
             show: bool = True, share: Optional[Share] = None) -> Evaluation:
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
            raise InputError(f"{name} of evaluate() is {shown(value, repr)}; give an evaluation."
                             f"{getattr(kind, '__name__', 'KnownTriples')}")
    triples, protocol = read_triples(triples), protocol.among(len(model.entity))
    check_ids(model, triples)
    if protocol.known == "kept":
        known = None
    elif known is None:
        raise InputError("filtered ranking needs the known triples; give them, or switch the filter off")
    else:
        known.check_ids(model)
    count = partial(candidate_counts, triples, len(model.entity), known)
    if model.is_custom:
        if protocol.sampling or protocol.known == "penalized":
            raise InputError(
                f"the model {model.name} is a custom one; rank it against all entities, known triples left out or kept")
        from .custom_model import rank_custom_model

        with _bar(triples, show) as done:
            compared = {side: rank_custom_model(model, side, triples, known, done) for side in SIDES}
        return Evaluation(triples, compared, protocol, count)
    if protocol.sampling:
        return Evaluation(triples,
                          {side: rank_against_sample(model, side, triples, known, protocol.sampling) for side in SIDES},
                          protocol, partial(np.full, len(SIDES) * len(triples[0]), 1 + protocol.sampling.count))
    rows = model.entity if share is None else share.rows
    table = None if model.projects else CandidateTable.of(rows, model.operation, model.device)
    with _bar(triples, show) as done:
        compared = {side: rank_against_all(model, side, triples, known, table, done=done, share=share)
                    for side in SIDES}
    if protocol.known == "penalized" and known is not None:
        for side, comparison in compared.items():
            more = known_still_better(model, side, triples, known)
            compared[side] = replace(comparison, better=comparison.better + more)
    return Evaluation(triples, compared, protocol, count)


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
        raise InputError(f"the share of triples is {shown(percent, repr)}; give a number in (0, 1]")
    if percent >= 1 or not len(columns[0]):
        return columns
    chosen = np.random.default_rng(seed).integers(0, len(columns[0]), share_size(len(columns[0]), percent))
    heads, relations, tails = (column[chosen] for column in columns)
    return heads, relations, tails


def share_size(count: int, percent: float) -> int:
    """How many triples of so many share_of gives."""
    return count if percent >= 1 or not count else max(1, int(count * percent))


def check_ids(model: EmbeddingModel, triples: Columns) -> None:
    """InputError if a triple names an entity or relation that the tables do not have."""
    for what, column, rows in (("head", triples[0], len(model.entity)),
                               ("relation", triples[1], model.n_relations),
                               ("tail", triples[2], len(model.entity))):
        if len(column) and not (column.min() >= 0 and column.max() < rows):
            wrong = int(np.flatnonzero((column < 0) | (column >= rows))[0])
            raise InputError(f"{what} {column[wrong]} of triple {wrong} is not in the model, which has {rows} of them; "
                             "evaluate with the dataset the model was trained on")
