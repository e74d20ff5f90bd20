"""Helpers of ``<name>.h``: inline functions per input and output that quantise real values, and dequantise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinfer.aot.print.literals import c_type
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan

_SATURATE = """/* scaled + zero, rounded half away from zero and saturated to [low, high]; NaN gives low. */
static inline int32_t NAME_saturate(float scaled, int32_t zero, int32_t low, int32_t high) {
    int32_t whole;
    float rest;
    if (!(scaled > (float)(low - zero))) return low;
    if (scaled >= (float)(high - zero)) return high;
    whole = (int32_t)scaled;
    rest = scaled - (float)whole; /* exact, unlike scaled + 0.5 */
    return zero + whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}
"""


def helpers(plan: Plan, name: str) -> Iterator[str]:
    """The functions; none for a model without quantised inputs and outputs."""
    pairs = list(_pairs(plan, name))
    if pairs:
        yield _SATURATE.replace("NAME", name)
        yield "/* One value, by its tensor's scale and zero point; what dequantize gives is quantized to the same. */"
        yield from pairs


def _pairs(plan: Plan, name: str) -> Iterator[str]:
    for kind, tensors in (("input", plan.graph.inputs), ("output", plan.graph.outputs)):
        for i, tensor in enumerate(tensors):
            if quantized(tensor):
                yield _pair(name, f"{kind}_{i}", c_type(tensor.dtype))


def _pair(name: str, place: str, type: str) -> str:
    up, limit = f"{name}_{place}".upper(), type.removesuffix("_t").upper()
    low = "0" if type.startswith("u") else f"{limit}_MIN"
    return f"""static inline {type} {name}_quantize_{place}(float real) {{
    return ({type}){name}_saturate(real / {up}_SCALE, {up}_ZERO_POINT, {low}, {limit}_MAX);
}}
static inline float {name}_dequantize_{place}({type} value) {{
    return (float)(value - ({up}_ZERO_POINT)) * {up}_SCALE;
}}
"""


def quantized(tensor: Tensor) -> bool:
    """Whether the tensor holds integers of at most 16 bits with one usable scale and zero point."""
    quant = tensor.quant
    if quant is None or quant.per_channel or quant.scale.size != 1 or tensor.dtype.kind not in "iu":
        return False
    limits = np.iinfo(tensor.dtype)
    usable = tensor.dtype.itemsize <= 2 and limits.min <= tensor.zero <= limits.max
    return bool(usable and 0 < tensor.scale < np.inf)
