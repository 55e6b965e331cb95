"""Graphs of any size with a given degree skew, for tests and benchmarks where the real ones are too large to ship.

    python -m dglke_frugal.data.synthetic --out data --entities 86054151 --relations 14824 --triples 305000000

Triple i is a function of (seed, i) in integer arithmetic: any range can be made alone, in any order, on any machine,
and writing needs memory for one block however large the graph is. The entity of popularity rank k (from 1) is drawn
about in proportion to k^-skew, as a staircase: all ranks from 2^j to 2^(j+1) - 1 alike. There is nothing in it to
learn.
"""
from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Iterator, Optional, Sequence, Tuple

import numpy as np

from ..errors import InputError
from ..files import replace_file
from ..progress import progress
from .graph import KnowledgeGraph, Triples
from .write_text import lines

BLOCK = 1 << 20  # triples made at a time
LAYOUTS = ("udd", "Freebase", "wikikg90Mv2")


def _mix(counter: np.ndarray) -> np.ndarray:
    """64 random bits per counter: SplitMix64 (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        z = counter * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class _Skewed:
    """Draws from 0 .. size - 1, rank k (from 1) about in proportion to k^-skew; ranks are scattered over the ids."""

    size: int
    skew: float

    @cached_property
    def _stairs(self) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First rank (from 0) of each step, number of ranks on it, and 32-bit limits of the steps' shares."""
        first = 2 ** np.arange(self.size.bit_length(), dtype=np.int64) - 1
        count = np.diff(np.append(first, self.size))
        share = np.array([math.fsum(k**-self.skew for k in np.linspace(begin + 1, begin + number, 16)) * number
                          for begin, number in zip(first.tolist(), count.tolist())])
        limits = np.round(np.cumsum(share) / share.sum() * 2.0**32).astype(np.uint64)
        return first.astype(np.uint64), count.astype(np.uint64), limits

    @cached_property
    def _multiplier(self) -> int:
        """Prime to size, near the golden section of it: neighbouring ranks get ids far apart."""
        candidate = max(1, round(self.size * 0.6180339887))
        while math.gcd(candidate, self.size) != 1:
            candidate += 1
        return candidate

    def draw(self, bits: np.ndarray) -> np.ndarray:
        first, count, limits = self._stairs
        step = np.searchsorted(limits[:-1], bits >> np.uint64(32), side="right")
        rank = first[step] + (((bits & np.uint64(0xFFFFFFFF)) * count[step]) >> np.uint64(32))
        return (rank * np.uint64(self._multiplier) % np.uint64(self.size)).astype(np.int64)


@dataclass(frozen=True)
class SyntheticGraph:
    """The shape of the graph. At most 2^31 entities and relations; skew 0 is uniform, 1 is Zipf's law."""

    n_entities: int
    n_relations: int
    n_train: int
    n_valid: int = 0
    n_test: int = 0
    skew: float = 0.75
    relation_skew: float = 1.0
    seed: int = 0
    name: str = "synthetic"

    def __post_init__(self):
        for what, count, least, most in (
                ("entities", self.n_entities, 2, 2**31), ("relations", self.n_relations, 1, 2**31),
                ("train triples", self.n_train, 1, 2**40), ("valid triples", self.n_valid, 0, 2**40),
                ("test triples", self.n_test, 0, 2**40), ("seed", self.seed, 0, 2**32)):
            if not least <= count <= most:
                raise InputError(f"a synthetic graph cannot have {what} {count}; give a number from {least} to {most}")
        for what, skew in (("skew", self.skew), ("relation skew", self.relation_skew)):
            if not 0 <= skew <= 4:
                raise InputError(f"a synthetic graph cannot have {what} {skew}; give a number from 0 (uniform) to 4")

    @cached_property
    def _entities(self) -> _Skewed:
        return _Skewed(self.n_entities, self.skew)

    @cached_property
    def _relations(self) -> _Skewed:
        return _Skewed(self.n_relations, self.relation_skew)

    @cached_property
    def _first_counter(self) -> np.uint64:
        """Seeds start far apart in the one sequence of counters."""
        return _mix(np.array([self.seed + 1], np.uint64))[0]

    @property
    def splits(self) -> dict:
        """Of each split that is not empty, the number of its first triple, and one past that of its last."""
        ends = np.cumsum([0, self.n_train, self.n_valid, self.n_test]).tolist()
        every = {"train": (ends[0], ends[1]), "valid": (ends[1], ends[2]), "test": (ends[2], ends[3])}
        return {split: span for split, span in every.items() if span[0] < span[1]}

    def triples(self, begin: int, end: int) -> Triples:
        """Triples begin .. end - 1, int32. No triple has its head as tail; a triple may occur twice."""
        counter = np.arange(begin, end, dtype=np.uint64) * np.uint64(3) + self._first_counter
        head = self._entities.draw(_mix(counter))
        relation = self._relations.draw(_mix(counter + np.uint64(1)))
        tail = self._entities.draw(_mix(counter + np.uint64(2)))
        tail = np.where(tail == head, (tail + 1) % self.n_entities, tail)
        return Triples(*(column.astype(np.int32) for column in (head, relation, tail)))

    def blocks(self, split: str) -> Iterator[Triples]:
        """The triples of a split, BLOCK at a time, with progress shown."""
        begin, end = self.splits[split]
        with progress(end - begin, f"making {split}", "triples") as bar:
            for start in range(begin, end, BLOCK):
                block = self.triples(start, min(start + BLOCK, end))
                yield block
                bar.update(len(block))

    def in_memory(self) -> KnowledgeGraph:
        """The graph without going through files."""
        splits = {}
        for split, (begin, end) in self.splits.items():
            columns = [np.empty(end - begin, np.int32) for _ in range(3)]
            done = 0
            for block in self.blocks(split):
                for column, values in zip(columns, block):
                    column[done : done + len(block)] = values
                done += len(block)
            splits[split] = Triples(*columns)
        return KnowledgeGraph(self.name, self.n_entities, self.n_relations, **splits)


