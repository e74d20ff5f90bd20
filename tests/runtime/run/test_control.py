"""Control flow and variables: what the file says, what LiteRT and TFLM do, interpreted, compiled and under guard."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cases import outputs_of
from flows import Meaning, Random, Sub
from hostile import floats
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but

from twinfer.aot.build.compiled import CompiledModel
from twinfer.bench.models.source import Source
from twinfer.bench.models.verify import Samples, verify
from twinfer.bench.peers.engines import installed, isolate, open_peer
from twinfer.runtime.graph import Graph, Node, Quant, Signature
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.registry import operators
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write

#: The inputs of several runs of one interpreter.
Runs = list[list[Any]]


YES, NO = np.array([True]), np.array([False])


def counted(body: Callable[[Sub, list[Any]], list[Any]], count: int, limit: float = 3) -> tuple[Graph, Graph]:
    """The subgraphs of a loop over a counter and ``count`` values, which ``body`` changes; it runs up to ``limit``."""
    test, inner = Sub("test"), Sub("body")
    for sub in (test, inner):
        for _ in range(count + 1):
            sub.input()
    results = [inner.add(inner.inputs[0], floats(1)), *body(inner, inner.inputs[1:])]
    return test.graph([test.less(test.inputs[0], floats(limit))]), inner.graph(results)


def looped(body: Callable[[Sub, list[Any]], list[Any]], count: int) -> Graph:
    main = Sub("main")
    outputs = main.loop(1, 2, [main.input() for _ in range(count + 1)])
    return main.graph([*outputs, outputs[1]], *counted(body, count))


def swapped() -> tuple[Graph, Runs]:
    return looped(lambda sub, x: [x[1], x[0]], 2), [[floats(i), floats(5), floats(7)] for i in (0, 1, 3, 9)]


def repeated() -> tuple[Graph, Runs]:
    def body(sub: Sub, x: list[Any]) -> list[Any]:
        y = sub.add(x[0], x[1])
        return [y, y, x[2]]

    return looped(body, 3), [[floats(0), floats(1), floats(2), floats(3)], [floats(4)] * 4]


def constant_result() -> tuple[Graph, Runs]:
    return looped(lambda sub, x: [sub.constant([42])], 1), [[floats(0), floats(7)], [floats(3), floats(7)]]


def condition_is_a_value() -> tuple[Graph, Runs]:
    """The loop ends as a value of the loop says; the same tensor is a result twice."""
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    test.input()
    body.input()
    for sub in (test, body, main):
        sub.input(type="BOOL")
    n = body.add(body.inputs[0], floats(1))
    graphs = test.graph([test.inputs[1]]), body.graph([n, body.less(n, floats(4))])
    outputs = main.loop(1, 2, [main.input(), main.inputs[0]])
    return main.graph([*outputs, *outputs], *graphs), [[YES, floats(0)], [NO, floats(1)], [YES, floats(9)]]


def branches() -> tuple[Graph, Runs]:
    """Results that are computed, handed through and constant; the argument is read again behind."""
    then, orelse, main = Sub("then"), Sub("else"), Sub("main")
    a, b = [then.input(), then.input()], [orelse.input(), orelse.input()]
    graphs = then.graph([then.add(*a), a[0]]), orelse.graph([orelse.constant([9]), orelse.mul(*b)])
    x, y, c = main.input(), main.input(), main.input(type="BOOL")
    outputs = main.branch(c, 1, 2, [x, y], [x, y])
    return main.graph([main.add(outputs[0], x), *outputs, outputs[1]], *graphs), [
        [floats(3), floats(4), YES],
        [floats(3), floats(4), NO],
    ]


def nested() -> tuple[Graph, Runs]:
    """An IF in a WHILE in an IF."""
    test, one, two, body, outer, other, main = (Sub(f"s{i}") for i in range(7))
    graphs = [test.graph([test.less(test.input(), test.input())])]
    graphs += [sub.graph([sub.add(sub.input(), floats(i))]) for i, sub in ((1, one), (2, two))]
    n, last = body.input(), body.input()
    graphs += [body.graph([*body.branch(body.less(n, floats(3)), 2, 3, [n], [n]), last])]
    graphs += [outer.graph(outer.loop(1, 4, [outer.input(), outer.input()])[:1])]
    other.input()
    graphs += [other.graph([other.input()])]
    x, y = main.input(), main.input()
    outputs = main.branch(main.less(x, floats(5)), 5, 6, [x, y], [x])
    return main.graph([*outputs, x], *graphs), [[floats(x), floats(y)] for x, y in ((0, 8), (4, 4), (6, 3), (2, 9))]


def weights_through_a_loop() -> tuple[Graph, Runs]:
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    for sub in (test, body):
        for shape in ((1,), (1, 4), (4, 4)):
            sub.input(shape)
    i, x, w = body.inputs
    y = body.op("FULLY_CONNECTED", [x, w, None], fused_activation_function="RELU")
    graphs = test.graph([test.less(test.inputs[0], floats(3))]), body.graph([body.add(i, floats(1)), y, w])
    w = main.constant(np.eye(4) * 2)
    return main.graph(main.loop(1, 2, [main.constant([0]), main.input((1, 4)), w])[1:2], *graphs), [
        [floats(1, -2, 3, 4)[None]]
    ]


def first(value: Sequence[float]) -> Graph:
    sub = Sub("first")
    sub.assign(sub.handle(), sub.constant(value))
    return sub.graph([])


def set_twice() -> tuple[Graph, Runs]:
    """What runs once writes a variable that is computed, then one whose bytes are all the same."""
    sub, main = Sub("first"), Sub("main")
    sub.assign(sub.handle(), sub.op("EXP", [sub.constant([1, 2])]))
    sub.assign(sub.handle(), sub.constant([0, 0]))
    main.once(1)
    x, h = main.input((2,)), main.handle()
    total = main.add(main.read(h, (2,)), x)
    main.assign(h, total)
    return main.graph([total], sub.graph([])), [[floats(1, 2)], [floats(3, 4)]]


def variable(value: Sequence[float]) -> tuple[Graph, Runs]:
    """Read and written several times; reads before and behind a write are different values."""
    main = Sub("main")
    main.once(1)
    x, h = main.input((2,)), main.handle()
    old = main.read(h, (2,))
    new = main.add(old, x)
    main.assign(h, new)
    between = main.read(h, (2,))
    main.assign(h, main.mul(between, floats(2)))
    return main.graph([old, new, between, main.read(h, (2,))], first(value)), [[floats(i, 2 * i)] for i in range(4)]


def variable_in_branches() -> tuple[Graph, Runs]:
    then, orelse, main = Sub("then"), Sub("else"), Sub("main")
    a, b, h = then.input(), orelse.input(), then.handle()
    old = then.read(h)
    then.assign(h, then.add(old, a))
    orelse.assign(orelse.handle(), b)
    main.once(3)
    x, h = main.input(), main.handle()
    main.assign(h, main.add(main.read(h), floats(1)))
    before = main.read(h)
    outputs = main.branch(main.less(x, floats(3)), 1, 2, [x], [x])
    graphs = then.graph([old]), orelse.graph([b]), first([5])
    return main.graph([before, *outputs, main.read(h)], *graphs), [[floats(i)] for i in (1, 2, 5, 1)]


def variable_in_a_loop() -> tuple[Graph, Runs]:
    """The loop goes on as the variable says. Its body ends with a node that nothing reads, in place if it might."""
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    test.input()
    graphs = [test.graph([test.less(test.read(test.handle()), floats(10))])]
    x, h = body.input(), body.handle()
    body.assign(h, body.add(body.read(h), x))
    body.op("RELU", [x])
    graphs += [body.graph([x])]
    h = main.handle()
    main.assign(h, main.constant([0]))
    main.loop(1, 2, [main.mul(main.input(), floats(1))])
    return main.graph([main.read(h)], *graphs), [[floats(i)] for i in (1, 2, 3)]


def handles_through_subgraphs() -> tuple[Graph, Runs]:
    """Handles are arguments and results of a loop and a branch."""
    test, body, then, orelse, main = (Sub(name) for name in ("test", "body", "then", "else", "main"))
    for sub in (test, body):
        sub.input()
    for sub in (test, body, then, orelse):
        sub.input((), "RESOURCE")
    graphs = [test.graph([test.less(test.inputs[0], floats(10))])]
    i, h = body.inputs
    body.assign(h, body.add(body.read(h), i))
    graphs += [body.graph([body.add(i, floats(1)), h])]
    for sub in (then, orelse):
        old = sub.read(sub.inputs[0])
        sub.assign(sub.inputs[0], sub.add(old, floats(1 if sub is then else 2)))
        graphs.append(sub.graph([old, sub.inputs[0]]))
    main.once(5)
    x, h = main.input(), main.handle()
    i, h = main.loop(1, 2, [x, h])
    old, h = main.branch(main.less(x, floats(3)), 3, 4, [h], [x, h])
    return main.graph([i, old, main.read(h)], *graphs, first([1])), [[floats(i)] for i in (1, 2, 3, 11)]


def updated_in_place() -> tuple[Graph, Runs]:
    main = Sub("main")
    main.once(1)
    x, h = main.input(), main.handle()
    value = main.read(h, (4,))
    for at in (1, 3):
        value = main.op("DYNAMIC_UPDATE_SLICE", [value, x, np.array([at], np.int32)], shape=(4,))
    main.assign(h, value)
    return main.graph([main.op("RELU", [value])], first([1, 2, 3, 4])), [[floats(i)] for i in (7, -8)]


def other_scales() -> tuple[Graph, Runs]:
    """Subgraphs get and give bytes: with scales of their own these are other numbers."""
    scales = Quant.per_tensor(0.5, 3), Quant.per_tensor(0.25, -5)
    then, orelse, test, body, main = (Sub(name) for name in ("then", "else", "test", "body", "main"))

    def relu(sub: Sub, quant: Quant) -> Any:
        return sub.run("RELU", [sub.input((4,), "INT8", quant=quant)], [sub.tensor((4,), "INT8", quant=quant)]).output

    graphs = [sub.graph([relu(sub, quant)]) for sub, quant in ((then, scales[0]), (orelse, scales[1]))]
    i = test.input()
    test.input((4,), "INT8", quant=scales[1])
    graphs.append(test.graph([test.less(i, floats(2))]))
    i = body.add(body.input(), floats(1))
    graphs.append(body.graph([i, relu(body, scales[1])]))
    c, x = main.input(type="BOOL"), main.input((4,), "INT8", quant=scales[0])
    (y,) = main.branch(c, 1, 2, [x], [x])
    z = main.loop(3, 4, [main.constant([0]), x])[1]
    k = main.constant([9, -7, -50, -2], "INT8", scales[0])
    (w,) = main.branch(c, 1, 2, [k], [x])
    bytes_ = np.array([-100, -4, 3, 50], np.int8)
    return main.graph([y, z, w, x], *graphs), [[YES, bytes_], [NO, bytes_]]


def composite_of_other_scales() -> tuple[Graph, Runs]:
    """Also of one that only hands through, so that its result has other numbers than its argument."""
    ours, theirs = Quant.per_tensor(0.5, 3), Quant.per_tensor(0.25, -5)
    sub, hand, main = Sub("sub"), Sub("hand"), Sub("main")
    x, y = sub.input((4,), "INT8", quant=theirs), sub.tensor((4,), "INT8", quant=theirs)
    graphs = sub.graph([sub.run("RELU", [x], [y]).output]), hand.graph([hand.input((4,), "INT8", quant=ours)])
    x, options = (
        main.input((4,), "INT8", quant=ours),
        {"name": "c", "composite_attributes": b"\0\0\1\0\0$\1"},
    )  # no attributes
    y, z, w = (main.tensor((4,), "INT8", quant=quant) for quant in (ours, theirs, theirs))
    main.run("STABLEHLO_COMPOSITE", [x], [y], **options, decomposition_subgraph_index=1)
    main.run("STABLEHLO_COMPOSITE", [x], [z], **options, decomposition_subgraph_index=2)
    main.run("RELU", [z], [w])
    return main.graph([y, w], *graphs), [[np.array([-100, -4, 3, 50], np.int8)]]


def argument_written() -> tuple[Graph, Runs]:
    """A subgraph writes its input, for which the caller gives a constant."""
    then, orelse, main = Sub("then"), Sub("else"), Sub("main")
    x = then.input((2,))
    then.run("RELU", [then.add(x, x)], [x])
    c, k = main.input(type="BOOL"), main.constant([1, 2])
    graphs = then.graph([x]), orelse.graph([orelse.input((2,))])
    (y,) = main.branch(c, 1, 2, [k], [k])
    return main.graph([y, main.add(k, main.input((2,)))], *graphs), [
        [c, floats(i, 5)] for i in (1, 2) for c in (YES, NO)
    ]


def nothing_to_do() -> tuple[Graph, Runs]:
    """A branch and a loop that change nothing."""
    none, main = Sub("none"), Sub("main")
    x = main.input((64,))
    c = main.less(main.op("GATHER", [x, np.array([0], np.int32)], shape=(1,), axis=0), floats(3))
    y = main.mul(main.add(x, x), x)
    main.run("IF", [c], then_subgraph_index=1, else_subgraph_index=1)
    (z,) = main.loop(2, 3, [c])
    graphs = none.graph([]), *[hand.graph([hand.input(type="BOOL")]) for hand in (Sub("test"), Sub("body"))]
    return main.graph([main.add(y, y), z], *graphs), [[np.arange(64, dtype=np.float32) + 5]]


def written_behind() -> tuple[Graph, Runs]:
    """A subgraph hands its input through a loop, and then writes it: what was handed on keeps its value."""
    main, inner, test, body = Sub("main"), Sub("inner"), Sub("test"), Sub("body")
    a = inner.input()
    handed = inner.loop(2, 3, [inner.constant([0]), a])[1]
    inner.run("ABS", [inner.op("NEG", [a])], [a])
    i = test.input()
    test.input()
    ended = test.less(i, floats(2))
    j, through = body.input(), body.input()
    graphs = inner.graph([inner.add(handed, a)]), test.graph([ended]), body.graph([body.add(j, floats(1)), through])
    x = main.input()
    (y,) = main.branch(main.less(x, floats(100)), 1, 1, [x], [x])
    return main.graph([y], *graphs), [[floats(i)] for i in (-3, 5)]


def condition_overwritten() -> tuple[Graph, Runs]:
    """The last step of a loop's test could work in place on the condition."""
    main, test, body = Sub("main"), Sub("test"), Sub("body")
    ended = test.less(test.input(), floats(5))
    test.op("LOGICAL_NOT", [ended])
    (y,) = main.loop(1, 2, [main.input()])
    return main.graph([y], test.graph([ended]), body.graph([body.add(body.input(), floats(1))])), [
        [floats(i)] for i in (-3, 9)
    ]


