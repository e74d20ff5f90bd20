"""Pooling."""

from __future__ import annotations

from twinfer.converter.facts import INT8_AND_INT16, Moves, Row, Scales
from twinfer.converter.operators._versions import INT8_2_INT16_3

_SAME = Scales(same=True, imported=True)

ROWS = {
    "AVERAGE_POOL_2D": Row(types=INT8_AND_INT16, scales=_SAME, image=True, fuses=True, versions=INT8_2_INT16_3),
    "MAX_POOL_2D": Row(
        types=INT8_AND_INT16,
        scales=_SAME,
        moves=Moves.REORDERS,
        image=True,
        fuses=True,
        padding="least",
        versions=INT8_2_INT16_3,
    ),
    "L2_POOL_2D": Row(image=True),
}
