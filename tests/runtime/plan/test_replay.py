"""The proof of plans: each fault that memory can have is planted in a good plan, and refused for that reason."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from cases import cases_of, graph_of
from flows import Meaning, Random, Sub
from hostile import floats
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from twinfer.bench.models.builtin import builtin
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan import replay
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.replay import fault
from twinfer.runtime.program import Alias, If, Part, Program, Step, While
from twinfer.runtime.run.guard import spread
from twinfer.runtime.run.session import Session
from twinfer.runtime.walks import with_steps


def apart(graph: Graph) -> Plan:
    """A plan in which no tensor shares memory, with gaps between all, so that a planted fault is the only one."""
    return spread(make_plan(graph, options=Options(preserve_all=True)))


def onto(plan: Plan, tensor: Tensor, other: Tensor, by: int = 0) -> Plan:
    """The plan with a tensor in the place of another one, or so many bytes behind its beginning."""
    place = plan.places[other]
    return replace(plan, places={**plan.places, tensor: place._replace(offset=place.offset + by)})


def out(plan: Plan, i: int) -> Tensor:
    """The output of step ``i``."""
    return plan.steps[i].call.written[0]


def refused(plan: Plan, *words: str) -> None:
    """The proof fails, with these words in its sentence."""
    said = fault(plan)
    assert said is not None
    assert re.search(".*".join(words), said), said


def good(plan: Plan) -> Plan:
    assert fault(plan) is None
    return plan


# -- straight programs -------------------------------------------------------------------------------------------------


def chain() -> Plan:
    """x -> RELU -> EXP -> ADD with x."""
    main = Sub("main")
    x = main.input((8,))
    return good(apart(main.graph([main.add(main.op("EXP", [main.op("RELU", [x])]), x)])))


@pytest.mark.parametrize("by", [0, 4, 28, -4, -28])
def test_two_live_tensors(by: int) -> None:
    """x is read by the last step; one value of it is enough to lose it."""
    plan = chain()
    (x,) = plan.graph.inputs
    refused(onto(plan, out(plan, 1), x, by), "step 2 .* ADD", f"reads {re.escape(str(x))}", "step 1 .* written there")


@pytest.mark.parametrize("by", [32, -32])
def test_neighbours_may_touch(by: int) -> None:
    plan = chain()
    good(onto(plan, out(plan, 1), plan.graph.inputs[0], by))


def test_memory_of_the_dead_may_be_used() -> None:
    plan = chain()
    good(onto(plan, out(plan, 2), out(plan, 0), 4))


@pytest.mark.parametrize("i", range(3))
def test_a_step_is_missing(i: int) -> None:
    plan = chain()
    without = replace(plan, program=tuple(part for part in plan.program if part is not plan.steps[i]))
    refused(without, "reads", re.escape(str(out(plan, i))), "holds no value then$")


def test_steps_are_in_the_wrong_order() -> None:
    plan = chain()
    relu, exp, add = plan.program
    refused(replace(plan, program=(exp, relu, add)), "step 0 .* EXP", "reads", "holds no value then")
    refused(replace(plan, program=(relu, add, exp)), "step 1 .* ADD", "reads", "holds no value then")


def test_an_output_is_overwritten() -> None:
    main = Sub("main")
    x = main.input((8,))
    y = main.op("RELU", [x])
    main.op("EXP", [x])
    plan = good(apart(main.graph([y])))
    for by in (0, 4, -4):
        refused(onto(plan, out(plan, 1), y, by), "what follows the run reads", "step 1 .* EXP .* written there")


def test_inputs_over_one_another() -> None:
    main = Sub("main")
    x, y = main.input((8,)), main.input((8,))
    plan = good(apart(main.graph([main.add(x, y)])))
    refused(onto(plan, x, y, 4), "ADD .* reads", "the caller has written there")


def test_two_outputs_of_a_step() -> None:
    main = Sub("main")
    halves = [main.tensor((4,)), main.tensor((4,))]
    main.run("SPLIT", [np.array(0, np.int32), main.input((8,))], halves, num_splits=2)
    plan = good(apart(main.graph(halves)))
    refused(onto(plan, halves[0], halves[1]), "SPLIT .* writes .* over .*, which it needs")
    refused(onto(plan, halves[1], plan.graph.inputs[0]), "SPLIT .* writes .* over .*, which it needs")


@pytest.mark.parametrize("by", [4, -4])
def test_in_place_is_exactly_there(by: int) -> None:
    plan = chain()
    assert plan.steps[0].call.inplace
    refused(onto(plan, out(plan, 1), out(plan, 0), by), "EXP .* writes .* over .*, which it needs")


def test_in_place_is_for_output_0() -> None:
    """Scratch may not lie on the input, where the output may."""
    plan = chain()
    step, scratch = plan.steps[0], Tensor("scratch", "INT8", (32,))
    program = with_steps(plan.program, lambda each: replace(each, scratch=scratch) if each is step else each)
    last = replace(plan, program=program, places={**plan.places, scratch: plan.places[out(plan, 2)]})
    refused(
        onto(good(last), scratch, plan.graph.inputs[0]), "RELU .* writes tensor 'scratch' .* over .*, which it needs"
    )


def test_in_place_is_for_kernels_that_can() -> None:
    main = Sub("main")
    x = main.input((2, 2))
    plan = good(apart(main.graph([main.op("TRANSPOSE", [x, np.array([1, 0], np.int32)])])))
    refused(onto(plan, out(plan, 0), x), "TRANSPOSE .* writes .* over .*, which it needs")


def test_in_place_is_for_operands_that_are_read_once() -> None:
    main = Sub("main")
    x = main.input((8,))
    plan = good(apart(main.graph([main.mul(x, x)])))
    refused(onto(plan, out(plan, 0), x), "MUL .* writes .* over .*, which it needs")


def convolved() -> Plan:
    """A convolution with scratch behind RELU; the graph's input is read again behind it, a variable, too."""
    main, rng = Sub("main"), np.random.default_rng(0)
    x, h = main.input((1, 4, 4, 2)), main.handle()
    weights = rng.standard_normal((2, 3, 3, 2)).astype(np.float32)
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "fused_activation_function": "NONE"}
    y = main.op("CONV_2D", [main.op("RELU", [x]), weights, floats(0, 0)], **options)
    return good(apart(main.graph([main.add(main.add(y, x), main.read(h, (1,)))])))


