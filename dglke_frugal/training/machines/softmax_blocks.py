"""The blocks that machines exchange in a step against all entities (softmax_share.py), and their size."""

from __future__ import annotations

ROWS, SUMS, PARTS, WHOLE = "rows", "sums", "parts", "whole"  # sums of values are two blocks: parts, then whole ones
HEADER = 5  # numbers in front of a block: its name, step and size, the sender's signal and the sum of its relations


def blocks_of_step(binary: bool) -> int:
    """How many each machine sends to each other one. binary: whether the loss is a binary cross-entropy."""
    return 5 if binary else 4


def floats_of_step(machines: int, entities: float, queries: int, dim: int, binary: bool) -> float:
    """Floats that a machine sends in a step, on average over the machines. entities: distinct ones of the batch, with
    rows of dim floats. binary: as of blocks_of_step."""
    others = machines - 1
    shared_out = entities * dim + 2 * queries * (dim + binary)
    to_each = HEADER * blocks_of_step(binary) + (0 if binary else 3 * queries)
    return others * (shared_out / machines + to_each)


def floats_held(machines: int, entities: int, owned: int, dim: int) -> int:
    """Floats of blocks in memory at a time, at most: rows of the batch's entities that a machine owns, as they are sent
    to each other one, and all its entities' rows as they come, one behind the other, and as the step has them.
    machines, entities, dim: as of floats_of_step. owned: the most of the entities that a machine owns."""
    return ((machines - 1) * owned + 3 * entities) * dim
