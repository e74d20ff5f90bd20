"""Plans: shared memory, dropped steps, refusals, and sizes that are the target's, not this machine's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from needs import deep_but

from twinfer.runtime.check import check
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Node, Tensor, consumers
from twinfer.runtime.op import tensor
from twinfer.runtime.options import Memory as MemoryOption
from twinfer.runtime.options import Options
from twinfer.runtime.plan import memory
from twinfer.runtime.plan.make import _without_copy, make_plan
from twinfer.runtime.plan.placement import solve
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Call, Step
from twinfer.runtime.run.guard import spread
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC, HOST, TARGETS, Target

SHAPE = (1, 4, 4, 8)


def value(name: str, shape: tuple[int, ...] = SHAPE) -> Tensor:
    return tensor(shape, "INT8", 0.1, 3, name=name)


#: Without tables: functions of one value stay the operators that they are.
ONE_BY_ONE = Options(without=frozenset({"fusion"}))


def relu(x: Tensor, y: Tensor, index: int = 0) -> Node:
    return Node("RELU", (x,), (y,), index=index)


def add(a: Tensor, b: Tensor, y: Tensor, index: int = 0) -> Node:
    return Node("ADD", (a, b), (y,), {"fused_activation_function": "NONE"}, index=index)


def reshape(x: Tensor, y: Tensor, index: int = 0) -> Node:
    return Node("RESHAPE", (x,), (y,), {"new_shape": y.shape}, index=index)


def graph(inputs: tuple[Tensor, ...], nodes: tuple[Node, ...], outputs: tuple[Tensor, ...]) -> Graph:
    tensors = dict.fromkeys((*inputs, *(t for n in nodes for t in (*n.inputs, *n.outputs) if t is not None), *outputs))
    return Graph("test", tuple(tensors), nodes, inputs, outputs)


def run(plan: Plan) -> list[np.ndarray]:
    session = Session(plan)
    for t, v in zip(plan.graph.inputs, random_inputs(plan.graph), strict=True):
        session.view(t)[...] = v
    session.run()
    return [session.view(t).copy() for t in plan.graph.outputs]


def test_chain_of_elementwise_runs_in_place() -> None:
    x, y, z = value("x"), value("y"), value("z")
    plan = make_plan(graph((x,), (relu(x, y), relu(y, z, 1)), (z,)), options=ONE_BY_ONE)
    assert plan.arena_bytes == plan.lower_bound_bytes == x.nbytes
    assert plan.offsets[x] == plan.offsets[y] == plan.offsets[z]


@pytest.mark.parametrize("proven", [False, True])
def test_a_plan_says_whether_its_arena_is_proven_to_be_the_least(proven: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that were moved apart are not."""
    x, y = value("x"), value("y")
    monkeypatch.setattr(memory, "solve", lambda *task: solve(*task)._replace(proven=proven))
    plan = make_plan(graph((x,), (relu(x, y),), (y,)))
    assert plan.proven == proven
    assert not spread(plan).proven


def test_what_is_read_later_is_not_overwritten() -> None:
    x, y, z = value("x"), value("y"), value("z")
    plan = make_plan(graph((x,), (relu(x, y), add(x, y, z, 1)), (z,)), options=ONE_BY_ONE)
    assert plan.offsets[x] != plan.offsets[y]
    assert plan.arena_bytes == 2 * x.nbytes
    assert plan.lives[x] == (-1, 1)
    assert plan.lives[z] == (1, 2)


def test_outputs_are_not_overwritten() -> None:
    x, y, z = value("x"), value("y"), value("z")
    both = make_plan(graph((x,), (relu(x, y), relu(y, z, 1)), (y, z)))
    assert both.offsets[y] != both.offsets[z]
    first, second = run(both)
    np.testing.assert_array_equal(first, second)


def test_an_operand_used_twice_is_not_overwritten_wrongly() -> None:
    x, y = value("x"), value("y")
    plan = make_plan(graph((x,), (add(x, x, y),), (y,)))
    (got,) = run(plan)
    (want,) = run(make_plan(plan.graph, options=Options(preserve_all=True)))
    np.testing.assert_array_equal(got, want)


