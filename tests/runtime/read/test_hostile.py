"""Damaged and hostile files: only TwinferError may come out, fast, in bounded memory, and it must name the place."""

from __future__ import annotations

import random
import struct
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import cpu_below
from needs import deep_but

from twinfer.converter.build import Builder
from twinfer.runtime import op
from twinfer.runtime.errors import InvalidArgumentError, ModelError, TwinferError
from twinfer.runtime.graph import Graph
from twinfer.runtime.read.flatbuffer import Reader
from twinfer.runtime.read.tflite import read, read_file
from twinfer.runtime.write.encode import encode
from twinfer.runtime.write.tflite import write

#: Seconds. A file of some KB that takes longer would never end.
SECONDS = 1.0


def branch(name: str) -> Graph:
    b = Builder(name)
    x = b.input("x", "INT8", (1, 2, 2, 2), scale=0.25)
    return b.graph([b.op("ABS", [x], shape=x.shape)])


@cache
def victim() -> bytes:
    """A small file with a part of every kind."""
    b = Builder("victim")
    x = b.input("x", "INT8", (1, 4, 4, 1), scale=0.5, zero=3)
    flag = b.input("flag", "BOOL", ())
    w = b.constant(np.arange(18, dtype=np.int8).reshape(2, 3, 3, 1), scale=[0.1, 0.2], name="conv/weights")
    bias = b.constant(np.array([1, -2], np.int32), scale=[0.05, 0.1], name="conv/bias")
    mask = b.constant(np.array([True, False]), name="mask")
    conv: dict[str, Any] = {"padding": "VALID", "fused_activation_function": "RELU", "stride_h": 2, "stride_w": 2}
    y = b.op("CONV_2D", [x, w, bias], shape=(1, 2, 2, 2), scale=0.25, **conv)
    branches = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    (z,) = b.node("IF", [flag, y], [op.tensor((1, 2, 2, 2), "INT8", 0.25)], branches)
    (s,) = b.node("CUSTOM:Mine", [z, None, mask], [op.tensor((1,), "STRING")], extra={"custom_options": b"\1\2"})
    r = b.op("RESHAPE", [z], shape=(8,), new_shape=(8,))
    graph = b.graph([r, s], signature="main", subgraphs=[branch("then"), branch("else")])
    return write(Graph(**{**vars(graph), "metadata": MappingProxyType({"note": b"text"})}))


def attempt(data: bytes) -> str:
    """Reads the file and writes it again. Returns the message of a TwinferError, or ""; other errors escape."""
    with cpu_below(SECONDS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            write(read(data))
        except TwinferError as error:
            return str(error)
        return ""


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def test_every_prefix_is_refused() -> None:
    data = victim()
    assert attempt(data) == ""
    accepted = [size for size in range(len(data)) if not attempt(data[:size])]
    assert all(not any(data[size:]) for size in accepted), "cut off more than padding"


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(victim()) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_changed_bytes(changes: list[tuple[int, int]]) -> None:
    data = bytearray(victim())
    for position, value in changes:
        data[position] = value
    message = attempt(bytes(data))
    assert not message or message.startswith(("model: ", "input: ")), message


WORDS = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF]


@pytest.mark.parametrize("value", deep_but(WORDS, 0, 0x7FFFFFFF))
def test_extreme_words(value: int) -> None:
    data = bytearray(victim())
    refused = 0
    for position in range(0, len(data) - 4, 4):
        word = data[position : position + 4]
        struct.pack_into("<I", data, position, value)
        refused += bool(attempt(bytes(data)))
        data[position : position + 4] = word
    assert refused > len(data) // 40


def test_unknown_enum_values_are_named() -> None:
    data, text = bytearray(victim()), ""
    wanted = (
        "subgraph 0, operator 0, field builtin_options, field padding: value 99 is not a Padding (SAME, VALID)",
        "field fused_activation_function: value 99 is not a ActivationFunctionType (NONE, RELU, ",
        "subgraph 0, tensor 3 'conv/bias', field type: value 99 is not a TensorType (FLOAT32, ",
    )
    for position in range(8, len(data)):
        byte, data[position] = data[position], 99
        text += attempt(bytes(data))
        data[position] = byte
        if all(message in text for message in wanted):
            return
    pytest.fail(text)


#: Models that have, unlike the victim, an LSTM, sparse weights, strings, and what TensorFlow's converter writes.
REAL = (
    *("mlp_kws_int8", "lrt_lstm_quantized", "tflm_trained_lstm_int8", "lrt_sparse_tensor", "lrt_where"),
    *("lrt_simple_group_norm_op", "aeq_conv_fc_mnist", "lrt_gather_string"),
)


