"""FULLY_CONNECTED: y = x . w^T + bias over the last axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Case, Op, Shape, Weights, need, tensor, unsupported
from twinfer.runtime.ops.conv import _conv, _conv_s16
from twinfer.runtime.ops.conv._conv_cases import X_SCALE, Layer
from twinfer.runtime.ops.core.activation import float_range, quantized_range
from twinfer.runtime.ops.isa import dsp as _dsp
from twinfer.runtime.ops.isa import dsp_s16 as _dsp_s16
from twinfer.runtime.ops.isa import mve as _mve
from twinfer.runtime.ops.isa import mve_s16 as _mve_s16
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    node = _conv.unpacked(node)
    x, w = node.input(0), node.input(1)
    need(len(w.shape) == 2, node, f"{w} must have 2 dimensions [out, depth]")
    out, depth = w.shape
    need(out > 0 and depth > 0 and x.size % depth == 0, node, f"{x} does not divide into rows of {depth} for {w}")
    if node.options.get("weights_format", "DEFAULT") != "DEFAULT":
        raise unsupported(node, f"weights format {node.options['weights_format']} has no kernel; store them as DEFAULT")
    _conv.check_types(node, out)
    if node.options.get("keep_num_dims"):
        need(bool(x.shape) and x.shape[-1] == depth, node, f"{x} must end in {depth} to keep its dimensions")
    return [_shape(node)]


def _shape(node: Node) -> Shape:
    x, (out, depth) = node.input(0), node.input(1).shape
    return (*x.shape[:-1], out) if node.options.get("keep_num_dims") else (x.size // depth, out)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM fully_connected reference kernels (float sums in order of depth)."""
    node = _conv.unpacked(node)
    x, w = inputs[0], inputs[1] if node.input(1).data is None else node.constant(1)
    rows = x.reshape(-1, w.shape[1])
    bias = inputs[2].reshape(-1) if len(inputs) > 2 and inputs[2] is not None else np.zeros(w.shape[0], w.dtype)
    if x.dtype.kind == "i":
        w_zero = int(node.input(1).quant.zero_point[0])  # type: ignore[union-attr]
        sums = (rows.astype(np.float64) - node.input(0).zero) @ (w.astype(np.float64) - w_zero).T
        return _conv.finish(node, sums.astype(np.int64) + bias.astype(np.int64))
    if _conv.is_hybrid(node):
        return [_hybrid_reference(node, rows, w).reshape(node.output.shape)]
    acc = np.zeros((len(rows), len(w)), np.float32)
    for k in range(w.shape[1]):
        acc += rows[:, k, None] * w[None, :, k]
    low, high = float_range(node)
    return [(acc + bias.astype(np.float32)).clip(np.float32(low), np.float32(high)).reshape(node.output.shape)]


def _symmetric(node: Node) -> bool:
    return not node.options.get("asymmetric_quantize_inputs", False)


def _hybrid_reference(node: Node, rows: Array, w: Array) -> Array:
    scales, bias = _conv.hybrid_ends(node, w.shape[0])
    low, high = float_range(node)
    made = []
    for row in rows:
        q, scale, zero = _conv.quantize_dynamic(row, _symmetric(node))
        sums = w.astype(np.int64) @ (q.astype(np.int64) - zero)
        made.append((bias + sums.astype(np.float32) * (scale * scales)).clip(np.float32(low), np.float32(high)))
    return np.array(made, np.float32)