def written_twice_at_the_reset() -> tuple[Graph, Runs]:
    """A value that is computed, then equal ones over it; another variable the other way round."""
    init, main = Sub("init"), Sub("main")
    computed = init.op("NEG", [init.constant([1, 2])])
    for name, values in (("v", [computed, init.constant([3, 3])]), ("w", [init.constant([3, 3]), computed])):
        for value in values:
            init.assign(init.handle(name), value)
    init.assign(init.handle("u"), init.add(init.read(init.handle("v"), (2,)), init.read(init.handle("w"), (2,))))
    main.once(1)
    x, values = main.input((2,)), [main.read(main.handle(name), (2,)) for name in "vwu"]
    main.assign(main.handle("v"), x)
    return main.graph(values, init.graph([])), [[floats(i, 9)] for i in (1, 2)]


def state_as_a_result() -> tuple[Graph, Runs]:
    """A subgraph gives the tensor that keeps its state, and is called twice."""
    sub, main = Sub("sub"), Sub("main")
    state = sub.tensor((2,), variable=True)
    sub.run("RELU", [sub.input((2,))], [state])
    options = {"name": "c", "composite_attributes": b"\0\0\1\0\0$\1", "decomposition_subgraph_index": 1}
    outputs = [main.op("STABLEHLO_COMPOSITE", [main.input((2,))], **options) for _ in range(2)]
    return main.graph([main.add(*outputs), *outputs], sub.graph([state])), [[floats(1, -2), floats(3, 4)]]


