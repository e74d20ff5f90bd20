"""Shapes that come into subgraphs with a call: resized models with control flow, beside LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from flows import Sub

from twinfer import CompiledModel, Interpreter
from twinfer.runtime.called import MOST_COPIES
from twinfer.runtime.control import MOST_CALLS
from twinfer.runtime.errors import ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.read.tflite import read
from twinfer.runtime.shapes import infer_shapes
from twinfer.runtime.write.tflite import write

ROWS = (1, 4)
OPEN = {"shape_signature": (-1, 4)}


def x_of(sub: Sub) -> Tensor:
    return sub.input(ROWS, **OPEN)


def one(name: str, op: str) -> Graph:
    """A subgraph of one operator over rows."""
    sub = Sub(name)
    return sub.graph([sub.op(op, [x_of(sub)])])


def condition(sub: Sub, x: Tensor) -> Tensor:
    """Whether the sum over all rows is below 40."""
    total = sub.op("SUM", [x, np.array([0, 1], np.int32)], shape=(), keep_dims=False)
    return sub.op("LESS", [total, np.array(40, np.float32)], "BOOL", ())


def branches() -> Graph:
    main = Sub("main")
    x = x_of(main)
    (y,) = main.branch(condition(main, x), 1, 2, [x], [x])
    return main.graph([main.op("NEG", [y])], one("then", "RELU"), one("else", "ABS"))


def loop() -> Graph:
    """x + x as long as the sum is below 40."""
    main, test, body = Sub("main"), Sub("test"), Sub("body")
    x, a, b = x_of(main), x_of(test), x_of(body)
    (y,) = main.loop(1, 2, [x])
    return main.graph([y], test.graph([condition(test, a)]), body.graph([body.add(b, b)]))


def nested() -> Graph:
    """A branch in a branch, whose inner subgraphs the outer ones share, over rows and over rows twice."""
    main, then, orelse = Sub("main"), Sub("then"), Sub("else")
    x = x_of(main)
    for sub in (then, orelse):
        a = x_of(sub)
        twice = sub.op("CONCATENATION", [a, a], shape=(2, 4), axis=0, fused_activation_function="NONE")
        sub.outputs = [  # type: ignore[attr-defined]
            *sub.branch(condition(sub, a), 3, 4, [a], [a]),
            *sub.branch(condition(sub, a), 3, 4, [twice], [twice]),
        ]
    y = main.branch(condition(main, x), 1, 2, [x], [x, main.tensor((2, 4))])
    graphs = [sub.graph(sub.outputs) for sub in (then, orelse)]  # type: ignore[attr-defined]
    return main.graph(y, *graphs, one("relu", "RELU"), one("abs", "ABS"))


def folded() -> Graph:
    """A subgraph whose own operators become constants, called with other shapes than its own."""
    main, body = Sub("main"), Sub("body")
    x, a = x_of(main), x_of(body)
    shape = body.op("SHAPE", [a], "INT32", (2,), out_type="INT32")
    twos = body.op("FILL", [shape, np.array(2, np.float32)], "FLOAT32", ROWS)
    twice = main.op("CONCATENATION", [x, x], shape=(2, 4), axis=0, fused_activation_function="NONE")
    (y,) = main.branch(condition(main, x), 1, 1, [twice], [twice])
    return main.graph([y], body.graph([body.add(a, twos)]))


def composite() -> Graph:
    main = Sub("main")
    x = x_of(main)
    y = main.op("STABLEHLO_COMPOSITE", [x], name="odml.relu", decomposition_subgraph_index=1, version=1)
    return main.graph([main.op("NEG", [y])], one("body", "RELU"))


def outputs(model: Any, value: np.ndarray) -> list[np.ndarray]:
    (source,) = model.get_input_details()
    model.resize_tensor_input(source["index"], value.shape)
    model.allocate_tensors()
    model.set_tensor(source["index"], value)
    model.invoke()
    return [model.get_tensor(detail["index"]) for detail in model.get_output_details()]


@pytest.mark.parametrize("engine", [Interpreter, CompiledModel])
@pytest.mark.parametrize("build", [branches, loop, nested, folded])
def test_as_litert(build: Callable[[], Graph], engine: Any) -> None:
    """Batches in turn through one interpreter."""
    content = write(build())
    peer = pytest.importorskip("ai_edge_litert.interpreter")
    kind = peer.OpResolverType.BUILTIN_REF
    litert = peer.Interpreter(model_content=content, experimental_op_resolver_type=kind)
    ours = engine.from_graph(read(content))
    rng = np.random.default_rng(0)
    for rows in (1, 3, 1, 5):
        value = np.abs(rng.integers(-4, 4, (rows, 4))).astype(np.float32) + np.float32(0.5)
        for got, want in zip(outputs(ours, value), outputs(litert, value), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("engine", [Interpreter, CompiledModel])
def test_a_composite(engine: Any) -> None:
    value = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
    (got,) = outputs(engine.from_graph(composite()), value)
    np.testing.assert_array_equal(got, -np.maximum(value, 0))


def test_a_subgraph_keeps_its_number_and_a_shape_has_one_copy() -> None:
    graph = nested()
    resized = infer_shapes(graph, {graph.inputs[0]: (3, 4)})
    assert [g.name for g in resized.subgraphs[:4]] == ["then", "else", "relu", "abs"]
    shapes = [(g.name, g.inputs[0].shape) for g in resized.subgraphs[4:]]
    want = {("then", (3, 4)), ("else", (3, 4))} | {(name, (n, 4)) for name in ("relu", "abs") for n in (3, 6)}
    assert sorted(shapes) == sorted(want)
    assert infer_shapes(graph, {graph.inputs[0]: (1, 4)}).subgraphs[:4] == graph.subgraphs


def test_a_loop_whose_values_grow_is_refused() -> None:
    main, test, body = Sub("main"), Sub("test"), Sub("body")
    x, a, b = x_of(main), x_of(test), x_of(body)
    (y,) = main.loop(1, 2, [x])
    grown = body.op("CONCATENATION", [b, b], shape=(2, 4), axis=0, fused_activation_function="NONE")
    model = Interpreter.from_graph(main.graph([y], test.graph([condition(test, a)]), body.graph([grown])))
    with pytest.raises(UnsupportedOperatorError, match=r"WHILE.* differ in shape"):
        outputs(model, np.ones((3, 4), np.float32))


def test_branches_of_two_shapes_are_refused() -> None:
    main, twice = Sub("main"), Sub("twice")
    x, a = x_of(main), x_of(twice)
    (y,) = main.branch(condition(main, x), 1, 2, [x], [x])
    both = twice.op("CONCATENATION", [a, a], shape=(2, 4), axis=0, fused_activation_function="NONE")
    model = Interpreter.from_graph(main.graph([y], one("then", "RELU"), twice.graph([both])))
    with pytest.raises(UnsupportedOperatorError, match=r"IF.* differ in shape"):
        outputs(model, np.ones((3, 4), np.float32))


@pytest.mark.parametrize("wide", [False, True])
def test_calls_without_end(wide: bool) -> None:
    """Subgraphs that call themselves, or two more each, with ever other shapes: an error, and soon."""
    main, subs = Sub("main"), [Sub(f"s{i}") for i in range(24 if wide else 1)]
    x = x_of(main)
    for i, sub in enumerate(subs):
        a = sub.input(ROWS, **OPEN)
        inner = min(i + 2, len(subs))
        more = sub.op("CONCATENATION", [a] * (1 + 2**i % 97), shape=ROWS, axis=0, fused_activation_function="NONE")
        calls = [
            sub.branch(condition(sub, a), inner, inner, [given], [a])[0] for given in ([a, more] if wide else [more])
        ]
        sub.outputs = calls[-1:]  # type: ignore[attr-defined]
    (y,) = main.branch(condition(main, x), 1, 1, [x], [x])
    graph = main.graph([y], *(sub.graph(sub.outputs) for sub in subs))  # type: ignore[attr-defined]
    with suppress(TwinferError):
        resized = infer_shapes(graph, {graph.inputs[0]: (2, 4)})
        assert len(resized.subgraphs) <= len(subs) + MOST_COPIES + MOST_CALLS
    with pytest.raises((ModelError, UnsupportedOperatorError)):
        outputs(Interpreter.from_graph(graph), np.ones((2, 4), np.float32))