@pytest.mark.parametrize("model", REAL)
def test_real_models_with_changed_bytes(model: str, corpus: Path) -> None:
    original, rng = (corpus / "models" / f"{model}.tflite").read_bytes(), random.Random(model)
    refused = 0
    for _ in range(60):
        data = bytearray(original)
        for _ in range(rng.randint(1, 40)):
            data[rng.choice((rng.randrange(len(data)), rng.randrange(min(len(data), 2048))))] = rng.randrange(256)
        refused += bool(attempt(bytes(data)))
    assert refused


@pytest.mark.corpus("reject")
def test_rejects(corpus_model: Any) -> None:
    damaged = {
        "lrt_0_subgraphs": "the model has no subgraph",
        "lrt_lstm_quantized2": r"subgraph 0, tensor 23 '.*', field shape: dimension -1 in \[-1\] is negative",
        "lrt_segment_sum_invalid_buffer": "subgraph 0, operator 0, SEGMENT_SUM, field builtin_options: the opt",
    }
    if corpus_model.path.stem in damaged:
        with pytest.raises(ModelError, match=damaged[corpus_model.path.stem]):
            read_file(corpus_model.path)
    else:  # only unsupported: planning refuses it
        assert read_file(corpus_model.path).tensors


ENDS = {"INT8": (-128, 127), "INT4": (-8, 7), "UINT4": (0, 15), "INT2": (-2, 1)}


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("type", ENDS)
def test_each_zero_point_is_looked_at(place: int, type: str) -> None:
    low, high = ENDS[type]
    for value in (low - 1, low, high, high + 1):
        b = Builder("channels")
        stored = np.zeros((3, 2), np.uint8 if type == "UINT4" else np.int8)
        table = b.constant(stored, scale=[0.5] * 3, zero=[1, 0, 1], type=type)
        data = write(b.graph([b.op("NEG", [table], shape=(3, 2))]))
        old, new = (np.array(z, "<i8").tobytes() for z in ([1, 0, 1], np.insert([1, 0], place, value)))
        assert old in data
        message = attempt(data.replace(old, new))
        said = f"zero point {value} is outside of {type} ({low} to {high})"
        assert (said in message) is not (low <= value <= high), message


Change = Callable[[dict[str, Any]], None]


def tensor(i: int, **values: Any) -> Change:
    return lambda root: root["subgraphs"][0]["tensors"][i].update(values)


def quantisation(i: int, **values: Any) -> Change:
    return lambda root: root["subgraphs"][0]["tensors"][i]["quantization"].update(values)


def operator(i: int, **values: Any) -> Change:
    return lambda root: root["subgraphs"][0]["operators"][i].update(values)


def stored(i: int, *values: int) -> Change:
    """Gives the tensor these bytes, in a buffer of their own."""

    def change(root: dict[str, Any]) -> None:
        tensor(i, shape=(len(values),), buffer=len(root["buffers"]))(root)
        root["buffers"] = (*root["buffers"], {"data": np.array(values, np.uint8).data})

    return change


def model(**values: Any) -> Change:
    return lambda root: root.update(values)


