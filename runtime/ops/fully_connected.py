"""FULLY_CONNECTED: y = x . w^T + bias over the last axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Case, Op, Shape, need, tensor, unsupported
from twinfer.runtime.ops import _conv
from twinfer.runtime.ops._activation import float_range, quantized_range
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    x, w = node.input(0), node.input(1)
    need(len(w.shape) == 2, node, f"{w} must have 2 dimensions [out, depth]")
    out, depth = w.shape
    need(out > 0 and depth > 0 and x.size % depth == 0, node, f"{x} does not divide into rows of {depth} for {w}")
    if node.options.get("weights_format", "DEFAULT") != "DEFAULT":
        raise unsupported(node, f"weights format {node.options['weights_format']} has no kernel; store them as DEFAULT")
    _conv.check_types(node, out)
    if node.options.get("keep_num_dims"):
        need(bool(x.shape) and x.shape[-1] == depth, node, f"{x} must end in {depth} to keep its dimensions")
        return [(*x.shape[:-1], out)]
    return [(x.size // depth, out)]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM fully_connected reference kernels (float sums in order of depth)."""
    x, w = inputs[0], inputs[1]
    rows = x.reshape(-1, w.shape[1])
    bias = inputs[2] if len(inputs) > 2 and inputs[2] is not None else np.zeros(w.shape[0], w.dtype)
    if x.dtype == np.int8:
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
    return Call("tw_fully_connected_hybrid", params, inputs, (node.output,), scratch, macs=macs)


