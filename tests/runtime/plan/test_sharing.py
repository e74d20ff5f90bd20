"""Who shares memory with whom, each rule where it holds and where it must not; and that no output can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flows import Meaning, Random, Sub
from hostile import floats
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer.runtime.graph import Array, Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan import sharing
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import COPY, Alias
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import TARGETS


def together(plan: Plan, *tensors: Tensor) -> bool:
    """Whether tensors of one size use the same memory; those that a plan calls by name are in no other place."""
    return len({plan.places[tensor] for tensor in tensors}) == 1


def copied(plan: Plan) -> int:
    """How many copies are made."""
    return sum(step.call.kernel == COPY for step in plan.steps)


def right(graph: Graph, *runs: list[Array]) -> Plan:
    """The plan, whose values are those of the file, with and without sharing, over memory full of rubbish."""
    for options in (Options(), Options(preserve_all=True)):
        session, meaning = Session(make_plan(graph, options=options)), Meaning(graph)
        for values in runs:
            poison(session)
            session.feed(values)
            session.run()
            for got, want in zip(session.outputs(), meaning.run(values), strict=True):
                np.testing.assert_array_equal(got, want)
    return make_plan(graph)


X = [floats(*range(8)), floats(*range(-8, 0)), floats(*range(3, 11))]


def fed(count: int = 1) -> list[list[Array]]:
    """The values of three runs for so many inputs of 8 elements."""
    return [[X[(i + k) % 3] for k in range(count)] for i in range(3)]


def take(*subs: Sub, sizes: tuple[int, ...]) -> None:
    """Gives every subgraph one input of each size."""
    for sub in subs:
        for size in sizes:
            sub.input((size,))


class Stateful(Sub):
    """A main subgraph with one variable of 8 elements, and x."""

    def __init__(self) -> None:
        super().__init__("main")
        self.x, self.h = self.input((8,)), self.handle()

    def get(self) -> Tensor:
        return self.read(self.h, (8,))

    def put(self, value: Tensor) -> None:
        self.assign(self.h, value)


# -- a copy of a variable is the variable ------------------------------------------------------------------------------


def test_read_in_place() -> None:
    m = Stateful()
    old = m.get()
    m.put(m.x)
    plan = right(m.graph([m.mul(m.add(m.get(), m.x), m.x)]), *fed())
    assert copied(plan) == 1, "only x goes to the variable"
    m = Stateful()
    old = m.get()
    plan = right(m.graph([m.add(m.mul(old, m.x), old)]), *fed())
    assert together(plan, old, *plan.variables)
    assert copied(plan) == 0


def test_not_read_in_place_where_the_variable_changes_first() -> None:
    m = Stateful()
    old = m.get()
    m.put(m.x)
    plan = right(m.graph([m.add(old, m.x)]), *fed())
    assert not together(plan, old, *plan.variables)
    assert copied(plan) == 2


def test_not_read_in_place_where_it_is_an_output() -> None:
    """The caller reads outputs when the variable may have changed; they are in the arena."""
    m = Stateful()
    old = m.get()
    plan = right(m.graph([old]), *fed())
    assert not together(plan, old, *plan.variables)


def test_written_back_unchanged() -> None:
    m = Stateful()
    old = m.get()
    m.put(old)
    plan = right(m.graph([m.add(old, m.x)]), *fed())
    assert together(plan, old, *plan.variables)
    assert copied(plan) == 0
    assert [type(part) for part in plan.program[:2]] == [Alias, Alias]


def test_not_read_in_place_where_both_branches_write() -> None:
    """A result of IF has two writers: it is no copy of the variable alone."""
    then, orelse, main = Sub("then"), Sub("else"), Stateful()
    result = then.read(then.handle(), (8,))
    graphs = then.graph([result]), orelse.graph([orelse.mul(*[orelse.input((8,))] * 2)])
    then.inputs.append(then.tensor((8,)))
    graphs = then.graph([result]), graphs[1]
    (y,) = main.branch(main.input(type="BOOL"), 1, 2, [main.x], [main.x])
    main.put(main.add(main.get(), main.x))
    graph = main.graph([main.mul(y, main.x)], *graphs)
    runs = [[values[0], np.array([i != 1])] for i, values in enumerate(fed())]
    plan = right(graph, *runs)
    assert not together(plan, y, *plan.variables)


# -- what is copied to a variable is computed there --------------------------------------------------------------------


def test_written_in_place() -> None:
    m = Stateful()
    new = m.add(m.x, m.x)
    m.put(new)
    plan = right(m.graph([m.mul(new, m.x)]), *fed())
    assert together(plan, new, *plan.variables)
    assert copied(plan) == 0


def test_written_in_place_and_read_again() -> None:
    m = Stateful()
    new = m.add(m.x, m.x)
    m.put(new)
    plan = right(m.graph([m.mul(m.get(), m.x), m.add(new, m.get())]), *fed())
    assert together(plan, new, *plan.variables)
    assert copied(plan) == 0


def test_read_and_written_in_place() -> None:
    """ADD works on the variable itself: old and new value have one memory."""
    m = Stateful()
    old = m.get()
    new = m.add(old, m.x)
    m.put(new)
    plan = right(m.graph([m.mul(new, m.x)]), *fed())
    assert together(plan, old, new, *plan.variables)
    assert copied(plan) == 0


def read_later() -> Graph:
    """The variable's old value is read behind the computation of the new one."""
    m = Stateful()
    old = m.get()
    new = m.add(m.x, m.x)
    between = m.mul(old, m.x)
    m.put(new)
    return m.graph([m.add(between, new)])