def argument_changes() -> tuple[Graph, Runs]:
    """What a composite and a loop hand through is read when the input that they got has another value."""
    hand, test, body, main = Sub("hand"), Sub("test"), Sub("body"), Sub("main")
    for sub in (test, body):
        sub.input()
        sub.input((2,))
    i, v = body.inputs
    graphs = [hand.graph([hand.input((2,))]), test.graph([test.less(test.inputs[0], floats(2))])]
    graphs += [body.graph([body.add(i, floats(1)), v])]
    x, w = main.input((2,)), main.input((2,))
    options = {"name": "c", "composite_attributes": b"\0\0\1\0\0$\1", "decomposition_subgraph_index": 1}
    y = main.op("STABLEHLO_COMPOSITE", [x], **options)
    z = main.loop(2, 3, [main.constant([0]), x])[1]
    main.run("MUL", [main.add(x, w), w], [x], fused_activation_function="NONE")
    return main.graph([main.add(y, z), y, z, x], *graphs), [[floats(i, 2), floats(5, 7)] for i in (1, 2)]


def argument_written_in_a_loop() -> tuple[Graph, Runs]:
    """The body gives back its input, which it has written; the caller's value is read again behind the loop."""
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    for sub in (test, body):
        sub.input()
        sub.input((2,))
    i, v = body.inputs
    body.run("RELU", [body.add(v, v)], [v])
    graphs = test.graph([test.less(test.inputs[0], floats(2))]), body.graph([body.add(i, floats(1)), v])
    x = main.op("NEG", [main.input((2,))])
    y = main.loop(1, 2, [main.constant([0]), x])[1]
    return main.graph([y, main.add(x, y)], *graphs), [[floats(-i, 2)] for i in (1, 2)]


