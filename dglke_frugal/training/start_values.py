"""Start values of the tables: numbers that depend on the seed, the row and the column alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, Mapping

from .. import _native
from ..config import TrainConfig
from ..models import RowDims, find_model

STREAMS = {"entity": 0, "relation": 1, "projection": 2}  # of random numbers
NORMAL_DEVIATION = 1e-3  # of Lacroix, Usunier and Obozinski's ComplEx-N3 (github.com/facebookresearch/kbc)


@dataclass(frozen=True)
class StartValues:
    """Of one table: uniform in [-scale, scale), or normal with mean 0 and deviation `scale`."""

    seed: int
    stream: int
    scale: float
    normal: bool = False

    def fill(self, table: _native.HostTable, *columns, **owned) -> None:
        """Set all rows, and their states to 0. columns: (whole_dim, ranges), of a table that has some columns of the
        rows; owned: owners and worker, of one that has some of the rows (HostTable.init_uniform)."""
        if self.normal:
            table.init_normal(self.scale, self.seed, self.stream, *columns, **owned)
        else:
            table.init_uniform(-self.scale, self.scale, self.seed, self.stream, *columns, **owned)


def table_dims(config: TrainConfig) -> RowDims:
    """Floats of a row of each table."""
    model = config.model
    return find_model(model.model_name).dims(model.hidden_dim, model.double_ent, model.double_rel)


def start_values(config: TrainConfig, rows: Mapping[str, int], seed: int) -> Dict[str, StartValues]:
    """Start values by table. rows: of each table.

    What --init says is of vectors that are added or multiplied: the phases of RotatE are always uniform over the
    circle, and TransR's projections as DGL-KE has them.
    """
    model, dims = config.model, table_dims(config)
    own = find_model(model.model_name)
    bound = own.embedding_range(model.gamma, model.hidden_dim)
    found = {}
    for name, dim in (("entity", dims.entity), ("relation", dims.relation)):
        if own.phases and name == "relation":
            found[name] = bound, False
        elif model.init == "normal":
            found[name] = model.init_scale or NORMAL_DEVIATION, True
        elif model.init == "xavier":  # Glorot and Bengio (2010), of the table as a (rows, dim) matrix, as torch.nn.init
            found[name] = (model.init_scale or 1.0) * math.sqrt(6 / (rows[name] + dim)), False
        else:
            found[name] = model.init_scale or bound, False
    found["projection"] = own.projection_range(), False
    return {name: StartValues(seed, STREAMS[name], *values) for name, values in found.items()}
