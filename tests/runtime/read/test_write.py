"""Graph -> file: round trips, LiteRT's opinion of the rewritten file, layout of the file, and the builder."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import twinfer
from twinfer.converter.build import Builder
from twinfer.runtime import op
from twinfer.runtime.errors import InvalidArgumentError, ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, Graph, Signature, Tensor, walk
from twinfer.runtime.read import schema
from twinfer.runtime.read.flatbuffer import Reader
from twinfer.runtime.read.tflite import read, read_file
from twinfer.runtime.write import tflite as tflite_write
from twinfer.runtime.write.tflite import write


def plain(value: Any, names: Mapping[Tensor, str]) -> Any:
    """The value as dicts, lists, arrays and scalars; tensors that have a name here become that name."""
    if isinstance(value, Tensor) and value in names:
        return names[value]
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name), names) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item, names) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item, names) for item in value]
    return value


def dump(graph: Graph) -> dict[str, Any]:
    """The graph without references: tensors are dumped once, and are 'subgraph/position' elsewhere."""
    names = {t: f"{i}/{j}" for i, sub in enumerate(walk(graph)) for j, t in enumerate(sub.tensors)}
    tensors = [[plain(replace(t), names) for t in sub.tensors] for sub in walk(graph)]
    return {"tensors": tensors, "graph": plain(replace(graph), names)}


def differences(a: Any, b: Any, path: str = "") -> Iterator[str]:
    """Where two dumps differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}, key=str):
            if key in a and key in b:
                yield from differences(a[key], b[key], f"{path}.{key}")
            else:
                yield f"{path}.{key} is only in the {'first' if key in a else 'second'}"
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield f"{path} has {len(a)} and {len(b)} elements"
        for i, (x, y) in enumerate(zip(a, b, strict=False)):
            yield from differences(x, y, f"{path}[{i}]")
    elif isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            yield f"{path} is {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        elif a.tobytes() != b.tobytes():
            yield f"{path} differs first at {int(np.flatnonzero(a.reshape(-1) != b.reshape(-1))[0])}"
    elif type(a) is not type(b) or (a != b and not (isinstance(a, float) and math.isnan(a) and math.isnan(b))):
        yield f"{path} is {a!r} and {b!r}"


def same(a: Graph, b: Graph) -> None:
    """Fails with the first differences unless both graphs are the same."""
    different = list(differences(dump(a), dump(b)))
    assert not different, "\n".join([f"{len(different)} differences:", *different[:10]])


def readable(model: Any) -> Graph:
    """The graph of a corpus model; skips if the file is not valid."""
    try:
        return read_file(model.path)
    except ModelError as error:
        pytest.skip(f"damaged: {error}")


@pytest.mark.corpus
@pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")
def test_round_trip(corpus_model: Any) -> None:
    graph = readable(corpus_model)
    data = write(graph)
    again = read(data, graph.name)
    same(graph, again)
    assert write(again) == data
    Aligned(memoryview(data)).root("Model")
    for offset in data_offsets(data):
        assert offset % 16 == 0


@pytest.mark.corpus("app", "op", "derived")
@pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")
def test_litert_runs_the_rewritten_file_the_same(corpus_model: Any) -> None:
    if corpus_model.entry["litert_ref"] != "ok":
        pytest.skip(f"LiteRT: {corpus_model.entry['litert_ref']}")
    golden = corpus_model.golden()
    original, rewritten = corpus_model.path.read_bytes(), write(readable(corpus_model))
    for prefix in dict.fromkeys(key.split("_")[0] for key in golden):
        inputs = {int(k.split("_in")[1]): v for k, v in golden.items() if k.startswith(f"{prefix}_in")}
        expected, got = litert(original, inputs), litert(rewritten, inputs)
        assert len(expected) == len(got)
        for i, (a, b) in enumerate(zip(expected, got, strict=True)):
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), f"{prefix}, output {i}"