@pytest.mark.parametrize(
    ("victim", "words"),
    [
        ("its input", "CONV_2D .* writes tensor .scratch .* over .*, which it needs"),
        ("its output", "CONV_2D .* writes tensor .scratch .* over .*, which it needs"),
        ("a value for later", "ADD .* reads .* step 1 .* CONV_2D .* written there"),
    ],
)
def test_scratch(victim: str, words: str) -> None:
    plan = convolved()
    scratch = plan.steps[1].scratch
    assert scratch is not None
    assert scratch.nbytes > 64
    victims = {"its input": out(plan, 0), "its output": out(plan, 1), "a value for later": plan.graph.inputs[0]}
    refused(onto(plan, victims[victim], scratch, 64), words)


def test_scratch_over_the_state() -> None:
    plan = convolved()
    moved = onto(plan, plan.steps[1].scratch, *plan.variables, -128)
    refused(moved, "READ_VARIABLE .* reads .* step 1 .* CONV_2D .* written there")


# -- needless copies ---------------------------------------------------------------------------------------------------


def renamed() -> Plan:
    """x -> RELU -> RESHAPE, which is needless -> EXP; the reshaped value is an output."""
    main = Sub("main")
    y = main.op("RELU", [main.input((8,))])
    z = main.op("RESHAPE", [y], shape=(2, 4), new_shape=(2, 4))
    plan = good(make_plan(main.graph([z, main.op("EXP", [z])])))
    assert [type(part) for part in plan.program] == [Step, Alias, Step]
    return plan


def test_same_lies_elsewhere() -> None:
    plan = renamed()
    same = plan.program[1]
    refused(onto(plan, same.to, same.source, 4), "is to be the same as .*, but lies elsewhere")


def test_same_of_nothing() -> None:
    plan = renamed()
    relu, same, exp = plan.program
    refused(replace(plan, program=(same, relu, exp)), "the copy to .* reads", "holds no value then")
    refused(replace(plan, program=(relu, exp, same)), "EXP .* reads", "holds no value then")