def result_twice() -> tuple[Graph, Runs]:
    """A branch gives one tensor as two results, the other branch two. LiteRT leaves one of the first unset."""
    then, orelse, main = Sub("then"), Sub("else"), Sub("main")
    y = then.op("NEG", [then.input((2,))])
    z = orelse.op("RELU", [orelse.input((2,))])
    graphs = then.graph([y, y]), orelse.graph([z, orelse.add(z, z)])
    c, x = main.input(type="BOOL"), main.input((2,))
    outputs = main.branch(c, 1, 2, [x], [x, x])
    return main.graph([*outputs, main.add(*outputs)], *graphs), [[c, floats(3, -4)] for c in (YES, NO)]


#: Models, and the runtimes that take them and do as the file says. LiteRT hands swapped values on one by one; without
#: composites TFLM lacks only handles as arguments.
MODELS: dict[str, tuple[Callable[[], tuple[Graph, Runs]], str]] = {
    "swapped": (swapped, "tflm"),
    "repeated": (repeated, "tflm litert-ref"),
    "constant_result": (constant_result, "tflm litert-ref"),
    "condition_is_a_value": (condition_is_a_value, "tflm litert-ref"),
    "branches": (branches, "tflm litert-ref"),
    "nested": (nested, "tflm litert-ref"),
    "weights_through_a_loop": (weights_through_a_loop, "tflm litert-ref"),
    "variable": (lambda: variable([3, 3]), "tflm litert-ref"),
    "variable_set_twice": (set_twice, "litert-ref"),
    "variable_of_unequal_values": (lambda: variable([3, 4]), "tflm litert-ref"),
    "variable_in_branches": (variable_in_branches, "tflm litert-ref"),
    "variable_in_a_loop": (variable_in_a_loop, "tflm litert-ref"),
    "handles_through_subgraphs": (handles_through_subgraphs, "litert-ref"),
    "updated_in_place": (updated_in_place, "tflm litert-ref"),
    "other_scales": (other_scales, "tflm litert-ref"),
    "composite_of_other_scales": (composite_of_other_scales, "litert-ref"),
    "argument_written": (argument_written, "tflm"),
    "nothing_to_do": (nothing_to_do, "tflm litert-ref"),
    "written_behind": (written_behind, "litert-ref"),
    "condition_overwritten": (condition_overwritten, "tflm litert-ref"),
    "written_twice_at_the_reset": (written_twice_at_the_reset, "tflm litert-ref"),
    "state_as_a_result": (state_as_a_result, ""),
    "argument_changes": (argument_changes, "litert-ref"),
    "argument_written_in_a_loop": (argument_written_in_a_loop, "tflm"),
    "result_twice": (result_twice, "tflm"),
}

