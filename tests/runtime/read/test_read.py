"""The schema's rows against LiteRT's generated code, and good files through the reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError, ModelError, ModelWarning
from twinfer.runtime.graph import Tensor
from twinfer.runtime.read import schema
from twinfer.runtime.read.flatbuffer import Reader
from twinfer.runtime.read.tflite import read, read_file
from twinfer.runtime.write.encode import encode
from twinfer.runtime.write.tflite import write


def generated() -> Any:
    return pytest.importorskip("ai_edge_litert.schema_py_generated")


def camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def members(cls: Any) -> dict[int, str]:
    return {value: name for name, value in vars(cls).items() if isinstance(value, int)}


@pytest.mark.parametrize("name", schema.ENUMS)
def test_enum_is_that_of_the_format(name: str) -> None:
    expected = members(getattr(generated(), name))
    assert dict(enumerate(schema.ENUMS[name].names)) == expected


@pytest.mark.parametrize("name", schema.UNIONS)
def test_union_is_that_of_the_format(name: str) -> None:
    assert dict(enumerate(schema.UNIONS[name])) == members(getattr(generated(), name))


def test_no_table_is_missing() -> None:
    tables = {n[:-1] for n, c in vars(generated()).items() if n.endswith("T") and hasattr(c, "InitFromPackedBuf")}
    assert set(schema.TABLES) == tables


def test_operators_with_options_exist() -> None:
    options = {name for union in ("BuiltinOptions", "BuiltinOptions2") for name in schema.UNIONS[union][1:]}
    assert {table.name for table in schema.OPERATOR_OPTIONS.values()} == options
    assert set(schema.OPERATOR_OPTIONS) <= set(schema.ENUMS["BuiltinOperator"].names)


def stored(field: schema.Field, value: Any) -> Any:
    """The value as LiteRT's generated code has it."""
    if field.kind in schema.ENUMS and not field.vector:
        return schema.ENUMS[field.kind].names.index(value)
    if field.kind in schema.ENUMS:
        return [schema.ENUMS[field.kind].names.index(v) for v in value]
    if field.kind == "string":
        return value.encode()
    return list(value) if field.vector else value


def extremes(field: schema.Field) -> list[Any]:
    """Two values at the ends of the field's range, so that a wrong width shows."""
    if field.kind in schema.ENUMS:
        names = schema.ENUMS[field.kind].names
        return [names[0], names[-1]]
    if field.kind == "string":
        return ["", "x\u00e4"]
    if field.kind == "float32":
        return [-1.5, 3.0e38]
    return [field.scalar.min_val, field.scalar.max_val]


def samples(field: schema.Field) -> list[Any]:
    values = extremes(field)
    return [bytes(values) if field.kind == "uint8" else tuple(values)] if field.vector else values


FIELDS = [(table.name, field) for table in schema.TABLES.values() for field in table.fields]


@pytest.mark.parametrize("table", schema.TABLES)
def test_table_has_the_fields_and_defaults_of_the_format(table: str) -> None:
    expected = dict(vars(getattr(generated(), f"{table}T")()))
    for field in schema.TABLES[table].fields:
        default = expected.pop(camel(field.name))
        if field.kind in schema.UNIONS:
            assert (default, expected.pop(camel(field.name) + "Type")) == (None, 0), field.name
        elif default is None:
            assert field.default in ((), b"", "", None), field.name
        else:
            assert stored(field, field.default) == default, field.name
    assert not expected, "fields that the row lacks"


@pytest.mark.parametrize(("table", "field"), FIELDS, ids=[f"{table}.{field.name}" for table, field in FIELDS])
def test_field_is_written_and_read_where_the_format_has_it(table: str, field: schema.Field) -> None:
    code = getattr(generated(), f"{table}T")
    if not field.scalar and field.kind != "string":
        return check_reference(table, field)
    for value in samples(field):
        theirs = code.InitFromPackedBuf(encode(table, {field.name: value}))
        got = getattr(theirs, camel(field.name))
        expected = stored(field, value)
        assert np.allclose(got, expected, rtol=1e-6, atol=0) if field.kind == "float32" else list_of(got) == expected
        builder = flatbuffers.Builder()
        builder.Finish(theirs.Pack(builder), schema.IDENTIFIER)
        ours = Reader(memoryview(bytes(builder.Output()))).root(table)
        assert encode(table, ours) == encode(table, {**schema.TABLES[table].defaults, **nothing(table), **ours})
        read_back = ours[field.name]
        assert stored(field, read_back) == pytest.approx(expected) if read_back is not None else expected in ([], 0)
    return None