def squared() -> Graph:
    """MUL reads the old value twice while it writes the new one."""
    m = Stateful()
    old = m.get()
    m.put(m.mul(old, old))
    return m.graph([m.add(m.x, m.x)])


def turned_round() -> Graph:
    """REVERSE_V2 reads the old value in another order."""
    m = Stateful()
    m.put(m.op("REVERSE_V2", [m.get(), np.array([0], np.int32)]))
    return m.graph([m.add(m.x, m.x)])


def changed_again() -> Graph:
    """A value is read once more when the variable, which had it, holds another one."""
    m = Stateful()
    one = m.add(m.x, m.x)
    m.put(one)
    m.put(m.mul(m.x, m.x))
    return m.graph([m.add(one, m.x)])


def put_in_a_branch() -> Graph:
    """The value is computed in every run, the variable gets it in some."""
    then, orelse, main = Sub("then"), Sub("else"), Sub("main")
    then.assign(then.handle(), then.input((8,)))
    orelse.input((8,))
    x, c = main.input((8,)), main.input(type="BOOL")
    new = main.mul(x, x)
    main.run("IF", [c, new], then_subgraph_index=1, else_subgraph_index=2)
    return main.graph([main.add(new, x)], then.graph([]), orelse.graph([]))


@pytest.mark.parametrize("build", [read_later, squared, turned_round, changed_again, put_in_a_branch])
def test_not_written_in_place(build: Callable[[], Graph]) -> None:
    plan = right(build(), *[[values[0], np.array([i != 1])][: len(build().inputs)] for i, values in enumerate(fed())])
    into = [step for step in plan.steps if step.call.kernel == COPY and step.call.written[0].variable]
    assert into, "a copy to the variable is made"


@pytest.mark.parametrize(("op", "copies"), [("RELU", 0), ("MUL", 1)])
def test_loops_work_in_place(op: str, copies: int) -> None:
    """The variables of a loop stay where their first values were computed; MUL by itself needs another place."""
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    take(test, body, sizes=(1, 8))
    i, x = body.inputs
    result = body.mul(x, x) if op == "MUL" else body.op("RELU", [x])
    graphs = test.graph([test.less(test.inputs[0], floats(3))]), body.graph([body.add(i, floats(1)), result])
    begin = main.op("NEG", [main.input((8,))])
    y = main.loop(1, 2, [main.constant([0]), begin])[1]
    plan = right(main.graph([main.add(y, y)], *graphs), *fed())
    assert together(plan, begin, y)
    assert copied(plan) == 1 + copies, "the counter begins with a constant"


