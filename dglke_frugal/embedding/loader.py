"""Batches that are known some steps ahead."""
from __future__ import annotations

from collections import deque
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional

import torch

from .module import Embedding


class Lookahead:
    """Any iterable of batches, read `lookahead` batches ahead, so that tables learn which ids come.

        for ids, dense, label in Lookahead(loader, lambda batch: {embedding: batch[0]}): ...

    Each table must then be asked for exactly the ids that were named, once per batch. Results are the same without it.
    A loop that is left early forgets what it has read ahead.
    """

    def __init__(self, batches: Iterable[Any], ids: Callable[[Any], Mapping[Embedding, torch.Tensor]],
                 lookahead: Optional[int] = None):
        """ids(batch): for each module the ids that it will look up. lookahead: 10 batches if not given."""
        if lookahead is not None and lookahead < 1:
            raise ValueError(f"lookahead is at least 1, not {lookahead}")
        self._batches, self._ids, self._lookahead = batches, ids, lookahead or 10

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        known, modules = deque(), {}
        try:
            for batch in self._batches:
                for module, ids in self._ids(batch).items():
                    modules[id(module)] = module  # first: Ctrl-C may come in between
                    module.prefetch(ids)
                known.append(batch)
                if len(known) > self._lookahead:
                    yield known.popleft()
            while known:
                yield known.popleft()
        finally:
            for module in modules.values():
                module.discard_prefetched()