each_model = pytest.mark.parametrize("name", MODELS)


def results(model: Interpreter, runs: Runs) -> list[list[Any]]:
    """The outputs of every run."""
    model.allocate_tensors()
    outputs = []
    for values in runs:
        model.session.feed(values)
        model.invoke()
        outputs.append(model.session.outputs())
    return outputs


def same(got: Sequence[Sequence[Any]], want: Sequence[Sequence[Any]]) -> None:
    for i, (seen, wanted) in enumerate(zip(got, want, strict=True)):
        for k, (a, b) in enumerate(zip(seen, wanted, strict=True)):
            np.testing.assert_array_equal(a, np.reshape(b, np.shape(a)), err_msg=f"run {i}, output {k}")


def meant(graph: Graph, runs: Runs) -> list[list[Any]]:
    meaning = Meaning(graph)
    return [meaning.run(values) for values in runs]


@each_model
@pytest.mark.parametrize("options", [Options(), Options(guard=True), Options(preserve_all=True)], ids=repr)
def test_interpreted(name: str, options: Options) -> None:
    graph, runs = MODELS[name][0]()
    same(results(Interpreter.from_graph(graph, options), runs), meant(graph, runs))


@each_model
@pytest.mark.parametrize("mode", deep_but(["compiled", "interpreted"], "compiled"))
def test_compiled(name: str, mode: Mode) -> None:
    graph, runs = MODELS[name][0]()
    same(results(CompiledModel.from_graph(read(write(graph)), Options(mode=mode)), runs), meant(graph, runs))


