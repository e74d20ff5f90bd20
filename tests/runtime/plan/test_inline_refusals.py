"""Models whose subgraphs do not fit together: each is refused with the operator's name, and none does harm."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from damage import damaged
from flows import Random, Sub
from hostile import below, branching, chain, floats, function
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer.runtime.control import MOST_CALLS
from twinfer.runtime.errors import ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.inline import MOST_NODES, inline
from twinfer.runtime.plan.make import make_plan


def doubling(times: int) -> Graph:
    """Every subgraph calls the next one twice: 2 ** ``times`` calls."""
    graphs = []
    for i in range(times + 1):
        sub = Sub(f"s{i}")
        x = sub.input()
        options = {"name": "c", "decomposition_subgraph_index": i + 1}
        for _ in range(2 if i < times else 0):
            x = sub.op("STABLEHLO_COMPOSITE", [x], **options)
        graphs.append(sub.graph([x]))
    return replace(graphs[0], subgraphs=tuple(graphs[1:]))


def looping(test: Graph, body: Graph, outputs: tuple[Any, ...] = ((1,),)) -> Graph:
    main = Sub("main")
    x, results = main.input(), [main.tensor(shape) for shape in outputs]
    main.run("WHILE", [x], results, cond_subgraph_index=1, body_subgraph_index=2)
    return main.graph(results, test, body)


def composed(inner: Graph, count: int = 1) -> Graph:
    main = Sub("main")
    outputs = [main.tensor() for _ in range(count)]
    main.run("STABLEHLO_COMPOSITE", [main.input()], outputs, name="c", decomposition_subgraph_index=1)
    return main.graph(outputs, inner)


def once(init: Graph) -> Graph:
    main = Sub("main")
    main.once(1)
    return main.graph([main.constant([1])], init)


def indexed(**options: Any) -> Graph:
    """IF whose options are these."""
    main = Sub("main")
    c, x, y = main.input(type="BOOL"), main.input(), main.tensor()
    main.run("IF", [c, x], [y], **options)
    return main.graph([y], function("one"), function("two"))


def over(change: Callable[[Sub], Any]) -> Graph:
    """A main subgraph that ``change`` fills."""
    main = Sub("main")
    more = change(main)
    return main.graph([main.op("RELU", [main.constant([1])])], *(more if isinstance(more, tuple) else ()))


def mutual() -> Graph:
    main, one, two = Sub("main"), Sub("one"), Sub("two")
    for sub, index in ((main, 1), (one, 2), (two, 1)):
        x = sub.input()
        sub.op("STABLEHLO_COMPOSITE", [x], name="c", decomposition_subgraph_index=index)
    one, two = (sub.graph([sub.nodes[0].output]) for sub in (one, two))
    return main.graph([main.nodes[0].output], one, two)


def wide(calls: int, ends: int) -> Graph:
    """So many calls of a subgraph that hands all its inputs through and does nothing."""
    sub, main = Sub("sub"), Sub("main")
    values = inputs = [main.input() for _ in range(ends)]
    for _ in range(calls):
        results = [main.tensor() for _ in range(ends)]
        main.run("STABLEHLO_COMPOSITE", values, results, name="c", decomposition_subgraph_index=1)
        values = results
    assert values is not inputs
    given = [sub.input() for _ in range(ends)]
    return main.graph(values, sub.graph(given))


def twice() -> Graph:
    body = Sub("body")
    x = body.input()
    body.inputs.append(x)
    main = Sub("main")
    return main.graph(main.loop(1, 2, [main.input(), main.input()]), below2(), body.graph([x, x]))


def below2() -> Graph:
    test = Sub("test")
    return test.graph([test.less(test.input(), test.input())])


def two_shapes(main: Sub) -> None:
    h = main.handle()
    main.assign(h, main.constant([1, 2]))
    main.read(h, (3,))


def two_types(main: Sub) -> None:
    main.assign(main.handle(), main.constant([1]))
    main.read(main.handle(), (1,), "INT32")


def always() -> Graph:
    sub = Sub("always")
    sub.input()
    return sub.graph([sub.constant([True], "BOOL")])


def once_with_an_input(main: Sub) -> Any:
    main.run("CALL_ONCE", [floats(1)], init_subgraph_index=1)
    return (assigning(),)


def once_late(main: Sub) -> Any:
    main.read(main.handle())
    main.once(1)
    return (assigning(),)


def assigning() -> Graph:
    sub = Sub("assigning")
    sub.assign(sub.handle(), sub.constant([1]))
    return sub.graph([])


def once_in_a_branch(main: Sub) -> Any:
    sub = Sub("sub")
    sub.once(2)
    main.run("IF", [main.input(type="BOOL")], then_subgraph_index=1, else_subgraph_index=2)
    return sub.graph([]), assigning()


def once_that_branches() -> Graph:
    sub = Sub("init")
    sub.assign(sub.handle(), sub.constant([1]))
    (x,) = sub.branch(sub.less(sub.read(sub.handle()), floats(2)), 2, 2, [sub.constant([1])], [sub.tensor()])
    sub.assign(sub.handle(), x)
    graph = once(sub.graph([]))
    return replace(graph, subgraphs=(*graph.subgraphs, function("f", "EXP")))


def handle_of(name: str) -> Graph:
    sub = Sub(name)
    return sub.graph([sub.handle(name)])


def other_handles(main: Sub) -> Any:
    c, out = main.input(type="BOOL"), main.tensor((), "RESOURCE")
    main.run("IF", [c], [out], then_subgraph_index=1, else_subgraph_index=2)
    return handle_of("v"), handle_of("w")


def handle_changes(main: Sub) -> Any:
    test, body = Sub("test"), Sub("body")
    for sub in (test, body):
        sub.input((), "RESOURCE")
    h, out = main.handle("v"), main.tensor((), "RESOURCE")
    main.run("WHILE", [h], [out], cond_subgraph_index=1, body_subgraph_index=2)
    less = test.less(test.read(test.inputs[0]), floats(3))
    return test.graph([less]), body.graph([body.handle("w")])


def handle_as_a_condition(main: Sub) -> Any:
    main.run("IF", [main.handle()], then_subgraph_index=1, else_subgraph_index=1)
    return (assigning(),)


def handle_as_a_value(main: Sub) -> Any:
    c, out = main.input(type="BOOL"), main.tensor()
    main.run("IF", [c, main.handle()], [out], then_subgraph_index=1, else_subgraph_index=1)
    return (function("f"),)


def value_as_a_handle(main: Sub) -> Any:
    sub = Sub("sub")
    c, out = main.input(type="BOOL"), main.tensor()
    main.run("IF", [c, main.input()], [out], then_subgraph_index=1, else_subgraph_index=1)
    return (sub.graph([sub.read(sub.input((), "RESOURCE"))]),)


def output_is_a_handle() -> Graph:
    main = Sub("main")
    return main.graph([main.handle()])


def conditional(type: str, shape: tuple[int, ...]) -> Graph:
    main = Sub("main")
    c, x = main.input(shape, type), main.input()
    return main.graph(main.branch(c, 1, 2, [x], [x]), function("one"), function("two"))


def larger(main: Sub) -> Any:
    c, x = main.input(type="BOOL"), main.input((2,))
    main.branch(c, 1, 1, [x], [x])
    return (RELU,)


def no_inputs(op: str, **options: Any) -> Callable[[Sub], Any]:
    return lambda main: main.run(op, [], [main.tensor()], **options)


RELU, WIDE, LONG = (function("f", "RELU"), function("wide", "RELU", shape=(2,)), function("long", "RELU", type="INT32"))
THREE = function("three", "RELU", shape=(3, 1))


def two_results(source: Graph) -> Graph:
    return replace(source, outputs=(*source.outputs, *source.inputs))


#: What is wrong: the model, the operator that is named, and what is said of it.
REFUSED: dict[str, tuple[Callable[[], Graph], str, str]] = {
    "calls itself": (lambda: composed(composed(RELU)), "STABLEHLO_COMPOSITE", "subgraph 1 calls itself"),
    "calls the main one": (lambda: indexed(then_subgraph_index=0, else_subgraph_index=1), "IF", "0 calls itself"),
    "call one another": (mutual, "STABLEHLO_COMPOSITE", "subgraph 1 calls itself, directly or through others"),
    "index too high": (
        lambda: indexed(then_subgraph_index=1, else_subgraph_index=3),
        "IF",
        "else_subgraph_index 3 does not exist, there are 3",
    ),
    "index below 0": (lambda: indexed(then_subgraph_index=-1, else_subgraph_index=1), "IF", "-1 does not exist"),
    "index is missing": (lambda: indexed(then_subgraph_index=1), "IF", "option 'else_subgraph_index' is missing"),
    "index is a word": (lambda: indexed(then_subgraph_index="x", else_subgraph_index=1), "IF", "do not fit together"),
    "index is None": (lambda: indexed(then_subgraph_index=None, else_subgraph_index=1), "IF", "do not fit together"),
    "too many calls": (lambda: doubling(17), "", f"more than {MOST_NODES} operators; call subgraphs less often"),
    "too deep": (lambda: chain(MOST_CALLS + 1), "IF", f"nested more than {MOST_CALLS} deep"),
    "far too deep": (lambda: chain(5000), "IF", f"nested more than {MOST_CALLS} deep"),
    "IF without a condition": (
        lambda: over(no_inputs("IF", then_subgraph_index=1, else_subgraph_index=1)), "IF", "input 0 is missing",
    ),
    "IF gives too much": (lambda: branching(RELU, below2()), "IF", "else_subgraph_index takes 2 inputs, not 1"),
    "IF gets too much": (lambda: branching(RELU, two_results(RELU)), "IF", "a branch has 2 outputs, not 1"),
    "IF gets too little": (lambda: branching(replace(RELU, outputs=()), RELU), "IF", "a branch has 0 outputs, not 1"),
    "IF gives another shape": (lambda: branching(RELU, WIDE), "IF", "differ in shape"),
    "IF gives a larger shape": (lambda: over(larger), "IF", r"FLOAT32\[2\] and .*FLOAT32\[1\] differ in shape"),
    "IF gives another type": (lambda: branching(LONG, RELU), "IF", "differ in type"),
    "IF gets another type": (lambda: branching(RELU, below(3)), "IF", r"BOOL\[1\] .*FLOAT32\[1\] differ in type"),
    "condition is a float": (lambda: conditional("FLOAT32", (1,)), "IF", r"FLOAT32\[1\] must be one BOOL"),
    "condition is two": (lambda: conditional("BOOL", (2,)), "IF", r"BOOL\[2\] must be one BOOL"),
    "condition is none": (lambda: conditional("BOOL", (0,)), "IF", r"BOOL\[0\] must be one BOOL"),
    "WHILE: condition is a float": (lambda: looping(RELU, RELU), "WHILE", r"FLOAT32\[1\] must be one BOOL"),
    "WHILE: two conditions": (lambda: looping(two_results(below(3)), RELU), "WHILE", "has 2 outputs, not 1"),
    "WHILE: no condition": (lambda: looping(replace(RELU, outputs=()), RELU), "WHILE", "has 0 outputs, not 1"),
    "WHILE: for ever": (
        lambda: looping(always(), RELU), "WHILE", "its condition is always true: it never ends",
    ),
    "WHILE: test takes more": (lambda: looping(below2(), RELU), "WHILE", "cond_subgraph_index takes 2 inputs, not 1"),
    "WHILE: body takes more": (lambda: looping(below(3), below2()), "WHILE", "different numbers of inputs and outputs"),
    "WHILE: body gives more": (lambda: looping(below(3), two_results(RELU)), "WHILE", "different numbers"),
    "WHILE: more outputs": (lambda: looping(below(3), RELU, ((1,), (1,))), "WHILE", "different numbers"),
    "WHILE: body of another shape": (lambda: looping(below(3), WIDE), "WHILE", "differ in shape"),
    "WHILE: body of another type": (lambda: looping(below(3), LONG), "WHILE", "differ in type"),
    "WHILE: result of another type": (lambda: looping(below(3), below(3)), "WHILE", "differ in type"),
    "WHILE: larger output": (lambda: looping(below(3), RELU, ((4096,),)), "WHILE", "differ in shape"),
    "WHILE: larger output, handed through": (
        lambda: looping(below(3), function("body"), ((4096,),)), "WHILE", r"\[1\] and .*\[4096\] differ in shape",
    ),
    "an input twice": (twice, "WHILE", "body_subgraph_index has an input twice"),
    "composite: inputs": (lambda: composed(below2()), "STABLEHLO_COMPOSITE", "takes 2 inputs, not 1"),
    "composite: outputs": (lambda: composed(RELU, 2), "STABLEHLO_COMPOSITE", "its decomposition has 1 outputs"),
    "composite: type": (lambda: composed(below(3)), "STABLEHLO_COMPOSITE", "differ in type"),
    "composite: shape": (lambda: composed(THREE), "STABLEHLO_COMPOSITE", "differ in shape"),
    "CALL_ONCE with an input": (
        lambda: over(once_with_an_input), "CALL_ONCE", r"it has 1 inputs and 0 outputs, not \(0, 0\)",
    ),
    "CALL_ONCE of a function": (lambda: once(RELU), "CALL_ONCE", "init_subgraph_index takes 1 inputs, not 0"),
    "CALL_ONCE late": (lambda: over(once_late), "CALL_ONCE", "must come before every use of a variable, .*move it"),
    "CALL_ONCE in a branch": (lambda: over(once_in_a_branch), "CALL_ONCE", "in the main subgraph: move it there"),
    "CALL_ONCE that branches": (once_that_branches, "CALL_ONCE", "must not branch .*initialise variables with const"),
    "variable of two shapes": (lambda: over(two_shapes), "READ_VARIABLE", r"\[3\] does not fit variable 'v', .*\[2\]"),
    "variable of two types": (lambda: over(two_types), "READ_VARIABLE", r"INT32\[1\] does not fit variable 'v'"),
    "no handle": (lambda: over(lambda main: main.read(main.input())), "READ_VARIABLE", "VAR_HANDLE makes one"),
    "unknown handle": (
        lambda: over(lambda main: main.read(main.input((), "RESOURCE"))), "READ_VARIABLE", "is no handle of a variable",
    ),
    "handle is computed with": (
        lambda: over(lambda main: main.op("RELU", [main.handle()])), "RELU", "is the handle of variable 'v', a value",
    ),
    "handle is assigned": (
        lambda: over(lambda main: main.assign(main.handle(), main.handle("w"))), "ASSIGN_VARIABLE", "variable 'w', a v",
    ),
    "handle is a condition": (lambda: over(handle_as_a_condition), "IF", "a value is needed"),
    "handle is an output": (output_is_a_handle, "VAR_HANDLE", "is the handle of variable 'v', a value is needed"),
    "handle without a name": (
        lambda: over(lambda main: main.run("VAR_HANDLE", [], [main.tensor((), "RESOURCE")])), "VAR_HANDLE", "missing",
    ),
    "read of nothing": (lambda: over(no_inputs("READ_VARIABLE")), "READ_VARIABLE", "it has 0 inputs and 1 outputs"),
    "assigns nothing": (
        lambda: over(lambda main: main.run("ASSIGN_VARIABLE", [main.handle()])), "ASSIGN_VARIABLE", "it has 1 inputs",
    ),
    "handles differ": (lambda: over(other_handles), "IF", "its branches give different variables for"),
    "handle changes": (lambda: over(handle_changes), "WHILE", "its body changes which variable '[vw]' is"),
    "handle as a value": (lambda: over(handle_as_a_value), "IF", r"FLOAT32\[1\] gets the handle of variable 'v'"),
    "value as a handle": (lambda: over(value_as_a_handle), "IF", "differ in type"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """The message names the operator with its number."""
    build, op, message = REFUSED[name]
    named = rf"operator \d+ {op}\b.*" if op else ""
    with pytest.raises((ModelError, UnsupportedOperatorError), match=named + message):
        make_plan(build())


def test_all_that_is_unsupported_is_listed() -> None:
    """In every subgraph that is called, as often as it is called; what runs once is no exception."""
    graph = branching(function("then", "UNIQUE", "RELU"), function("else", "HASHTABLE", "UNIQUE"))
    body = function("body", "UNIQUE")
    listed = r"operator 0 UNIQUE .* in this model: UNIQUE x2, HASHTABLE x1$"
    with pytest.raises(UnsupportedOperatorError, match=listed):
        make_plan(graph)
    with pytest.raises(UnsupportedOperatorError, match=r"UNIQUE x1$"):
        make_plan(looping(below(3), body))
    init, main = Sub("init"), Sub("main")
    for op in ("UNIQUE", "UNIQUE", "HASHTABLE"):
        init.assign(init.handle(), init.op(op, [init.constant([1])]))
    main.once(1)
    with pytest.raises(UnsupportedOperatorError, match=r"in this model: UNIQUE x2, HASHTABLE x2$"):
        make_plan(main.graph([main.op("HASHTABLE", [main.read(main.handle())])], init.graph([])))


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 1 << 32))
def test_damaged_models_are_planned_or_refused(seed: int) -> None:
    """Nothing but a TwinferError leaves the planner, and its own proof holds of what it takes."""
    graph, rng = Random(seed).model(), random.Random(seed)
    graphs = [replace(graph, subgraphs=()), *graph.subgraphs]
    for _ in range(rng.randint(1, 3)):
        i = rng.choice([i for i, each in enumerate(graphs) if each.tensors])
        graphs[i] = damaged(graphs[i], rng)
    graph = replace(graphs[0], subgraphs=tuple(graphs[1:]))
    with contextlib.suppress(TwinferError):
        make_plan(graph)


def test_ends_of_subgraphs_count_as_operators() -> None:
    """Calls of subgraphs that do nothing take time for every input and output: just so many are taken."""
    ends = 64
    most = (MOST_NODES - 2 * ends) // (1 + 2 * ends)
    inline(wide(most, ends))
    with pytest.raises(UnsupportedOperatorError, match="call subgraphs less often"):
        inline(wide(most + 1, ends))