def test_same_that_is_overwritten() -> None:
    """No step touches the output but the one that overwrites it."""
    main = Sub("main")
    x, y = main.input((8,)), main.input((8,))
    z = main.op("RESHAPE", [x], shape=(2, 4), new_shape=(2, 4))
    w = main.op("EXP", [y])
    plan = good(make_plan(main.graph([z, w])))
    assert [type(part) for part in plan.program] == [Alias, Step]
    refused(onto(plan, w, z), "what follows the run reads", re.escape(str(z)), "step 0 .* written there")


def test_same_is_no_longer_true() -> None:
    """The copy of a variable is taken for the variable, which changes before the copy is read."""
    main = Sub("main")
    x, h = main.input((8,)), main.handle()
    old = main.read(h, (8,))
    main.assign(h, main.add(x, x))
    plan = good(apart(main.graph([main.mul(old, x)])))
    copy = plan.steps[0]
    (variable,) = plan.variables
    shared = with_steps(plan.program, lambda step: Alias(variable, out(plan, 0)) if step is copy else step)
    refused(onto(replace(plan, program=shared), out(plan, 0), variable), "MUL .* reads", "written there")


# -- branches ----------------------------------------------------------------------------------------------------------


def branched() -> Plan:
    """IF with a step of two in each branch; x is read in one branch only, y behind both."""
    then, orelse, main = Sub("then"), Sub("else"), Sub("main")
    for sub in (then, orelse):
        sub.input((8,))
    graphs = (
        then.graph([then.op("EXP", [then.op("ABS", then.inputs)])]),
        orelse.graph([orelse.op("RELU", orelse.inputs)]),
    )
    c, x, y = main.input(type="BOOL"), main.op("NEG", [main.input((8,))]), main.input((8,))
    (z,) = main.branch(c, 1, 2, [x], [x])
    return good(apart(main.graph([main.add(z, y)], *graphs)))


def branch_of(plan: Plan) -> If:
    return next(part for part in plan.program if isinstance(part, If))


def changed(plan: Plan, old: Part, *new: Part) -> Plan:
    """The plan with other parts in the place of one of its outermost."""
    program = tuple(each for part in plan.program for each in (new if part is old else (part,)))
    return replace(plan, program=program)


def test_a_branch_overwrites_what_both_need() -> None:
    plan = branched()
    absolute = branch_of(plan).then[0].call.written[0]
    refused(onto(plan, absolute, plan.graph.inputs[2]), "ADD .* reads", "ABS.* written there")


def test_a_branch_may_overwrite_what_only_the_other_needs() -> None:
    plan = branched()
    good(onto(plan, branch_of(plan).then[0].call.written[0], out(plan, 0)))


@pytest.mark.parametrize("side", ["then", "orelse"])
def test_a_branch_gives_no_result(side: str) -> None:
    plan = branched()
    branch = branch_of(plan)
    refused(
        changed(plan, branch, replace(branch, **{side: getattr(branch, side)[:-1]})), "ADD .* reads", "no value then"
    )


def test_a_step_leaves_its_branch() -> None:
    """What only one branch computes is read behind both."""
    plan = branched()
    branch = branch_of(plan)
    last, first = branch.then[-1], branch.then[0]
    refused(changed(plan, branch, replace(branch, then=(first,)), last), "EXP .* reads", "holds no value then")
    good(changed(plan, branch, first, replace(branch, then=(last,))))


def test_a_condition_is_overwritten() -> None:
    plan = branched()
    refused(onto(plan, out(plan, 0), plan.graph.inputs[0]), "a branch reads .*BOOL", "step 0 .* written there")


# -- loops -------------------------------------------------------------------------------------------------------------


