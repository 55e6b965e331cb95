"""Products of a batch's queries with a tile of the entity table on tensor cores, of factors in 16 bits, summed in
float32.

fp16 has TF32's 11 digits at twice its rate, and each factor is multiplied by a power of two that brings it into fp16's
range (csrc/full_softmax/rounding.h). The slopes of scores are e^(score - log_sum) less what the softmax should be, so
at most 1 in size; what a query's loss is multiplied by goes with the query instead.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch

from ... import _native
from ...models.device.products import set_matmul
from ...store.device.device import Device
from .table_update import TableShape, TableUpdate
from .tile_products import padded
from .tiles import DEVICE_TILE_FLOATS, whole_words

LARGE_SHARED_MEMORY = 160 << 10  # bytes, as data centers' GPUs have them
SLOPE_FACTOR = 2.0**15


class Launch(NamedTuple):
    """How update_by_product is launched: rows and columns of a program's tile, queries at a time, warps, and stages of
    its copies."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


UPDATES = Launch(128, 64, 64, 4, 4)  # the fastest of twenty tried on H200, 14,541 and 123,182 rows of 2000 numbers


def multiplies_half_precision() -> bool:
    """Whether this PyTorch sums products of 16-bit factors in a float32 result; from 2.8 on."""
    return "dtype" in torch.ops.aten.mm.overloads()


def stages_on(device: Device, wanted: int) -> int:
    """Stages of copies of a kernel whose tiles take some 100 kB with those wanted: fewer where a multiprocessor of the
    device has less to share. No result depends on it."""
    properties = torch.cuda.get_device_properties(device.torch_device)
    return wanted if getattr(properties, "shared_memory_per_block_optin", 0) >= LARGE_SHARED_MEMORY else 2


class RoundedMatrix:
    """Numbers of 16 bits in place of a float32 matrix.

    Attributes:
        values: (rows, columns), zero where the matrix has nothing.
        power, inverse: (1,) by what the matrix's numbers were multiplied, and 1 over it.
        scaling: (3,) both, and the largest magnitude.
    """

    def __init__(self, device: Device, rows: int, columns: int):
        """Of so many rows at most; a multiple of 8 columns."""
        self._device = device
        self._all = device.zeros(rows, columns // 2).view(torch.float16)
        self.scaling = device.zeros(3)
        self.values, self.power, self.inverse = self._all, self.scaling[:1], self.scaling[1:2]

    def round(self, matrix: torch.Tensor, rows: int) -> None:
        """Take the numbers of a matrix (n, dim), whose rows begin at multiples of 16 bytes; `values` get `rows`
        rows."""
        self.values = self._all[:rows]
        self.scaling[2:].zero_()
        _native.round_matrix(matrix, self.values, self.scaling, self._device.stream)


class RoundedProducts:
    """See HostProducts, whose attributes and methods it has."""

    tile_floats, held_floats = DEVICE_TILE_FLOATS, 0
    updates_rows = True

    def __init__(self, device: Device, matmul: str, shape: TableShape, tile: int):
        """matmul: tf32. tile: the rows of a tile, at most."""
        set_matmul(matmul)  # for torch's own products
        self._device, self._dim, columns = device, shape.dim, padded(shape.dim)
        self._query, self._weighted = (RoundedMatrix(device, shape.queries, columns) for _ in range(2))
        self._tile = RoundedMatrix(device, whole_words(tile), columns)
        self._of_weighted = device.zeros(shape.queries, columns)[:, : shape.dim]
        self.score_unit, self.gradient_unit = device.zeros(1), device.zeros(1)

    def ask(self, query):
        """See HostProducts."""
        self._query.round(query, len(query))

    def weigh(self, query, scale):
        """See HostProducts."""
        self._scale = scale
        torch.mul(query, scale[:, None], out=self._of_weighted)
        self._weighted.round(self._of_weighted, len(query))
        torch.mul(self._weighted.inverse, 1 / SLOPE_FACTOR, out=self.gradient_unit)

    def set_tile(self, tile):
        """See HostProducts."""
        self._tile.round(tile, whole_words(len(tile)))

    def scores(self, out):
        """See HostProducts. Writes whole words of columns, for which the rows of `out` have room."""
        torch.mul(self._query.inverse, self._tile.inverse, out=self.score_unit)
        _multiply(self._query.values[:, : self._dim], self._tile.values[:, : self._dim].t(), _in_words(out, 1))

    def slopes(self, scores, first, bound, targets, log_sum):
        """See HostProducts. In 16 bits, without the factors of queries; zero up to whole words of columns."""
        _native.softmax_slopes(scores, first, bound, targets, log_sum, None, self._device.stream, self.score_unit,
                               "fp16", SLOPE_FACTOR)
        return scores.view(torch.float16)[:, : scores.shape[1]]

    def add_to_query(self, slopes, out):
        """See HostProducts."""
        product = _multiply(_in_words(slopes, 1), self._tile.values[:, : self._dim])
        out.addcmul_(product, self._scale[:, None] * self._tile.inverse, value=1 / SLOPE_FACTOR)

    def update_rows(self, slopes: torch.Tensor, table: torch.Tensor, first: int, update: TableUpdate) -> None:
        """The tile's rows, first .. first + n of the table, by Adagrad, from slopes^T query; see updates_at_once."""
        from triton.tools.tensor_descriptor import TensorDescriptor  # only here: without a GPU there is no Triton

        from .adagrad_kernels import update_by_product

        weighted, rows, launch, (_, rate, epsilon, _) = self._weighted.values, slopes.shape[1], UPDATES, update.rule
        programs = -(-rows // launch.rows) * -(-self._dim // launch.columns)
        pieces = [TensorDescriptor.from_tensor(matrix, [launch.depth, across])
                  for matrix, across in ((_in_words(slopes, 1), launch.rows), (weighted, launch.columns))]
        update_by_product[(programs,)](
            *pieces, self.gradient_unit, table, update.slots, update.aside, rate, epsilon, first, rows,
            QUERIES=len(slopes), STRIDE=table.stride(0), DIM=self._dim, ROWS=launch.rows, COLUMNS=launch.columns,
            DEPTH=launch.depth, STAGES=stages_on(self._device, launch.stages), num_warps=launch.warps)

    def of_rows(self, slopes, rows, out):
        """See HostProducts; to be multiplied by `gradient_unit`. Writes whole words of rows, which there is room
        for."""
        _multiply(_in_words(slopes, 1).t(), self._weighted.values[:, : self._dim], _in_words(out, 0))


def _in_words(matrix: torch.Tensor, axis: int) -> torch.Tensor:
    """The matrix with what lies behind it, up to whole words of columns (axis 1) or rows (0)."""
    shape = [whole_words(size) if at == axis else size for at, size in enumerate(matrix.shape)]
    return matrix.as_strided(shape, matrix.stride())


def _multiply(a: torch.Tensor, b: torch.Tensor, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """a b in float32, of factors in 16 bits."""
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32, out=out)
    return torch.mm(a.float(), b.float(), out=out)  # exact products, as tensor cores have them