@pytest.mark.parametrize(("name", "peer"), [(name, peer) for name in MODELS for peer in MODELS[name][1].split()])
def test_as_the_peers(name: str, peer: str) -> None:
    graph, runs = MODELS[name][0]()
    same(isolated_runs(peer, graph, runs), meant(graph, runs))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("fresh", [None, 0, 1, 2])
def test_loops_that_change_places_of_their_values(order: tuple[int, ...], fresh: int | None) -> None:
    """Three turns; each value becomes another one, or one of them is computed anew."""
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    _, inner, outer = ([sub.input((2,)) for _ in range(3)] for sub in (test, body, main))
    counts = [sub.input() for sub in (test, body, main)]
    again = test.less(counts[0], np.array([3], np.float32))
    after = [body.op("NEG", [inner[i]]) if at == fresh else inner[i] for at, i in enumerate(order)]
    after.append(body.add(counts[1], np.array([1], np.float32)))
    ends = main.loop(1, 2, [*outer, counts[2]])
    graph = main.graph(ends, test.graph([again]), body.graph(after))
    values = [*(np.array([i + 1, 10 * i - 5], np.float32) for i in range(3)), np.zeros(1, np.float32)]
    want = values[:3]
    for _ in range(3):
        want = [-want[i] if at == fresh else want[i] for at, i in enumerate(order)]
    for options in (Options(), Options(memory="layers"), Options(preserve_all=True)):
        got = outputs_of(Session(make_plan(graph, options=options)), values)
        np.testing.assert_array_equal(got[:3], want)


def test_reset_begins_anew() -> None:
    for name in ("variable", "variable_of_unequal_values"):
        graph, runs = MODELS[name][0]()
        for model in (Interpreter.from_graph(graph), CompiledModel.from_graph(graph)):
            want = results(model, runs)
            assert not np.array_equal(results(model, runs)[0][0], want[0][0]), "the state must matter"
            model.reset_all_variables()
            same(results(model, runs), want)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 1 << 32), st.sampled_from([Options(), Options(guard=True), Options(preserve_all=True)]))