def write(graph: SyntheticGraph, folder: Path, layout: str = "udd") -> Path:
    """Writes the graph below `folder` and returns the folder that holds its files.

    layout: "udd", for --format udd_hrt (entities.tsv relations.tsv train.tsv ...); "Freebase" and "wikikg90Mv2", for
    --dataset of that name, with as many entities as the graph has.
    """
    if layout not in LAYOUTS:
        raise InputError(f"unknown layout {layout!r} for a synthetic graph; it must be one of {', '.join(LAYOUTS)}")
    target = folder / {"udd": graph.name, "Freebase": "Freebase", "wikikg90Mv2": "wikikg90m-v2"}[layout]
    if target.exists() and any(target.iterdir()):
        raise InputError(f"{target} has files already; remove it or choose another folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
        (target / "processed").mkdir(exist_ok=True) if layout == "wikikg90Mv2" else None
    except OSError as error:
        raise InputError(f"cannot make {target}: {error.strerror}; choose a writable folder") from error
    {"udd": _write_udd, "Freebase": _write_freebase, "wikikg90Mv2": _write_npy}[layout](graph, target)
    return target


def _write_udd(graph: SyntheticGraph, target: Path) -> None:
    for role, count in (("entities", graph.n_entities), ("relations", graph.n_relations)):
        _names(target / f"{role}.tsv", role[0], count)
    for split in graph.splits:
        _write_triples(target / f"{split}.tsv", graph.blocks(split))


def _write_freebase(graph: SyntheticGraph, target: Path) -> None:
    for role, count in (("entity", graph.n_entities), ("relation", graph.n_relations)):
        with replace_file(target / f"{role}2id.txt", "w") as file:
            file.write(f"{count}\n")
    for split in graph.splits:
        _write_triples(target / f"{split}.txt", ((b.head, b.tail, b.relation) for b in graph.blocks(split)))


def _names(path: Path, letter: str, count: int) -> None:
    with replace_file(path) as file:
        for begin in range(0, count, BLOCK):
            ids = np.arange(begin, min(begin + BLOCK, count))
            file.write(lines((ids, ids), ("", letter)))


def _write_triples(path: Path, blocks: Iterator[Sequence[np.ndarray]]) -> None:
    with replace_file(path) as file:
        for columns in blocks:
            file.write(lines(tuple(columns)))


def _write_npy(graph: SyntheticGraph, target: Path) -> None:
    import torch

    processed = target / "processed"
    parts = {"train": ("train_hrt", 3), "valid": ("val_hr", 2)}
    for split, (name, width) in parts.items():
        if split not in graph.splits:
            raise InputError("the layout wikikg90Mv2 needs valid triples; ask for some")
        begin, end = graph.splits[split]
        with replace_file(processed / f"{name}.npy") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<i4", "fortran_order": False, "shape": (end - begin, width)})
            for block in graph.blocks(split):
                file.write(np.stack(list(block)[:width], axis=1).astype("<i4").tobytes())
    with replace_file(processed / "val_t.npy") as file:
        np.save(file, np.concatenate([block.tail for block in graph.blocks("valid")]))
    if "test" in graph.splits:
        with replace_file(processed / "test-dev_hr.npy") as file:
            np.save(file, np.concatenate([np.stack([b.head, b.relation], axis=1) for b in graph.blocks("test")]))
    with replace_file(target / "meta.pt") as file:
        torch.save({"num_entities": graph.n_entities, "num_relations": graph.n_relations}, file)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Write a graph as the arguments say, and print where it is."""
    parser = argparse.ArgumentParser(prog="python -m dglke_frugal.data.synthetic", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("data"), help="folder to write below (%(default)s)")
    parser.add_argument("--name", default="synthetic", help="folder of layout udd (%(default)s)")
    parser.add_argument("--layout", choices=LAYOUTS, default="udd", help="%(default)s")
    parser.add_argument("--entities", type=int, default=100_000, help="%(default)s")
    parser.add_argument("--relations", type=int, default=100, help="%(default)s")
    parser.add_argument("--triples", type=int, default=1_000_000, help="train triples (%(default)s)")
    parser.add_argument("--valid", type=int, default=1000, help="%(default)s")
    parser.add_argument("--test", type=int, default=1000, help="%(default)s")
    parser.add_argument("--skew", type=float, default=0.75, help="of entities: 0 uniform, 1 Zipf (%(default)s)")
    parser.add_argument("--relation_skew", type=float, default=1.0, help="%(default)s")
    parser.add_argument("--seed", type=int, default=0, help="%(default)s")
    options = parser.parse_args(arguments)
    try:
        graph = SyntheticGraph(options.entities, options.relations, options.triples, options.valid, options.test,
                               options.skew, options.relation_skew, options.seed, options.name)
        print(write(graph, options.out, options.layout))
    except InputError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