def litert(model: bytes, inputs: Mapping[int, Any]) -> list[Any]:
    """Outputs of LiteRT's reference kernels from fresh state."""
    lite = pytest.importorskip("ai_edge_litert.interpreter")
    resolver = lite.OpResolverType.BUILTIN_REF
    interpreter = lite.Interpreter(model_content=model, experimental_op_resolver_type=resolver)
    details = interpreter.get_input_details()
    for i, value in inputs.items():
        if tuple(details[i]["shape"]) != value.shape:
            interpreter.resize_tensor_input(details[i]["index"], value.shape)
    interpreter.allocate_tensors()
    for i, value in inputs.items():
        interpreter.set_tensor(details[i]["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


class Aligned(Reader):
    """Fails unless tables, vectors and numbers lie where FlatBuffers' verifier wants them, and strings end with 0."""

    def _table(self, table: schema.Table, position: int) -> Any:
        assert position % 4 == 0
        layout = self._layout(table, position)
        for name, offset in zip(layout.names, layout.offsets, strict=True):
            field = next(field for field in table.fields if field.name == name)
            size = field.scalar.bytewidth if field.scalar and not field.vector else 4
            assert (position + offset) % size == 0, f"{table.name}.{name}"
        return super()._table(table, position)

    def _value(self, field: schema.Field, number: int, position: int) -> Any:
        start, size = position + number, field.scalar.bytewidth if field.scalar else 4
        if field.vector:
            assert start % 4 == 0
            assert (start + 4) % size == 0
        elif field.kind == "string":
            assert self.data[start + 4 + int.from_bytes(self.data[start : start + 4], "little")] == 0
        return super()._value(field, number, position)


def data_offsets(data: bytes) -> list[int]:
    """Where the data of every buffer starts in the file."""
    whole = np.frombuffer(data, np.uint8).ctypes.data
    buffers = Reader(memoryview(data)).root("Model")["buffers"]
    return [np.frombuffer(b["data"], np.uint8).ctypes.data - whole for b in buffers if b["data"]]


@pytest.mark.parametrize("size", [1, 3, 15, 16, 17, 100])
def test_every_buffer_is_aligned(size: int) -> None:
    b = Builder()
    x = b.input("x" * size, "INT8", (size,), scale=1.0)
    y = b.op("ADD", [x, b.constant(np.arange(size, dtype=np.int8), scale=1.0)], shape=(size,))
    z = b.op("ADD", [y, b.constant(np.ones(size + 1, np.int8)[:size], scale=1.0)], shape=(size,))
    offsets = data_offsets(write(b.graph([z])))
    assert len(offsets) == 2
    assert [offset % 16 for offset in offsets] == [0, 0]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_others_may_read_as_the_user_has_set(mask: int, tmp_path: Path) -> None:
    """Also a file in the place of one that was there."""
    graph, path, before = rich(), tmp_path / "m.tflite", os.umask(mask)
    try:
        for _ in range(2):
            graph.save(path)
            assert path.stat().st_mode & 0o777 == 0o666 & ~mask
            assert os.umask(mask) == mask
    finally:
        os.umask(before)


def rich() -> Graph:
    """A graph with one of everything that a file may hold."""
    b = Builder("rich")
    x = b.input("x", "INT8", (1, 4), scale=0.5, zero=-3)
    scales = b.constant(np.array([1.0, 2.0], np.float16), name="scales")
    weights = b.constant(np.array([[1, -2, 3, 4], [-5, 6, 7, -8]], np.int8), type="INT4", name="w")
    blockwise = {"scales": scales, "zero_points": None, "block_size": 4, "block_shape": ()}
    blocks = replace(weights, name="b", extra={"details": ("BlockwiseQuantization", blockwise)})
    dims = {"format": "DENSE", "dense_size": 2, "array_segments": None, "array_indices": None}
    sparse = {"traversal_order": (0, 1), "block_map": (), "dim_metadata": (dims, dims)}
    values = np.frombuffer(np.array([1.0, 2.0], np.float32).tobytes(), np.uint8)
    state = b.variable("state", "INT16", (1, 2), scale=0.1)
    y = b.op("FULLY_CONNECTED", [x, weights, None], shape=(1, 2), scale=0.1)
    b.add(blocks)
    for custom in (b"\x03\x04", b""):
        b.add(replace(weights, name=f"c{len(custom)}", extra={"details": ("CustomQuantization", {"custom": custom})}))
    b.add(Tensor("s", "FLOAT32", (2, 2), data=values, extra={"sparsity": sparse, "has_rank": True}))
    extra = {"custom_options": b"\x01\x02", "intermediates": (state, None), "mutating_variable_inputs": (False, True)}
    (z,) = b.node("CUSTOM:Mine", [y, state], [op.tensor((1, 2), "STRING")], extra=extra, version=7)
    (w,) = b.node("STABLEHLO_REDUCE", [y], [op.tensor((1,))], {"dimensions": (1,), "body_subgraph_index": 1})
    graph = b.graph([z, w, x], signature="main", subgraphs=[square()])
    meta = MappingProxyType({"min_runtime_version": b"1.5.0", "empty": b""})
    return replace(graph, metadata=meta, description="rich", extra={"subgraph_name": "main"})


def square() -> Graph:
    b = Builder("square")
    x = b.input("x", "FLOAT32", ())
    return b.graph([b.op("MUL", [x, x], shape=())])


def test_round_trip_of_everything() -> None:
    graph = rich()
    same(graph, read(write(graph), "rich"))


def test_equal_constants_are_stored_once() -> None:
    b = Builder()
    x = b.input("x", "FLOAT32", (256,))
    for _ in range(3):
        x = b.op("ADD", [x, np.ones(256, np.float32)], shape=(256,))
    data = write(b.graph([x]))
    assert len(data_offsets(data)) == 1
    assert len(data) < 2500
    arrays = [t.data for t in read(data).tensors if t.data is not None]
    assert np.shares_memory(arrays[0], arrays[2])


def test_a_graph_saves_itself(tmp_path: Path) -> None:
    """The same bytes as ``twinfer.write``, written whole or not at all. ``twinfer.write`` stays a function."""
    path = tmp_path / "rich.tflite"
    rich().save(path)
    assert path.read_bytes() == twinfer.write(rich())
    with pytest.raises(InvalidArgumentError, match=r"none/rich.tflite: cannot be written"):
        rich().save(tmp_path / "none" / "rich.tflite")
    with pytest.raises(ModelError, match="FLOAT31"):
        changed(type="FLOAT31").save(path)
    assert path.read_bytes() == twinfer.write(rich())
    assert [p.name for p in tmp_path.iterdir()] == ["rich.tflite"]
    assert find_spec("twinfer.converter.write") is None


def changed(**changes: Any) -> Graph:
    """``square`` with another first tensor."""
    graph = square()
    x = graph.tensors[0]
    other = replace(x, **changes)
    node = replace(graph.nodes[0], inputs=(other, other))
    return replace(graph, tensors=(other, *graph.tensors[1:]), nodes=(node,), inputs=(other,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "FLOAT31"}, "tensor 0 'x', field type: 'FLOAT31' is not a TensorType"),
        ({"shape": (1 << 31,)}, "field shape: 2147483648 is out of the range of int32"),
        ({"shape": (0.5,)}, "field shape: 0.5 is not a int32"),
        ({"data": np.zeros(3, np.float32)}, r"the value is float32\[3\], it should be float32\[\]"),
        ({"data": np.zeros((), np.int8)}, r"the value is int8\[\], it should be float32\[\]"),
        ({"type": "INT4", "shape": (3,), "data": np.zeros(3, np.uint8)}, r"3 bytes, INT4\[3\] takes 2"),
    ],
)
def test_tensors_that_do_not_fit_the_format(changes: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        write(changed(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"op": "MULL"}, "subgraph 0, operator 0 MULL: this is not an operator of the format"),
        ({"op": "CUSTOM"}, "custom operators are called CUSTOM:name"),
        ({"options": {"axis": 1}}, "there is no option 'axis'; the options are: fused_activation_function"),
        ({"options": {"fused_activation_function": "GELU"}}, "'GELU' is not a ActivationFunctionType"),
        ({"extra": {"custom_options": "text"}}, "field custom_options: str instead of bytes"),
    ],
)
def test_nodes_that_do_not_fit_the_format(changes: Any, message: str) -> None:
    graph = square()
    with pytest.raises(ModelError, match=message):
        write(replace(graph, nodes=(replace(graph.nodes[0], **changes),)))


