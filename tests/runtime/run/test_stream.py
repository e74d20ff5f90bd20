"""Streams in several calls: windows, rows that wait and variables go on; a reset or an allocation begins anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from twinfer import CompiledModel, Interpreter
from twinfer.bench.models.builtin import builtin
from twinfer.converter.build import Builder
from twinfer.converter.stream.convert import stream
from twinfer.runtime.errors import InvalidArgumentError, NotReadyError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.options import Options
from twinfer.runtime.run.stream import METADATA, steps_of

ENGINES = (Interpreter, CompiledModel)


def opened(engine: Any, name: str) -> Any:
    model = engine.from_graph(stream(builtin()[name]()).graph)
    model.allocate_tensors()
    return model


def rows(model: Any, count: int, seed: int = 0) -> Array:
    shape = model.get_input_details()[0]["shape"]
    size = int(np.prod(shape[2:]))
    return np.random.default_rng(seed).integers(-128, 128, (count, size)).astype(np.int8)


def scores(outputs: Iterator[list[Array]]) -> list[bytes]:
    return [output[0].tobytes() for output in outputs]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("name", "window", "hop"), [("tcn_int8", 64, 1), ("kws_int8", 49, 2)])
def test_calls_are_one_stream(engine: Any, name: str, window: int, hop: int) -> None:
    """However the rows are cut, into chunks and into calls: the same outputs, one for every full window."""
    model = opened(engine, name)
    every = rows(model, window + 20)
    whole = scores(model.stream([every]))
    first = -(-window // hop)
    assert len(whole) == len(every) // hop - first + 1
    assert len(set(whole)) > 1
    for size in (1, 3, 25):
        model.reset_all_variables()
        parts = [every[i : i + size] for i in range(0, len(every), size)]
        assert [score for part in parts for score in scores(model.stream([part]))] == whole


@pytest.mark.parametrize("engine", ENGINES)
def test_chunks_are_whole_rows_of_the_input_s_type(engine: Any) -> None:
    """Of any shape; what is refused changes nothing."""
    model = opened(engine, "tcn_int8")
    every = rows(model, 70)
    whole = scores(model.stream([every]))
    model.reset_all_variables()
    assert scores(model.stream([every[:5]])) == []
    row = every.shape[1]
    for dtype in (np.uint8, np.int16, np.int64, np.float32, np.float64, bool):
        with pytest.raises(InvalidArgumentError, match=f"does not fit .*: give whole rows of {row} elements of int8"):
            list(model.stream([every[5:].astype(dtype)]))
    for size in (1, row - 1, row + 1):
        with pytest.raises(InvalidArgumentError, match=f"a chunk int8\\[{size}\\] does not fit"):
            list(model.stream([every[5:].reshape(-1)[:size]]))
    assert scores(model.stream([every[5:].reshape(-1)])) == whole


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_count_and_a_reset_begins_anew(engine: Any) -> None:
    model = opened(engine, "tcn_int8")
    every = rows(model, 70)
    whole = scores(model.stream([every]))
    model.reset_all_variables()
    source = model.get_input_details()[0]
    for row in every[:63]:
        model.set_tensor(source["index"], row.reshape(source["shape"]))
        model.invoke()
    assert scores(model.stream([every[63:]])) == whole
    model.reset_all_variables()
    assert scores(model.stream([every[:63]])) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_row_by_row_count_too(engine: Any) -> None:
    options = Options(memory="rows", input_rows=True)
    model = engine.from_graph(stream(builtin()["kws_int8"]()).graph, options)
    model.allocate_tensors()
    every = rows(model, 50)
    (whole,) = scores(model.stream([every]))
    model.reset_all_variables()
    for pair in every[:48].reshape(24, 2, -1):
        model.begin()
        for row in pair:
            model.push_row(row)
        model.finish()
    assert scores(model.stream([every[48:]])) == [whole]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_allocation_begins_anew(engine: Any) -> None:
    """Rows that wait for their step are forgotten, and so is how many runs there were."""
    model = opened(engine, "kws_int8")
    source, every = model.get_input_details()[0], rows(model, 60)
    whole = scores(model.stream([every]))
    shape = tuple(source["shape"])
    assert scores(model.stream([every[:1]])) == []
    for other in ((2, *shape[1:]), shape):
        model.resize_tensor_input(source["index"], other)
    model.allocate_tensors()
    assert scores(model.stream([every[:49]])) == []
    for other in ((2, *shape[1:]), shape):
        model.resize_tensor_input(source["index"], other)
    model.allocate_tensors()
    assert scores(model.stream([every])) == whole


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stream_ends_with_its_tensors(engine: Any) -> None:
    model = opened(engine, "kws_int8")
    every, source = rows(model, 60), model.get_input_details()[0]
    going = model.stream([every, every])
    next(going)
    for other in ((2, *source["shape"][1:]), source["shape"]):
        model.resize_tensor_input(source["index"], other)
    model.allocate_tensors()
    with pytest.raises(NotReadyError, match=r"allocated anew: call stream\(\) again"):
        next(going)
    assert scores(model.stream([every]))


@pytest.mark.parametrize(
    ("axis", "shape", "fits"),
    [
        *((1, (1, 4, 3), 1), (2, (1, 1, 6), 1), (2, (1, 4, 3), 0), (1, (4, 3), 0), (0, (4, 3), 1), (0, (), 1)),
        *((-1, (1, 4), 0), (2, (1, 4), 0), (3, (1, 1), 0), (1, (), 0), (-1, (), 0)),
    ],
)
def test_rows_lie_one_after_the_other(axis: int, shape: tuple[int, ...], fits: int) -> None:
    """Only then is a step's input made of them."""
    b = Builder("rows")
    graph = b.graph([b.op("NEG", [b.input("x", "FLOAT32", shape)])])
    graph = replace(graph, metadata={METADATA: json.dumps({"axis": axis, "rows": 1}).encode()})
    model, values = Interpreter.from_graph(graph), np.arange(np.prod(shape), dtype=np.float32)
    model.allocate_tensors()
    if fits:
        ((output,),) = model.stream([values])
        np.testing.assert_array_equal(output, -values.reshape(shape))
    else:
        with pytest.raises(InvalidArgumentError, match=f"has no rows along axis {axis}"):
            list(model.stream([values]))