def test_random_programs(seed: int, options: Options) -> None:
    source = Random(seed, overwrites=True)
    graph, runs = source.model(), [source.inputs() for _ in range(3)]
    same(results(Interpreter.from_graph(graph, options), runs), meant(graph, runs))


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_random_programs_compiled(mode: Mode) -> None:
    """Those of twenty that have most steps behind a reset that computes more than one, and behind one that does not."""
    random = [Random(seed).model() for seed in range(1000, 1020)]
    ranked = sorted(random, key=lambda graph: -len(make_plan(graph).steps))
    begun = [graph for graph in ranked if len(make_plan(graph).start) > 1]
    graphs = [*begun[:2], *(graph for graph in ranked if graph not in begun)][:4]
    assert begun
    assert not any(make_plan(graph).straight for graph in graphs)
    for graph in graphs:
        runs = [Random(seed).inputs() for seed in range(4)]
        same(results(CompiledModel.from_graph(graph, Options(mode=mode)), runs), meant(graph, runs))


def delayed() -> tuple[Graph, Runs]:
    """A node that keeps a state of its own, in a subgraph that is called from two places."""
    case = next(operators()["CUSTOM:SignalDelay"].cases(np.random.default_rng(0))).node
    then, orelse, main = Sub("then"), Sub("else"), Sub("main")
    x, y = then.input((8,), "INT16"), then.tensor((8,), "INT16")
    then.nodes.append(Node(case.op, (x,), (y,), extra=case.extra))
    graphs = then.graph([y]), orelse.graph([orelse.input((8,), "INT16")])
    x, c = main.input((8,), "INT16"), main.input(type="BOOL")
    outputs = [*main.branch(c, 1, 2, [x], [x]), *main.branch(c, 1, 2, [x], [x])]
    return main.graph(outputs, *graphs), [
        [np.arange(8, dtype=np.int16) + 10 * i, NO if i == 2 else YES] for i in range(4)
    ]


def test_one_state_per_node_of_the_file() -> None:
    graph, runs = delayed()
    want = isolated_runs("tflm", graph, runs)
    assert make_plan(graph).state_bytes == 6
    for model in (Interpreter.from_graph(graph), CompiledModel.from_graph(graph)):
        same(results(model, runs), want)


def isolated_runs(peer: str, graph: Graph, runs: Runs) -> list[list[Any]]:
    if not installed(peer):
        pytest.skip(f"{peer} is not installed")
    model, outputs = open_peer(peer, write(graph), len(graph.outputs)), []
    for values in runs:
        model.feed(values)
        model.invoke()
        outputs.append(model.outputs())
    return outputs


def test_a_variable_that_nothing_has_set() -> None:
    """Its value is 0, or its zero point, as TFLM has it; LiteRT refuses to read it."""
    main, quant = Sub("main"), Quant.per_tensor(0.5, 3)
    x, y = main.input((2,)), main.input((2,), "INT8", quant=quant)
    outputs = [main.read(main.handle("f"), (2,)), main.read(main.handle("q"), (2,), "INT8", quant=quant)]
    main.assign(main.handle("f"), x)
    main.assign(main.handle("q"), y)
    graph, runs = main.graph(outputs), [[floats(i, 2), np.array([i, 7], np.int8)] for i in (1, 2)]
    got = results(Interpreter.from_graph(graph), runs)
    same(got, [[floats(0, 0), np.array([3, 3])], runs[0]])
    same(isolated_runs("tflm", graph, runs), got)


@pytest.mark.parametrize("name", ["nested", "variable_of_unequal_values", "handles_through_subgraphs"])
def test_verified(name: str) -> None:
    """The proof of a model whose tensors have no single value compares its outputs."""
    source = Source(name, MODELS[name][0]()[0])
    proof = verify(source, samples=Samples(3))
    assert proof.proven
    assert "numpy" not in proof.others
    assert [line.tensor for line in proof.lines] == list(dict.fromkeys(proof.graph.outputs))
    assert all(line.differences == {"compiled": None, "rows": None} for line in proof.lines)


# -- signatures --------------------------------------------------------------------------------------------------------