def test_reshape_is_free_where_its_input_dies_and_a_copy_where_not() -> None:
    x, y, z = value("x"), value("y", (1, 128)), value("z")
    free = make_plan(graph((x,), (reshape(x, y), reshape(y, z, 1)), (z,)))
    assert free.steps == ()
    assert free.arena_bytes == x.nbytes
    kept = make_plan(graph((x,), (reshape(x, y), relu(x, z, 1)), (y, z)))
    assert kept.steps[0].call.kernel == "tw_copy"


@pytest.mark.parametrize(
    ("shapes", "dropped"), [([(0, 3), (2, 3)], False), ([(0, 3), (0, 3)], True), ([(2, 3)], False)]
)
def test_a_call_is_dropped_if_all_that_it_makes_is_empty(shapes: list[tuple[int, ...]], dropped: bool) -> None:
    outputs = tuple(value(f"y{i}", shape) for i, shape in enumerate(shapes))
    call = Call("tw_split", {"count": 1, "outer": 1, "run": 6}, (value("x", (2, 3)),), outputs)
    step = Step(Node("SPLIT", (), outputs), 0, call, (call,))
    assert _without_copy(step, {}) is (None if dropped else step)


def test_preserve_all_gives_everything_its_own_memory() -> None:
    x, y, z = value("x"), value("y"), value("z")
    plan = make_plan(graph((x,), (relu(x, y), relu(y, z, 1)), (z,)), options=Options(preserve_all=True))
    assert len({plan.offsets[t] for t in (x, y, z)}) == 3
    assert plan.arena_bytes == 3 * x.nbytes


def test_variables_keep_their_memory() -> None:
    state = Tensor("state", "INT8", SHAPE, value("").quant, variable=True)
    x, y, z = value("x"), value("y"), value("z")
    plan = make_plan(graph((x,), (add(x, state, y), relu(y, z, 1)), (z,)))
    others = [plan.offsets[t] for t in (x, y, z)]
    assert plan.variables == (state,)
    assert plan.offsets[state] not in others
    session = Session(plan)
    assert (session.view(state) == 3).all()  # int8 starts at the zero point, as TFLM's does
    session.view(state)[...] = 5
    session.run()
    assert (session.view(state) == 5).all()
    session.reset_variables()
    assert (session.view(state) == 3).all()


def test_a_constant_may_be_an_output() -> None:
    x, y = value("x"), value("y")
    constant = tensor((2,), data=np.array([1.5, -2]), name="c")
    plan = make_plan(graph((x,), (relu(x, y),), (y, constant)))
    assert run(plan)[1].tolist() == [1.5, -2]


def test_unsupported_operators_are_all_listed() -> None:
    x, y, z, w = value("x"), value("y"), value("z"), value("w")
    nodes = (Node("UNIQUE", (x,), (y,)), Node("CUSTOM:Mine", (y,), (z,), index=1), Node("UNIQUE", (z,), (w,), index=2))
    with pytest.raises(
        UnsupportedOperatorError, match=r"operator 0 UNIQUE -> 'y'.*'x' INT8.*UNIQUE x2, CUSTOM:Mine x1"
    ):
        make_plan(graph((x,), nodes, (w,)))


def test_wrong_shape_names_the_operator() -> None:
    x, y = value("x"), tensor((1, 4, 4, 7), "INT8", 0.1, 3, name="y")
    with pytest.raises(ModelError, match=r"operator 0 RELU -> 'y': the model says tensor 'y' INT8\[1, 4, 4, 7\]"):
        make_plan(graph((x,), (relu(x, y),), (y,)))


def test_two_gibibytes_are_refused() -> None:
    x, y = value("x", (1 << 31,)), value("y", (1 << 31,))
    with pytest.raises(ModelError, match="2 GiB"):
        make_plan(graph((x,), (relu(x, y),), (y,)))


