"""Subgraphs in the place of their callers: what a model becomes, and which models are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from flows import Meaning, Sub
from hostile import below, branching, chain, floats, function

from twinfer.runtime.control import MOST_CALLS
from twinfer.runtime.graph import Node
from twinfer.runtime.plan.flow import Block, Branch, Copy, Repeat, nodes_of
from twinfer.runtime.plan.inline import inline
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Region
from twinfer.runtime.run.interpreter import Interpreter


def outline(block: Block) -> list[Any]:
    """The parts of a block in words, branches and loops as pairs of lists."""

    def word(part: Any) -> Any:
        match part:
            case Node():
                return part.op
            case Copy():
                return "copy"
            case Branch():
                return outline(part.then), outline(part.orelse)
            case Repeat():
                return outline(part.test), outline(part.body)

    return [word(part) for part in block]


# -- what a model becomes ----------------------------------------------------------------------------------------------


def test_branches_write_the_results_themselves() -> None:
    graph = branching(function("then", "RELU"), function("else", "ADD", "NEG"))
    (branch,) = inline(graph).main
    assert outline((branch,)) == [(["RELU"], ["ADD", "NEG"])]
    assert branch.condition is graph.inputs[0]
    assert [part.output for part in (branch.then[-1], branch.orelse[-1])] == [*graph.outputs] * 2
    assert branch.then[0].inputs == (graph.inputs[1],)


def test_what_is_handed_through_is_copied() -> None:
    graph = branching(function("then"), function("else", "RELU"))
    (branch,) = inline(graph).main
    assert outline((branch,)) == [(["copy"], ["RELU"])]
    assert (branch.then[0].source, branch.then[0].to) == (graph.inputs[1], graph.outputs[0])


def test_branch_in_a_loop() -> None:
    body, main = Sub("body"), Sub("main")
    x = body.input()
    (y,) = body.branch(body.less(x, floats(2)), 3, 4, [x], [x])
    graphs = below(9), body.graph([y]), function("then", "ADD"), function("else", "EXP", "ADD")
    x = main.input()
    (y,) = main.loop(1, 2, [x])
    flow = inline(main.graph([y, x], *graphs))
    assert outline(flow.main) == ["copy", (["LESS"], ["LESS", (["ADD"], ["EXP", "ADD"]), "copy"])]
    first, loop = flow.main
    assert (first.source, first.to) == (x, y), "the loop changes a copy: its argument is an output, too"
    assert loop.condition is loop.test[-1].output
    assert loop.test[0].inputs[0] is loop.body[0].inputs[0] is loop.body[-1].to is y


def test_every_call_has_tensors_of_its_own() -> None:
    main, sub = Sub("main"), Sub("sub")
    weights = sub.constant([3])
    y = sub.op("RELU", [sub.add(sub.input(), weights)])
    x, c = main.input(), main.input(type="BOOL")
    outputs = [main.branch(c, 1, 2, [x], [x])[0] for _ in range(2)]
    flow = inline(main.graph(outputs, sub.graph([y]), function("else")))
    first, second = (part.then for part in flow.main)
    assert first[0].inputs[1] is second[0].inputs[1] is weights, "constants are one"
    assert first[0].output is not second[0].output
    assert first[0].output.name == second[0].output.name == sub.nodes[0].output.name
    assert [node.index for node in nodes_of(flow.main)] == [0, 1, 0, 1]


def test_state_of_a_subgraph_is_one() -> None:
    """A variable tensor is the same wherever its subgraph is called."""
    main, sub = Sub("main"), Sub("sub")
    state = sub.tensor((1,), variable=True)
    sub.run("RELU", [sub.add(sub.input(), state)], [state])
    x, c = main.input(), main.input(type="BOOL")
    outputs = [main.branch(c, 1, 2, [x], [x])[0] for _ in range(2)]
    plan = make_plan(main.graph(outputs, sub.graph([state]), function("else")))
    assert plan.variables == (state,)


def test_main_subgraph_stays_as_it_is() -> None:
    main = Sub("main")
    y = main.op("RELU", [main.input()])
    graph = main.graph([main.add(y, y)])
    assert inline(graph).main == graph.nodes


def test_constant_condition_chooses() -> None:
    """Also one that comes from the caller, two calls above."""
    inner, main = Sub("inner"), Sub("main")
    c, x = inner.input(type="BOOL"), inner.input()
    graphs = inner.graph(inner.branch(c, 2, 3, [x], [x])), function("then", "RELU"), function("else", "EXP")
    x = main.input()
    for value in (True, False):
        main.branch(main.constant([value], "BOOL"), 1, 1, [main.constant([value], "BOOL"), x], [x])
    flow = inline(main.graph([node.output for node in main.nodes], *graphs))
    assert outline(flow.main) == ["RELU", "EXP"]


def test_loop_that_never_begins() -> None:
    test, main = Sub("test"), Sub("main")
    test.input()
    graph = main.graph(main.loop(1, 2, [main.input()]), test.graph([test.constant([False], "BOOL")]), function("body"))
    assert outline(inline(graph).main) == ["copy"]


def test_composite() -> None:
    main = Sub("main")
    x = main.op("EXP", [main.input()])
    y = main.op("STABLEHLO_COMPOSITE", [x], name="c", decomposition_subgraph_index=1)
    z = main.op("STABLEHLO_COMPOSITE", [y], name="c", decomposition_subgraph_index=2)
    flow = inline(main.graph([z], function("one", "RELU", "ADD"), function("none")))
    assert outline(flow.main) == ["EXP", "RELU", "ADD", "copy"]
    assert flow.main[1].inputs == (x,)
    assert (flow.main[-1].source, flow.main[-1].to) == (flow.main[2].output, z), "an output of the graph is written"


def test_variables_become_tensors_of_the_state() -> None:
    """One by container and name, whatever handles name it; a read and a write are copies."""
    main = Sub("main")
    x = main.input((2,))
    for name in ("v", "v", "w"):
        main.assign(main.handle(name), main.add(main.read(main.handle(name), (2,)), x))
    other = main.op("VAR_HANDLE", [], "RESOURCE", (), container="v", shared_name="")
    y = main.read(other, (2,))
    graph = main.graph([y])
    flow = inline(graph)
    assert outline(flow.main) == ["copy", "ADD", "copy"] * 3 + ["copy"]
    assert [*flow.resources] == [("", "v"), ("", "w"), ("v", "")]
    v, w, c = (resource.tensor for resource in flow.resources.values())
    copied = [part for part in flow.main if isinstance(part, Copy)]
    assert [part.source for part in copied[::2]] == [v, v, w, c]
    assert [part.to for part in copied[1::2]] == [v, v, w]
    assert [(t.name, t.type, t.shape, t.variable) for t in (v, c)] == [("v", "FLOAT32", (2,), True)] * 2
    plan = make_plan(graph)
    assert {plan.places[resource.tensor].region for resource in plan.resources.values()} == {Region.STATE}
    assert len(plan.variables) == 3
    assert plan.state_bytes == 16 + 16 + 8


def test_first_values_are_set_once() -> None:
    """CALL_ONCE is what a reset does; the second of one subgraph does nothing more."""
    init, main = Sub("init"), Sub("main")
    init.assign(init.handle(), init.op("EXP", [init.constant([0, 1])]))
    for _ in range(2):
        main.once(1)
    flow = inline(main.graph([main.read(main.handle(), (2,))], init.graph([])))
    assert (outline(flow.start), outline(flow.main)) == (["EXP", "copy"], ["copy"])
    assert [resource.init for resource in flow.resources.values()] == [1]
    assert flow.start[-1].to is flow.main[0].source


def test_what_does_nothing_is_left_out() -> None:
    """A branch and a loop without effect: no step would read their condition."""
    main, hand, none = Sub("main"), Sub("hand"), Sub("none")
    x = main.input((64,))
    c = main.less(main.op("GATHER", [x, np.array([0], np.int32)], shape=(1,), axis=0), floats(3))
    y = main.mul(main.add(x, x), x)
    main.run("IF", [c], then_subgraph_index=1, else_subgraph_index=1)
    main.loop(2, 2, [c])
    graph = main.graph([y, main.add(y, x)], none.graph([]), hand.graph([hand.input(type="BOOL")]))
    assert outline(inline(graph).main) == ["GATHER", "LESS", "ADD", "MUL", "ADD"]
    assert make_plan(graph).straight


def test_as_deep_as_may_be() -> None:
    values = np.arange(2, dtype=np.float32)
    graph = chain(MOST_CALLS)
    model = Interpreter.from_graph(graph)
    model.allocate_tensors()
    model.session.feed([np.array([True]), values])
    model.invoke()
    np.testing.assert_array_equal(model.session.outputs()[0], Meaning(graph).run([np.array([True]), values])[0])
