"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D (float): windows over height and width; padding does not count."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import SUFFIX, Case, Op, Shape, Uint8, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.activation import FLOAT_MAX, float_range, output_range, quantized_range
from twinfer.runtime.ops.core.by_sums import with_sums
from twinfer.runtime.ops.core.quantized import need_quant
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.core.window import Window, window_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

_MOST = {"INT8": 1 << 23, "INT16": (1 << 16) - 1}  # values whose sum is sure to fit int32
_NUMBERS = ("INT8", "INT16", "FLOAT32")
_TYPES = {"AVERAGE_POOL_2D": _NUMBERS, "MAX_POOL_2D": _NUMBERS, "L2_POOL_2D": ("FLOAT32",)}

#: Most values of a window for which averages are exact: in words, on Helium, which divides by multiplying, in 16 bits.
MOST_WORDS, MOST_MVE, MOST_WIDE = 181, 4087, 16


def geometry(node: Node) -> Window:
    height, width = (int(node.options[f"filter_{side}"]) for side in ("height", "width"))
    return window_of(node, height, width, node.input(0).shape[-1])


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) == 1, node, f"it has {len(node.inputs)} inputs, not 1")
    x, y = node.input(0), node.output
    need_type(node, x, *_TYPES[node.op])
    need(x.type == y.type, node, f"{x} and {y} differ in type")
    need(len(x.shape) == 4, node, f"{x} must have 4 dimensions (NHWC)")
    float_range(node)
    if x.type in _MOST:
        need_quant(node, x, y)
        if abs(x.scale - y.scale) > 1e-6 or x.zero != y.zero:  # TFLM's bound, too
            raise unsupported(node, f"{x} and {y} must have the same quantisation: requantise after pooling")
        quantized_range(node, y)
        if math.prod(x.shape[1:3]) > _MOST[x.type]:
            raise unsupported(node, f"the sum of a window over {x} may not fit int32: split the image")
    return [geometry(node).shape]


def _windows(node: Node, x: Array) -> Iterator[tuple[int, int, Array]]:
    """Every output position, and the input inside its window: [batches, elements, channels]."""
    g = geometry(node)
    for i in range(g.out_h):
        for j in range(g.out_w):
            top, left = i * g.stride_h - g.pad_h, j * g.stride_w - g.pad_w
            seen = x[:, max(top, 0) : top + g.k_h, max(left, 0) : left + g.k_w]
            yield i, j, seen.reshape(x.shape[0], -1, x.shape[3])