def test_swapped_variables_of_a_loop() -> None:
    """Neither may be written where the other still is."""
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    take(test, body, sizes=(1, 8, 8))
    i, x, y = body.inputs
    graphs = test.graph([test.less(test.inputs[0], floats(3))]), body.graph([body.add(i, floats(1)), y, x])
    outputs = main.loop(1, 2, [main.constant([0]), main.input((8,)), main.input((8,))])[1:]
    plan = right(main.graph([main.op("RELU", [value]) for value in outputs], *graphs), *fed(2))
    assert len({plan.places[value] for value in outputs}) == 2


@pytest.mark.parametrize("written", [False, True])
def test_a_variable_that_a_loop_changes_at_its_end(written: bool) -> None:
    """What the variable held before the loop is read in every iteration: it is a value of its own."""
    test, body, main = Sub("test"), Sub("body"), Stateful()
    test.input((8,))
    old = body.input((8,))
    body.assign(body.handle("u"), body.add(body.read(body.handle("u")), floats(1)))
    body.assign(body.handle(), body.op("REVERSE_V2", [old, np.array([0], np.int32)]))
    graphs = test.graph([test.less(test.read(test.handle("u")), floats(3))]), body.graph([old])
    main.assign(main.handle("u"), main.constant([0]))
    if written:
        old = main.add(main.x, main.x)
        main.put(old)
    else:
        old = main.get()
    main.loop(1, 2, [old])
    plan = right(main.graph([main.add(main.get(), main.x)], *graphs), *fed())
    variable = next(tensor for tensor in plan.variables if tensor.size == 8)
    assert not together(plan, old, variable)


# -- what loops need --------------------------------------------------------------------------------------------------


def trips(test: Sub, body: Sub, name: str = "u") -> Tensor:
    """The condition of a loop that runs three times, as a variable counts, which its caller sets to 0."""
    body.assign(body.handle(name), body.add(body.read(body.handle(name)), floats(1)))
    return test.less(test.read(test.handle(name)), floats(3))


def test_a_loop_in_a_branch() -> None:
    """It reads its argument in every iteration, though another step of its body comes behind."""
    test, body, then, orelse, main = (Sub(name) for name in ("test", "body", "then", "else", "main"))
    test.input((8,))
    w = body.input((8,))
    condition, y = trips(test, body), body.op("REVERSE_V2", [w, np.array([0], np.int32)])
    body.assign(body.handle(), body.mul(body.op("EXP", [y]), y))
    x = then.op("NEG", [then.input((8,))])
    then.loop(3, 4, [x])
    graphs = [then.graph([then.read(then.handle(), (8,))]), orelse.graph([orelse.input((8,))])]
    graphs += [test.graph([condition]), body.graph([w])]
    main.assign(main.handle("u"), main.constant([0]))
    x, c = main.input((8,)), main.input(type="BOOL")
    right(
        main.graph(main.branch(c, 1, 2, [x], [x]), *graphs),
        *[[v[0] / 16, np.array([i != 1])] for i, v in enumerate(fed())],
    )


def test_what_only_the_first_step_of_a_loop_reads() -> None:
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    take(test, body, sizes=(1, 8, 8))
    limit = test.op("GATHER", [test.inputs[1], np.array([5], np.int32)], shape=(1,), axis=0)
    i, w, x = body.inputs
    y = body.op("REVERSE_V2", [body.add(x, x), np.array([0], np.int32)])
    graphs = test.graph([test.less(test.inputs[0], limit)]), body.graph([body.add(i, floats(1)), w, body.add(x, y)])
    w = main.op("REVERSE_V2", [main.input((8,)), np.array([0], np.int32)])
    y = main.loop(1, 2, [main.constant([0]), w, main.input((8,))])[2]
    plan = right(main.graph([y], *graphs), *fed(2))
    positions = [step.position for step in plan.steps]
    assert positions == sorted(positions)


def test_a_condition_lasts_until_its_test_ends() -> None:
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    test.input((8,))
    x = body.input((8,))
    condition = trips(test, body)
    test.op("REVERSE_V2", [test.op("EXP", test.inputs), np.array([0], np.int32)])
    main.assign(main.handle("u"), main.constant([0]))
    y = main.loop(1, 2, [main.op("NEG", [main.input((8,))])])[0]
    graphs = test.graph([condition]), body.graph([body.op("RELU", [x])])
    right(main.graph([y], *graphs), *[[values[0] / 16] for values in fed()])