def metadata(graph: Graph, **about: Any) -> Graph:
    return replace(graph, metadata={METADATA: json.dumps({"axis": 1, "rows": 4, **about}).encode()})


def test_a_stream_feeds_one_input_that_has_elements() -> None:
    b = Builder("two")
    x, z = (b.input(name, "FLOAT32", (1, 4)) for name in "xz")
    e = b.input("e", "FLOAT32", (1, 0))
    for inputs, message in (([x, z], "'two' has 2 inputs: a stream feeds one"), ([e], "has no elements")):
        graph = replace(b.graph([b.op("NEG", inputs[:1])]), inputs=tuple(inputs))
        with pytest.raises(InvalidArgumentError, match=message):
            steps_of(metadata(graph))


@pytest.mark.parametrize("rows", [0, -1, 1 << 31, 1 << 80, 1, 5, 9, (1 << 31) - 1])
def test_rows_of_metadata_are_a_positive_number(rows: int) -> None:
    """The first step whose window is full: all its rows have come by then."""
    b = Builder("rows")
    graph = metadata(b.graph([b.op("NEG", [b.input("x", "FLOAT32", (1, 4, 2))])]), rows=rows)
    if not 0 < rows < 1 << 31:
        with pytest.raises(InvalidArgumentError, match="'twinfer_stream' are damaged"):
            steps_of(graph)
        return
    steps = steps_of(graph)
    assert (steps.hop, steps.row) == (4, 2)
    assert steps.first == len(range(0, rows, 4))


def test_a_model_over_windows_is_no_stream() -> None:
    model = Interpreter.from_graph(builtin()["tcn_int8"]())
    model.allocate_tensors()
    with pytest.raises(InvalidArgumentError, match="keeps nothing from run to run: twinfer stream"):
        list(model.stream([np.zeros((64, 40), np.int8)]))
