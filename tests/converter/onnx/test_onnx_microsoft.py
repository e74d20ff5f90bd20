"""Operators of com.microsoft, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_tools import Array, by_onnxruntime, compare, floats, model, run

from twinfer.converter.onnx import read_onnx
from twinfer.runtime.errors import UnsupportedOperatorError

RNG = np.random.default_rng(9)
X, HIDDEN = floats(RNG, 2, 5, 8), [floats(RNG, 8) for _ in range(4)]
WORDS, MASK = RNG.integers(0, 20, (2, 5)).astype(np.int32), np.int32([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]])
TABLES = [floats(RNG, n, 8) for n in (20, 7, 2)]
JOINT = [floats(RNG, 8, 24), floats(RNG, 24)]
BYTES = RNG.integers(0, 256, (6, 2, 16)).astype(np.uint8)
A8, B8 = RNG.integers(0, 256, (3, 9)).astype(np.uint8), RNG.integers(-128, 128, (9, 4)).astype(np.int8)
LENGTHS = RNG.integers(0, 2, (2, 5)).astype(np.int32)
SCALES, IMAGE8 = np.abs(floats(RNG, 24)), RNG.integers(-99, 99, (1, 6, 5, 4)).astype(np.int8)
CAUSAL = np.tril(np.ones((2, 5, 5), np.int32))
QUERY, KEY = floats(RNG, 1, 5, 64), floats(RNG, 1, 5, 32)
PAST = [floats(RNG, 2, 2, 3, 4), floats(RNG, 2, 2, 3, 4), floats(RNG, 1, 2, 4, 16), floats(RNG, 1, 2, 4, 16)]
GROUPS, LONG = {"num_heads": 4, "kv_num_heads": 2}, [np.int32([4]), np.int32(5)]
ANGLES = np.arange(12)[:, None] * np.linspace(0.1, 1, 8)
TURNS = [np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)]

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
    (
        "MatMulBnb4",
        {"K": 64, "N": 6, "block_size": 16, "quant_type": 0},
        [floats(RNG, 3, 64)],
        [BYTES.reshape(-1), SCALES],
        1,
        1e-5,
    ),
    (
        "MatMulBnb4",
        {"K": 64, "N": 6, "block_size": 16, "quant_type": 1},
        [floats(RNG, 3, 64)],
        [BYTES.reshape(-1), SCALES],
        1,
        1e-5,
    ),
    # one block per row: int8 weights, with which TFLite quantises the values
    (
        "MatMulNBits",
        {"K": 64, "N": 6, "bits": 4, "block_size": 64},
        [floats(RNG, 3, 64)],
        [BYTES.reshape(6, 1, 32), SCALES[:6] * np.float32([1, 1, -1, 1, -1, 1])],
        1,
        2e-2,
    ),
    ("NhwcMaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}, [IMAGE8], [], 1, 0),
    ("Attention", {"num_heads": 2, "unidirectional": 1}, [X], [*JOINT, None, floats(RNG, 2, 2, 2, 3, 4)], 2, 1e-4),
    ("Attention", {"num_heads": 2}, [X], [*JOINT, np.int32([3, 5])], 1, 1e-4),
    ("Attention", {"num_heads": 2}, [X], [*JOINT, CAUSAL], 1, 1e-4),
    ("MultiHeadAttention", {"num_heads": 2}, [X, X[::-1].copy(), X / 2], [None] * 3 + PAST[:2], 3, 1e-5),
    ("MultiHeadAttention", {"num_heads": 2}, [X, floats(RNG, 2, 2, 3, 4), floats(RNG, 2, 2, 3, 4)], [], 1, 1e-5),
    (
        "GroupQueryAttention",
        {**GROUPS, "softcap": 2.0, "scale": 0.3},
        [QUERY, KEY, KEY / 2],
        [None, None, *LONG],
        3,
        1e-5,
    ),
    (
        "GroupQueryAttention",
        {**GROUPS, "do_rotary": 1, "local_window_size": 2},
        [QUERY, KEY, KEY / 2],
        [None, None, *LONG, *TURNS],
        3,
        1e-5,
    ),
    (
        "GroupQueryAttention",
        {**GROUPS, "do_rotary": 1, "rotary_interleaved": 1},
        [QUERY[:, :1], KEY[:, :1], KEY[:, 1:2]],
        [*PAST[2:], *LONG, *TURNS],
        3,
        1e-5,
    ),
    ("RotaryEmbedding", {}, [floats(RNG, 1, 2, 5, 16), np.int64([[2, 3, 9, 5, 6]])], TURNS, 1, 1e-5),
    ("RotaryEmbedding", {"interleaved": 1}, [floats(RNG, 2, 5, 32), np.int64([3])], TURNS, 1, 1e-5),
]

#: Types of outputs that are no floats.
KINDS = {("QLinearWhere", "y0"): 2, ("NhwcMaxPool", "y0"): 3, ("EmbedLayerNormalization", "y1"): 6}


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:.* with a scale per block are floats here")
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
        output.type.tensor_type.elem_type = KINDS.get((op, output.name), 1)
    compare(run(read_onnx(proto), feeds), by_onnxruntime(proto, feeds), tolerance)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_a_table_in_blocks_stay_integers_until_they_are_taken(bits: int, zeros: bool) -> None:
    at = np.int64([[1, 3], [8, 0]])
    constants = {"t": RNG.integers(0, 256, (9, 4 * bits)).astype(np.uint8), "s": np.abs(floats(RNG, 9, 2))}
    constants |= {"z": RNG.integers(0, 256, (9, bits // 4)).astype(np.uint8)} if zeros else {}
    options = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": bits}
    names = ["t", "at", "s", *(["z"] if zeros else [])]
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft", **options)
    proto = model([node], {"at": at}, constants, ["y"])
    proto.graph.output[0].type.tensor_type.elem_type = 1
    graph = read_onnx(proto)
    assert any(t.type == "INT8" and t.shape == (9, 32) for t in graph.tensors)
    compare(run(graph, {"at": at}), by_onnxruntime(proto, {"at": at}), 0)


def test_what_is_laid_out_for_one_cpu_is_refused_with_a_way_that_works() -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"])
    proto = model([conv], {"x": floats(RNG, 1, 8, 3, 3)}, {"w": floats(RNG, 8, 8, 1, 1)}, ["y"])
    proto.graph.node[0].domain = "com.microsoft.nchwc"
    proto.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(UnsupportedOperatorError, match="ORT_ENABLE_EXTENDED"):
        read_onnx(proto)


def test_nodes_may_stand_in_any_order_and_the_optimisers_operators_need_no_opset() -> None:
    nodes = [helper.make_node("Relu", ["g"], ["y"]), helper.make_node("Gelu", ["x"], ["g"], domain="com.microsoft")]
    proto = model(nodes[::-1], {"x": X}, {}, ["y"])
    wanted = by_onnxruntime(proto, {"x": X})
    del proto.graph.node[:], proto.opset_import[1:]
    proto.graph.node.extend(nodes)
    compare(run(read_onnx(proto), {"x": X}), wanted, 1e-6)
