"""Where ranks send each other what gradients of a table's rows are made of (replicated_rows.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, List, Sequence

from ... import _native

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Gathering:
    """exchange: of these ranks, with room for it. most: gradients of a rank's step, at most."""

    exchange: _native.Exchange
    most: int

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self.exchange.ranks

    def gather(self, parts: Sequence[torch.Tensor], stream: int) -> List[torch.Tensor]:
        """In submitted work: this rank's parts (n, ..) float32, n <= most, of all ranks: (ranks * most, ..) each, where
        what is behind a rank's own n is anything. All ranks give parts of the same shapes, but for n, in the same
        order."""
        arrays = [part.new_empty(self.ranks, self.most, *part.shape[1:]) for part in parts]
        for array, part in zip(arrays, parts):
            array[self.exchange.rank, : len(part)] = part
        self.exchange.gather([array.view(self.ranks, -1) for array in arrays], stream)
        return [array.flatten(0, 1) for array in arrays]