BIG = 2**31 - 1
PLACES: list[tuple[Change, str]] = [
    (model(version=2), "field version: schema version 2 is not 3"),
    (model(subgraphs=()), "the model has no subgraph"),
    (model(operator_codes=({"builtin_code": 250},)), "operator code 0: field builtin_code: code 250 is no operator"),
    (model(operator_codes=({"builtin_code": -1, "deprecated_builtin_code": -1},)), "code -1 is no operator"),
    (model(operator_codes=({"builtin_code": 32},)), "operator code 0, field custom_code: a custom operator needs"),
    (model(metadata=({"name": "note", "buffer": 99},)), "metadata 0 'note', field buffer: buffer 99 does not exist"),
    (model(signature_defs=({"subgraph_index": 9},)), "signature 0 '', field subgraph_index: subgraph 9 does not"),
    (
        model(signature_defs=({"signature_key": "f", "inputs": ({"name": "x", "tensor_index": 99},)},)),
        "signature 0 'f', field inputs: tensor 99 does not exist, there are",
    ),
    (
        model(signature_defs=({"outputs": ({"name": "y"}, {"name": "y", "tensor_index": 1})},)),
        "signature 0 '', field outputs: the name 'y' is used twice",
    ),
    (tensor(3, shape=(-1,)), "subgraph 0, tensor 3 'conv/bias', field shape: dimension -1 in [-1] is negative"),
    (tensor(0, shape=(BIG, BIG, BIG, BIG)), "tensor 0 'x', field shape: INT8[2147483647, 2147483647, 2147483647,"),
    (tensor(0, shape=(1,) * 33), "tensor 0 'x', field shape: 33 dimensions, at most 32 are possible"),
    (tensor(0, shape_signature=(-1, 4)), "'x', field shape_signature: [-1, 4] does not fit shape [1, 4, 4, 1]"),
    (tensor(3, shape=(3,), quantization=None), "field buffer: INT32[3] takes 12 bytes, the buffer has 8"),
    (tensor(3, buffer=99), "tensor 3 'conv/bias', field buffer: buffer 99 does not exist, there are"),
    (tensor(3, is_variable=True), "'conv/bias', field buffer: a variable tensor cannot have a constant value"),
    (tensor(3, external_buffer=1), "'conv/bias', field external_buffer: the value lies in another file"),
    (stored(4, 0, 2), "tensor 4 'mask', field buffer: a bool is 0 or 1, the buffer has 2"),
    (tensor(4, buffer=1, shape=(18,)), "tensor 4 'mask', field buffer: a bool is 0 or 1, the buffer has 17"),
    (quantisation(3, zero_point=(0,)), "'conv/bias', field zero_point: 1 zero points, but 2 scales"),
    (quantisation(0, zero_point=(300,)), "'x', field zero_point: zero point 300 is outside of INT8 (-128 to 127)"),
    (quantisation(0, zero_point=(128,)), "'x', field zero_point: zero point 128 is outside of INT8 (-128 to 127)"),
    (quantisation(0, zero_point=(-129,)), "'x', field zero_point: zero point -129 is outside of INT8 (-128 to 127)"),
    (quantisation(0, scale=(float("inf"),)), "tensor 0 'x', field scale: a scale is infinite or not a number"),
    (quantisation(0, scale=(float("nan"),)), "tensor 0 'x', field scale: a scale is infinite or not a number"),
    (
        quantisation(2, quantized_dimension=1),
        "tensor 2 'conv/weights', field quantized_dimension: 2 scales along axis 1 do not fit shape [2, 3, 3, 1]",
    ),
    (
        quantisation(0, details=("BlockwiseQuantization", {"scales": 77, "zero_points": -1})),
        "tensor 0 'x', field details, field scales: tensor 77 does not exist",
    ),
    (
        quantisation(0, details=("BlockwiseQuantization", {"scales": 0, "zero_points": -1})),
        "tensor 0 'x', field details, field scales: tensor 0 has quantisation details itself",
    ),
    (
        tensor(2, sparsity={"traversal_order": (0, 1), "dim_metadata": ({"dense_size": 2},)}),
        "tensor 2 'conv/weights', field sparsity: traversal_order and dim_metadata have different lengths",
    ),
    (operator(0, opcode_index=5), "subgraph 0, operator 0: field opcode_index: operator code 5 does not exist"),
    (operator(0, opcode_index=99), "subgraph 0, operator 0: field opcode_index: operator code 99 does not exist"),
    (operator(0, inputs=(0, 2, 99)), "subgraph 0, operator 0, CONV_2D, field inputs: tensor 99 does not exist"),
    (operator(0, inputs=(-2,)), "operator 0, CONV_2D, field inputs: tensor -2 does not exist"),
    (operator(0, outputs=(-1,)), "operator 0, CONV_2D, field outputs: tensor -1 does not exist"),
    (operator(0, outputs=(3,)), "subgraph 0: operator 0 CONV_2D -> 'conv/bias': writes tensor 'conv/bias' INT32"),
    (operator(0, inputs=(5, 2)), "reads tensor 'conv_2d_5' INT8[1, 2, 2, 2] before any operator has written it"),
    (operator(0, intermediates=(99,)), "operator 0, CONV_2D, field intermediates: tensor 99 does not exist"),
    (
        operator(0, builtin_options=("Pool2DOptions", {})),
        "operator 0, CONV_2D, field builtin_options: the options are Pool2DOptions, CONV_2D has Conv2DOptions",
    ),
    (
        operator(0, large_custom_options_offset=8, large_custom_options_size=1 << 40),
        "CONV_2D, field large_custom_options_offset: 1099511627776 bytes at 8 reach outside of the file",
    ),
    (
        operator(1, builtin_options=("IfOptions", {"then_subgraph_index": 3})),
        "subgraph 0, operator 1 IF -> 't': subgraph 3 does not exist, there are 3",
    ),
    (
        operator(1, builtin_options=("IfOptions", {"then_subgraph_index": 0})),
        "subgraph 0 calls itself, directly or through others",
    ),
]