def _average_integer(x: Array) -> Array:
    """Rounded half away from zero. Source: TFLM reference_integer_ops::AveragePool."""
    total, count = x.astype(np.int64).sum(axis=1), x.shape[1]
    return np.asarray(np.sign(total) * ((np.abs(total) + count // 2) // count))


def _average_unsigned(x: Array) -> Array:
    """Rounded half up. Source: LiteRT's reference_ops::AveragePool of uint8."""
    count = x.shape[1]
    return np.asarray((x.astype(np.int64).sum(axis=1) + 128 * count + count // 2) // count - 128)


def _average_float(x: Array) -> Array:
    """The sum in the order of the elements, in float32."""
    total = np.zeros((x.shape[0], x.shape[2]), np.float32)
    for i in range(x.shape[1]):
        total += x[:, i]
    return total / np.float32(x.shape[1])


def _largest(x: Array) -> Array:
    """In order, so that of zeros with different signs the first counts; a NaN is passed by."""
    most = np.full((len(x), x.shape[2]), -FLOAT_MAX if x.dtype.kind == "f" else np.iinfo(x.dtype).min, x.dtype)
    for k in range(x.shape[1]):
        most = np.where(x[:, k] > most, x[:, k], most)
    return most


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    (x,) = inputs
    integer = x.dtype.kind == "i"
    average = _average_float if not integer else _average_unsigned if is_unsigned(node) else _average_integer
    low, high = quantized_range(node, node.output) if integer else float_range(node)
    y = np.empty(node.output.shape, x.dtype)
    for i, j, seen in _windows(node, x):
        if node.op == "L2_POOL_2D":
            value = np.sqrt(average(seen * seen))
        else:
            value = average(seen) if node.op == "AVERAGE_POOL_2D" else _largest(seen)
        y[:, i, j] = np.clip(value, low, high)
    return [y]


def _beyond(node: Node) -> float | None:
    """The least value, which no maximum of integers sees; an average sees every pixel."""
    x = node.input(0)
    return np.iinfo(x.dtype).min if node.op == "MAX_POOL_2D" and x.dtype.kind in "iu" else None


def lower(node: Node, target: Target) -> Call:
    if is_unsigned(node) and node.op == "AVERAGE_POOL_2D":
        return pool_call("tw_average_pool_2d_up_s8", node)
    return pool_call(f"tw_{node.op.lower()}_{SUFFIX[node.input(0).type]}", node)


def _lower_words(node: Node, target: Target) -> Call:
    """Four channels in a word: kernels_c/pool/pool_2d_words.h."""
    g, average = geometry(node), node.op == "AVERAGE_POOL_2D"
    accept(not (average and is_unsigned(node)), "the averages of uint8 are rounded half up")
    accept(g.in_c % 4 == 0, f"it has {g.in_c} channels, not a multiple of 4")
    _need_values(node, min(g.k_h, g.in_h) * min(g.k_w, g.in_w), MOST_WORDS)
    return pool_call("tw_average_pool_2d_words_s8" if average else "tw_max_pool_2d_words_s8", node)


def _lower_mve(node: Node, target: Target) -> Call:
    """kernels_c/pool/pool_2d_mve.h."""
    g, average = geometry(node), node.op == "AVERAGE_POOL_2D"
    accept(not (average and is_unsigned(node)), "the averages of uint8 are rounded half up")
    _need_values(node, g.k_h * g.k_w, MOST_MVE)
    return pool_call("tw_average_pool_2d_mve_s8" if average else "tw_max_pool_2d_mve_s8", node)


def _lower_wide(node: Node, target: Target) -> Call:
    """By rows of outputs: kernels_c/pool/pool_2d_wide.h."""
    g = geometry(node)
    _need_values(node, min(g.k_h, g.in_h) * min(g.k_w, g.in_w), MOST_WIDE)
    average = "tw_average_pool_2d_up_wide_s8" if is_unsigned(node) else "tw_average_pool_2d_wide_s8"
    kernel = average if node.op == "AVERAGE_POOL_2D" else "tw_max_pool_2d_wide_s8"
    return pool_call(kernel, node, 2 * (g.in_w + g.out_w) * g.in_c)


def _need_values(node: Node, values: int, most: int) -> None:
    """Declined if an average is over more values than its kernel's arithmetic is exact for."""
    accept(node.op == "MAX_POOL_2D" or values <= most, f"a window has {values} values, {most} are the limit")


def pool_call(kernel: str, node: Node, scratch: int = 0) -> Call:
    """The call of a pooling kernel; all have the same params."""
    g = geometry(node)
    params = {"window": g.params, "limits": output_range(node)}
    call = Call(kernel, params, (node.input(0),), (node.output,), scratch, rows=g.by_rows())
    return _by_sums(node, call, g) if node.op == "AVERAGE_POOL_2D" and node.input(0).type == "INT8" else call


def _by_sums(node: Node, call: Call, g: Window) -> Call:
    """The call of an average and, if it is one of all pixels, rounded half away from zero, one that adds up rows."""
    whole = (g.out_h, g.out_w) == (1, 1) and g.k_h >= g.in_h + g.pad_h and g.k_w >= g.in_w + g.pad_w
    if is_unsigned(node) or not whole or node.input(0).shape[0] != 1:
        return call
    size = node.input(0).size
    params: dict[str, Param] = {"limits": output_range(node), "size": size, "channels": g.in_c}
    return with_sums(call, "tw_average_pool_2d_sums_s8", params, size, g.in_c, g.in_c)


def _case(
    op: str, shape: Shape, size: tuple[int, int], stride: tuple[int, int], padding: str, act: str
) -> Iterator[Case]:
    options = {
        "filter_height": size[0], "filter_width": size[1], "stride_h": stride[0], "stride_w": stride[1],
        "padding": padding, "fused_activation_function": act,
    }  # fmt: skip
    for type, scale, zero in (("INT8", 0.05, 7), ("INT16", 0.0002, 0), ("FLOAT32", None, 0)):
        if type not in _TYPES[op]:
            continue
        x = tensor(shape, type, scale, zero)
        out = geometry(Node(op, (x,), (), options)).shape
        yield Case(Node(op, (x,), (tensor(out, type, scale, zero, name="y"),), options))


def _cases(op: str) -> Iterator[Case]:
    for padding in ("SAME", "VALID"):
        yield from _case(op, (1, 8, 8, 16), (2, 2), (2, 2), padding, "NONE")
        yield from _case(op, (2, 7, 5, 3), (3, 3), (1, 1), padding, "RELU")
        yield from _case(op, (2, 7, 5, 65), (3, 2), (2, 3), padding, "RELU6")
        yield from _case(op, (1, 6, 9, 1), (1, 4), (4, 1), padding, "RELU_N1_TO_1")
        yield from _case(op, (1, 6, 7, 130), (6, 7), (1, 1), padding, "NONE")
        yield from _case(op, (1, 5, 5, 4), (1, 1), (3, 2), padding, "NONE")
        yield from _case(op, (1, 1, 1, 1), (1, 1), (1, 1), padding, "NONE")
    yield from _case(op, (1, 3, 4, 5), (7, 9), (1, 1), "SAME", "NONE")  # filter larger than the input
    yield from _case(op, (1, 3, 4, 5), (7, 9), (2, 2), "SAME", "RELU")
    yield from _case(op, (1, 66, 66, 1), (64, 64), (1, 1), "VALID", "NONE")  # 4096 values to average
    for case in _case(op, (1, 9, 9, 2), (9, 9), (1, 1), "SAME", "NONE"):
        x = case.node.input(0)
        for value in (-128, 127) if x.type != "INT16" else (-(1 << 15), (1 << 15) - 1):
            yield Case(case.node, (np.full(x.shape, value, x.dtype),))
    if op != "L2_POOL_2D":
        yield _nearly_the_next(op)


def _nearly_the_next(op: str) -> Case:
    """6400 values whose average is just below 100.5: too close to divide by multiplying with the reciprocal."""
    case = next(_case(op, (1, 80, 80, 1), (80, 80), (1, 1), "VALID", "NONE"))
    x = case.node.input(0)
    total = 100 * x.size + x.size // 2 - 1
    return Case(case.node, ((total // x.size + (np.arange(x.size) < total % x.size)).reshape(x.shape).astype(np.int8),))


def _op(name: str) -> Op:
    cases: Callable[[np.random.Generator], Iterator[Case]] = lambda rng: _cases(name)  # noqa: E731
    uint8: Uint8 = "" if name == "L2_POOL_2D" else "computes"
    return Op(name, infer, reference, lower, cases, beyond=_beyond, keeps_channels=True, uint8=uint8)


OPS = (_op("AVERAGE_POOL_2D"), _op("MAX_POOL_2D"), _op("L2_POOL_2D"))

_SERVED = ("AVERAGE_POOL_2D", "MAX_POOL_2D")
VARIANTS = (
    Variant("wide", _SERVED, frozenset({"simd"}), _lower_wide, ("INT8",)),
    Variant("mve", _SERVED, frozenset({"mve"}), _lower_mve, ("INT8",)),
    Variant("words", _SERVED, frozenset({"words"}), _lower_words, ("INT8",)),
)
