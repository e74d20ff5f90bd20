"""What a plan costs on a microcontroller, estimated before anything is built: enough to tell 2 % from 20 %.

The figures are rounded counts under QEMU of kernels on Cortex-M0, M4 and M55, over the models of the benches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.by_rows.rows import ChainRun, Link
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Chain, Layer, Step
from twinfer.runtime.target import Target

#: What one more call of a kernel costs in a chain beside its set-up: who is next, where its rows lie, its params.
CALL = 150

#: What it costs to move a byte of a ring, so that there is room behind the rows that are still needed.
MOVED = 0.42

#: Feature -> instructions for a multiply-accumulate of integers, and for an element of an output. A target has the
#: figures of its first feature here, else those of plain C.
INTEGERS = {"mve": (0.17, 6.0), "dsp": (1.0, 12.0)}
PLAIN = (4.0, 25.0)

#: The same for floats.
FLOATS = (2.2, 12.0)


def instructions(steps: Iterable[Step], target: Target) -> float:
    """About how many instructions the steps take, each computed as a whole."""
    return sum(_of_step(step, target) for step in steps)


def _of_step(step: Step, target: Target) -> float:
    out = next(step.call.written, None)
    if out is None:
        return 0.0
    integers = next((figures for feature, figures in INTEGERS.items() if target.has(feature)), PLAIN)
    multiply, element = FLOATS if out.type == "FLOAT32" else integers
    return step.call.macs * multiply + out.size * element


def rows_share(plan: Plan) -> float:
    """About how many more instructions the chains of a plan take than their layers one by one, as a share of all."""
    chains = [part for part in plan.program if isinstance(part, Chain)]
    extra = sum(more(chain.links, _calls(chain), _capacity(chain), plan.target) for chain in chains)
    return extra / max(instructions(plan.steps, plan.target), 1)


def _calls(chain: Chain) -> list[int]:
    """Of every link, how many parts are computed."""
    whole = [link.out for link in chain.links if link.out not in chain.rings]
    calls = Counter(part.link for part in ChainRun(chain.links, whole).parts())
    return [calls[i] for i in range(len(chain.links))]


def _capacity(chain: Chain) -> dict[Tensor, int]:
    return {tensor: ring.capacity for tensor, ring in chain.rings.items()}


def more(links: Sequence[Link], calls: Sequence[int], capacity: Mapping[Tensor, int], target: Target) -> float:
    """About how many more instructions links take in so many calls of their kernels than each in one call.

    ``capacity`` are the rows for which rings have room.
    """
    moved = sum(
        MOVED * times * max(0, capacity[link.out] - link.band) * (link.out.nbytes // link.height)
        for link, times in zip(links, calls, strict=True)
        if link.out in capacity
    )
    return moved + sum(_more(link, times, target) for link, times in zip(links, calls, strict=True))


def _more(link: Link, calls: int, target: Target) -> float:
    """What the calls themselves cost, and pixels that a kernel computes in vain."""
    extra = (calls - 1) * (CALL + link.rows.setup)
    if calls < 2 or not isinstance(link, Layer) or link.rows.pixels == 1:
        return extra
    pixels = link.band * link.out.shape[2]
    return extra + _of_step(link.step, target) * (-pixels % link.rows.pixels) / pixels