@pytest.mark.parametrize(("change", "message"), PLACES, ids=[message[:60] for _, message in PLACES])
def test_damage_is_reported_with_its_place(change: Change, message: str) -> None:
    root = Reader(memoryview(victim())).root("Model")
    change(root)
    said = attempt(encode("Model", root))
    assert message.replace(": field", ", field") in said


def test_a_vtable_of_odd_length() -> None:
    data = bytearray(victim())
    (root,) = struct.unpack_from("<I", data)
    (back,) = struct.unpack_from("<i", data, root)
    data[root - back] |= 1
    assert f"the vtable at byte {root - back} has length {data[root - back]}" in attempt(bytes(data))


def test_bytes_that_reach_outside() -> None:
    """Only metadata refers to the buffer, so no tensor's size tells how long it should be."""
    data = bytearray(victim())
    start = data.index(b"text")
    struct.pack_into("<I", data, start - 4, len(data) - start + 1)
    assert f"{len(data) - start + 1} elements at byte {start} reach outside of the file" in attempt(bytes(data))


def test_a_string_that_reaches_outside() -> None:
    data = bytearray(victim())
    start = data.index(b"conv/bias")
    struct.pack_into("<I", data, start - 4, len(data) - start + 1)
    size = len(data) - start + 1
    assert f"reaches outside of the file (byte {start}, {size} bytes, file {len(data)})" in attempt(bytes(data))


def test_strings_must_be_utf8() -> None:
    data = victim().replace(b"conv/bias", b"conv/b\xff\xfes")
    assert "field name: the string b'conv/b\\xff\\xfes' is not UTF-8" in attempt(data)


def test_large_shapes_take_no_memory() -> None:
    root = Reader(memoryview(victim())).root("Model")
    root["subgraphs"][0]["tensors"][0]["shape"] = (1 << 16, 1 << 15, 1, 1)
    data = encode("Model", root)
    with memory_below(1 << 20):
        assert read(data).inputs[0].size == 1 << 31


def vector(builder: Any, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def table(builder: Any, **slots: int) -> int:
    builder.StartObject(12)
    for name, offset in slots.items():
        builder.PrependUOffsetTRelativeSlot(int(name[1:]), offset, 0)
    return int(builder.EndObject())


def overlapping(subgraphs: int, tensors: int, dimensions: int) -> bytes:
    """A short file whose subgraphs are all the same one, and so are its tensors. Read one by one they would fill any
    memory."""
    builder = flatbuffers.Builder()
    shape = builder.CreateNumpyVector(np.ones(dimensions, np.int32))
    parts = vector(builder, [table(builder, s0=shape)] * tensors)
    graphs = vector(builder, [table(builder, s0=parts)] * subgraphs)
    builder.StartObject(5)
    builder.PrependUint32Slot(0, 3, 0)
    builder.PrependUOffsetTRelativeSlot(2, graphs, 0)
    builder.Finish(builder.EndObject(), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize("sizes", [(20000, 20000, 1), (1, 20000, 30000), (50000, 0, 0), (300, 300, 300)])
def test_overlapping_parts_are_refused(sizes: tuple[int, int, int]) -> None:
    data = overlapping(*sizes)
    assert "overlap" in attempt(data)
    with memory_below(100 * len(data) + (4 << 20)), pytest.raises(ModelError):
        read(data)


def test_buffers_that_share_unaligned_bytes_are_refused() -> None:
    """Each must be copied to be aligned: 2000 of 100,000 bytes would take 200 MB from a file of 200 kB."""
    root = Reader(memoryview(victim())).root("Model")
    shared = {"offset": 1 << 17 | 1, "size": 100_000}
    data = encode("Model", {**root, "buffers": (*root["buffers"], *[shared] * 2000)})
    data = data.ljust((1 << 17) + 100_001, b"\0")
    with memory_below(100 * len(data) + (4 << 20)), pytest.raises(ModelError, match=r"buffer \d+: .*overlap"):
        read(data)


def test_many_subgraphs_that_call_the_next() -> None:
    root = Reader(memoryview(victim())).root("Model")
    code = root["subgraphs"][0]["operators"][1]["opcode_index"]
    links = [("IfOptions", {"then_subgraph_index": i, "else_subgraph_index": i}) for i in range(1, 3000)]
    chain = [{"operators": ({"opcode_index": code, "builtin_options": link},)} for link in links]
    data = encode("Model", {**root, "subgraphs": [*chain, {}], "signature_defs": None})
    with cpu_below(SECONDS):
        assert len(read(data).subgraphs) == 2999


def test_a_path_that_is_no_model() -> None:
    with pytest.raises(InvalidArgumentError, match="it is not a file"):
        read_file("/dev/zero")
    with pytest.raises(ModelError, match="the file is no"):
        read_file(__file__)
