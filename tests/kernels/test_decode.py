"""TFLM's compressed models: weights are decoded when planning; damaged ones are refused."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from cases import cases_of, graph_of, outputs_of

from twinfer.bench.peers.engines import open_peer
from twinfer.converter.passes import run as optimized
from twinfer.runtime.errors import ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.signal import decode
from twinfer.runtime.ops.signal._encoding import header, packed
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.registry import operators
from twinfer.runtime.run.session import Session
from twinfer.runtime.shapes import infer_shapes
from twinfer.runtime.target import HOST
from twinfer.runtime.write.tflite import write

OP = "CUSTOM:TFLM_DECODE"


def compressed(rng: np.random.Generator) -> tuple[Graph, Graph]:
    """A dense layer whose weights and bias are coded, and the same layer with plain constants."""
    x, y = tensor((1, 40), "INT8", 0.1, 3, name="x"), tensor((1, 30), "INT8", 2.0, -5, name="y")
    w = tensor((30, 40), "INT8", 0.02, name="w")
    b = tensor((30,), "INT32", 0.1 * np.float64(np.float32(0.02)), name="b")
    data, ancillary, _ = decode.lut(rng, "INT8", w.shape, 3)
    kept = rng.integers(0, 2, 30)
    bias = rng.integers(-999, 999, int(kept.sum())).astype(np.int32)
    node = decode.decode((data, ancillary, w), (packed(kept.tolist(), 1), header(2, 1) + bias.tobytes(), b))
    options = {
        "fused_activation_function": "NONE",
        "weights_format": "DEFAULT",
        "keep_num_dims": False,
        "asymmetric_quantize_inputs": False,
    }
    dense = Node("FULLY_CONNECTED", (x, w, b), (y,), options, index=1)
    coded = Graph("coded", (x, *node.inputs, w, b, y), (node, dense), (x,), (y,))  # type: ignore[arg-type]
    values = operators()[OP].reference(node, [t.data for t in node.inputs if t is not None])
    known = tuple(replace(t, data=value) for t, value in zip((w, b), values, strict=True))
    plain = Graph("plain", (x, *known, y), (replace(dense, inputs=(x, *known)),), (x,), (y,))
    return coded, plain


def test_the_plan_is_that_of_plain_constants() -> None:
    """No step decodes; bits are TFLM's, which decodes in every run; twinfer's own coding may follow."""
    rng = np.random.default_rng(3)
    coded, plain = compressed(rng)
    coded = read(write(coded))
    plan, other = make_plan(coded, HOST), make_plan(plain, HOST)
    assert [step.node.op for step in plan.steps] == ["FULLY_CONNECTED"]
    assert sorted(c.array.tobytes() for c in plan.constants) == sorted(c.array.tobytes() for c in other.constants)
    smaller = make_plan(coded, HOST, options=Options(weights="lut"))
    assert sum(c.nbytes for c in smaller.constants) < sum(c.nbytes for c in plan.constants)
    peer = open_peer("tflm", write(coded), 1)
    for _ in range(4):
        value = rng.integers(-128, 128, (1, 40)).astype(np.int8)
        (want,) = peer([value])
        for this in (plan, other, smaller):
            np.testing.assert_array_equal(outputs_of(Session(this), [value])[0], want)


def test_passes_leave_its_meaning() -> None:
    coded, _ = compressed(np.random.default_rng(4))
    value = np.arange(-20, 20, dtype=np.int8)[None]
    plans = [make_plan(read(write(graph)), HOST) for graph in (coded, optimized(coded), infer_shapes(coded))]
    assert len({outputs_of(Session(plan), [value])[0].tobytes() for plan in plans}) == 1


def coded(kind: int, *own: int, table: bytes = bytes(64), data: bytes = bytes(32), version: int = 1) -> Node:
    y = tensor((4, 6), "INT8", 0.5, name="y")
    return decode.decode((data, header(kind, *own, version=version) + table, y))


@pytest.mark.parametrize(
    ("node", "error", "part"),
    [
        (coded(3, 1), UnsupportedOperatorError, "coding 3, version 1.1"),
        (coded(200, 1), UnsupportedOperatorError, "coding 200"),
        (coded(0, 1, 3, 8, version=2), UnsupportedOperatorError, "version 2.1"),
        (coded(0, 2, 3, 8), UnsupportedOperatorError, "version 1.2"),
        (coded(0, 1, 0, 8), ModelError, "have no bits"),
        (coded(0, 1, 7, 8, data=bytes(20)), ModelError, "24 indices of 7 bits, there are 20 bytes"),
        (coded(0, 1, 3, 8, table=bytes(7), data=b"\xff" * 9), ModelError, "an index of tensor 'y' INT8[4, 6] is 7"),
        (coded(2, 1, data=bytes(2)), ModelError, "needs 24 bits, there are 2 bytes"),
        (coded(2, 1, table=bytes(23), data=b"\xff" * 3), ModelError, "keeps 24 values, its table has 23"),
        (coded(1, 1, 0x10, table=bytes(8)), ModelError, "lead out of its table"),
        (coded(1, 1, 0x10, table=b"\0\x90" * 4, data=bytes(5)), ModelError, "its 5 bytes"),
        (coded(1, 1, 0x10, table=b"\0\x80" * 4), ModelError, "lead out of its table"),
        (coded(1, 1, 0x10, data=bytes(2)), ModelError, "needs 24 codes"),
    ],
)
def test_damaged_weights(node: Node, error: type[TwinferError], part: str) -> None:
    with pytest.raises(error) as caught:
        make_plan(graph_of(node), HOST)
    assert OP in str(caught.value)
    assert part in str(caught.value)


def test_tables_of_other_types_and_axes_are_refused() -> None:
    data, ancillary, y = decode.lut(np.random.default_rng(5), "INT8", (2, 3, 4), 2)
    wrong: list[tuple[Tensor, type[TwinferError], str]] = [
        (replace(y, type="UINT16"), UnsupportedOperatorError, "INT64"),
        (tensor((2, 3, 4), "INT8", [1.0] * 3, [0] * 3, name="y"), ModelError, ""),
        (replace(y, variable=True), ModelError, "is a variable"),
    ]
    wrong[1] = (replace(wrong[1][0], quant=replace(wrong[1][0].quant, axis=1)), ModelError, "along axis 1")
    for other, error, part in wrong:
        with pytest.raises(error, match=part):
            make_plan(graph_of(decode.decode((data, ancillary, other))), HOST)
    huffman = decode.decode((bytes(16), header(1, 1, 0x10) + bytes(64), replace(y, type="INT16")))
    with pytest.raises(ModelError, match="needs tables of 32 bits"):
        make_plan(graph_of(huffman), HOST)


@pytest.mark.parametrize("name", list(cases_of(OP))[::6])
def test_any_damage_is_an_error_or_another_value(name: str) -> None:
    """Bits that flip, and ends that are cut off, in both inputs."""
    node, rng = cases_of(OP)[name].node, np.random.default_rng(6)
    for _ in range(150):
        i = int(rng.integers(len(node.inputs)))
        given = bytearray(node.constant(i).tobytes())
        if rng.integers(2):
            given[int(rng.integers(len(given)))] ^= 1 << int(rng.integers(8))
        else:
            del given[int(rng.integers(len(given))) :]
        inputs = list(node.inputs)
        inputs[i] = tensor((len(given),), "UINT8", data=np.frombuffer(bytes(given), np.uint8), name="bent")
        with suppress(TwinferError):
            make_plan(graph_of(replace(node, inputs=tuple(inputs))), HOST)


def test_large_weights_take_little_time() -> None:
    """A code of half a million symbols: time grows with the number of symbols alone."""
    y = tensor((1 << 19,), "INT8", 0.5, name="y")
    table = np.array([0x8800 | 1, 0x9000 | 2, 0x8800 | 1, 0x9000 | 3], "<u2")  # 2 bits each choose; codes of 1 and 2
    ancillary = header(1, 1, 0x10) + table.tobytes()
    (value,) = operators()[OP].reference(decode.decode((bytes(1 << 17), ancillary, y)), [])
    assert (value == 1).all()
