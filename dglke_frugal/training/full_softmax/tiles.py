"""How large the tiles of a step against all entities are. The order of its sums follows from that."""

from __future__ import annotations

HOST_TILE_FLOATS = 1 << 19  # of scores, which stay in a processor's cache
DEVICE_TILE_FLOATS = 1 << 23  # 32 MiB, which stay in that of an H100
LEAST_TILE, TILE_MULTIPLE = 512, 128  # entities


def tile_rows(batch: int, entities: int, scores: int) -> int:
    """Entities of a tile, of which `scores` floats are scores: tiles of one size, but for the last."""
    most = max(LEAST_TILE, scores // batch)
    each = -(-entities // -(-entities // most))
    return min(entities, -(-each // TILE_MULTIPLE) * TILE_MULTIPLE)
