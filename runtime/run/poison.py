"""Fills memory without a value with rubbish, before a run whose outputs are compared.

Without that, a skipped step would go unseen: the run before has left the right values in the arena.
"""

from __future__ import annotations

from collections.abc import Iterator

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.session import Session

#: Memory without a value is filled with these bytes in turn: no value of a tensor is equal to both.
POISONS = (0xA5, 0x5A)

#: Bytes of the one buffer for arena and state, [begin, end).
Span = tuple[int, int]


def span(plan: Plan, tensor: Tensor) -> Span:
    """Where a tensor lies."""
    at = plan.offsets[tensor]
    return at, at + tensor.nbytes


def perishable(plan: Plan) -> Iterator[Span]:
    """The spans of the buffer that hold no value between two runs, in rising order."""
    at = 0
    for begin, end in sorted(span(plan, tensor) for tensor in plan.lasting):
        if at < begin:
            yield at, begin
        at = max(at, end)
    if at < plan.memory_bytes:
        yield at, plan.memory_bytes


def poison(session: Session, value: int = POISONS[0]) -> None:
    """Fill what holds no value between two runs with bytes of ``value``. Inputs keep their values: they lie apart."""
    for begin, end in perishable(session.plan):
        session.memory[begin:end] = value
