"""What DGL-KE's reader does, in the plainest Python: the reference for ids and order."""
import numpy as np


def rows(path, delimiter="\t"):
    with open(path, encoding="utf-8") as file:
        return [line.strip().split(delimiter) for line in file]


def columns(triples, weights=None):
    heads, relations, tails = (np.array([t[i] for t in triples], np.int64) for i in range(3))
    return heads, relations, tails, None if weights is None else np.array(weights, np.float32)


def reordered(row, order):
    return tuple(row[order.index(letter)] for letter in "hrt")


def read_by_id(path, order, delimiter="\t", weighted=False):
    lines = rows(path, delimiter)
    return columns([tuple(map(int, reordered(row, order))) for row in lines],
                   [float(row[3]) for row in lines] if weighted else None)


def read_dictionary(path):
    return {name: int(number) for number, name in rows(path)}


def read_by_name(path, entities, relations):
    return columns([(entities[h], relations[r], entities[t]) for h, r, t in rows(path)])


def read_raw(paths, order, delimiter="\t", weighted=False):
    """Splits as columns, entities and relations in the order of their ids."""
    entities, relations, splits = {}, {}, []
    for path in paths:
        lines, triples = rows(path, delimiter), []
        for row in lines:
            head, relation, tail = reordered(row, order)
            head = entities.setdefault(head, len(entities))
            tail = entities.setdefault(tail, len(entities))
            triples.append((head, relations.setdefault(relation, len(relations)), tail))
        splits.append(columns(triples, [float(row[3]) for row in lines] if weighted else None))
    return splits, list(entities), list(relations)
