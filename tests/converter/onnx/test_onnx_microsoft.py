"""Operators of com.microsoft, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_tools import Array, by_onnxruntime, compare, floats, model, run

from twinfer.converter.onnx import read_onnx

RNG = np.random.default_rng(9)
X, HIDDEN = floats(RNG, 2, 5, 8), [floats(RNG, 8) for _ in range(4)]
WORDS, MASK = RNG.integers(0, 20, (2, 5)).astype(np.int32), np.int32([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]])
TABLES = [floats(RNG, n, 8) for n in (20, 7, 2)]
JOINT = [floats(RNG, 8, 24), floats(RNG, 24)]
BYTES = RNG.integers(0, 256, (6, 2, 16)).astype(np.uint8)
A8, B8 = RNG.integers(0, 256, (3, 9)).astype(np.uint8), RNG.integers(-128, 128, (9, 4)).astype(np.int8)
LENGTHS = RNG.integers(0, 2, (2, 5)).astype(np.int32)

#: Operator, attributes, inputs at run time, constants behind them (None: absent), outputs, and largest error.
FORMS: list[tuple[str, dict[str, Any], list[Array], list[Array | None], int, float]] = [
    ("Gelu", {}, [X], [], 1, 1e-5),
    ("FastGelu", {}, [X], [HIDDEN[0]], 1, 1e-5),
    ("BiasGelu", {}, [X], [HIDDEN[0]], 1, 1e-5),
    ("QuickGelu", {"alpha": 1.702}, [X], [], 1, 1e-5),
    ("FusedMatMul", {"alpha": 0.5, "transB": 1}, [X, floats(RNG, 2, 3, 8)], [], 1, 1e-5),
    ("FusedMatMul", {"transA": 1}, [X], [floats(RNG, 5, 3)], 1, 1e-5),
    (
        "FusedGemm",
        {"activation": "LeakyRelu", "activation_alpha": 0.3},
        [X[0]],
        [floats(RNG, 8, 3), floats(RNG, 3)],
        1,
        1e-5,
    ),
    (
        "FusedConv",
        {"activation": "Clip", "activation_params": [-0.5, 1.5]},
        [floats(RNG, 1, 3, 6, 6)],
        [floats(RNG, 4, 3, 3, 3)],
        1,
        1e-5,
    ),
    (
        "FusedConv",
        {"activation": "Relu"},
        [floats(RNG, 1, 3, 6, 6)],
        [floats(RNG, 4, 3, 3, 3), floats(RNG, 4)],
        1,
        1e-5,
    ),
    ("SkipLayerNormalization", {}, [X, X[::-1].copy()], HIDDEN[:3], 1, 1e-5),
    ("SkipSimplifiedLayerNormalization", {}, [X, X[::-1].copy()], HIDDEN[:1], 1, 1e-5),
    ("EmbedLayerNormalization", {}, [WORDS, LENGTHS], [*TABLES, HIDDEN[0], HIDDEN[1], MASK], 2, 1e-5),
    ("Attention", {"num_heads": 2}, [X], JOINT, 1, 1e-5),
    ("Attention", {"num_heads": 2, "unidirectional": 1}, [X], JOINT, 1, 1e-5),
    ("Attention", {"num_heads": 4}, [X], [*JOINT, MASK], 1, 1e-5),
    ("MultiHeadAttention", {"num_heads": 2}, [X, floats(RNG, 2, 3, 8), floats(RNG, 2, 3, 8)], [JOINT[1]], 1, 1e-5),
    (
        "MatMulNBits",
        {"K": 64, "N": 6, "bits": 4, "block_size": 32},
        [floats(RNG, 3, 64)],
        [BYTES, np.abs(floats(RNG, 6, 2))],
        1,
        1e-4,
    ),
    (
        "MatMulNBits",
        {"K": 64, "N": 6, "bits": 4, "block_size": 32},
        [floats(RNG, 3, 64)],
        [BYTES, np.abs(floats(RNG, 6, 2)), BYTES[:, 0, :1]],
        1,
        1e-4,
    ),
    (
        "MatMulIntegerToFloat",
        {},
        [A8],
        [B8, np.float32(0.1), np.abs(floats(RNG, 4)), np.uint8(7), np.int8([0] * 4)],
        1,
        1e-5,
    ),
    (
        "QLinearWhere",
        {},
        [A8 > 99, A8],
        [np.float32(0.1), np.uint8(7), A8[::-1].copy(), np.float32(0.2), np.uint8(9), np.float32(0.3), np.uint8(3)],
        1,
        1e-5,
    ),
    ("DynamicQuantizeMatMul", {}, [X[0]], [B8[:8], np.float32(0.1)], 1, 2e-2),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0])
def test_as_onnxruntime(form: tuple[str, dict[str, Any], list[Array], list[Array | None], int, float]) -> None:
    op, attributes, given, rest, outputs, tolerance = form
    feeds = {f"x{i}": value for i, value in enumerate(given)}
    constants = {f"c{i}": np.asarray(value) for i, value in enumerate(rest) if value is not None}
    names = [*feeds, *(f"c{i}" if value is not None else "" for i, value in enumerate(rest))]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain="com.microsoft", **attributes)
    proto = model([node], feeds, constants, results)
    for output in proto.graph.output:
        output.type.tensor_type.elem_type = 2 if op == "QLinearWhere" else 6 if output.name == "y1" else 1
    compare(run(read_onnx(proto), feeds), by_onnxruntime(proto, feeds), tolerance)
