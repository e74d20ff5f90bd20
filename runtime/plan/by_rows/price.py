"""What a plan by rows costs beyond one by layers, estimated before anything is built: enough to tell 2 % from 20 %.

The figures are rounded counts under QEMU on Cortex-M0, M4 and M55, over the models of the benches.
"""

from __future__ import annotations

from collections.abc import Sequence

from twinfer.runtime.plan.by_rows.ring_sizes import Kept, kept
from twinfer.runtime.plan.by_rows.schedule import Link
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.price import instructions
from twinfer.runtime.program import Chain, Layer
from twinfer.runtime.target import Target

#: What one more call of a kernel costs in a chain beside its set-up: who is next, where its rows lie, its params.
CALL = 150

#: What a pixel that is computed in vain takes of what any other does: its output is not scaled and stored. Kernels for
#: 32 registers go on pixel by pixel instead, and save nothing.
LOST, LOST_TILES = 0.8, 1.0

#: What it costs to move the rows of a ring that stay to its start, and each byte of them.
MOVE, MOVED = 30, 0.42


def rows_share(plan: Plan) -> float:
    """About how many more instructions the chains of a plan take than their layers one by one, as a share of all."""
    chains = [part for part in plan.program if isinstance(part, Chain)]
    extra = sum(more(chain.links, _kept(chain), plan.target) for chain in chains)
    return extra / max(instructions(plan.steps, plan.target), 1)


def _kept(chain: Chain) -> Kept:
    return kept(chain.links, [link.out for link in chain.links if link.out not in chain.rings], ())


def more(links: Sequence[Link], keeps: Kept, target: Target) -> float:
    """About how many more instructions links take in all calls of their kernels than each in one call."""
    rooms = ((keeps.rooms[link.out], link.row_bytes) for link in links if link.out in keeps.rooms)
    moved = sum(room.moves * (MOVE + MOVED * room.kept * nbytes) for room, nbytes in rooms)
    return moved + sum(_more(link, times, target) for link, times in zip(links, keeps.calls, strict=True))


def _more(link: Link, calls: int, target: Target) -> float:
    """What the calls themselves cost, and pixels that a kernel computes in vain."""
    extra = (calls - 1) * (CALL + link.rows.setup)
    if calls < 2 or not isinstance(link, Layer) or link.rows.pixels == 1:
        return extra
    pixels = link.band * link.out.shape[2]
    lost = LOST_TILES if target.has("tiles") else LOST
    return extra + lost * instructions([link.step], target) * (-pixels % link.rows.pixels) / pixels
