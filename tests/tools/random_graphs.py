"""Small random float graphs of all operators that have a rule for quantisation and a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph, Tensor

Rng = np.random.Generator

ACTIVATIONS = ("NONE", "RELU", "RELU6")


def _weights(rng: Rng, *shape: int) -> Any:
    return (rng.standard_normal(shape) * rng.uniform(0.05, 1.5)).astype(np.float32)


def _act(rng: Rng) -> str:
    return str(rng.choice(ACTIVATIONS))


def _conv(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    out, k = int(rng.integers(1, 6)), int(rng.choice([1, 3]))
    bias = [_weights(rng, out)] if rng.random() < 0.8 else []
    more = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": _act(rng)}
    return b.op("CONV_2D", [x, _weights(rng, out, k, k, x.shape[3]), *bias], **more)


def _depthwise(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    c = x.shape[3]
    more = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": _act(rng)}
    return b.op("DEPTHWISE_CONV_2D", [x, _weights(rng, 1, 3, 3, c), _weights(rng, c)], depth_multiplier=1, **more)


def _dense(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    flat = _reshape(b, x, (1, x.size))
    y = b.op("FULLY_CONNECTED", [flat, _weights(rng, 8, x.size), _weights(rng, 8)], fused_activation_function=_act(rng))
    return _reshape(b, y, (1, 2, 2, 2))


def _reshape(b: Builder, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return b.op("RESHAPE", [x, np.array(shape, np.int32)], shape=shape, new_shape=shape)


def _pair(op: str, **options: Any) -> Callable[[Builder, Tensor, Rng], Tensor]:
    def make(b: Builder, x: Tensor, rng: Rng) -> Tensor:
        other: Any = x
        if rng.random() < 0.4:
            other = _weights(rng, x.shape[3])
        elif rng.random() < 0.6:
            other = b.op("RELU", [x])
        return b.op(op, [x, other], **({"fused_activation_function": _act(rng)} if options.get("fused") else {}))

    return make


def _single(op: str, **options: Any) -> Callable[[Builder, Tensor, Rng], Tensor]:
    return lambda b, x, rng: b.op(op, [x], **options)


def _pool(op: str) -> Callable[[Builder, Tensor, Rng], Tensor]:
    window = {"filter_height": 2, "filter_width": 2, "stride_h": 1, "stride_w": 1, "padding": "SAME"}
    return lambda b, x, rng: b.op(op, [x], fused_activation_function=_act(rng), **window)


def _concat(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    squashed = b.op(str(rng.choice(["LOGISTIC", "RELU6", "TANH"])), [x])
    third = [_weights(rng, *x.shape)] if rng.random() < 0.3 else []
    return b.op("CONCATENATION", [x, squashed, *third], axis=3)


def _pad(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    return b.op("PAD", [x, np.array([[0, 0], [1, 0], [0, 1], [0, 0]], np.int32)])


def _padv2(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    value = np.array([rng.normal()], np.float32)
    return b.op("PADV2", [x, np.array([[0, 0], [1, 1], [0, 0], [0, 0]], np.int32), value])


def _mean(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    return b.op("MEAN", [x, np.array([1, 2], np.int32)], keep_dims=True)


def _transpose(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    return b.op("TRANSPOSE", [x, np.array([0, 2, 3, 1], np.int32)])


def _resize(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    size = np.array([x.shape[1] + 1, x.shape[2] * 2], np.int32)
    return b.op(str(rng.choice(["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])), [x, size])


def _slice(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    return b.op("SLICE", [x, np.zeros(4, np.int32), np.array([1, *(-(-d // 2) for d in x.shape[1:])], np.int32)])


def _prelu(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    return b.op("PRELU", [x, _weights(rng, 1, 1, x.shape[3])])


def _positive(op: str) -> Callable[[Builder, Tensor, Rng], Tensor]:
    """A function of positive values."""
    return lambda b, x, rng: b.op(op, [b.op("ADD", [b.op("ABS", [x]), np.array([0.5], np.float32)])])


def _div(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    divisor = b.op("ADD", [b.op("RELU", [x]), np.array([rng.choice([0.3, 3])], np.float32)])
    return b.op("DIV", [x, divisor])


def _reduce(op: str) -> Callable[[Builder, Tensor, Rng], Tensor]:
    return lambda b, x, rng: b.op(op, [x, np.array([2], np.int32)], keep_dims=True)


def _transpose_conv(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    shape = (1, 2 * x.shape[1], 2 * x.shape[2], 3)
    inputs = [np.array(shape, np.int32), _weights(rng, 3, 2, 2, x.shape[3]), x, _weights(rng, 3)]
    return b.op("TRANSPOSE_CONV", inputs, shape=shape, type="FLOAT32", padding="SAME", stride_h=2, stride_w=2)


def _gather(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    return b.op("GATHER", [x, rng.integers(0, x.shape[3], 3).astype(np.int32)], axis=3)


def _split(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    sizes = np.array([1, x.shape[1] - 1] if x.shape[1] > 1 else [1], np.int32)
    shapes = [(1, int(n), *x.shape[2:]) for n in sizes]
    outs = [replace(x, name=f"split_{len(b.tensors)}_{i}", shape=s) for i, s in enumerate(shapes)]
    parts = b.node("SPLIT_V", [x, sizes, np.array(1, np.int32)], outs, {"num_splits": len(sizes)})
    return b.op("CONCATENATION", [*reversed(parts), x], axis=1)


def _pack(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    packed = b.op("PACK", [x, b.op("RELU", [x])], shape=(2, *x.shape), axis=0, values_count=2)
    return b.op("MEAN", [packed, np.array([0], np.int32)])


def _batch_matmul(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    return b.op("BATCH_MATMUL", [x, b.op("TANH", [x])], adj_y=True)


LAYERS: dict[str, Callable[[Builder, Tensor, Rng], Tensor]] = {
    "conv": _conv, "depthwise": _depthwise, "dense": _dense, "concat": _concat, "pad": _pad, "padv2": _padv2,
    "mean": _mean, "transpose": _transpose, "resize": _resize, "slice": _slice, "prelu": _prelu,
    "add": _pair("ADD", fused=True), "sub": _pair("SUB", fused=True), "mul": _pair("MUL", fused=True),
    "maximum": _pair("MAXIMUM"), "minimum": _pair("MINIMUM"), "average": _pool("AVERAGE_POOL_2D"),
    "max": _pool("MAX_POOL_2D"), "softmax": _single("SOFTMAX", beta=1.0), "logistic": _single("LOGISTIC"),
    "tanh": _single("TANH"), "relu": _single("RELU"), "relu6": _single("RELU6"), "hard_swish": _single("HARD_SWISH"),
    "abs": _single("ABS"), "exp": _single("EXP"), "log": _positive("LOG"), "rsqrt": _positive("RSQRT"),
    "sqrt": _positive("SQRT"), "div": _div,
    "sum": _reduce("SUM"), "reduce_max": _reduce("REDUCE_MAX"), "gather": _gather,
    "reduce_min": _reduce("REDUCE_MIN"), "l2": _single("L2_NORMALIZATION"), "log_softmax": _single("LOG_SOFTMAX"),
    "squared": _pair("SQUARED_DIFFERENCE"), "transpose_conv": _transpose_conv, "split": _split, "pack": _pack,
    "matmul": _batch_matmul, "leaky": _single("LEAKY_RELU", alpha=0.1),
}  # fmt: skip


def random_graph(seed: int, layers: list[str]) -> Graph:
    """These layers on top of one another; the last two values are the outputs."""
    rng = np.random.default_rng(seed)
    b = Builder("random")
    x = b.input("x", "FLOAT32", (1, 4, 3, 2))
    values = [x]
    for layer in layers:
        values.append(LAYERS[layer](b, values[-1], rng))
    return b.graph(values[-2:] if len(layers) > 1 else values[-1:], signature="serving_default")


def random_samples(seed: int, graph: Graph, count: int) -> list[dict[str, Any]]:
    """Normal values for every input."""
    rng = np.random.default_rng(seed)
    return [{t.name: rng.standard_normal(t.shape).astype(np.float32) for t in graph.inputs} for _ in range(count)]
