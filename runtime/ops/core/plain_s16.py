"""What CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED share for int16 activations and int8 weights (16x8)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import requantize, weights
from twinfer.runtime.fixed_point import reduced_multiplier
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import unsupported
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.channels import known_bias, multipliers, mults_of, narrow_sums
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights

#: Least and greatest shift of sums of 64 bits, as TFLite signs them: positive is left.
SHIFTS = (-31, 7)


def call(kernel: str, node: Node, w: Array, shape: Mapping[str, Param], macs: int) -> Call:
    """The call of a 16x8 kernel. ``w``: int8 weights as it reads them. ``shape``: its params without the epilogue."""
    channels = node.output.shape[-1]
    narrow = narrow_sums(node)
    mult, shift = multipliers(node, channels)
    if not narrow:
        if shift.max(initial=-31) > SHIFTS[1]:
            raise unsupported(node, f"the scale of {node.output} is too small beside its inputs'; requantise the model")
        mult, shift = reduced_multiplier(mult), (15 - shift).astype(np.int8)
    if "mults" in shape:
        mults = mults_of(mult, shift)
        mult, shift, shape = mult[:mults], shift[:mults], {**shape, "mults": mults}
    ends = (constant.bias(known_bias(node, channels).astype(np.int64)), requantize(mult), requantize(shift))
    inputs = (node.input(0), weights(np.ascontiguousarray(w)), *ends)
    params = {**shape, "narrow": int(narrow), "limits": output_range(node)}
    return Call(kernel, params, inputs, (node.output,), macs=macs, weights=Weights(unit=int("mults" in shape)))