def prefill_and_decode(initialised: bool) -> Graph:
    """Two signatures over one variable, the second with a loop; perhaps both initialise it."""
    test, body = counted(lambda sub, x: [sub.add(x[0], floats(1))], 1)
    prefill, decode = Sub("prefill"), Sub("decode")
    x, y = prefill.input(), decode.input()
    if initialised:
        prefill.once(2)
        decode.once(2)
    h = prefill.handle()
    prefill.assign(h, prefill.mul(x, floats(2)))
    r = prefill.read(h)
    h = decode.handle()
    w = decode.add(decode.loop(3, 4, [decode.constant([0]), decode.read(h)])[1], y)
    decode.assign(h, w)
    signatures = Signature("prefill", {"x": x}, {"r": r}), Signature("decode", {"y": y}, {"w": w}, 1)
    return prefill.graph([r], decode.graph([w]), first([100]), test, body, signatures=signatures)


def called(model: Any, initialised: bool) -> list[float]:
    """Results of the signatures in turn."""
    model.allocate_tensors()
    prefill, decode = model.get_signature_runner("prefill"), model.get_signature_runner("decode")
    order = [*([decode] * initialised), prefill, decode, decode, prefill, decode, prefill, prefill, decode]
    return [
        float(run(**{"x" if run is prefill else "y": floats(5 + i)}).popitem()[1][0]) for i, run in enumerate(order)
    ]


@pytest.mark.parametrize("initialised", [False, True])
@pytest.mark.parametrize("engine", [Interpreter, CompiledModel])
def test_signatures_share_variables(engine: type[Interpreter], initialised: bool) -> None:
    graph = prefill_and_decode(initialised)
    interpreter: Any = pytest.importorskip("ai_edge_litert.interpreter")
    kind = interpreter.OpResolverType.BUILTIN_REF
    litert = interpreter.Interpreter(model_content=write(graph), experimental_op_resolver_type=kind)
    model = engine.from_graph(read(write(graph)))
    want = called(litert, initialised)
    assert called(model, initialised) == want
    model.reset_all_variables()
    assert called(model, initialised) == want


# -- inputs that a node writes -----------------------------------------------------------------------------------------


def written_input() -> Graph:
    main = Sub("main")
    x, y = main.input((2,)), main.input((2,))
    z = main.add(x, y)
    main.run("ADD", [x, z], [y], fused_activation_function="NONE")
    return main.graph([z, main.op("RELU", [y]), y])


def fed_in_part(model: Any) -> list[Any]:
    """Some runs; not every input is set before each."""
    model.allocate_tensors()
    inputs = [details["index"] for details in model.get_input_details()]
    seen, values = [], {0: [(0, floats(1, 2)), (1, floats(10, 20))], 2: [(1, floats(0, 0))], 3: [(0, floats(5, 5))]}
    for run in range(5):
        for i, value in values.get(run, []):
            model.set_tensor(inputs[i], value)
        model.invoke()
        seen += [model.get_tensor(details["index"]).tolist() for details in model.get_output_details()]
        seen.append(model.get_tensor(inputs[1]).tolist())
    return seen


@pytest.mark.parametrize("options", [Options(), Options(guard=True), Options(preserve_all=True)], ids=repr)
def test_an_input_that_is_written_lasts(options: Options) -> None:
    content = write(written_input())
    interpreter: Any = pytest.importorskip("ai_edge_litert.interpreter")
    kind = interpreter.OpResolverType.BUILTIN_REF
    want = fed_in_part(interpreter.Interpreter(model_content=content, experimental_op_resolver_type=kind))
    assert fed_in_part(Interpreter.from_graph(read(content), options)) == want
    if not options.preserve_all:
        assert fed_in_part(CompiledModel.from_graph(read(content), options)) == want


def test_every_input_set_anew() -> None:
    """TFLM's inputs are set before every run."""
    graph = written_input()
    runs = [[floats(i, 2), floats(3, i)] for i in range(3)]
    want = isolate("tflm", write(graph), runs, 3) if installed("tflm") else meant(graph, runs)
    same(results(Interpreter.from_graph(graph), runs), want)
