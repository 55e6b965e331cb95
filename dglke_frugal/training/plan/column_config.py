"""Training sharded by columns: each rank has some columns of every row, and computes for the batches of all ranks.

A step of n ranks is the step of one process on a batch n times as large, whose regularization is weighed by 1/n. So it
learns what n ranks with rows of their own learn: their losses are means over their own batches, and row-wise Adagrad
does not feel the scale of a gradient. See docs/exactness.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Tuple

from ... import _native
from ...models import built_in_model, find_model
from ...options import AUTO, DEFAULT_CACHE_RATIO, TrainConfig
from ...store.row_bytes import row_bytes
from ...store.rows.flush_config import SMALL_TABLE
from ..step.step_config import StepConfig

STEPS_AHEAD = 8  # that one rank's host may be ahead of another's, whose devices wait for each other in each step


@dataclass(frozen=True)
class Columns:
    """Which columns of a table's rows (dim floats, in `halves` equal parts) each of `ranks` ranks has: as many of each
    half."""

    dim: int
    halves: int
    ranks: int

    @property
    def of_rank(self) -> int:
        """Floats of a row that one rank has."""
        return self.dim // self.ranks

    def whole(self, rank: int) -> List[slice]:
        """Where a rank's columns are in a whole row, half by half."""
        half, own = self.dim // self.halves, self.of_rank // self.halves
        return [slice(h * half + rank * own, h * half + (rank + 1) * own) for h in range(self.halves)]

    def ranges(self, rank: int) -> Tuple[Tuple[int, int], ...]:
        """The same as (first, count), as native code takes them."""
        return tuple((part.start, part.stop - part.start) for part in self.whole(rank))

    def own(self) -> List[slice]:
        """Where they are in the rank's own row."""
        own = self.of_rank // self.halves
        return [slice(h * own, (h + 1) * own) for h in range(self.halves)]


def columns_of(config: TrainConfig, dims: Dict[str, int]) -> Dict[str, Columns]:
    """By table; dims: floats of a whole row, by table."""
    halves = dict(zip(("entity", "relation"), find_model(config.model.model_name).halves))
    return {name: Columns(dims[name], halves[name], config.device.ranks) for name in halves}


def why_not_sharded(config: TrainConfig) -> Optional[str]:
    """Why this run cannot be sharded by columns, as the rest of a sentence; None if it can."""
    model, device, ranks = config.model, config.device, config.device.ranks
    if device.gpu[0] < 0:
        return "needs GPUs; on CPU cores one process with more threads does the same"
    described = built_in_model(model.model_name)
    if described is None or described.halves is None:
        return f"does not go with {model.model_name}, whose score mixes all columns of a row"
    if ranks > _native.MOST_DEVICE_RANKS:
        return f"is for at most {_native.MOST_DEVICE_RANKS} ranks"
    if device.partition is not None or device.edge_partition != "random":
        return "trains on the batches of all ranks everywhere: leave --partition, --rel_part and --negatives out"
    divisor = described.halves[0] // (1 + described.doubled[0]) * ranks
    if model.hidden_dim % divisor:
        return f"needs a --hidden_dim that {divisor} divides"
    if config.store.flush in ("p2f", "sync"):
        return f"has nothing for flush threads to do: leave --flush {config.store.flush} out"
    return None


def joined_batch_size(config: TrainConfig) -> int:
    """Positives of a step of all ranks: as many whole chunks as they would have had apart."""
    return config.device.ranks * config.batch.positives


def shard_config(config: TrainConfig, rank: int = 0) -> TrainConfig:
    """The configuration of one shard: that of a process alone whose rows have the columns of this rank.

    --cache_ratio is the share of the table that fits in a device: of narrower rows, more.
    """
    ranks, store = config.device.ranks, config.store
    share = DEFAULT_CACHE_RATIO if store.cache_ratio == AUTO else store.cache_ratio
    return replace(
        config, model=replace(config.model, hidden_dim=config.model.hidden_dim // ranks),
        loss=replace(config.loss, regularization_coef=config.loss.regularization_coef / ranks),
        batch=replace(config.batch, batch_size=joined_batch_size(config)),
        store=replace(store, cache_ratio=min(1.0, share * ranks)),
        device=replace(config.device, gpu=(config.device.gpu_of(rank),), num_proc=1, parallel="rows"))


def uses_owner_transfer(config: TrainConfig, entities: int) -> bool:
    """Whether ranks carry the rows of so many entities over the bus for each other (store/rows/row_transfer.py).

    On many machines a bus moves a limited number of rows of a large table rather than of bytes. Of a small one it moves
    bytes, and rows that nobody hands on are faster (docs/gpus.md).
    """
    large = entities * row_bytes(config.model.dims.entity, config.model.row_dtype) > SMALL_TABLE
    return large and shard_config(config).uses_engine and own_gpus(config) and reach_each_other(config)


def own_gpus(config: TrainConfig) -> bool:
    """Whether each rank has a GPU for itself."""
    device = config.device
    return len({device.gpu_of(rank) for rank in range(device.ranks)}) == device.ranks


def reach_each_other(config: TrainConfig) -> bool:
    """Whether the GPUs reach each other's memory, and may."""
    device = config.device
    return device.peer != "off" and all(
        _native.reach_each_other(one, other) for one in device.gpu for other in device.gpu)


def shard_step(whole: StepConfig, ranks: int) -> StepConfig:
    """The step of one rank; whole: as the flags describe it."""
    loss = replace(whole.loss, regularization_coefficient=whole.loss.regularization_coefficient / ranks)
    return replace(whole, entity_dim=whole.entity_dim // ranks, relation_dim=whole.relation_dim // ranks, loss=loss)
