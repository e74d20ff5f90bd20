"""Operators over one value of 8 bits as one table: the same bits, and no value is lost that someone reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import outputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from stack_nets import SHAPE, Chain, chain, every_byte

from twinfer.aot.print.emit import emit
from twinfer.command_line.show.description import describe
from twinfer.converter.build import Builder
from twinfer.kernels_c import lib
from twinfer.runtime.graph import Array, Graph, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.functions._table import stacked_of
from twinfer.runtime.options import Memory, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST, TARGETS, Target

APART = Options(without=frozenset({"fusion"}))


def ran(plan: Plan, level: int | None = None) -> list[Array]:
    return outputs_of(Session(plan, level), [every_byte().view(plan.graph.inputs[0].dtype)])


def apart(graph: Graph, target: Target = HOST) -> list[Array]:
    """The outputs of the operators one by one."""
    plan = make_plan(graph, target, APART)
    assert not tables(plan)
    return ran(plan)


def tables(plan: Plan) -> list[Node]:
    return [step.node for step in plan.steps if stacked_of(step.node)]


def same(got: list[Array], want: list[Array]) -> None:
    for mine, other in zip(got, want, strict=True):
        assert mine.tobytes() == other.tobytes()


@given(seed=st.integers(0, 1 << 20), target=st.sampled_from(TARGETS), memory=st.sampled_from(["layers", "rows"]))
@settings(max_examples=60, deadline=None)
def test_interpreted(seed: int, target: Target, memory: Memory) -> None:
    graph = chain(seed)
    plan, want = make_plan(graph, target, Options(memory=memory)), apart(graph, target)
    for level in range(lib.tw_level() + 1):
        same(ran(plan, level), want)
    same(ran(make_plan(plan.graph, target)), want)


@pytest.mark.parametrize("types", ["INT8 INT8", "INT8 UINT8", "UINT8 INT8", "UINT8 UINT8"])
def test_the_graph_of_a_plan_is_planned_the_same(types: str) -> None:
    """verify and bench plan the graph of a plan once more: what passes made, they leave alone."""
    first, last = types.split()
    b = Builder("sigmoid")
    x = b.input("x", first, SHAPE, scale=0.1, zero=3)
    y = b.op("LOGISTIC", [x], shape=SHAPE, scale=1 / 256, zero=-128 if first == "INT8" else 0)
    graph = b.graph([b.op("QUANTIZE", [y], type=last, shape=SHAPE, scale=1 / 256, zero=-128 if last == "INT8" else 0)])
    plan = make_plan(graph)
    again = make_plan(plan.graph)
    assert [step.kernels for step in again.steps] == [step.kernels for step in plan.steps]
    same(ran(again), ran(plan))
    same(ran(plan), apart(graph))


def growing() -> Chain:
    return Chain(np.random.default_rng(1), tensor(SHAPE, "INT8", 0.05, 3, name="x"))


def quantised(name: str, scale: float = 0.05, zero: int = 0) -> Any:
    return tensor(SHAPE, "INT8", scale, zero, name=name)


def test_a_chain_is_one_table() -> None:
    built = growing()
    built.then("QUANTIZE", quantised("q", 0.04))
    built.then("LOGISTIC", quantised("s", 1 / 256, -128))
    built.then("MUL", quantised("y"), tensor((), "INT8", 0.03, 1, data=90, name="c"))
    graph = built.graph()
    plan = make_plan(graph)
    (node,) = tables(plan)
    assert len(plan.steps) == 1
    assert (node.op, node.index) == ("MUL", 2)
    same(ran(plan), apart(graph))
    operators = describe("m", graph, plan, "")["operators"]
    assert [(each["op"], each["folded"], each["stacked"]) for each in operators] == [
        ("QUANTIZE", 2, []), ("LOGISTIC", 2, []), ("MUL", None, [0, 1])
    ]  # fmt: skip
    assert any("one table with operators 0, 1 of the model" in text for text in emit(plan, "m").files.values())


def test_a_value_that_is_read_twice_by_its_own_table_is_none() -> None:
    """x * LOGISTIC(x)."""
    built = growing()
    s = built.then("LOGISTIC", quantised("s", 1 / 256, -128))
    built.last = built.x
    built.then("MUL", quantised("y"), s)
    plan = make_plan(built.graph())
    assert [step.node.op for step in plan.steps] == ["MUL"]
    same(ran(plan), apart(built.graph()))


def test_a_value_that_another_operator_reads_stays() -> None:
    built = growing()
    q = built.then("QUANTIZE", quantised("q", 0.04))
    built.then("LOGISTIC", quantised("s", 1 / 256, -128))
    y = built.then("QUANTIZE", quantised("y", 1 / 300))
    built.last = q
    flat, shape = (
        tensor((2, 256), "INT8", 0.04, 0, name="flat"),
        tensor((2,), "INT32", data=np.array([2, 256]), name="i"),
    )
    built.then("RESHAPE", flat, shape)
    plan = make_plan(built.graph(y))
    assert [(step.node.op, bool(stacked_of(step.node))) for step in plan.steps][:2] == [
        ("QUANTIZE", False), ("QUANTIZE", True)
    ]  # fmt: skip
    assert q in plan.places
    same(ran(plan), apart(built.graph(y)))


def test_a_value_that_two_tables_read_is_computed() -> None:
    """No reader of it is left as it was, but both tables read it."""
    built = growing()
    q = built.then("QUANTIZE", quantised("q", 0.04))
    built.then("LOGISTIC", quantised("s", 1 / 256, -128))
    y = built.then("QUANTIZE", quantised("y", 1 / 300))
    built.last = q
    built.then("TANH", quantised("t", 1 / 128))
    built.then("QUANTIZE", quantised("z", 1 / 90))
    plan = make_plan(built.graph(y))
    assert [bool(stacked_of(step.node)) for step in plan.steps] == [False, True, True]
    same(ran(plan), apart(built.graph(y)))


def test_an_output_between_two_operators_stays() -> None:
    built = growing()
    s = built.then("LOGISTIC", quantised("s", 1 / 256, -128))
    built.then("QUANTIZE", quantised("y", 1 / 300))
    graph = built.graph(s)
    assert not tables(make_plan(graph))
    same(ran(make_plan(graph)), apart(graph))


def test_a_float_that_decides_a_rounding_is_left_to_the_kernels() -> None:
    """LOGISTIC(0) is 0.5, and half a step."""
    for scale, count in ((1.0, 0), (0.7, 1)):
        built = growing()
        built.then("DEQUANTIZE", tensor(SHAPE, name="f"))
        built.then("LOGISTIC", tensor(SHAPE, name="g"))
        built.then("QUANTIZE", quantised("y", scale))
        plan = make_plan(built.graph())
        assert len(tables(plan)) == count
        same(ran(plan), apart(built.graph()))


def test_rows_of_other_values_are_no_table() -> None:
    built = growing()
    built.then("RELU", quantised("r", 0.04))
    built.then("ADD", quantised("y"), tensor((8,), "INT8", 0.05, 0, data=np.arange(8), name="bias"))
    plan = make_plan(built.graph())
    assert not tables(plan)
    same(ran(plan), apart(built.graph()))


def test_unsigned_bytes() -> None:
    """Behind a graph's input of uint8 and before its output, the conversions are part of the table."""
    x, s, y = (
        tensor(SHAPE, "UINT8", scale, zero, name=name)
        for name, scale, zero in (("x", 0.05, 130), ("s", 1 / 256, 0), ("y", 0.01, 7))
    )
    nodes = (Node("LOGISTIC", (x,), (s,), {}), Node("RELU", (s,), (y,), {}, index=1))
    graph = Graph("u", (x, s, y), nodes, (x,), (y,))
    plan = make_plan(graph)
    assert len(tables(plan)) == len(plan.steps) == 1
    same(ran(plan), apart(graph))


def test_every_value_is_there_if_all_are_asked_for() -> None:
    graph = chain(3, lambda _: False)
    plan = make_plan(graph, HOST, Options(preserve_all=True))
    assert not tables(plan)
    assert len(plan.steps) == len(graph.nodes)
