"""FULLY_CONNECTED: y = x . w^T + bias over the last axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import requantize, sums_of_weights, weights
from twinfer.runtime.fixed_point import wrap32
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor, unsupported
from twinfer.runtime.ops.core import plain_s16
from twinfer.runtime.ops.core.activation import bounded, float_range, output_range, quantized_range, vector_range
from twinfer.runtime.ops.core.channels import (
    bias_of,
    channel_constants,
    epilogue,
    finish,
    multipliers,
    mults_of,
    plain_channels,
)
from twinfer.runtime.ops.core.hybrid import hybrid_constants, hybrid_ends, is_hybrid, quantize_dynamic
from twinfer.runtime.ops.core.layer_cases import IN_FLOAT64, LOWEST, X_SCALE, Layer, codes
from twinfer.runtime.ops.core.madd import float_kernel, is_fused, madd
from twinfer.runtime.ops.core.packing import LANES, LANES_S8, pack_s8
from twinfer.runtime.ops.core.unsigned import is_unsigned, rounded
from twinfer.runtime.ops.core.weights import check_types, unpacked
from twinfer.runtime.ops.dense._layer import (
    Dense,
    Unsigned,
    dense_by_sums,
    dense_of,
    in_float64,
    macs_of,
    shape_of,
    unsigned_of,
    unsigned_scale,
)
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Declined, Variant, accept


def infer(node: Node) -> list[Shape]:
    node = unpacked(node)
    x, w = node.input(0), node.input(1)
    need(len(w.shape) == 2, node, f"{w} must have 2 dimensions [out, depth]")
    out, depth = w.shape
    need(out > 0 and depth > 0 and x.size % depth == 0, node, f"{x} does not divide into rows of {depth} for {w}")
    if node.options.get("weights_format", "DEFAULT") != "DEFAULT":
        raise unsupported(node, f"weights format {node.options['weights_format']} has no kernel; store them as DEFAULT")
    check_types(node, out)
    if node.options.get("keep_num_dims"):
        need(bool(x.shape) and x.shape[-1] == depth, node, f"{x} must end in {depth} to keep its dimensions")
    return [_output(node)]


def _output(node: Node) -> Shape:
    """The output's shape."""
    x, (out, depth) = node.input(0), node.input(1).shape
    return (*x.shape[:-1], out) if node.options.get("keep_num_dims") else (x.size // depth, out)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM fully_connected reference kernels (float sums in order of depth)."""
    node = unpacked(node)
    x, w = inputs[0], inputs[1] if node.input(1).data is None else node.constant(1)
    rows = x.reshape(-1, w.shape[1])
    bias = inputs[2].reshape(-1) if len(inputs) > 2 and inputs[2] is not None else np.zeros(w.shape[0], w.dtype)
    if x.dtype.kind == "i":
        w_zero = int(node.input(1).quant.zero_point[0])  # type: ignore[union-attr]
        sums = (rows.astype(np.float64) - node.input(0).zero) @ (w.astype(np.float64) - w_zero).T
        if is_unsigned(node):
            return _finish_unsigned(node, sums + bias)
        return finish(node, sums.astype(np.int64) + bias.astype(np.int64))
    if is_hybrid(node):
        return [_hybrid_reference(node, rows, w).reshape(node.output.shape)]
    acc = np.zeros((len(rows), len(w)), np.float32)
    for k in range(w.shape[1]):
        acc = madd(rows[:, k, None], w[None, :, k], acc, is_fused(node))
    low, high = float_range(node)
    return [(acc + bias.astype(np.float32)).clip(np.float32(low), np.float32(high)).reshape(node.output.shape)]


def _finish_unsigned(node: Node, sums: Array) -> list[Array]:
    """Sums, held in float64, as outputs. Source: LiteRT 2.3."""
    y, steps = node.output, rounded(wrap32(sums.astype(np.int64)), unsigned_scale(node))
    low, high = quantized_range(node, y)
    return [(steps + y.zero).clip(low, high).astype(y.dtype).reshape(y.shape)]


def _symmetric(node: Node) -> bool:
    return not node.options.get("asymmetric_quantize_inputs", False)


def _hybrid_reference(node: Node, rows: Array, w: Array) -> Array:
    scales, bias = hybrid_ends(node, w.shape[0])
    outputs = []
    for row in rows:
        q, scale, zero = quantize_dynamic(row, _symmetric(node))
        sums = w.astype(np.int64) @ (q.astype(np.int64) - zero)
        outputs.append(bounded(bias + sums.astype(np.float32) * (scale * scales), *vector_range(node)))
    return np.array(outputs, np.float32)


def lower(node: Node, target: Target) -> Call:
    """The call in plain C, which serves every node."""
    node = unpacked(node)
    if is_hybrid(node):
        return _lower_hybrid(node)
    if node.input(0).type == "INT16":
        w = node.constant(1)
        return plain_s16.call("tw_fully_connected_s16", node, w, {**shape_of(node), "mults": len(w)}, macs_of(node))
    if node.input(0).type == "FLOAT32":
        params: dict[str, Param] = {**shape_of(node), "limits": output_range(node)}
        inputs = (node.input(0), node.input(1), bias_of(node, node.input(1).shape[0]))
        return Call(float_kernel("tw_fully_connected", node), params, inputs, (node.output,), macs=macs_of(node))
    if is_unsigned(node):
        try:
            return _lower_rows(unsigned_of(node))
        except Declined:
            return in_float64(node)
    try:
        return _lower_s8(dense_of(node))
    except Declined:
        return _lower_runtime(node)


def _lower_hybrid(node: Node) -> Call:
    w = node.constant(1)
    out, depth = w.shape
    depth4 = -(-depth // 4) * 4
    tile = {"depth4": depth4, "symmetric": int(_symmetric(node))}
    limits: dict[str, Param] = dict(zip(("low", "high"), vector_range(node), strict=True))
    params: dict[str, Param] = {**shape_of(node), **tile, "limits": limits}
    sums = sums_of_weights(w.sum(1, dtype=np.int32))
    inputs = (node.input(0), weights(pack_s8(w), LANES_S8), sums, *hybrid_constants(node, out))
    scratch = sum(-(-size // 16) * 16 for size in (depth, depth4)) + 4 * -(-out // LANES) * LANES
    kernel = "tw_fully_connected_hybrid"
    return Call(kernel, params, inputs, (node.output,), scratch, macs=macs_of(node), weights=Weights())


def _lower_rows(layer: Unsigned) -> Call:
    """The call for what was uint8 where integers scale its sums."""
    node, kernel = layer.node, "tw_fully_connected_unsigned_s8"
    inputs = (node.input(0), weights(layer.weights), constant.bias(layer.bias))
    return Call(kernel, layer.params(), inputs, (node.output,), macs=macs_of(node), weights=Weights())


def _lower_s8(layer: Dense) -> Call:
    node = layer.node
    c, fast = plain_channels(node, layer.weights, layer.bias)
    mults = mults_of(c.mult, c.shift)
    inputs = (node.input(0), weights(c.weights), *channel_constants(c, mults))
    params: dict[str, Param] = {**layer.shape, "end": epilogue(node), "mults": mults, "fast": int(fast)}
    call = Call("tw_fully_connected_s8", params, inputs, (node.output,), macs=layer.macs, weights=Weights(unit=1))
    return dense_by_sums(layer, call, "tw_fully_connected_sums_s8")


def _lower_runtime(node: Node) -> Call:
    """The call with weights or a bias computed at run time, or weights with a zero point."""
    x, w = node.input(0), node.input(1)
    zeros = np.zeros(1) if w.quant is None else w.quant.zero_point
    need(bool((zeros == zeros[0]).all()), node, f"{w} has different zero points: they must be the same")
    mult, shift = multipliers(node, w.shape[0])
    if w.quant is not None and not w.quant.per_channel:
        mult, shift = mult[:1], shift[:1]
    numbers = {"mults": mult.size, "in_zero": x.zero, "w_zero": int(zeros[0])}
    params: dict[str, Param] = {**shape_of(node), **numbers, "end": epilogue(node)}
    inputs = (x, w, bias_of(node, w.shape[0]), requantize(mult), requantize(shift))
    kernel = "tw_fully_connected_runtime_s8"
    return Call(kernel, params, inputs, (node.output,), macs=macs_of(node), weights=Weights())


def _lower_reference(node: Node, target: Target) -> Call:
    """As the reference has it, nothing folded: what techniques are measured against."""
    node = unpacked(node)
    accept(not is_unsigned(node), "it was uint8")
    return _lower_runtime(node)


def _case(rng: np.random.Generator, x_shape: Shape, out: int, layer: Layer | None = None, **o: Any) -> Case:
    depth = o.pop("depth", x_shape[-1])
    options = {"fused_activation_function": "NONE", "weights_format": "DEFAULT", "keep_num_dims": False, **o}
    layer = layer or Layer(per_tensor=True, bound=9000)
    return layer.case(rng, "FULLY_CONNECTED", (x_shape, (out, depth)), _output, options)


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
        yield _case(rng, (2, 12), 9, layer._replace(bias=False))
    for rows, depth, out in ((1, 4, 4), (2, 17, 3), (1, 31, 6)):
        yield _case(rng, (rows, depth), out, Layer(bound=1 << 20))
    yield _case(rng, (4, 12), 21, Layer())
    yield _case(rng, (1, 12), 21, Layer(zero=127, out_zero=-128))
    yield _case(rng, (2, 24), 16, plain._replace(zero=-128, out_zero=127))
    yield _case(rng, (2, 8), 16, plain._replace(out_scale=0.0002))  # multiplier above 1: a left shift
    yield _case(rng, (2, 8), 16, plain._replace(out_scale=100.0))
    yield _case(rng, (2, 3, 10), 4, keep_num_dims=True)
    yield _case(rng, (2, 3, 10), 4)
    yield _case(rng, (1, 2, 3, 2), 4, floats, depth=12)
    yield _runtime_case(rng, constant=True)
    yield _runtime_case(rng, constant=False)
    for asymmetric in (False, True):
        yield _case(rng, (3, 20), 18, hybrid, asymmetric_quantize_inputs=asymmetric)
        yield _case(rng, (1, 33), 5, hybrid._replace(bias=False), asymmetric_quantize_inputs=asymmetric)
    yield from codes(rng)
    yield from _wide_cases(rng)
    for act in ("NONE", "RELU6"):  # eights of channels and whole vectors
        yield _case(rng, (2, 48), 24, Layer(bound=1 << 20), fused_activation_function=act)
    for rows, depth, out in ((1, 16, 8), (2, 32, 16), (3, 48, 40)):  # of the last as uint8, no channel comes twice
        yield _case(rng, (rows, depth), out, plain, fused_activation_function="RELU")


def _wide_cases(rng: np.random.Generator) -> Iterator[Case]:
    """int16 activations, and weights of 4 and 2 bits."""
    wide = Layer("INT16", bound=1 << 24)
    for rows, depth, out in ((1, 1, 1), (3, 33, 17), (2, 1100, 5)):
        yield _case(rng, (rows, depth), out, wide)
        yield _case(rng, (rows, depth), out, wide._replace(per_tensor=True), fused_activation_function="RELU6")
        yield _case(rng, (rows, depth), out, wide._replace(bias_type="INT32", per_tensor=True))
        yield replace(_case(rng, (rows, depth), out, Layer("INT4")), oracle="litert")  # TFLM: one scale only
        yield _case(rng, (rows, depth), out, Layer("INT4", per_tensor=True))
        yield replace(_case(rng, (rows, depth), out, Layer("INT2", per_tensor=True)), oracle="litert")
    yield _case(rng, (2, 3, 10), 4, wide._replace(bias=False), keep_num_dims=True)
    for kind in ("INT8", "INT16"):
        yield _case(rng, (5, 6), 19, Layer(kind, bound=9, halves=True))
        below = X_SCALE * (1 + 2.0**-20)  # multipliers just below powers of two, to which 15 bits round
        yield _case(rng, (5, 6), 19, Layer(kind, bound=9, halves=True, out_scale=float(below)))
    halves = _case(rng, (5, 6), 19, Layer("INT4", bound=9, halves=True, out_scale=float(below)))
    yield replace(halves, oracle="none", why=IN_FLOAT64)
    lowest = _case(rng, (2, 16), 5, Layer("HYBRID", per_tensor=True, lowest=True))
    yield replace(lowest, oracle="none", why=LOWEST)
    for depth in (1, 2):  # rows shorter than a word
        yield _case(rng, (3, depth), 13, Layer(bound=1 << 20))
        yield _case(rng, (1, depth), 16, Layer(per_tensor=True, zero=127), fused_activation_function="RELU6")
        yield _case(rng, (2, depth), 6, Layer(zero=-128, lowest=True))
    for tall, zeros in ((1, 0.7), (1, 0.9), (4, 0.75), (16, 0.7), (16, 1.0)):  # of blocks of tall x 4 weights
        sparse = Layer(bound=1 << 16, zeros=zeros, zero=-128, tall=tall)
        for rows, depth, out in ((1, 66, 19), (5, 40, 34), (1, 300, 33)):
            yield _case(rng, (rows, depth), out, sparse, fused_activation_function="RELU")
        yield _case(rng, (1, 6, 5, 32), 10, Layer(zeros=zeros, tall=tall, per_tensor=True), depth=960)


OP = Op("FULLY_CONNECTED", infer, reference, lower, cases, uint8="layer", packed_weights=True)
VARIANT = Variant("reference", ("FULLY_CONNECTED",), frozenset({"reference"}), _lower_reference, ("INT8",))
