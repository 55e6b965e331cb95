"""Dividing triples into train, valid and test, with every entity and relation in train; finding what makes a test
easy."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Tuple

import numpy as np

from .graph import Triples

OVERLAP = 0.8  # of the pairs of both relations, from which on one gives the other away


def distinct(triples: Triples) -> np.ndarray:
    """Where each triple stands for the first time: (m,) int64, ascending. Weights are not looked at."""
    order = np.lexsort((triples.tail, triples.relation, triples.head))
    new = np.zeros(len(order), bool)
    new[:1] = True
    for column in triples:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return np.sort(order[new])  # lexsort is stable, so the first of equals stands first


def divide(triples: Triples, valid: int, test: int, seed: int) -> Dict[str, np.ndarray]:
    """Positions of the triples of each split, each ascending: "train", "valid", "test".

    Every entity and every relation is in train: of the triples in random order, those stay there in which an entity or
    a relation occurs for the first time. The others are drawn for valid and test, as many as asked for, or, where there
    are fewer, all of them in the proportion asked for.
    """
    order = np.random.default_rng(seed).permutation(len(triples))
    stays = np.zeros(len(order), bool)
    ends = np.stack([triples.head[order], triples.tail[order]], axis=1).ravel()
    stays[np.unique(ends, return_index=True)[1] // 2] = True
    stays[np.unique(triples.relation[order], return_index=True)[1]] = True
    free = order[~stays]
    asked = valid + test
    if asked > len(free):
        valid = len(free) * valid // asked
        test = len(free) - valid
    parts = {"train": np.concatenate([order[stays], free[valid + test :]]), "valid": free[:valid],
             "test": free[valid : valid + test]}
    return {name: np.sort(part) for name, part in parts.items()}


@dataclass(frozen=True)
class Overlap:
    """Two relations that link the same pairs of entities, or with `inverse` the same pairs the other way round.

    share: (of the pairs of `first`, of those of `second`) that the other one links as well. first == second with
    inverse: the relation is symmetric.
    """

    first: int
    second: int
    inverse: bool
    share: Tuple[float, float]


def overlaps(triples: Triples, n_entities: int, n_relations: int) -> List[Overlap]:
    """Pairs of relations of which each links at least the share OVERLAP of what the other links, most alike first.

    triples: distinct ones. The rule is that of Akrami et al., Realistic Re-evaluation of Knowledge Graph Completion
    Methods (SIGMOD 2020), section 4.2, where both shares are above 0.8.
    """
    heads, relations, tails = (np.asarray(column, np.int64) for column in triples)
    there, back = heads * n_entities + tails, tails * n_entities + heads
    order = np.argsort(there, kind="stable")
    there, relations, back = there[order], relations[order], back[order]
    sizes = np.bincount(relations, minlength=n_relations)
    found = []
    for inverse, asked in ((False, there), (True, back)):
        first, second, count = _shared(relations, there, asked, n_relations)
        wanted = first <= second if inverse else first < second
        shares = count / sizes[first], count / sizes[second]
        wanted &= (shares[0] >= OVERLAP) & (shares[1] >= OVERLAP)
        found += [Overlap(int(first[i]), int(second[i]), inverse, (float(shares[0][i]), float(shares[1][i])))
                  for i in np.flatnonzero(wanted)]
    return sorted(found, key=lambda each: (-min(each.share), each.first, each.second))


def _shared(relations, linked, asked, n_relations):
    """(first, second, count): how many triples of `first` ask for a pair that `second` links; linked is ascending."""
    begin, end = (np.searchsorted(linked, asked, side) for side in ("left", "right"))
    counts: Dict[int, int] = {}
    together = 1 << 20
    for low in range(0, len(asked), together):
        block = slice(low, low + together)
        lengths = end[block] - begin[block]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        partner = np.repeat(begin[block] - offsets[:-1], lengths) + np.arange(offsets[-1])
        pairs = np.repeat(relations[block], lengths) * n_relations + relations[partner]
        for pair, count in zip(*(column.tolist() for column in np.unique(pairs, return_counts=True))):
            counts[pair] = counts.get(pair, 0) + count
    pairs = np.array(sorted(counts), np.int64)
    return pairs // n_relations, pairs % n_relations, np.array([counts[pair] for pair in pairs.tolist()], np.int64)


def repeated(asked: Triples, train: Triples, n_entities: int, n_relations: int) -> int:
    """How many of the asked triples stand in train, the same triple asked twice counting twice."""
    keys, inverse = np.unique(_keys(*asked, n_entities, n_relations), return_inverse=True)
    # Nearly all training triples are not asked for: a table of their hashes' bits excludes them without a search.
    bits = min(27, max(10, len(keys).bit_length() + 3))
    marked = np.zeros(1 << bits, bool)
    marked[_hashes(keys, bits)] = True
    found = np.zeros(len(keys), bool)
    together = 1 << 18
    for low in range(0, len(train), together):
        known = _keys(*(column[low : low + together] for column in train), n_entities, n_relations)
        known = known[marked[_hashes(known, bits)]]
        place = np.minimum(np.searchsorted(keys, known), len(keys) - 1)
        found[place[keys[place] == known]] = True
    return int(found[inverse].sum()) if len(keys) else 0


def _hashes(keys: np.ndarray, bits: int) -> np.ndarray:
    return (keys * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits)


def given_away(asked: Triples, train: Triples, found: List[Overlap], n_entities: int, n_relations: int) -> int:
    """How many of the asked triples stand in train under a relation that overlaps with theirs."""
    known = np.unique(_keys(train.head, train.relation, train.tail, n_entities, n_relations))
    easy = np.zeros(len(asked), bool)
    for each in found:
        for mine, other in {(each.first, each.second), (each.second, each.first)}:
            members = np.flatnonzero(asked.relation == mine)
            ends = asked.head[members], asked.tail[members]
            head, tail = reversed(ends) if each.inverse else ends
            keys = _keys(head, np.full(len(members), other), tail, n_entities, n_relations)
            place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            easy[members] |= known[place] == keys
    return int(easy.sum())


def _keys(heads, relations, tails, n_entities, n_relations) -> np.ndarray:
    """One number for each triple; of more than 2^64 possible ones some share a number, which shows in no percentage."""
    wide = (np.asarray(column).astype(np.uint64) for column in (heads, relations, tails))
    head, relation, tail = wide
    return (head * np.uint64(n_relations) + relation) * np.uint64(n_entities) + tail