def test_two_loops_that_end_together() -> None:
    """What the outer one computes the inner one reads in all iterations, at last in its last step."""
    outer_test, outer, test, body, main = (Sub(name) for name in ("outer_test", "outer", "test", "body", "main"))
    for sub in (outer_test, outer, test, body):
        sub.input((8,))
    conditions = trips(outer_test, outer, "w"), trips(test, body)
    outer.assign(outer.handle("u"), outer.constant([0]))
    outer.loop(3, 4, [outer.op("NEG", outer.inputs)])
    body.op("EXP", body.inputs)
    graphs = [outer_test.graph(conditions[:1]), outer.graph(outer.inputs)]
    graphs += [test.graph(conditions[1:]), body.graph(body.inputs)]
    main.assign(main.handle("w"), main.constant([0]))
    main.loop(1, 2, [main.input((8,))])
    right(main.graph([main.op("RELU", [main.read(main.handle("u"))])], *graphs), *fed())


# -- an output lies on an input that dies ------------------------------------------------------------------------------


def test_taken_over() -> None:
    main = Sub("main")
    x, y = main.input((8,)), main.input((8,))
    z = main.add(x, y)
    w = main.op("RELU", [z])
    plan = right(main.graph([w]), *fed(2))
    assert together(plan, z, w)
    assert plan.places[z] in (plan.places[x], plan.places[y])


def test_not_taken_over_in_a_loop() -> None:
    """What comes into a loop is read again in the next iteration, though it dies in this one."""
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    take(test, body, sizes=(1, 8, 8))
    i, x, w = body.inputs
    y = body.op("RELU", [w])
    graphs = test.graph([test.less(test.inputs[0], floats(3))]), body.graph([body.add(i, floats(1)), body.add(x, y), w])
    x, w = main.input((8,)), main.input((8,))
    y = main.loop(1, 2, [main.constant([0]), x, main.op("NEG", [w])])[1]
    right(main.graph([main.op("RELU", [y])], *graphs), *fed(2))


def test_not_taken_over_from_an_input_that_lasts() -> None:
    """An input that a node writes is in the state: nobody else's."""
    main = Sub("main")
    x, y = main.input((8,)), main.input((8,))
    z = main.op("EXP", [main.op("RELU", [y])])
    main.run("ADD", [x, z], [y], fused_activation_function="NONE")
    plan = make_plan(main.graph([z]))
    assert y in plan.variables
    assert sum(plan.places[tensor] == plan.places[y] for tensor in plan.places) == 1


# -- no output can tell ------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 1 << 32), st.sampled_from(TARGETS))
def test_random_programs_mean_the_same(seed: int, target: Any) -> None:
    """Over rubbish, run by run; the plan never takes more than one in which nothing is shared."""
    source = Random(seed)
    graph, runs = source.model(), [source.inputs() for _ in range(3)]
    plan, separate = make_plan(graph, target), make_plan(graph, target, Options(preserve_all=True))
    assert plan.arena_bytes <= separate.arena_bytes
    session, meaning = Session(plan), Meaning(graph)
    for values in runs:
        poison(session)
        session.feed(values)
        session.run()
        for got, want in zip(session.outputs(), meaning.run(values), strict=True):
            np.testing.assert_array_equal(got, want)


# -- wrong rules -------------------------------------------------------------------------------------------------------


def needed_again() -> Graph:
    main = Sub("main")
    y = main.op("NEG", [main.input((8,))])
    return main.graph([main.mul(main.op("EXP", [y]), y)])


@pytest.mark.parametrize(
    ("where", "question", "build"),
    [
        (sharing._Sharing, "_gone", read_later), (sharing, "_works_on", squared),
        (sharing._Sharing, "_unchanged", changed_again), (sharing._Sharing, "_dies", needed_again),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_refused(
    where: Any, question: str, build: Callable[[], Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rule of sharing matters, and ``make_plan`` asks the proof, which sees where one is always answered yes."""
    make_plan(build())
    monkeypatch.setattr(where, question, lambda *_: True)
    with pytest.raises(RuntimeError, match=r"the planner is wrong: .* (reads .* has written there|writes .* over)"):
        make_plan(build())
