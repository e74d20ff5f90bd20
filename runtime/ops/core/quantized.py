"""What quantised operators check alike: per-tensor quantisation."""

from __future__ import annotations

import math

from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import unsupported


def need_quant(node: Node, *tensors: Tensor) -> None:
    """ModelError unless every tensor has one usable scale and a zero point within its type."""
    for tensor in tensors:
        scale, zero = tensor.scale, tensor.zero
        low, high = tensor.limits
        if not 0 < scale < math.inf:
            raise ModelError(f"{node}: {tensor}: scale {scale} is not positive")
        if not low <= zero <= high:
            raise ModelError(f"{node}: {tensor}: zero point {zero} is outside its type")


def need_fixed_quant(node: Node, tensor: Tensor, steps: int, zero: int) -> None:
    """UnsupportedOperatorError unless the tensor has the only quantisation that TFLite defines: ``steps`` per 1."""
    if (tensor.scale, tensor.zero) != (1 / steps, zero):
        wanted = f"scale 1/{steps} and zero point {zero}, as TFLite defines it: requantise it"
        raise unsupported(node, f"{tensor} must have {wanted}")


def unscaled(node: Node) -> bool:
    """Whether an int16 node is over plain integers: none of its tensors has a scale."""
    tensors = (*node.inputs, *node.outputs)
    return all(tensor is not None and tensor.type == "INT16" and tensor.quant is None for tensor in tensors)


def need_symmetric(node: Node, *tensors: Tensor) -> None:
    """``need_quant``, and int16 tensors have zero points of 0, as their kernels assume."""
    need_quant(node, *tensors)
    for tensor in tensors:
        if tensor.type == "INT16" and tensor.zero:
            raise unsupported(node, f"{tensor} has a zero point of {tensor.zero}; int16 is quantised symmetrically")
