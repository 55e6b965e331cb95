"""How large the tiles of a step against all entities are. The order of its sums follows from that."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

HOST_TILE_FLOATS = 1 << 19  # of scores, which stay in a processor's cache
HOST_HELD_FLOATS = 1 << 27  # 512 MiB of scores, which are held rather than computed twice
HOST_GRADIENT_FLOATS = 1 << 20
DEVICE_TILE_FLOATS = 1 << 23  # 32 MiB, which stay in that of an H100
LEAST_TILE, TILE_MULTIPLE = 512, 128  # rows
ROUNDED_MATMUL = "tf32"  # the --matmul for which factors of products are rounded to fp16 on a GPU
WORD = 8  # numbers of 16 bits, which kernels read and write at a time


def has_triton() -> bool:
    """Whether there is a compiler for the kernels that are Triton's, which PyTorch for CUDA brings; from 3.4 on."""
    try:
        return find_spec("triton.tools.tensor_descriptor") is not None
    except ModuleNotFoundError:
        return False


def updates_at_once(matmul: str, optimizer: str, dropout: float) -> bool:
    """Whether gradients of rows on a GPU update them without being held. dropout: of the table's rows."""
    return matmul == ROUNDED_MATMUL and optimizer == "adagrad" and not dropout and has_triton()


def whole_words(count: int) -> int:
    """So many numbers, up to a multiple of a word's."""
    return -(-count // WORD) * WORD


class TileRows(NamedTuple):
    """Rows of the table whose scores are kept at a time, rows whose gradients are, and rows by which a softmax is
    summed up, on which alone bits depend."""

    scores: int
    gradients: int
    sums: int


def tile_rows(batch: int, rows: int, dim: int, floats: int, copied: bool, held: int = 0) -> TileRows:
    """Tiles of one size, but for the last, whose scores are `floats`. copied: whether tiles of the table are.

    Scores of all rows are kept, so that they need not be computed twice, where they are at most `held`, or take at most
    half the memory of the table itself, of which then nothing is copied.
    """
    most = max(LEAST_TILE, floats // batch)
    each = -(-rows // -(-rows // most))
    tile = min(rows, -(-each // TILE_MULTIPLE) * TILE_MULTIPLE)
    if 2 * batch <= dim and not copied:
        return TileRows(rows, tile, rows)
    if batch * rows <= held:
        whole_tiles = HOST_GRADIENT_FLOATS // dim // TILE_MULTIPLE * TILE_MULTIPLE
        return TileRows(rows, min(rows, max(tile, whole_tiles)), tile)
    return TileRows(tile, tile, tile)