def nothing(table: str) -> dict[str, None]:
    """What the reader gives for absent byte vectors."""
    return {f.name: None for f in schema.TABLES[table].fields if f.vector and f.kind == "uint8"}


def list_of(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def check_reference(table: str, field: schema.Field) -> None:
    """A field that refers to tables: an empty table of every possible kind arrives as that kind."""
    code = generated()
    for kind in schema.UNIONS[field.kind][1:] if field.kind in schema.UNIONS else [field.kind]:
        value: Any = (kind, {}) if field.kind in schema.UNIONS else ({},) if field.vector else {}
        data = encode(table, {field.name: value})
        theirs = getattr(getattr(code, f"{table}T").InitFromPackedBuf(data), camel(field.name))
        assert type(theirs[0] if field.vector else theirs).__name__ == f"{kind}T"
        ours = Reader(memoryview(data)).root(table)[field.name]
        defaults = {**schema.TABLES[kind].defaults, **nothing(kind)}
        assert ours == ((kind, defaults) if field.kind in schema.UNIONS else (defaults,) if field.vector else defaults)


def small() -> bytes:
    b = Builder("small")
    x = b.input("x", "INT8", (1, 4, 4, 3), scale=0.5, zero=3)
    w = b.constant(np.arange(54, dtype=np.int8).reshape(2, 3, 3, 3), scale=[0.1, 0.2], name="w")
    bias = b.constant(np.array([1, -2], np.int32), scale=[0.05, 0.1], name="bias")
    options: dict[str, Any] = {"padding": "SAME", "stride_h": 1, "stride_w": 2, "fused_activation_function": "RELU6"}
    y = b.op("CONV_2D", [x, w, bias], shape=(1, 4, 2, 2), scale=0.25, zero=-1, **options)
    return write(b.graph([y], signature="serving_default"))


def test_graph_has_what_was_written() -> None:
    graph = read(small(), "net")
    node, (x, w, bias, y) = graph.nodes[0], graph.tensors
    assert (graph.name, graph.inputs, graph.outputs) == ("net", (x,), (y,))
    assert node.op == "CONV_2D"
    assert node.inputs == (x, w, bias)
    assert node.options["padding"] == "SAME"
    assert node.options["stride_w"] == 2
    assert node.options["dilation_h_factor"] == 1
    assert node.options["quantized_bias_type"] == "FLOAT32"
    assert (x.type, x.shape, x.scale, x.zero) == ("INT8", (1, 4, 4, 3), 0.5, 3)
    assert w.quant is not None
    assert w.quant.scale.tolist() == np.array([0.1, 0.2], np.float32).tolist()
    assert w.data is not None
    assert w.data.tolist() == np.arange(54).reshape(2, 3, 3, 3).tolist()
    assert graph.signatures[0].inputs == {"x": x}


def test_constants_are_read_only_views_of_the_file() -> None:
    data = small()
    w = read(data).tensors[1].data
    assert w is not None
    assert np.shares_memory(w, np.frombuffer(data, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        w[0] = 1


def test_constants_of_an_unaligned_file_are_aligned() -> None:
    data = bytearray(b"_" + small())
    graph = read(memoryview(data)[1:])
    for tensor in graph.tensors:
        assert tensor.data is None or (tensor.data.flags.aligned and not tensor.data.flags.writeable)
    bias = graph.tensors[2].data
    assert bias is not None
    assert bias.tolist() == [1, -2]


def edited(data: bytes, **changes: Any) -> bytes:
    """The file with other values in its root table."""
    return encode("Model", {**Reader(memoryview(data)).root("Model"), **changes})


def test_tensors_on_one_buffer_share_their_memory() -> None:
    root = Reader(memoryview(small())).root("Model")
    tensors = root["subgraphs"][0]["tensors"]
    extra = {**tensors[1], "name": "again", "shape": (54,), "quantization": None}
    root["subgraphs"][0]["tensors"] = (*tensors, extra)
    graph = read(encode("Model", root))
    first, second = graph.tensors[1].data, graph.tensors[4].data
    assert first is not None
    assert second is not None
    assert np.shares_memory(first, second)
    assert second.shape == (54,)


def test_buffers_outside_of_the_flatbuffer() -> None:
    root = Reader(memoryview(small())).root("Model")
    values = np.arange(54, dtype=np.int8)[::-1].tobytes()
    index = root["subgraphs"][0]["tensors"][1]["buffer"]
    root["buffers"][index].update(data=None, offset=4096, size=54)
    data = encode("Model", root).ljust(4096, b"\0") + values
    w = read(data).tensors[1].data
    assert w is not None
    assert w.tobytes() == values
    with pytest.raises(ModelError, match=r"buffer \d, field offset: 54 bytes at \d+ reach outside of the file"):
        read(data[:-1])


def test_an_offset_of_1_was_reserved_and_never_filled() -> None:
    root = Reader(memoryview(small())).root("Model")
    root["buffers"] = (*root["buffers"], {"offset": 1, "size": 1})
    root["subgraphs"][0]["tensors"][0]["buffer"] = len(root["buffers"]) - 1
    assert read(encode("Model", root)).inputs[0].data is None


def test_operators_without_options_have_the_defaults() -> None:
    root = Reader(memoryview(small())).root("Model")
    root["subgraphs"][0]["operators"][0]["builtin_options"] = None
    assert dict(read(encode("Model", root)).nodes[0].options) == schema.default_options("CONV_2D")


def test_old_operator_codes() -> None:
    data = edited(small(), operator_codes=({"deprecated_builtin_code": 3},))
    assert read(data).nodes[0].op == "CONV_2D"


def test_custom_operators() -> None:
    b = Builder()
    x = b.input("x", "STRING", (1,))
    out = b.node("CUSTOM:Tokenize", [x, None], [Tensor("y", "INT32", ())], extra={"custom_options": b"\1\2"})
    node = read(write(b.graph(out))).nodes[0]
    assert (node.op, node.inputs[1], node.extra["custom_options"]) == ("CUSTOM:Tokenize", None, b"\1\2")
    assert node.input(0).type == "STRING"


def test_metadata_and_description() -> None:
    metadata = ({"name": "a", "buffer": 1}, {"name": "b", "buffer": 0})
    graph = read(edited(small(), metadata=metadata, description="what it is"))
    assert dict(graph.metadata) == {"a": np.arange(54, dtype=np.int8).tobytes(), "b": b""}
    assert graph.description == "what it is"


def test_open_dimensions() -> None:
    root = Reader(memoryview(small())).root("Model")
    root["subgraphs"][0]["tensors"][0]["shape_signature"] = (-1, 4, 4, 3)
    x, w, *_ = read(encode("Model", root)).tensors
    assert (x.shape, x.shape_signature, w.shape_signature) == ((1, 4, 4, 3), (-1, 4, 4, 3), ())


def test_empty_buffers_are_constants_only_where_there_is_nothing_to_store() -> None:
    b = Builder()
    x = b.input("x", "FLOAT32", (1,))
    axes = b.constant(np.zeros((0,), np.int32))
    y = b.op("MEAN", [x, axes], shape=(1,))
    data = write(b.graph([y]))
    tensors = read(data).tensors
    assert tensors[1].data is not None
    assert tensors[1].data.shape == (0,)
    root = Reader(memoryview(data)).root("Model")
    root["subgraphs"][0]["tensors"][2]["buffer"] = 1  # has one element, the buffer none
    assert read(encode("Model", root)).tensors[2].data is None


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="there is no such file"):
        read_file(tmp_path / "absent.tflite")
    with pytest.raises(InvalidArgumentError, match="it is not a file"):
        read_file(tmp_path)
    with pytest.raises(InvalidArgumentError, match="not str"):
        read("model.tflite")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="a model's content is the bytes of a file: "):
        read(memoryview(small())[::2])
    assert write(read(memoryview(small()).cast("b"))) == write(read(bytearray(small()))) == write(read(small()))


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "short.tflite"
    path.write_bytes(b"TFL3")
    with pytest.raises(ModelError, match="short: the file has 4 bytes, too short"):
        read_file(path)
    with pytest.raises(ModelError, match=re.escape("bytes 4 to 7 are b'stry', not b'TFL3'")):
        read(b"industry" * 9)


@pytest.mark.corpus("app", "op", "derived")
def test_every_good_model_loads(corpus_model: Any) -> None:
    if corpus_model.path.stem == "tflm_person_detect":
        pytest.skip("test_person_detect_is_repaired")
    graph = read_file(corpus_model.path)
    operators: dict[str, int] = {}
    for node in graph.nodes:
        name = node.op.removeprefix("CUSTOM:")
        operators[name] = operators.get(name, 0) + 1
    assert [[t.type, list(t.shape)] for t in graph.inputs] == corpus_model.entry["inputs"]
    if not graph.subgraphs:
        assert sum(operators.values()) == sum(corpus_model.entry["ops"].values())


def test_person_detect_is_repaired(corpus: Path) -> None:
    with pytest.warns(ModelWarning, match="14 1-D tensors have a quantized_dimension they do not have"):
        graph = read_file(corpus / "models/tflm_person_detect.tflite")
    bias = graph.nodes[0].input(2)
    assert bias.quant is not None
    assert (bias.quant.axis, bias.quant.scale.size) == (0, bias.shape[0])