def looped() -> Plan:
    """WHILE n < limit: n += 1, x = EXP(ABS(x)) + w. limit and w come from outside, y is read behind the loop."""
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    for sub in (test, body):
        for shape in ((1,), (1,), (8,), (8,)):
            sub.input(shape)
    n, limit, x, w = body.inputs
    x = body.add(body.op("EXP", [body.op("ABS", [x])]), w)
    graphs = test.graph([test.less(*test.inputs[:2])]), body.graph([body.add(n, floats(1)), limit, x, w])
    inputs = [main.input(shape) for shape in ((1,), (1,), (8,), (8,), (8,))]
    outputs = main.loop(1, 2, inputs[:4])
    return good(apart(main.graph([main.add(outputs[2], inputs[4])], *graphs)))


def loop_of(plan: Plan) -> While:
    return next(part for part in plan.program if isinstance(part, While))


def of(program: Program, op: str) -> Step:
    return next(part for part in program if isinstance(part, Step) and part.node.op == op)


@pytest.mark.parametrize(("reader", "which"), [("LESS", 1), ("ADD", 3)])
def test_the_second_trip_misses_what_the_first_destroyed(reader: str, which: int) -> None:
    """The value is there when the loop begins; a step behind its reader takes it."""
    plan = looped()
    last = loop_of(plan).body[-3].call.written[0]
    refused(onto(plan, last, plan.graph.inputs[which]), f"{reader} .* reads", "written there")


def test_a_loop_overwrites_what_is_read_behind_it() -> None:
    plan = looped()
    absolute = of(loop_of(plan).body, "ABS").call.written[0]
    refused(onto(plan, absolute, plan.graph.inputs[4]), "ADD .* reads", "ABS.* written there")


def test_a_loop_may_overwrite_what_is_read_before_it() -> None:
    plan = looped()
    absolute = of(loop_of(plan).body, "ABS").call.written[0]
    good(onto(plan, absolute, plan.graph.inputs[2]))


def test_a_loop_does_not_run() -> None:
    """What only the body computes is not there behind the loop, nor in the first test."""
    plan = looped()
    loop = loop_of(plan)
    copies = [part for part in plan.program if part is not loop][:-1]
    for copy in copies:
        refused(changed(plan, copy), "reads .*, which holds no value then$")


def test_a_loops_condition_is_overwritten() -> None:
    plan = looped()
    loop = loop_of(plan)
    late = changed(plan, loop, replace(loop, test=(*loop.test, of(loop.body, "ABS"))))
    good(late)
    refused(onto(late, of(loop.body, "ABS").call.written[0], loop.condition), "a loop reads .*BOOL", "written there")


def test_a_loop_does_not_advance() -> None:
    """Without the copies back a variable would keep its value: no fault of memory. Without its test it is one."""
    plan = looped()
    loop = loop_of(plan)
    good(changed(plan, loop, replace(loop, body=loop.body[:-2])))
    refused(changed(plan, loop, replace(loop, test=())), "a loop reads .*BOOL", "holds no value then")


# -- state -------------------------------------------------------------------------------------------------------------


def stateful() -> Plan:
    """A variable with a first value that is computed; EXP stands before its use, MUL behind."""
    init, main = Sub("init"), Sub("main")
    init.assign(init.handle(), init.op("EXP", [init.op("ABS", [init.constant([-1, 2])])]))
    main.once(1)
    x, h = main.input((2,)), main.handle()
    y = main.op("EXP", [x])
    new = main.add(main.read(h, (2,)), y)
    main.assign(h, new)
    return good(apart(main.graph([main.mul(new, x)], init.graph([]))))


@pytest.mark.parametrize(("op", "reader"), [("EXP", "READ_VARIABLE"), ("MUL", "what follows the run")])
def test_state_is_overwritten(op: str, reader: str) -> None:
    plan = stateful()
    refused(onto(plan, of(plan.program, op).call.written[0], *plan.variables), reader, "reads", f"{op} .* written")


def test_state_under_an_input() -> None:
    plan = stateful()
    refused(onto(plan, plan.graph.inputs[0], *plan.variables, 4), "reads", "written there")