def test_what_names_no_tensor_or_subgraph() -> None:
    graph = square()
    other = replace(graph.nodes[0], extra={"intermediates": (None, graph.inputs[0], op.tensor((), name="other"))})
    with pytest.raises(ModelError, match=r"operator 0 MUL.*'other'.* is not among the graph's tensors"):
        write(replace(graph, nodes=(other,)))
    for index in (-1, 1):
        signature = Signature("main", {"x": graph.inputs[0]}, {"y": graph.outputs[0]}, index)
        with pytest.raises(ModelError, match=f"signature 'main'.*subgraph {index} does not exist, there are 1"):
            write(replace(graph, signatures=(signature,)))


def test_a_file_that_cannot_be_put_in_place_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.tflite"
    square().save(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InvalidArgumentError, match=r"m\.tflite: cannot be written: No space left"):
        rich().save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.tflite"]


def test_two_gibibytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tflite_write, "MAX_BYTES", 10)
    with pytest.raises(ModelError, match="the constants are larger than 2 GiB"):
        write(rich())


def test_builder_infers_shapes() -> None:
    b = Builder()
    x = b.input("x", "INT8", (2, 3), scale=0.5)
    y = b.op("RESHAPE", [x, np.array([3, -1], np.int32)], new_shape=[3, -1])
    assert (y.shape, y.type, y.scale) == ((3, 2), "INT8", 0.5)