def lower(node: Node, target: Target) -> Call:
    x, w, y = node.input(0), node.input(1), node.output
    out, depth = w.shape
    shape = {"batches": x.size // depth, "depth": depth, "out": out}
    macs = x.size * out
    if _conv.is_hybrid(node):
        return _lower_hybrid(node, shape, macs)
    if x.type == "FLOAT32":
        low, high = float_range(node)
        params = {**shape, "act_min": low, "act_max": high}
        bias = _conv.bias_of(node, out)
        if target.wide and w.data is not None and not _computed(bias):
            packed = (x, _conv.pack_f32(w.data), _conv.padded(_value(bias)))
            return Call("tw_fully_connected_wide_f32", params, packed, (y,), macs=macs)
        return Call("tw_fully_connected_f32", params, (x, w, bias), (y,), macs=macs)
    return _lower_s8(node, target, shape, macs)


def _computed(bias: Any) -> bool:
    return bias is not None and getattr(bias, "data", bias) is None


def _value(bias: Any) -> Array:
    return bias if isinstance(bias, np.ndarray) else bias.data


def _lower_s8(node: Node, target: Target, shape: dict[str, int], macs: int) -> Call:
    x, w, y = node.input(0), node.input(1), node.output
    out, depth = w.shape
    low, high = quantized_range(node, y)
    ends = {"out_zero": y.zero, "act_min": low, "act_max": high}
    bias, w_zeros = _conv.bias_of(node, out), w.quant.zero_point if w.quant is not None else np.zeros(1)
    if target.wide and w.data is not None and not _computed(bias) and not w_zeros.any():
        depth4 = -(-depth // 4) * 4
        folded = _conv.padded(_conv.fold_zero(node, w.data, _value(bias), 128 + x.zero))
        inputs = (x, _conv.pack_s8(w.data), folded, *_conv.lane_epilogue(node, out))
        rows = 1 if shape["batches"] == 1 else -(-shape["batches"] // 8) * 8
        return Call(
            "tw_fully_connected_wide_s8", {**shape, "depth4": depth4, **ends}, inputs, (y,), rows * depth4, macs=macs
        )
    need(bool((w_zeros == w_zeros[0]).all()), node, f"{w} has different zero points, one is needed")
    mult, shift = _conv.multipliers(node, out)
    if w.quant is not None and not w.quant.per_channel:
        mult, shift = mult[:1], shift[:1]
    params = {**shape, "mults": mult.size, "in_zero": x.zero, "w_zero": int(w_zeros[0]), **ends}
    return Call("tw_fully_connected_s8", params, (x, w, bias, mult, shift), (y,), macs=macs)


def _case(rng: np.random.Generator, rows: int, depth: int, out: int, **o: Any) -> Case:
    kind = o.pop("kind", "INT8")
    per_channel, x_shape = o.pop("per_channel", False), o.pop("x_shape", (rows, depth))
    y_shape = (*x_shape[:-1], out) if o.get("keep_num_dims") else (rows, out)
    options = {"fused_activation_function": "NONE", "weights_format": "DEFAULT", "keep_num_dims": False, **o}
    bias = options.pop("bias", True)
    zero, out_zero, out_scale = options.pop("zero", -5), options.pop("out_zero", 7), options.pop("out_scale", None)
    if kind in ("FLOAT32", "HYBRID"):
        x, y = tensor(x_shape), tensor(y_shape, name="y")
        w = tensor((out, depth), data=rng.standard_normal((out, depth)), name="w")
        if kind == "HYBRID":
            scales = rng.uniform(0.002, 0.02, out) if per_channel else 0.01
            w = tensor((out, depth), "INT8", scales, data=rng.integers(-127, 128, (out, depth)), name="w")
        b = tensor((out,), data=rng.standard_normal(out), name="b")
    else:
        scales = rng.uniform(0.002, 0.02, out) if per_channel else 0.01
        x = tensor(x_shape, "INT8", 0.05, zero)
        w = tensor((out, depth), "INT8", scales, data=rng.integers(-127, 128, (out, depth)), name="w")
        scale = out_scale or 0.02 * depth**0.5
        b = tensor((out,), "INT32", scales * np.float32(0.05), data=rng.integers(-9000, 9000, out), name="b")
        y = tensor(y_shape, "INT8", scale, out_zero, name="y")
    node = Node("FULLY_CONNECTED", (x, w, b) if bias else (x, w, None), (y,), options)
    return Case(node, oracle="litert", tolerance=1e-5) if kind == "HYBRID" else Case(node)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for rows, depth, out in ((1, 1, 1), (1, 7, 5), (1, 16, 16), (3, 33, 17), (9, 64, 130), (1, 40, 200), (8, 5, 33)):
        yield _case(rng, rows, depth, out)
        yield _case(rng, rows, depth, out, kind="FLOAT32")
    for act in ("RELU", "RELU6", "RELU_N1_TO_1"):
        yield _case(rng, 2, 20, 19, fused_activation_function=act)
        yield _case(rng, 2, 20, 19, fused_activation_function=act, kind="FLOAT32")
    yield _case(rng, 2, 12, 9, bias=False)
    yield _case(rng, 2, 12, 9, bias=False, kind="FLOAT32")
    yield _case(rng, 4, 12, 21, per_channel=True)
    yield _case(rng, 1, 12, 21, per_channel=True, zero=127, out_zero=-128)
    yield _case(rng, 2, 24, 16, zero=-128, out_zero=127)
    yield _case(rng, 2, 8, 16, out_scale=0.0002)  # multiplier above 1: a left shift
    yield _case(rng, 2, 8, 16, out_scale=100.0)
    yield _case(rng, 6, 10, 4, x_shape=(2, 3, 10), keep_num_dims=True)
    yield _case(rng, 6, 10, 4, x_shape=(2, 3, 10))
    yield _case(rng, 1, 12, 4, x_shape=(1, 2, 3, 2), kind="FLOAT32")
    for asymmetric in (False, True):
        yield _case(rng, 3, 20, 18, kind="HYBRID", asymmetric_quantize_inputs=asymmetric)
        yield _case(rng, 1, 33, 5, kind="HYBRID", asymmetric_quantize_inputs=asymmetric, bias=False)


OP = Op("FULLY_CONNECTED", infer, reference, lower, cases)