def test_many_large_tensors_are_refused() -> None:
    tensors = [value(f"t{i}", (1 << 29,)) for i in range(5)]
    nodes = tuple(relu(tensors[0], t, i) for i, t in enumerate(tensors[1:]))
    with pytest.raises(UnsupportedOperatorError, match="2 GiB"):
        make_plan(graph((tensors[0],), nodes, tuple(tensors)))


def test_sizes_are_those_of_the_target() -> None:
    """A microcontroller's plan has room for two windows and no panels, and neither plan holds a pointer."""
    rng = np.random.default_rng(0)
    x, y = value("x"), value("y")
    w = tensor((8, 3, 1, 8), "INT8", 0.01, data=rng.integers(-9, 9, (8, 3, 1, 8)), name="w")
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "fused_activation_function": "NONE"}
    model = graph((x,), (Node("CONV_2D", (x, w), (y,), options),), (y,))
    small, wide = make_plan(model, GENERIC, Options(memory="layers", optimize="size")), make_plan(model, HOST)
    assert small.arena_bytes == x.nbytes + y.nbytes + small.scratch_bytes
    assert small.scratch_bytes == 2 * 24
    assert wide.arena_bytes == x.nbytes + y.nbytes + wide.scratch_bytes
    assert small.macs == wide.macs == 16 * 8 * 24
    assert small.constant_bytes == w.nbytes + 8 * 4 + 8 * 5  # weights, bias, multiplier and shift of a channel


@pytest.mark.parametrize("target", deep_but(TARGETS, HOST, GENERIC), ids=lambda target: target.name)
@pytest.mark.parametrize("way", ["layers", "rows"])
def test_tensors_lie_at_multiples_of_their_elements(target: Target, way: MemoryOption) -> None:
    """Of what a machine asks, and of an element's bytes: of int64 on 32-bit microcontrollers, too; none is cut off."""
    sizes = {"INT8": 21, "INT16": 7, "INT64": 1, "INT32": 3, "BOOL": 1}
    rng, inputs, nodes = np.random.default_rng(0), list[Tensor](), list[Node]()
    for i in range(24):
        type = str(rng.choice([*sizes]))
        x = tensor((sizes[type],), type, 0.1 if type in ("INT8", "INT16") else None, name=f"x{i}")
        inputs.append(replace(x, variable=i % 5 == 0))
        for k in range(int(rng.integers(1, 4))):
            y = replace(x, name=f"y{i}.{k}")
            nodes.append(Node("ZEROS_LIKE", (nodes[-1].output if k else inputs[-1],), (y,), index=len(nodes)))
    fed = tuple(t for t in inputs if not t.variable)
    model = Graph(
        "mixed", (*inputs, *(n.output for n in nodes)), tuple(nodes), fed, tuple(n.output for n in nodes[::3])
    )
    plan = make_plan(model, target, Options(memory=way))
    assert {t.type for t in plan.offsets} == {*sizes}
    for t, at in plan.offsets.items():
        assert at % max(t.dtype.itemsize, target.block_alignment) == 0, t
        assert at + t.nbytes <= plan.memory_bytes
    assert plan.memory_bytes >= plan.arena_bytes + plan.state_bytes
    assert plan.state_bytes >= sum(t.nbytes for t in inputs if t.variable)


def test_consumers_and_check() -> None:
    x, y, z = value("x"), value("y"), value("z")
    good = graph((x,), (add(x, x, y), relu(y, z, 1)), (z,))
    assert consumers(good) == {x: [good.nodes[0]], y: [good.nodes[1]]}
    check(good)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (lambda x, y, z: (relu(y, z), relu(x, y, 1)), "before any operator has written it"),
        (lambda x, y, z: (relu(x, y), relu(x, y, 1), relu(y, z, 2)), "another operator has written already"),
        (lambda x, y, z: (relu(x, y),), "output tensor 'z'.* is never written"),
    ],
)
def test_contradictions_are_refused(nodes: object, message: str) -> None:
    x, y, z = value("x"), value("y"), value("z")
    operators = nodes(x, y, z)  # type: ignore[operator]
    broken = Graph("test", (x, y, z), operators, (x,), (z,))
    with pytest.raises(ModelError, match=message):
        make_plan(broken)