def test_builder_output_type_and_quantisation() -> None:
    b = Builder()
    x = b.input("x", "INT8", (2, 3), scale=0.5)
    index = b.op("ARG_MAX", [x, np.array(1, np.int32)], shape=(2,), type="INT32", output_type="INT32")
    real = b.op("DEQUANTIZE", [x], shape=(2, 3), type="FLOAT32")
    byte = b.op("QUANTIZE", [real], shape=(2, 3), type="INT8", scale=0.25, zero=7)
    assert (index.type, index.quant, real.quant, byte.scale, byte.zero) == ("INT32", None, None, 0.25, 7)


def test_builder_refuses_what_the_format_lacks() -> None:
    b = Builder()
    x = b.input("x", "FLOAT32", (2,))
    with pytest.raises(InvalidArgumentError, match="no operator 'CONV'"):
        b.op("CONV", [x], shape=(2,))
    with pytest.raises(InvalidArgumentError, match="SOFTMAX has no option 'axis'; it has: beta"):
        b.op("SOFTMAX", [x], shape=(2,), axis=1)
    with pytest.raises(InvalidArgumentError, match="'F32' is not a tensor type"):
        b.input("y", "F32", (2,))
    with pytest.raises(InvalidArgumentError, match="dtype float64 cannot be stored as FLOAT32"):
        b.constant(np.zeros(2), type="FLOAT32")
    with pytest.raises(InvalidArgumentError, match="cannot be stored in any tensor"):
        b.constant(np.array(["text"]))
    with pytest.raises(UnsupportedOperatorError, match="cannot be inferred, give shape="):
        b.op("CUSTOM:Mine", [x])


@pytest.mark.parametrize("type", DTYPES)
def test_constants_of_every_type(type: str) -> None:
    b = Builder()
    value = np.array([[0, 1], [1, 0], [1, 1]]).astype(DTYPES[type])
    x = b.input("x", type, (3, 2))
    graph = b.graph([b.op("ADD", [x, value], shape=(3, 2))])
    data = read(write(graph)).tensors[1].data
    assert data is not None
    assert (data.dtype, data.tolist()) == (DTYPES[type], value.tolist())
