"""Start values of the tables: numbers that depend on the seed, the row and the column alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Mapping, Union

from ... import _native
from ...models import find_model
from ...options import TrainConfig
from ...store.start_numbers import Normal, Uniform, Xavier

STREAMS = {"entity": 0, "relation": 1, "projection": 2}  # of random numbers
NORMAL_DEVIATION = 1e-3  # of Lacroix, Usunier and Obozinski's ComplEx-N3 (github.com/facebookresearch/kbc)


@dataclass(frozen=True)
class StartValues:
    """Of one table: numbers of a stream of the seed."""

    seed: int
    stream: int
    numbers: Union[Uniform, Normal]

    def fill(self, table: _native.HostTable, *columns, **owned) -> None:
        """Set all rows, and their states to 0. columns, owned: as for Uniform.fill."""
        self.numbers.fill(table, self.seed, self.stream, *columns, **owned)


def start_values(config: TrainConfig, rows: Mapping[str, int], seed: int) -> Dict[str, StartValues]:
    """Start values by table. rows: of each table.

    --init is about vectors that are added or multiplied: the phases of RotatE are always uniform over the
    circle, and TransR's projections as DGL-KE has them.
    """
    model, dims = config.model, config.model.dims
    own = find_model(model.model_name)
    bound = own.embedding_range(model.gamma, model.hidden_dim)
    found = {}
    for name, dim in (("entity", dims.entity), ("relation", dims.relation)):
        if own.phases and name == "relation":
            found[name] = Uniform(-bound, bound)
        elif model.init == "normal":
            found[name] = Normal(0.0, model.init_scale or NORMAL_DEVIATION)
        elif model.init == "xavier":
            found[name] = Xavier(model.init_scale or 1.0).of_table(rows[name], dim)
        else:
            scale = model.init_scale or bound
            found[name] = Uniform(-scale, scale)
    projection = own.projection_range()
    found["projection"] = Uniform(-projection, projection)
    return {name: StartValues(seed, STREAMS[name], numbers) for name, numbers in found.items()}
