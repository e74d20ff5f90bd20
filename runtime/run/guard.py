"""Guard mode: a step that reads or writes memory which is not its own is caught and named.

The plan is spread out so that a gap lies before, between and behind all blocks. Before every step the gaps and all
memory that holds no value then are poisoned; after it, every byte that the step may not write must be as before. Each
step runs twice, over two poisons: outputs that differ were made from memory that holds nothing, or not made at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from twinfer.runtime.errors import GuardError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.op import Array
from twinfer.runtime.plan.planner import Plan, Step
from twinfer.runtime.run.poison import POISONS, Span, span
from twinfer.runtime.run.session import Hook, Session

#: Bytes of every gap; a multiple of any target's alignment.
GAP = 64


def written(plan: Plan, step: Step) -> list[tuple[str, Span]]:
    """The blocks that a step may write, outputs, what it decodes and its scratch, each with a name for messages."""
    blocks = [(str(tensor), span(plan, tensor)) for tensor in step.call.written if tensor in plan.offsets]
    return [*blocks, ("its scratch", (step.scratch, step.scratch + step.call.scratch))] if step.call.scratch else blocks


def positions(plan: Plan) -> list[int]:
    """The number of every step's node, in which ``plan.lives`` counts; nodes that do nothing have no step."""
    number = {node: i for i, node in enumerate(plan.graph.nodes)}
    return [number[step.node] for step in plan.steps]


def held(plan: Plan, position: int) -> list[Tensor]:
    """The tensors that hold a value when the node at ``position`` starts."""
    return [t for t, (first, last) in plan.lives.items() if first < position <= last]


def outside(spans: Iterable[Span], size: int) -> Array:
    """A mask of the ``size`` bytes of an arena: True where none of the spans lies."""
    mask = np.ones(size, bool)
    for begin, end in spans:
        mask[begin:end] = False
    return mask


def spread(plan: Plan) -> Plan:
    """The same plan over a larger arena, with ``GAP`` bytes before, between and behind the blocks.

    Blocks that begin together stay together: in-place outputs and reshaped tensors. GuardError if a step overwrites or
    reads what is not there at that time, for the gaps might hide it.
    """
    _check_lives(plan)
    starts = sorted({*plan.offsets.values(), *(step.scratch for step in plan.steps if step.call.scratch)})
    moved = {at: at + GAP * (i + 1) for i, at in enumerate(starts)}
    steps = tuple(replace(step, scratch=moved[step.scratch] if step.call.scratch else 0) for step in plan.steps)
    offsets = {tensor: moved[at] for tensor, at in plan.offsets.items()}
    arena_bytes = plan.arena_bytes + GAP * (len(starts) + 1)
    return replace(plan, steps=steps, offsets=offsets, arena_bytes=arena_bytes)


def _check_lives(plan: Plan) -> None:
    """Every value that a step reads must be there, and the step may overwrite none that is needed."""
    for i, (step, position) in enumerate(zip(plan.steps, positions(plan), strict=True)):
        alive = held(plan, position)
        for tensor in step.call.inputs:
            made = any(tensor is own for own in step.call.written)
            if isinstance(tensor, Tensor) and tensor in plan.offsets and tensor not in alive and not made:
                raise GuardError(f"{where(i, step)} reads {tensor}, which holds no value then")
        blocks = written(plan, step)
        for k, (name, block) in enumerate(blocks):
            over = [str(t) for t in alive if _meet(block, span(plan, t)) and not _may_take(plan, step, t, position)]
            over += [other for other, taken in blocks[:k] if _meet(block, taken)]
            if over:
                raise GuardError(f"{where(i, step)} writes {name} over {over[0]}, which is needed")


def _may_take(plan: Plan, step: Step, tensor: Tensor, position: int) -> bool:
    """Whether a step's output may lie on a tensor: its own variable, or an input that it may work on in place."""
    if any(tensor is out for out in step.call.written):
        return True
    inplace = any(tensor is step.call.inputs[i] for i in step.call.inplace) and plan.lives[tensor][1] == position
    return inplace and span(plan, tensor) == span(plan, step.call.outputs[0])


def _meet(a: Span, b: Span) -> bool:
    return max(a[0], b[0]) < min(a[1], b[1])


def where(i: int, step: Step) -> str:
    """Step ``i`` for messages."""
    return f"step {i} ({step.node}, {step.call.kernel})"


class Guard:
    """Runs a session whose plan was ``spread``, every step under watch; one step at a time, from Python, twice."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._positions = positions(session.plan)

    def run(self, on_call: Hook | None = None) -> None:
        """One inference. GuardError names the first step that touches what is not its own, and the bytes."""
        self._session.load_inputs()
        for i, step in enumerate(self._session.plan.steps):
            self._step(i, step)
            if on_call is not None:
                on_call(i, step)

    def _step(self, i: int, step: Step) -> None:
        """Over each poison from the same memory: what is written where, and whether the outputs are the same."""
        plan, arena, made = self._session.plan, self._session.arena, dict[Tensor, Array]()
        start = arena.copy()
        free = outside((span(plan, t) for t in held(plan, self._positions[i])), arena.size)
        foreign = outside((block for _, block in written(plan, step)), arena.size)
        for poison in POISONS:
            arena[:] = np.where(free, np.uint8(poison), start)
            before = arena.copy()
            self._session.run_step(i)
            changed = np.flatnonzero((arena != before) & foreign)
            if changed.size:
                raise GuardError(f"{where(i, step)} wrote {self._overrun(i, changed)}")
            for tensor in step.call.outputs:
                value = np.frombuffer(self._session.view(tensor).tobytes(), np.uint8)
                differ = np.flatnonzero(value != made.setdefault(tensor, value))
                if differ.size:
                    raise GuardError(
                        f"{where(i, step)}: {differ.size} bytes of {tensor}, the first at offset {differ[0]}, depend "
                        "on memory that holds no value: it reads outside its inputs, or leaves them unwritten"
                    )

    def _overrun(self, i: int, changed: Array) -> str:
        """How much was written and where, seen from the step's nearest block, and what was hit."""
        plan, first = self._session.plan, int(changed[0])
        blocks = written(plan, plan.steps[i])
        name, (begin, end) = min(blocks, key=lambda b: max(b[1][0] - first, first - b[1][1]))
        place = f"{first - end} bytes behind the end" if first >= end else f"{begin - first} bytes before the start"
        hit = [str(t) for t in held(plan, self._positions[i]) if span(plan, t)[0] <= first < span(plan, t)[1]]
        return (
            f"{changed.size} bytes outside its blocks, the first at arena offset {first}, {place} of {name} "
            f"[{begin}, {end}), into {hit[0] if hit else 'free memory'}"
        )
