"""The entities that this process has: here all of them, as it trains alone. The share of one of several machines
(machines/softmax_share.py) is a range of the ids, and exchanges with the others what a step needs.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple

import torch


class BatchEntities(NamedTuple):
    """The U entities of a batch, ascending, and where they lie in this process's table.

    ids: (U,) int64; what only pads has the id of an entity that exists. rows: (U,) int64, of the process's table; the
    number of its rows for an entity that another process has, and for what only pads. own: the part of the entities
    that may be updated here. count: (1,) int32, how many of the part are updated, from its first one on.
    """

    ids: torch.Tensor
    rows: torch.Tensor
    own: slice
    count: torch.Tensor


class EntityShare:
    """What a step asks of it, in the same order in all processes.

    Attributes:
        entities: of all processes.
        first: the id of this process's first one.
    """

    first = 0

    def __init__(self, entities: int):
        self.entities = entities

    def find(self, batch: Mapping[str, torch.Tensor]) -> BatchEntities:
        """At the beginning of a step. batch: the fields of its block."""
        rows = batch["entity_rows"]
        return BatchEntities(rows.clamp(max=self.entities - 1), rows, slice(None), batch["counts"].split(1)[0])

    def embeddings(self, found: BatchEntities, table: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
        """(U, dim) of the batch's entities, from the tables (rows, dim) of all processes. relations: the rows of the
        batch's relations, which all processes have alike."""
        return table.index_select(0, found.ids)

    def combine(self, sums: torch.Tensor) -> None:
        """In place of each query's largest score, total of e^(score - largest) and wanted score, (3, B), over this
        process's entities: the same over all."""

    def add(self, values: torch.Tensor) -> None:
        """In place of values of this process: their sum over processes, in the order of processes."""
