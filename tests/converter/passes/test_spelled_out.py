"""Patterns as exporters and people spell them become the operators for them, with the values of onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRT
from onnx_tools import by_onnxruntime, compare, run

from twinfer.converter.convert import convert
from twinfer.runtime.errors import ModelError
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.write.tflite import write

#: Numbers and small constants that bodies may read.
KNOWN = {
    **{f"c{i}": i for i in range(10)},
    "half": 0.5,
    "root2": 2**0.5,
    "inv_root2": 0.5**0.5,
    "third": 1 / 3,
    "sixth": 1 / 6,
    "tenth": 0.1,
    "cubic": 0.044715,
    "tanh_scale": (2 / np.pi) ** 0.5,
    "eps": 1e-5,
    "tiny": 1e-12,
    "one_point_six": 1.5957691216,
}

#: Name -> shape of x, nodes from x to y, and the operators that they become.
ROWS = "2, 3, 8"
IMAGE = "1, 4, 8, 6"
SPELLED = {
    # torch below opset 20, tf2onnx, BERT by hand
    "gelu by erf": (ROWS, "a = Div(x, root2) b = Erf(a) c = Add(b, c1) d = Mul(x, c) y = Mul(d, half)", "GELU"),
    "gelu by erf, half first": (
        ROWS,
        "h = Mul(half, x) a = Mul(x, inv_root2) b = Erf(a) c = Add(c1, b) y = Mul(h, c)",
        "GELU",
    ),
    "gelu by tanh": (
        ROWS,
        "a = Pow(x, c3) b = Mul(a, cubic) c = Add(x, b) d = Mul(c, tanh_scale) e = Tanh(d) f = Add(e, c1)"
        " h = Mul(x, half) y = Mul(h, f)",
        "GELU",
    ),
    "gelu by sigmoid": (
        ROWS,
        "a = Mul(x, x) b = Mul(a, x) c = Mul(b, cubic) d = Add(c, x) e = Mul(d, one_point_six) f = Sigmoid(e)"
        " y = Mul(x, f)",
        "GELU",
    ),
    "hard swish": (ROWS, "a = Add(x, c3) b = Clip(a, c0, c6) c = Mul(x, b) y = Div(c, c6)", "HARD_SWISH"),
    "hard swish by hard sigmoid": (ROWS, "a = HardSigmoid<alpha=0.16666667>(x) y = Mul(a, x)", "HARD_SWISH"),
    "silu by exp": (ROWS, "a = Neg(x) b = Exp(a) c = Add(b, c1) y = Div(x, c)", "LOGISTIC MUL"),
    "elu": (ROWS, "p = Greater(x, c0) a = Exp(x) b = Sub(a, c1) y = Where(p, x, b)", "ELU"),
    "leaky relu": (ROWS, "a = Mul(x, tenth) y = Max(x, a)", "LEAKY_RELU"),
    "prelu by keras2onnx": (ROWS, "a = Relu(x) b = Neg(x) c = Relu(b) d = Mul(slopes, c) y = Add(a, d)", "PRELU"),
    "layer norm": (
        ROWS,
        "m = ReduceMean<axes=[-1]>(x) r = Sub(x, m) s = Pow(r, c2) v = ReduceMean<axes=[-1]>(s) e = Add(v, eps)"
        " d = Sqrt(e) n = Div(r, d) g = Mul(n, gamma) y = Add(g, beta)",
        "MEAN SUB MUL MEAN ADD RSQRT MUL MUL ADD",
    ),
    "layer norm by tensorflow": (
        ROWS,
        "m = ReduceMean<axes=[-1]>(x) r = Sub(x, m) s = Mul(r, r) v = ReduceMean<axes=[-1]>(s) e = Add(v, eps)"
        " q = Sqrt(e) d = Reciprocal(q) f = Mul(d, gamma) a = Mul(x, f) b = Mul(m, f) o = Sub(beta, b) y = Add(a, o)",
        "MEAN SUB MUL MEAN ADD RSQRT MUL MUL ADD",
    ),
    "rms norm": (
        ROWS,
        "s = Mul(x, x) v = ReduceMean<axes=[-1]>(s) e = Add(v, eps) q = Sqrt(e) d = Div(c1, q) n = Mul(x, d)"
        " y = Mul(n, gamma)",
        "MUL MEAN ADD RSQRT MUL MUL",
    ),
    "F.normalize": (
        ROWS,
        "n = ReduceL2<axes=[-1]>(x) a = Clip(n, tiny) s = Shape(x) b = Expand(a, s) y = Div(x, b)",
        "L2_NORMALIZATION",
    ),
    "l2_normalize of channels": (
        IMAGE,
        "a = Conv(x, w) s = Mul(a, a) q = ReduceSum(s, axis1) m = Max(q, tiny) r = Sqrt(m) n = Div(a, r)"
        " y = Conv(n, w)",
        "TRANSPOSE CONV_2D L2_NORMALIZATION CONV_2D TRANSPOSE",
    ),
    "softmax": (
        ROWS,
        "m = ReduceMax<axes=[-1]>(x) a = Sub(x, m) e = Exp(a) s = ReduceSum(e, last) y = Div(e, s)",
        "SOFTMAX",
    ),
    "log softmax": (ROWS, "s = Softmax<axis=-1>(x) y = Log(s)", "LOG_SOFTMAX"),
    "log softmax by logsumexp": (ROWS, "s = ReduceLogSumExp<axes=[-1]>(x) y = Sub(x, s)", "LOG_SOFTMAX"),
    "reflection by slices": (
        IMAGE,
        "a = Slice(x, one, three, last) b = Slice(a, minus1, least, last, minus1) y = Concat<axis=-1>(b, x)",
        "MIRROR_PAD",
    ),
    "reflection by indices": (
        IMAGE,
        "a = Gather<axis=2>(x, around8) y = Gather<axis=3>(a, around6)",
        "MIRROR_PAD",
    ),
    "channel shuffle": (
        IMAGE,
        "a = Conv(x, w) b = Reshape(a, groups) c = Transpose<perm=[0, 2, 1, 3, 4]>(b) d = Reshape(c, image)"
        " y = Conv(d, w)",
        "TRANSPOSE CONV_2D RESHAPE TRANSPOSE RESHAPE CONV_2D TRANSPOSE",
    ),
    "space to depth": (
        IMAGE,
        "a = Conv(x, w) b = Reshape(a, blocks) c = Transpose<perm=[0, 3, 5, 1, 2, 4]>(b) d = Reshape(c, deep)"
        " y = Conv(d, w16)",
        "TRANSPOSE CONV_2D SPACE_TO_DEPTH CONV_2D TRANSPOSE",
    ),
    "depth to space": (
        IMAGE,
        "a = Conv(x, w) b = Reshape(a, depths) c = Transpose<perm=[0, 3, 4, 1, 5, 2]>(b) y = Reshape(c, wide)",
        "TRANSPOSE CONV_2D DEPTH_TO_SPACE RESHAPE",
    ),
    "larger by Expand": (
        IMAGE,
        "a = Conv(x, w) b = Reshape(a, cells) c = Expand(b, twice) d = Reshape(c, larger) y = Conv(d, w)",
        "TRANSPOSE CONV_2D RESIZE_NEAREST_NEIGHBOR CONV_2D TRANSPOSE",
    ),
}  # fmt: skip


def _constants() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    numbers = {name: np.array(value, np.float32) for name, value in KNOWN.items()}
    floats = {"gamma": (8,), "beta": (8,), "slopes": (8,), "w": (4, 4, 1, 1), "w16": (4, 16, 1, 1)}
    shapes = {"groups": (1, 2, 2, 8, 6), "image": (1, 4, 8, 6), "blocks": (1, 4, 4, 2, 3, 2), "deep": (1, 16, 4, 3)}
    shapes |= {"depths": (1, 2, 2, 1, 8, 6), "wide": (1, 1, 16, 12), "cells": (1, 4, 8, 1, 6, 1)}
    shapes |= {"twice": (1, 4, 8, 2, 6, 2), "larger": (1, 4, 16, 12), "axis1": (1,), "last": (-1,), "one": (1,)}
    shapes |= {"three": (3,), "minus1": (-1,), "least": (-(1 << 31),)}
    shapes |= {"around8": (2, 1, *range(8), 6), "around6": (1, *range(6), 4)}
    return {
        **numbers,
        **{name: rng.uniform(0.3, 1, shape).astype(np.float32) for name, shape in floats.items()},
        **{name: np.array(values, np.int64) for name, values in shapes.items()},
    }


@pytest.mark.parametrize("name", SPELLED)
def test_what_it_becomes(name: str) -> None:
    shape, body, ops = SPELLED[name]
    body = re.sub(r"\) (\w+ =)", r")\n\1", body)
    text = f'<ir_version: 8, opset_import: ["" : 13]> agraph (float[{shape}] x) => (float y) {{ {body} }}'
    proto = onnx.parser.parse_model(text)
    read = {value for node in proto.graph.node for value in node.input}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(v, k) for k, v in _constants().items() if k in read)
    feeds = {"x": 3 * np.random.default_rng(1).standard_normal([int(n) for n in shape.split(",")]).astype(np.float32)}
    graph = convert(proto)
    assert " ".join(node.op for node in graph.nodes) == ops
    compare(run(graph, feeds), by_onnxruntime(proto, feeds), 2e-6)


@pytest.mark.parametrize(
    ("body", "opens"),
    [
        ("a = Slice(x, one, three, one) b = Neg(a) y = Reshape(b, rows)", True),
        ("a = Transpose<perm=[1, 0, 2]>(x) b = Add(a, steps) y = Transpose<perm=[1, 0, 2]>(b)", False),
    ],
)
def test_a_batch_of_three(body: str, opens: bool) -> None:
    """Three rows at once are what each gives alone, here and in LiteRT; where that cannot be, they are refused."""
    text = re.sub(r"\) (\w+ =)", r")\n\1", body)
    text = f'<ir_version: 8, opset_import: ["" : 13]> agraph (float[N, 6, 4] x) => (float y) {{ {text} }}'
    proto = onnx.parser.parse_model(text)
    steps = np.arange(24, dtype=np.float32).reshape(6, 1, 4)
    known = {**_constants(), "rows": np.array((-1, 8)), "steps": steps}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(v, k) for k, v in known.items() if k in body)
    file = write(convert(proto))
    x = np.random.default_rng(0).standard_normal((3, 6, 4)).astype(np.float32)
    alone = np.concatenate([_resized(Interpreter, file, row[None]) for row in x])
    for engine in (Interpreter, LiteRT):
        if opens:
            np.testing.assert_array_equal(_resized(engine, file, x), alone)
        else:
            with pytest.raises((ModelError, RuntimeError)):
                _resized(engine, file, x)


def _resized(engine: Any, file: bytes, x: np.ndarray) -> Any:
    made = engine(model_content=file)
    made.resize_tensor_input(made.get_input_details()[0]["index"], x.shape)
    made.allocate_tensors()
    made.set_tensor(made.get_input_details()[0]["index"], x)
    made.invoke()
    return made.get_tensor(made.get_output_details()[0]["index"])
