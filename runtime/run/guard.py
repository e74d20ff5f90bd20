"""Guard mode catches and names a step that reads or writes memory that is not its own.

The plan is spread out so that a gap lies before, between and behind all blocks. Before every step the gaps and all
memory without a value are poisoned; after it, every byte that the step may not write must be as before. Poison differs
from place to place, so that a copy of one element too many, poison over poison, is seen. Each step runs twice, over two
poisons: if the outputs differ, they depend on memory without a value, or were not written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from twinfer.runtime.errors import GuardError
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.plan import replay
from twinfer.runtime.plan.plan import Extent, Plan, Region
from twinfer.runtime.program import Step
from twinfer.runtime.run.poison import POISONS, Span, span
from twinfer.runtime.run.session import Hook, Session

#: Bytes of every gap; a multiple of any target's alignment.
GAP = 64


def written(plan: Plan, step: Step) -> list[tuple[str, Span]]:
    """The blocks that a step may write (outputs, decoded weights, scratch), each with a name for messages."""
    names = ((tensor, "its scratch" if tensor is step.scratch else str(tensor)) for tensor in step.written)
    return [(name, span(plan, tensor)) for tensor, name in names if tensor in plan.offsets]


def held(plan: Plan, position: int) -> list[Tensor]:
    """The tensors that hold a value when the operator at ``position`` starts."""
    return [t for t, (first, last) in plan.lives.items() if first < position <= last]


def outside(spans: Iterable[Span], size: int) -> Array:
    """A mask of the ``size`` bytes of an arena: True where none of the spans lies."""
    mask = np.ones(size, bool)
    for begin, end in spans:
        mask[begin:end] = False
    return mask


def scattered(size: int) -> Array:
    """A byte for each place: what is copied to another one is seen there."""
    place = np.arange(size, dtype=np.uint32)
    return (place * place * np.uint32(2654435761) >> 24).astype(np.uint8)


def spread(plan: Plan) -> Plan:
    """The same plan over larger regions, with ``GAP`` bytes before, between and behind the blocks.

    Blocks that begin together stay together: in-place outputs and reshaped tensors. GuardError if a step reads a value
    that is not there at that time or overwrites one that is needed: the gaps might hide that.
    """
    if fault := replay.fault(plan):
        raise GuardError(fault)
    starts = {region: _starts(plan, region) for region in plan.regions if region != Region.INPUT}
    places = {
        tensor: place._replace(offset=place.offset + GAP * (1 + starts[place.region].index(place.offset)))
        if place.region in starts
        else place
        for tensor, place in plan.places.items()
    }
    regions, begin = dict[Region, Extent](), 0
    for region, extent in plan.regions.items():
        gaps = GAP * (1 + len(starts[region])) if starts.get(region) else 0
        regions[region] = Extent(begin, extent.nbytes + gaps)
        begin = -(-regions[region].end // GAP) * GAP
    return replace(plan, places=places, regions=regions, proven=False)


def _starts(plan: Plan, region: Region) -> list[int]:
    """Where blocks begin in a region, in rising order."""
    return sorted({place.offset for place in plan.places.values() if place.region is region})


def where(i: int, step: Step) -> str:
    """Step ``i`` for messages."""
    return f"step {i} ({step.node}, {step.call.kernel})"


class Guard:
    """Runs a session whose plan was ``spread``, every step under watch; one step at a time, from Python, twice."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._scattered = scattered(session.memory.size)

    def run(self, on_call: Hook | None = None) -> None:
        """One inference. GuardError names the first step that touches what is not its own, and the bytes."""
        self._session.load_inputs()
        plan = self._session.plan
        for i in self._session.order(plan.program):
            step = plan.steps[i]
            self._step(i, step)
            if on_call is not None:
                on_call(i, step)

    def _step(self, i: int, step: Step) -> None:
        """Run the step over each poison from the same memory; check what it writes, and that outputs agree."""
        plan, memory, results = self._session.plan, self._session.memory, dict[Tensor, Array]()
        start = memory.copy()
        free = outside((span(plan, t) for t in held(plan, step.position)), memory.size)
        foreign = outside((block for _, block in written(plan, step)), memory.size)
        for poison in POISONS:
            memory[:] = np.where(free, self._scattered ^ np.uint8(poison), start)
            before = memory.copy()
            self._session.run_step(i)
            changed = np.flatnonzero((memory != before) & foreign)
            if changed.size:
                raise GuardError(f"{where(i, step)} wrote {self._overrun(i, changed)}")
            for tensor in step.call.written:
                value = np.frombuffer(self._session.view(tensor).tobytes(), np.uint8)
                differ = np.flatnonzero(value != results.setdefault(tensor, value))
                if differ.size:
                    raise GuardError(
                        f"{where(i, step)}: {differ.size} bytes of {tensor}, the first at offset {differ[0]}, depend "
                        "on memory that holds no value: it reads outside its inputs, or leaves them unwritten"
                    )

    def _overrun(self, i: int, changed: Array) -> str:
        """How much was written, where from the step's nearest block, and what was hit."""
        plan, first = self._session.plan, int(changed[0])
        blocks = written(plan, plan.steps[i])
        name, (begin, end) = min(blocks, key=lambda b: max(b[1][0] - first, first - b[1][1]))
        place = f"{first - end} bytes behind the end" if first >= end else f"{begin - first} bytes before the start"
        hit = [str(t) for t in held(plan, plan.steps[i].position) if span(plan, t)[0] <= first < span(plan, t)[1]]
        return (
            f"{changed.size} bytes outside its blocks, the first at arena offset {first}, {place} of {name} "
            f"[{begin}, {end}), into {hit[0] if hit else 'free memory'}"
        )
