"""Variables that several signatures share: first values, resets and resized inputs, beside LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flows import Sub

from twinfer import CompiledModel, Interpreter
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Graph, Signature
from twinfer.runtime.read.tflite import read
from twinfer.runtime.write.tflite import write

#: Calls of signatures in turn: a name, and the value.
Calls = Sequence[tuple[str, Sequence[float]]]


def setting(value: float) -> Graph:
    sub = Sub("set")
    sub.assign(sub.handle(), sub.constant([value]))
    return sub.graph([])


def signed(graph: Graph) -> Graph:
    """The model with signatures a (the main subgraph) and b (the next), from x to y."""
    graphs = (graph, *graph.subgraphs[: 1 if len(graph.subgraphs) > 1 else 0])
    pairs = [({"x": g.inputs[0]}, {"y": g.outputs[0]}) for g in graphs]
    return replace(graph, signatures=tuple(Signature("ab"[i], *pair, i) for i, pair in enumerate(pairs)))


def begun_by_one() -> Graph:
    """a begins with 3 and adds; b assigns."""
    a, b = Sub("a"), Sub("b")
    x, y = a.input(), b.input()
    a.once(2)
    h, k = a.handle(), b.handle()
    total = a.add(a.read(h), x)
    a.assign(h, total)
    b.assign(k, y)
    return signed(a.graph([total], b.graph([b.op("NEG", [y])]), setting(3)))


def begun_by_both(own: bool = True) -> Graph:
    """a begins with 3, b with 7: each once, at its own first run; or both with the same 3, once for both."""
    a, b = Sub("a"), Sub("b")
    totals = []
    for sub, init in ((a, 2), (b, 3 if own else 2)):
        x = sub.input()
        sub.once(init)
        h = sub.handle()
        totals.append(sub.add(sub.read(h), x))
        sub.assign(h, totals[-1])
    return signed(a.graph(totals[:1], b.graph(totals[1:]), setting(3), setting(7)))


def begun_by_one_that_never_reads() -> Graph:
    """a begins with 3 and computes something else; b adds."""
    a, b = Sub("a"), Sub("b")
    a.once(2)
    y = b.add(b.read(b.handle()), b.input())
    x = a.add(a.op("NEG", [a.input()]), np.float32([1]))
    b.assign(b.handle(), y)
    return signed(a.graph([a.mul(x, a.op("NEG", [x]))], b.graph([y]), setting(3)))


def of_any_length() -> Graph:
    a = Sub("a")
    x = a.input((1,), shape_signature=(-1,))
    h = a.handle()
    a.assign(h, x)
    return signed(a.graph([a.op("NEG", [x])], setting(0)))


CASES: dict[str, tuple[Callable[[], Graph], Calls]] = {
    "before its first value": (begun_by_one, [("b", [5]), ("a", [0]), ("b", [9]), ("a", [1]), ("a", [1])]),
    "after it": (begun_by_one, [("a", [0]), ("b", [5]), ("a", [0])]),
    "two first values": (begun_by_both, [("a", [1]), ("b", [0]), ("a", [0]), ("b", [1]), ("b", [1])]),
    "the other way": (begun_by_both, [("b", [1]), ("a", [0]), ("b", [0]), ("a", [1])]),
    "one first value for both": (lambda: begun_by_both(own=False), [("a", [1]), ("b", [1]), ("a", [1]), ("b", [0])]),
    "never read where it begins": (begun_by_one_that_never_reads, [("a", [5]), ("b", [1]), ("a", [2]), ("b", [1])]),
    "resized": (of_any_length, [("a", [1]), ("a", [1, 2, 3]), ("a", [4])]),
}


def results(model: Any, calls: Calls) -> list[list[float]]:
    model.allocate_tensors()
    runners = {key: model.get_signature_runner(key) for key in model.get_signature_list()}
    return [runners[key](x=np.array(value, np.float32))["y"].tolist() for key, value in calls]


@pytest.mark.parametrize("engine", [Interpreter, CompiledModel])
@pytest.mark.parametrize("name", CASES)
def test_as_litert(name: str, engine: type[Interpreter]) -> None:
    build, calls = CASES[name]
    content = write(build())
    peer: Any = pytest.importorskip("ai_edge_litert.interpreter")
    kind = peer.OpResolverType.BUILTIN_REF
    want = results(peer.Interpreter(model_content=content, experimental_op_resolver_type=kind), calls)
    model = engine.from_graph(read(content))
    assert results(model, calls) == want
    model.reset_all_variables()
    assert results(model, calls) == want


@pytest.mark.parametrize("engine", [Interpreter, CompiledModel])
def test_a_reset_forgets_what_another_signature_has_written(engine: type[Interpreter]) -> None:
    """Also if that one ran last, and nothing gives the variable a first value: it is zero again."""
    a, b = Sub("a"), Sub("b")
    h = a.handle()
    total = a.add(a.read(h), a.input())
    a.assign(h, total)
    b.assign(b.handle(), b.input())
    model = engine.from_graph(signed(a.graph([total], b.graph([b.op("NEG", [b.inputs[0]])]), setting(0))))
    for _ in range(2):
        assert results(model, [("a", [1]), ("b", [5]), ("a", [1]), ("b", [9])]) == [[1], [-5], [6], [-9]]
        model.reset_all_variables()


@pytest.mark.parametrize(("shape", "type"), [((2,), "FLOAT32"), ((1,), "INT32")])
def test_a_variable_is_one_for_all_signatures(shape: tuple[int, ...], type: str) -> None:
    a, b = Sub("a"), Sub("b")
    a.assign(a.handle(), a.input())
    b.assign(b.handle(), b.input(shape, type))
    graphs = [sub.graph([sub.op("NEG", [sub.inputs[0]])]) for sub in (a, b)]
    model = Interpreter.from_graph(signed(replace(graphs[0], subgraphs=(graphs[1], setting(0)))))
    model.get_signature_runner("a")(x=np.ones(1, np.float32))
    with pytest.raises(ModelError, match=r"variable .* in one signature, .* in another"):
        model.get_signature_runner("b")(x=np.ones(shape, type.lower()))
