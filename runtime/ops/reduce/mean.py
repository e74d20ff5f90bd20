"""MEAN over any dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.by_sums import with_sums
from twinfer.runtime.ops.core.quantized import need_symmetric
from twinfer.runtime.ops.isa.short import scaled_s8
from twinfer.runtime.ops.reduce._reduce import axes_of, count_of, reduced_axes, reduced_shape, reduction, sum_in_order
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept, present

#: Most values whose centred sum is sure to fit: tw_scaled's 30 bits with int8, int32 with int16.
MOST = {"INT8": 1 << 22, "INT16": (1 << 16) - 1}


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) == 2, node, f"it has {len(node.inputs)} inputs, not 2")
    x, y, axes = node.input(0), node.output, axes_of(node)
    need_type(node, x, "FLOAT32", "INT8", "INT16", "INT32", "INT64")
    need(x.type == y.type, node, f"{x} and {y} differ in type")
    need(count_of(node) > 0, node, f"the mean of nothing is not defined: {x} is empty along {list(axes)}")
    if x.type in MOST:
        need_symmetric(node, x, y)
        if count_of(node) > MOST[x.type]:
            raise unsupported(node, f"the sum of {count_of(node)} values of {x} may not fit int32: split the reduction")
    reduced_axes(node)
    return [reduced_shape(node)]


def multiplier(node: Node) -> tuple[int, int]:
    """Multiplier and shift of the rescaling, 1 / count included. Source: TFLM reference_ops::QuantizedMeanOrSum."""
    count = count_of(node)
    mult, shift = quantize_multiplier(node.input(0).scale / node.output.scale)
    more = min(count.bit_length() - 1, 31 + shift)
    return (mult << more) // count, shift - more


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x, axes = inputs[0], axes_of(node)
    mean: Array
    if x.dtype in (np.int8, np.int16):
        info = np.iinfo(x.dtype)
        total = x.astype(np.int64).sum(axis=axes) - node.input(0).zero * count_of(node)
        mean = np.clip(wrap32(requantize(total, *multiplier(node)) + node.output.zero), info.min, info.max)
    elif x.dtype.kind == "i":
        total, count = x.sum(axis=axes, dtype=np.int64), count_of(node)
        mean = total // count + ((total < 0) & (total % count != 0))  # towards zero
    else:
        mean = sum_in_order(node, x) / np.float32(count_of(node))
    return [np.asarray(mean).reshape(node.output.shape).astype(x.dtype)]


def integer_params(node: Node) -> dict[str, Param]:
    """The params of tw_mean_s8 and tw_mean_s16."""
    mult, shift = multiplier(node)
    zero = node.input(0).zero * count_of(node)
    axes: dict[str, Param] = {"axes": reduced_axes(node)._asdict()}
    return axes | {"zero": zero, "mult": mult, "shift": shift, "out_zero": node.output.zero}


def lower(node: Node, target: Target) -> Call:
    x, y, count = node.input(0), node.output, count_of(node)
    params: dict[str, Param] = {"axes": reduced_axes(node)._asdict()}
    if x.type == "FLOAT32":
        return Call("tw_mean_f32", params | {"divisor": float(count)}, (x,), (y,))
    if x.type in ("INT32", "INT64"):
        kernel = "tw_mean_s32" if x.type == "INT32" else "tw_mean_s64"
        return Call(kernel, params | {"divisor": count}, (x,), (y,))
    params = integer_params(node)
    if x.type == "INT16":
        return Call("tw_mean_s16", params, (x,), (y,))
    return _by_sums(node, Call("tw_mean_s8", params, (x,), (y,)))


def _lower_words(node: Node, target: Target) -> Call:
    """Four sums in two words: ``tw_mean_words_s8`` of kernels_c/reduce/mean.h."""
    x, y, axis = node.input(0), node.output, _one_axis(node)
    accept(axis["inner"] % 4 == 0, f"{axis['inner']} values lie side by side, not a multiple of 4")
    ends = scaled_s8(*multiplier(node), y.zero)
    params: dict[str, Param] = {"axis": axis, "offset": -(x.zero + 128) * axis["count"], **ends}
    return _by_sums(node, Call("tw_mean_words_s8", params, (x,), (y,)))


def _lower_mve(node: Node, target: Target) -> Call:
    """kernels_c/reduce/mean_mve.h."""
    x, y, axis = node.input(0), node.output, _one_axis(node)
    mult, shift = multiplier(node)
    ends = {"mult": mult, "shift": shift, "zero": x.zero * axis["count"], "out_zero": y.zero}
    return _by_sums(node, Call("tw_mean_mve_s8", {"axis": axis, **ends}, (x,), (y,)))


def _one_axis(node: Node) -> dict[str, int]:
    return present(reduced_axes(node).as_one, "the reduced dimensions do not lie side by side")


def _by_sums(node: Node, call: Call) -> Call:
    """The call of a mean of int8 and, if that is over height and width of an image, one that adds up rows."""
    x = node.input(0)
    if len(x.shape) != 4 or x.shape[0] != 1 or axes_of(node) != (1, 2):
        return call
    params: dict[str, Param] = {"all": integer_params(node), "size": x.size, "channels": x.shape[3]}
    return with_sums(call, "tw_mean_sums_s8", params, x.size, x.shape[3], x.shape[3])


def _case(x: Tensor, axes: Sequence[int], keep: bool, quant: tuple[float, int] | None = None) -> Case:
    oracle = "litert" if x.type in ("INT32", "INT64") else "tflm"
    return Case(reduction("MEAN", x, axes, keep, quant), None, oracle)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: list[tuple[Shape, Sequence[int]]] = [
        ((2, 5, 3, 70), (1, 2)), ((2, 5, 3, 7), (2, 1)), ((2, 5, 3, 7), (-1,)), ((2, 5, 3, 7), (0,)),
        ((2, 5, 3, 7), (1, 3)), ((2, 5, 3, 7), (0, 2)), ((2, 5, 3, 7), (-3, 1, -4)), ((2, 5, 3, 7), (0, 1, 2, 3)),
        ((11, 130), (0,)), ((11, 13), (1,)), ((9,), (0,)), ((1, 1, 1, 8), (1, 2)), ((2, 5, 3, 8), (1, 2)),
        ((3, 4, 5, 8), (2,)), ((2, 513, 4), (1,)),
    ]  # fmt: skip
    for shape, axes in forms:
        for keep in (True, False):
            yield _case(tensor(shape), axes, keep)
            yield _case(tensor(shape, "INT8", 0.05, 3), axes, keep, (0.05, 3))
            yield _case(tensor(shape, "INT8", 0.05, -128), axes, keep, (0.011, 127))
        yield _case(tensor(shape, "INT32"), axes, True)
        yield _case(tensor(shape, "INT16", 0.0003), axes, False, (0.0002, 0))
    for ratio in (1e-9, 0.001, 0.9, 1.9, 100.0):
        yield _case(tensor((1, 7, 3, 5), "INT8", 0.05 * ratio, 40), (1, 2), True, (0.05, -100))
    for shape, axes in forms[1::4]:
        yield _case(tensor(shape, "INT64"), axes, False)


OP = Op("MEAN", infer, reference, lower, cases, uint8="computes", keeps_channels=True)

VARIANTS = (
    Variant("mve", ("MEAN",), frozenset({"mve"}), _lower_mve, ("INT8",)),
    Variant("words", ("MEAN",), frozenset({"words"}), _lower_words, ("INT8",)),
)