@pytest.mark.parametrize(("first", "sentence"), [(True, "the caller writes .* over it"), (False, "ADD .* reads")])
def test_an_input_that_nothing_reads(first: bool, sentence: str) -> None:
    """The caller writes it all the same, in any order: it may lie on no state and on no other input."""
    init, main = Sub("init"), Sub("main")
    init.assign(init.handle(), init.constant([7, -7]))
    main.once(1)
    inputs, h = [main.input((2,)), main.input((2,))], main.handle()
    unread, x = inputs if first else reversed(inputs)
    plan = good(apart(main.graph([main.add(main.read(h, (2,)), x)], init.graph([]))))
    refused(onto(plan, unread, x), sentence)
    refused(onto(plan, unread, *plan.variables), "READ_VARIABLE .* reads", "written there")


def test_state_of_an_operator_is_read_by_it() -> None:
    """SVDF's call has its state among its outputs alone, so that it holds a value behind; it also reads it."""
    graph = graph_of(next(iter(cases_of("SVDF").values())).node)
    main = Sub("main")
    before = main.run("EXP", [main.input((8,))], [main.tensor((8,))])
    tensors, inputs = (*main.tensors, *graph.tensors), (*main.inputs, *graph.inputs)
    plan = good(apart(replace(graph, tensors=tensors, inputs=inputs, nodes=(before, *graph.nodes))))
    refused(onto(plan, before.output, *plan.variables), "SVDF .* reads", "step 0 .* EXP.* written there")


def test_weights_that_are_decoded_once() -> None:
    plan = good(make_plan(builtin()["digits_int8"](), options=Options(weights="huffman", decode="start")))
    weights = [tensor for tensor in plan.lasting if tensor not in plan.variables]
    assert len(weights) > 1
    refused(onto(plan, out(plan, 0), weights[1]), "reads", "written there")
    refused(onto(plan, weights[0], weights[1]), "the first run reads", "of the reset .* has written there")


def test_the_reset() -> None:
    plan = stateful()
    absolute, exp, copy = plan.start
    assert copy.call.kernel == "tw_copy"
    refused(replace(plan, start=(exp, absolute, copy)), "step 0 of the reset .* EXP", "reads", "holds no value then")
    refused(onto(plan, exp.call.written[0], absolute.call.written[0], 4), "step 1 of the reset .* EXP .* over")
    two = replace(plan, start=(absolute, exp, copy, absolute))
    refused(onto(two, absolute.call.written[0], *plan.variables), "the first run reads", "ABS.* written there")


# -- what the planner would do wrong -----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1 << 32), st.data())
def test_what_the_proof_takes_gives_the_same_values(seed: int, data: st.DataObject) -> None:
    """Tensors of a random model are moved onto others. Either the proof fails, or no output can tell."""
    source = Random(seed)
    graph, runs = source.model(), [source.inputs() for _ in range(3)]
    plan = apart(graph)
    tensors = [tensor for tensor in plan.places if tensor.nbytes]
    for _ in range(data.draw(st.integers(1, 4))):
        tensor, other = (data.draw(st.sampled_from(tensors)) for _ in range(2))
        moved = onto(plan, tensor, other)
        plan = moved if fault(moved) is None else plan
    assume(len({plan.places[tensor] for tensor in tensors}) < len(tensors))
    meaning, session = Meaning(graph), Session(plan)
    for values in runs:
        session.feed(values)
        session.run()
        for got, want in zip(session.outputs(), meaning.run(values), strict=True):
            np.testing.assert_array_equal(got, want)


def test_nested_loops_are_walked_a_few_times_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a loop has lost is known when a loop around it runs again: the work does not double with every level."""
    visits = []
    step = replay._Replay.step
    monkeypatch.setattr(replay._Replay, "step", lambda self, *given: (visits.append(1), step(self, *given))[1])
    for depth in (4, 8):
        main, graphs = Sub("main"), []
        for level in range(depth):
            test, body = Sub(f"test{level}"), Sub(f"body{level}")
            graphs.append(test.graph([test.less(test.input(), np.array([5], np.float32))]))
            value = body.op("SIN", [body.add(body.input(), np.array([1], np.float32))])
            if level < depth - 1:
                (value,) = body.loop(2 * level + 3, 2 * level + 4, [value])
            graphs.append(body.graph([body.add(value, value)]))
        visits.clear()
        plan = make_plan(main.graph(main.loop(1, 2, [main.input()]), *graphs))
        assert len(visits) < 3 * depth * len(plan.steps)
