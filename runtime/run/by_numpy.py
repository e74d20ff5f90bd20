"""The interpreter's engine where the C kernels are not built: every operator by its ``reference``, in numpy.

Integers have the same bits; floats may be summed in another order. It is some hundred times slower.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

import numpy as np

from twinfer.runtime.errors import InvalidArgumentError, ToolWarning, UnsupportedOperatorError
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import COPY, Step, part_of
from twinfer.runtime.registry import operator
from twinfer.runtime.run import limits
from twinfer.runtime.run.buffers import aligned_bytes
from twinfer.runtime.run.session import Hook, Session

WHY = (
    "twinfer's C kernels are not built here: numpy computes in their place, with the same integers, much slower. "
    "A wheel has them, and pip install builds them where there is a C compiler"
)

_told: set[str] = set()


class NumpySession(Session):
    """Runs a plan layer by layer over the same arena.

    InvalidArgumentError for a plan by rows, UnsupportedOperatorError for operators that keep a state of their own
    (SVDF, LSTM, frames of a stream), which references do not carry on.
    """

    def __init__(self, plan: Plan, level: int | None = None, threads: int | None = None) -> None:
        limits.check_bytes(plan)
        if WHY not in _told:
            _told.add(WHY)
            warnings.warn(WHY, ToolWarning, stacklevel=2)
        if plan.chains or plan.options.guard:
            what = "guard" if plan.options.guard else "layers that run by rows"
            raise InvalidArgumentError(f"{plan.graph.name!r}: {what} needs twinfer's C kernels, which are not built")
        for step in (*plan.start, *plan.steps):
            if {*step.written} - {*step.node.outputs, step.scratch} and step.call.kernel != COPY:
                raise UnsupportedOperatorError(f"{step.node}: it keeps a state, for which C kernels must be built")
        self.plan, self.feed_rows = plan, None
        self.work = limits.LONG + 1  # samples are run one by one
        self._rounds = 0 if plan.straight else limits.limit("TWINFER_MAX_ROUNDS")
        self.memory = aligned_bytes(plan.buffer_bytes)
        self._inputs = {tensor: aligned_bytes(tensor.nbytes) for tensor in plan.arena_inputs}
        self._number = {step: i for i, step in enumerate(plan.steps)}
        self.reset_variables()

    def run(self) -> None:
        self.run_observed(None)

    def run_observed(self, on_call: Hook | None) -> None:
        self.load_inputs()
        for i in self.order(self.plan.program):
            self.run_step(i)
            if on_call is not None:
                on_call(i, self.plan.steps[i])

    def run_from(self, i: int) -> None:
        for k in range(i, len(self.plan.steps)):
            self.run_step(k)

    def load_inputs(self) -> None:
        for tensor, value in self._inputs.items():
            at = self.plan.offsets[tensor]
            self.memory[at : at + tensor.nbytes] = value

    def run_step(self, i: int) -> None:
        self._compute(self.plan.steps[i])

    def _compute(self, step: Step) -> None:
        if step.call.kernel == COPY:
            (source, *_), (to, *_) = step.call.inputs, step.call.written
            self._bytes(to)[...] = self._bytes(source)[: to.nbytes].copy()
            return
        inputs = [None if t is None else t.data if t.data is not None else self._in_arena(t) for t in step.node.inputs]
        with np.errstate(all="ignore"):
            outputs = operator(step.node).reference(step.node, inputs)
        for tensor, value in zip(step.node.outputs, outputs, strict=True):
            if tensor in self.plan.offsets:
                self._in_arena(tensor)[...] = value

    def _bytes(self, argument: Any) -> Array:
        """The bytes of an argument from its first on."""
        part = part_of(argument)
        if isinstance(part.value, Tensor):
            at = self.plan.offsets[part.value]
            return self.memory[at + part.offset : at + part.value.nbytes]
        return part.value.array.reshape(-1).view(np.uint8)[part.offset :]

    def _in_arena(self, tensor: Tensor) -> Array:
        at = self.plan.offsets[tensor]
        return self.memory[at : at + tensor.nbytes].view(tensor.dtype).reshape(tensor.shape)

    def profile(self, runs: int) -> list[int]:
        times = [[2**62] * len(self.plan.steps)]
        for _ in range(runs):
            times.append([0] * len(self.plan.steps))
            self.load_inputs()
            for i in self.order(self.plan.program):
                begun = perf_counter_ns()
                self.run_step(i)
                times[-1][i] += perf_counter_ns() - begun
        return [min(column) for column in zip(*times, strict=True)]

    def fill_run(self, slots: Any, given: Mapping[Tensor, Any]) -> object:
        raise RuntimeError("runs by numpy have no table of calls")

    def reset_variables(self) -> None:
        for tensor in self.plan.variables:
            at = self.plan.offsets[tensor]
            self.memory[at : at + tensor.nbytes] = self.plan.first_values[tensor]
        for step in self.plan.start:
            self._compute(step)
