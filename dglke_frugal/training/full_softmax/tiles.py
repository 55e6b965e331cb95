"""How large the tiles of a step against all entities are. The order of its sums follows from that."""

from __future__ import annotations

from typing import NamedTuple

HOST_TILE_FLOATS = 1 << 19  # which stay in a processor's cache
DEVICE_TILE_FLOATS = 1 << 23  # 32 MiB, which stay in that of an H100
LEAST_TILE, TILE_MULTIPLE = 512, 128  # rows


class TileRows(NamedTuple):
    """Rows of the table whose scores are held at a time, and those whose gradients are."""

    scores: int
    gradients: int


def tile_rows(batch: int, rows: int, dim: int, floats: int, copied: bool) -> TileRows:
    """Tiles of `floats` scores or gradients, of one size but for the last.

    Where the scores of all rows take at most half the memory of the table itself, and no tile of the table is copied,
    all are held, so that they need not be computed twice.
    """
    whole = 2 * batch <= dim and not copied
    scores = rows if whole else _even_tile(rows, floats // batch)
    return TileRows(scores, min(scores, _even_tile(rows, floats // dim)))


def _even_tile(rows: int, most: int) -> int:
    each = -(-rows // -(-rows // max(LEAST_TILE, most)))
    return min(rows, -(-each // TILE_MULTIPLE) * TILE_MULTIPLE)
