"""Many runs of one engine: the inputs of several lie side by side, and where it can be all are one call into C."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinfer import kernels_c
from twinfer.kernels_c import ffi
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.program import COPY
from twinfer.runtime.run import isa, limits
from twinfer.runtime.run.buffers import aligned_bytes
from twinfer.runtime.run.session import Session

#: The most runs of one call, and the most bytes of their inputs and outputs together.
MOST_RUNS, MOST_BYTES = 256, 1 << 22

_ALIGN = 64


class Batch:
    """Up to ``size`` runs, one behind the other, of an engine whose runs are one call each and do not branch.

    The table of calls has each run once: its inputs come from its place in ``inputs``, then the model's own calls, then
    its outputs go to its place in ``outputs``. So Python is asked once for all, and others may run meanwhile.
    """

    def __init__(self, session: Session, size: int) -> None:
        plan = session.plan
        self.size, self._session = size, session
        self._inputs = {tensor: _Rows(tensor, size) for tensor in plan.arena_inputs}
        self._outputs = [_Rows(tensor, size) for tensor in plan.graph.outputs]
        self._each = session.run_calls + len(self._outputs)
        self._calls = ffi.new("tw_call[]", size * self._each)
        self._keep: list[object] = []
        for k in range(size):
            slots = self._calls + k * self._each
            given = {tensor: rows.address(k) for tensor, rows in self._inputs.items()}
            self._keep.append(session.fill_run(slots, given))
            for i, rows in enumerate(self._outputs):
                self._copy(slots[session.run_calls + i], session.address(rows.tensor), rows, k)

    def _copy(self, slot: object, source: object, rows: _Rows, k: int) -> None:
        params = kernels_c.new_params(COPY, {"size": rows.tensor.nbytes})
        ends = ffi.new("void *[]", [source]), ffi.new("void *[]", [rows.address(k)])
        self._keep += [params, *ends]
        slot.fn, slot.params, slot.out = kernels_c.kernel(COPY, isa.level()), params, ends[1]  # type: ignore[attr-defined]
        setattr(slot, "in", ffi.cast("const void *const *", ends[0]))

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, [runs, *shape] each and valid until the next call, of inputs of that kind."""
        count = len(inputs[0]) if inputs else 1
        for rows, value in zip(self._inputs.values(), inputs, strict=True):
            rows.values(count)[...] = value.reshape(count, rows.tensor.size)
        self._session.run_table(self._calls, count * self._each)
        return [rows.values(count).reshape(count, *rows.tensor.shape) for rows in self._outputs]


class _Rows:
    """Room for the values of a tensor in several runs, each aligned."""

    def __init__(self, tensor: Tensor, size: int) -> None:
        self.tensor, self._stride = tensor, -(-max(1, tensor.nbytes) // _ALIGN) * _ALIGN
        self._memory = aligned_bytes(size * self._stride).reshape(size, self._stride)
        self._start = ffi.cast("char *", ffi.from_buffer(self._memory.data))

    def address(self, k: int) -> object:
        return self._start + k * self._stride

    def values(self, count: int) -> Array:
        """The values of the first runs, [runs, elements]."""
        return self._memory[:count, : self.tensor.nbytes].view(self.tensor.dtype)


class Runner:
    """An engine that takes the inputs of any number of runs: by ``Batch`` where that can be, else one by one.

    ``state`` are values for the engine's variables, which every run begins with.
    """

    def __init__(self, session: Session, runs: int, state: Sequence[Array] | None) -> None:
        plan = session.plan
        self.session, self._state = session, state
        self.inputs = [tensor for tensor in plan.graph.inputs if tensor.data is None]
        ends = {*plan.graph.inputs, *plan.graph.outputs}
        placed = all(tensor in plan.offsets for tensor in plan.graph.outputs) and not {*plan.graph.inputs}.intersection(
            plan.graph.outputs
        )
        plain = plan.straight and not plan.variables and placed and not plan.options.guard
        nbytes = sum(tensor.nbytes for tensor in ends if tensor.data is None)
        self.size = 1
        if plain and session.work <= limits.LONG:
            self.size = max(1, min(runs, MOST_RUNS, limits.LONG // max(1, session.work), MOST_BYTES // max(1, nbytes)))
        self._batch = Batch(session, self.size) if self.size > 1 else None

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs of at most ``size`` runs, [runs, *shape] each and valid until the next call."""
        if self._batch is not None:
            return self._batch.run(inputs)
        session = self.session
        if self._state is not None:
            for tensor, value in zip(session.plan.variables, self._state, strict=True):
                session.view(tensor)[...] = value
        for tensor, value in zip(self.inputs, inputs, strict=True):
            session.view(tensor)[...] = value[0]
        if session.plan.options.guard:
            from twinfer.runtime.run.guard import Guard

            Guard(session).run()
        else:
            session.run()
        return [np.asarray(session.view(tensor))[None] for tensor in session.plan.graph.outputs]
