"""What the variables of a plan hold before the first run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from twinfer.runtime.constant import Constant
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.program import COPY, Step


def first_value(tensor: Tensor) -> int:
    """The first value of every byte of a variable: zero; for int8 the zero point (TFLM: ResetVariableTensors)."""
    if tensor.type != "INT8" or tensor.quant is None or tensor.quant.per_channel:
        return 0
    if not -128 <= tensor.zero <= 127:
        raise ModelError(f"{tensor}: zero point {tensor.zero} is outside its type")
    return tensor.zero & 0xFF


def first_values(variables: Iterable[Tensor], start: Sequence[Step]) -> tuple[dict[Tensor, int], list[Step]]:
    """The value of all bytes of every variable, and the steps that must still run before the first run.

    A step that copies a constant of equal bytes to a variable is not needed: the bytes are its first value.
    """
    values = {tensor: first_value(tensor) for tensor in variables}
    kept: list[Step] = []
    for step in start:
        byte = _byte(step)
        if byte is None or any(tensor in other.touched for tensor in step.written for other in kept):
            kept.append(step)
        else:
            values.update((tensor, byte) for tensor in step.call.written)
    return values, kept


def _byte(step: Step) -> int | None:
    """The one byte that a step fills a variable with; None if it does anything else."""
    source = step.call.inputs[0] if step.call.kernel == COPY else None
    variable = all(tensor.variable for tensor in step.call.written)
    if not isinstance(source, Constant) or not variable:
        return None
    content = np.unique(np.frombuffer(source.array.tobytes(), np.uint8))
    return int(content[0]) if content.size == 1 else None