def _lower_hybrid(node: Node, shape: dict[str, int], macs: int) -> Call:
    w = node.constant(1)
    out, depth = w.shape
    low, high = float_range(node)
    depth4 = -(-depth // 4) * 4
    params = {**shape, "depth4": depth4, "symmetric": int(_symmetric(node)), "act_min": low, "act_max": high}
    inputs = (node.input(0), _conv.pack_s8(w), w.sum(1, dtype=np.int32), *_conv.hybrid_ends(node, out))
    scratch = sum(-(-size // 16) * 16 for size in (depth, depth4)) + 4 * -(-out // _conv.LANES) * _conv.LANES
    return Call("tw_fully_connected_hybrid", params, inputs, (node.output,), scratch, macs=macs, weights=Weights())


def lower(node: Node, target: Target) -> Call:
    node = _conv.unpacked(node)
    x, w, y = node.input(0), node.input(1), node.output
    out, depth = w.shape
    shape = {"batches": x.size // depth, "depth": depth, "out": out}
    macs = x.size * out
    if _conv.is_hybrid(node):
        return _lower_hybrid(node, shape, macs)
    if x.type == "INT16":
        return _lower_s16(node, target, shape, macs)
    if x.type == "FLOAT32":
        low, high = float_range(node)
        params = {**shape, "act_min": low, "act_max": high}
        bias = _conv.constant_bias(node, out)
        if target.wide and w.data is not None and bias is not None:
            packed = (x, _conv.pack_f32(w.data), _conv.padded(bias))
            return Call("tw_fully_connected_wide_f32", params, packed, (y,), macs=macs)
        return Call("tw_fully_connected_f32", params, (x, w, _conv.bias_of(node, out)), (y,), macs=macs)
    return _lower_s8(node, target, shape, macs)


def _lower_s16(node: Node, target: Target, shape: dict[str, int], macs: int) -> Call:
    w = node.constant(1)
    layer = _mve_s16.fully_connected if target.mve else _dsp_s16.fully_connected
    fast = layer(node, w, macs) if target.mve or target.dsp else None
    return fast or _conv_s16.call("tw_fully_connected_s16", node, w, {**shape, "mults": len(w)}, macs)


def _lower_fast(node: Node, target: Target, w: Array, bias: Array) -> Call | None:
    """The int8 call for the target's instruction set; None where the plain kernel serves."""
    if target.mve:
        return _mve.fully_connected(node, w, bias)
    return _dsp.fully_connected(node, w, bias) if target.dsp else None


def _lower_s8(node: Node, target: Target, shape: dict[str, int], macs: int) -> Call:
    x, w, y = node.input(0), node.input(1), node.output
    out, depth = w.shape
    low, high = quantized_range(node, y)
    ends = {"out_zero": y.zero, "act_min": low, "act_max": high}
    bias, w_zeros = _conv.constant_bias(node, out), w.quant.zero_point if w.quant is not None else np.zeros(1)
    constant = w.data if bias is not None and not w_zeros.any() else None
    if target.wide and constant is not None and bias is not None:
        depth4 = -(-depth // 4) * 4
        folded = _conv.padded(_conv.fold_zero(constant, bias, 128 + x.zero))
        inputs = (x, _conv.pack_s8(constant), folded, *_conv.lane_epilogue(node, out))
        rows = 1 if shape["batches"] == 1 else -(-shape["batches"] // 8) * 8
        params, stored = {**shape, "depth4": depth4, **ends}, Weights(unit=_conv.LANES)
        return Call("tw_fully_connected_wide_s8", params, inputs, (y,), rows * depth4, macs=macs, weights=stored)
    if constant is not None and bias is not None:
        fast = _lower_fast(node, target, constant, bias)
        if fast is not None:
            return fast
    if constant is not None and bias is not None:
        return _lower_plain(node, constant, bias, {**shape, **ends}, macs)
    need(bool((w_zeros == w_zeros[0]).all()), node, f"{w} has different zero points, one is needed")
    mult, shift = _conv.multipliers(node, out)
    if w.quant is not None and not w.quant.per_channel:
        mult, shift = mult[:1], shift[:1]
    params = {**shape, "mults": mult.size, **ends}
    zeros = {"in_zero": x.zero, "w_zero": int(w_zeros[0])}
    values = (x, w if w.data is None else w.data, _conv.bias_of(node, out), mult, shift)
    return Call("tw_fully_connected_runtime_s8", {**params, **zeros}, values, (y,), macs=macs, weights=Weights())


def _lower_plain(node: Node, w: Array, bias: Array, params: dict[str, int], macs: int) -> Call:
    c, fast = _conv.plain_channels(node, w, bias)
    mults = 1 if (c.mult == c.mult[0]).all() and (c.shift == c.shift[0]).all() else c.mult.size
    arrays = (node.input(0), c.weights, c.bias, c.mult[:mults], c.shift[:mults])
    params |= {"mults": mults, "fast": int(fast)}
    return Call("tw_fully_connected_s8", params, arrays, (node.output,), macs=macs, weights=Weights(unit=1))


def _case(rng: np.random.Generator, x_shape: Shape, out: int, layer: Layer | None = None, **o: Any) -> Case:
    depth = o.pop("depth", x_shape[-1])
    options = {"fused_activation_function": "NONE", "weights_format": "DEFAULT", "keep_num_dims": False, **o}
    layer = layer or Layer(per_tensor=True, bound=9000)
    return layer.case(rng, "FULLY_CONNECTED", (x_shape, (out, depth)), _shape, options)


def _runtime_case(rng: np.random.Generator, constant: bool) -> Case:
    """Weights with a zero point; or symmetric ones that are fed at run time."""
    data = rng.integers(-127, 128, (5, 9)) if constant else None
    x, y = tensor((3, 9), "INT8", 0.05, 4), tensor((3, 5), "INT8", 0.1, -6, name="y")
    w = tensor((5, 9), "INT8", 0.01, 7 if constant else 0, data=data, name="w")
    b = tensor((5,), "INT32", 0.0005, data=rng.integers(-900, 900, 5), name="b")
    options = {"fused_activation_function": "RELU", "weights_format": "DEFAULT", "keep_num_dims": False}
    return Case(Node("FULLY_CONNECTED", (x, w, b), (y,), options))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    floats, plain, hybrid = Layer("FLOAT32"), Layer(per_tensor=True, bound=9000), Layer("HYBRID", per_tensor=True)
    for rows, depth, out in ((1, 1, 1), (1, 7, 5), (1, 16, 16), (3, 33, 17), (9, 64, 130), (1, 40, 200), (8, 5, 33)):
        yield _case(rng, (rows, depth), out)
        yield _case(rng, (rows, depth), out, floats)
    for act in ("RELU", "RELU6", "RELU_N1_TO_1"):
        yield _case(rng, (2, 20), 19, fused_activation_function=act)
        yield _case(rng, (2, 20), 19, floats, fused_activation_function=act)
    for layer in (plain, floats):
        yield _case(rng, (2, 12), 9, replace(layer, bias=False))
    for rows, depth, out in ((1, 4, 4), (2, 17, 3), (1, 31, 6)):
        yield _case(rng, (rows, depth), out, Layer(bound=1 << 20))
    yield _case(rng, (4, 12), 21, Layer())
    yield _case(rng, (1, 12), 21, Layer(zero=127, out_zero=-128))
    yield _case(rng, (2, 24), 16, replace(plain, zero=-128, out_zero=127))
    yield _case(rng, (2, 8), 16, replace(plain, out_scale=0.0002))  # multiplier above 1: a left shift
    yield _case(rng, (2, 8), 16, replace(plain, out_scale=100.0))
    yield _case(rng, (2, 3, 10), 4, keep_num_dims=True)
    yield _case(rng, (2, 3, 10), 4)
    yield _case(rng, (1, 2, 3, 2), 4, floats, depth=12)
    yield _runtime_case(rng, constant=True)
    yield _runtime_case(rng, constant=False)
    for asymmetric in (False, True):
        yield _case(rng, (3, 20), 18, hybrid, asymmetric_quantize_inputs=asymmetric)
        yield _case(rng, (1, 33), 5, replace(hybrid, bias=False), asymmetric_quantize_inputs=asymmetric)
    yield from _wide_cases(rng)


def _wide_cases(rng: np.random.Generator) -> Iterator[Case]:
    """int16 activations, and int4 weights."""
    wide = Layer("INT16", bound=1 << 24)
    for rows, depth, out in ((1, 1, 1), (3, 33, 17), (2, 1100, 5)):
        yield _case(rng, (rows, depth), out, wide)
        yield _case(rng, (rows, depth), out, replace(wide, per_tensor=True), fused_activation_function="RELU6")
        yield _case(rng, (rows, depth), out, replace(wide, bias_type="INT32", per_tensor=True))
        yield replace(_case(rng, (rows, depth), out, Layer("INT4")), oracle="litert")  # TFLM: one scale only
        yield _case(rng, (rows, depth), out, Layer("INT4", per_tensor=True))
    yield _case(rng, (2, 3, 10), 4, replace(wide, bias=False), keep_num_dims=True)
    for kind in ("INT8", "INT16"):
        yield _case(rng, (5, 6), 19, Layer(kind, bound=9, halves=True))
        below = X_SCALE * (1 + 2.0**-20)  # multipliers just below powers of two, which 15 bits round to them
        yield _case(rng, (5, 6), 19, Layer(kind, bound=9, halves=True, out_scale=float(below)))


OP = Op("FULLY_CONNECTED", infer, reference, lower, cases)
