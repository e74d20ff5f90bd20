"""A plan made ready to run through cffi: the arena, the C structs of every call, and the loop over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twinfer import kernels_c
from twinfer.kernels_c import ffi, lib
from twinfer.runtime.graph import Tensor
from twinfer.runtime.op import Array
from twinfer.runtime.plan import Plan, Step

#: Called around every step of an observed run: ``hook(position, step)``.
Hook = Callable[[int, Step], None]

_ALIGN = 64


def aligned_bytes(size: int) -> Array:
    """Zeroed uint8 array of ``size`` bytes whose address is a multiple of 64."""
    raw = np.zeros(size + _ALIGN, np.uint8)
    start = -raw.ctypes.data % _ALIGN
    return raw[start : start + size]


def aligned_copy(array: Array) -> Array:
    """The array itself if it is contiguous and its address is a multiple of 16, else a copy that is."""
    if array.flags.c_contiguous and array.ctypes.data % 16 == 0:
        return array
    copy = aligned_bytes(array.nbytes)
    copy[:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    return copy


def initial_value(tensor: Tensor) -> int:
    """What every element of a variable starts as: zero; for int8 the zero point (TFLM: ResetVariableTensors)."""
    return tensor.zero if tensor.type == "INT8" and tensor.quant is not None and not tensor.quant.per_channel else 0


class Engine:
    """An arena for a plan and one ``tw_call`` a step, which a subclass fills in: what the two ways of running share."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.arena = aligned_bytes(plan.arena_bytes)
        self._base = ffi.cast("char *", ffi.from_buffer(self.arena))
        self._calls = ffi.new("tw_call[]", max(1, len(plan.steps)))
        self._pointers = [ffi.addressof(self._calls, i) for i in range(len(plan.steps))]
        self.reset_variables()

    def view(self, tensor: Tensor) -> Array:
        """The tensor's memory in the arena (a constant: its value) as an array of its dtype and shape."""
        if tensor.data is not None:
            return tensor.data
        at = self.plan.offsets[tensor]
        return self.arena[at : at + tensor.nbytes].view(tensor.dtype).reshape(tensor.shape)

    def run(self) -> None:
        """All steps in one C call."""
        lib.tw_run(self._calls, len(self._pointers))

    def run_observed(self, on_call: Hook | None) -> None:
        """Step by step from Python; ``on_call`` is called after every step, when its outputs can be looked at."""
        run = lib.tw_run
        if on_call is None:
            for pointer in self._pointers:
                run(pointer, 1)
            return
        for i, (pointer, step) in enumerate(zip(self._pointers, self.plan.steps, strict=True)):
            run(pointer, 1)
            on_call(i, step)

    def reset_variables(self) -> None:
        """Variables to their initial value."""
        for tensor in self.plan.variables:
            self.view(tensor)[...] = initial_value(tensor)


class Session(Engine):
    """The interpreter's engine: the shared instance of every kernel, with params read at run time.

    ``level`` chooses the instruction-set level of the kernels (an index of ``kernels_c.LEVELS``; None: the best).
    """

    def __init__(self, plan: Plan, level: int | None = None) -> None:
        super().__init__(plan)
        self._keep: list[Any] = []
        self._level = kernels_c.level() if level is None else level
        self._constants: dict[int, Any] = {}
        for i, step in enumerate(plan.steps):
            self._fill(self._calls[i], step)

    def _fill(self, call: Any, step: Step) -> None:
        params = ffi.new(f"{step.call.kernel}_params *", dict(step.call.params))
        inputs = ffi.new("void *[]", [self._pointer(arg) for arg in step.call.inputs])
        outputs = ffi.new("void *[]", [self._pointer(arg) for arg in step.call.outputs])
        self._keep += [params, inputs, outputs]
        call.fn = kernels_c.kernel(step.call.kernel, self._level)
        call.params, call.out = params, outputs
        call.__setattr__("in", ffi.cast("const void *const *", inputs))
        call.scratch = self._base + step.scratch

    def _pointer(self, arg: Tensor | Array | None) -> Any:
        if isinstance(arg, Tensor):
            if arg.data is None:
                return self._base + self.plan.offsets[arg]
            arg = arg.data
        if arg is None:
            return ffi.NULL
        if id(arg) not in self._constants:
            array = aligned_copy(arg)
            self._keep += [arg, array]
            self._constants[id(arg)] = ffi.cast("void *", ffi.from_buffer(array)) if array.size else self._base
        return self._constants[id(arg)]
