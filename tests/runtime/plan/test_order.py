"""The order of steps with the lowest peak: as low as that of the best of all orders, and never another result."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from cases import compiled_together, over_rubbish, same
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import USUAL, Memory, Options
from twinfer.runtime.plan import coding, order
from twinfer.runtime.plan.inline import inline
from twinfer.runtime.plan.lifetimes import lifetimes
from twinfer.runtime.plan.lower import Lowered, lower
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.order import Steps, lowest, reorder
from twinfer.runtime.program import Step
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC, HOST

Rng = np.random.Generator


def pointwise(b: Builder, rng: Rng, x: Tensor, channels: int) -> Tensor:
    w = b.constant(rng.standard_normal((channels, 1, 1, x.shape[3])).astype(np.float32))
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    bias = b.constant(np.zeros(channels, np.float32))
    return b.op("CONV_2D", [x, w, bias], **options, fused_activation_function="NONE")


def random_dag(seed: int, nodes: int) -> Graph:
    """Convolutions, sums in place and concatenations of any earlier tensors."""
    rng, b = np.random.default_rng(seed), Builder("dag")
    tensors = [b.input("x", "FLOAT32", (1, 2, 2, 2))]
    while len(tensors) <= nodes:
        x = tensors[int(rng.integers(max(0, len(tensors) - 4), len(tensors)))]
        same = [t for t in tensors if t.shape == x.shape and t is not x]
        kind = int(rng.integers(4))
        if kind == 0 and same:
            y = b.op("ADD", [x, same[int(rng.integers(len(same)))]], fused_activation_function="NONE")
        elif kind == 1 and len(tensors) > 2:
            other = tensors[int(rng.integers(len(tensors)))]
            y = b.op("CONCATENATION", [x, other], axis=3, fused_activation_function="NONE")
        else:
            y = pointwise(b, rng, x, int(rng.integers(1, 9)))
        tensors.append(y)
    read = {t for node in b.nodes for t in node.inputs}
    return b.graph([t for t in tensors[1:] if t not in read])


def branches(count: int, length: int, seed: int = 0) -> Graph:
    """Branches of convolutions, all first layers before all second ones: a bad order. Each ends with one channel."""
    rng, b = np.random.default_rng(seed), Builder("branches")
    ends = [b.input("x", "FLOAT32", (1, 4, 4, 4))] * count
    for k in range(length):
        ends = [pointwise(b, rng, y, 1 if k == length - 1 else int(rng.integers(1, 12))) for y in ends]
    return b.graph([b.op("CONCATENATION", ends, axis=3, fused_activation_function="NONE")])


def stored_of(graph: Graph) -> Lowered:
    return coding.store(lower(inline(graph), GENERIC), GENERIC, Options())


def steps_of(graph: Graph) -> Steps:
    stored = stored_of(graph)
    parts = [part for part in stored.program if isinstance(part, Step)]
    return Steps(parts, lifetimes(stored, USUAL), graph.outputs)


def peak(steps: Steps, numbers: tuple[int, ...]) -> int:
    """The peak of an order, counted anew."""
    live = most = steps.live_at_start
    done = 0
    for i in numbers:
        most = max(most, live + steps.taken(i, done))
        live += steps.kept(i, done)
        done |= 1 << i
    return most


def every_order(steps: Steps, done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if len(done) == steps.count:
        yield done
    there = sum(1 << i for i in done)
    for i in range(steps.count):
        if i not in done and not steps.before[i] & ~there:
            yield from every_order(steps, (*done, i))


@given(st.integers(0, 10**6), st.integers(2, 7))
@settings(max_examples=150, deadline=None)
def test_as_low_as_the_best_of_all_orders(seed: int, nodes: int) -> None:
    steps = steps_of(random_dag(seed, nodes))
    best = min(peak(steps, each) for each in every_order(steps))
    usual = peak(steps, tuple(range(steps.count)))
    found = lowest(steps)
    if found is None:
        assert best == usual
    else:
        assert found.peak == peak(steps, found.steps) == best < usual


@pytest.mark.parametrize("shape", [(2, 4), (4, 8), pytest.param((20, 10), marks=pytest.mark.deep)])
def test_branches_one_after_the_other(shape: tuple[int, int]) -> None:
    """Up to some hundred steps; the arena shrinks with the peak."""
    graph = branches(*shape)
    found = lowest(steps_of(graph))
    assert found is not None
    before = make_plan(graph, GENERIC, Options(memory="layers", preserve_all=False, guard=True)).lower_bound_bytes
    after = make_plan(graph, GENERIC, Options(memory="layers"))
    assert after.lower_bound_bytes < before
    assert after.arena_bytes <= 1.1 * after.lower_bound_bytes


@pytest.mark.parametrize("memory", ["layers", "rows"])
def test_the_same_bits(memory: Memory) -> None:
    """In the interpreter and in C; plan.nodes says what runs when, and an order is the same every time."""
    graphs = {f"dag{seed}": random_dag(seed, 14) for seed in range(12)} | {"branches": branches(4, 6)}
    plans = {name: make_plan(graph, GENERIC, Options(memory=memory)) for name, graph in graphs.items()}
    changed = [name for name, plan in plans.items() if list(plan.nodes) != list(plan.graph.nodes)]
    assert len(changed) >= 3
    for name, compiled in compiled_together(plans).items():
        graph, plan = graphs[name], plans[name]
        assert [step.position for step in plan.steps] == sorted(step.position for step in plan.steps)
        again = make_plan(graph, GENERIC, Options(memory=memory))
        assert [node.index for node in again.nodes] == [node.index for node in plan.nodes]
        want = over_rubbish(Session(make_plan(graph, GENERIC, Options(preserve_all=True))), graph)
        for session in (Session(plan), compiled):
            same(over_rubbish(session, graph), want)


def test_the_state_is_used_in_the_order_of_the_file() -> None:
    """Steps that read and write a variable keep their order, though another one needs less."""
    b = Builder("state")
    x = b.input("x", "FLOAT32", (1, 8))
    count = b.variable("count", "FLOAT32", (1, 8))
    first = b.op("ADD", [x, count], fused_activation_function="NONE")
    b.node("ADD", [first, x], [count], {"fused_activation_function": "NONE"})
    last = b.op("MUL", [count, x], fused_activation_function="NONE")
    steps = steps_of(b.graph([first, last]))
    assert list(every_order(steps)) == [(0, 1, 2)]


def test_the_files_order_where_every_tensor_is_kept() -> None:
    graph = branches(3, 5)
    for options in (Options(preserve_all=True), Options(guard=True)):
        plan = make_plan(graph, HOST, options)
        assert list(plan.nodes) == list(plan.graph.nodes)


def test_a_search_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best order that is known is taken then."""
    graph = branches(6, 6)
    monkeypatch.setattr(order, "MOST_TRIED", 1)
    steps = steps_of(graph)
    found = lowest(steps)
    assert found is not None
    assert found.peak == peak(steps, found.steps) < peak(steps, tuple(range(steps.count)))


def test_branching_programs_keep_their_order() -> None:
    """A program with an IF is not reordered."""
    from tiny import MODELS

    graphs = (make().graph for make in MODELS.values())
    flows = [graph for graph in graphs if any(node.op in ("IF", "WHILE") for node in graph.nodes)]
    assert flows
    for graph in flows:
        stored = stored_of(graph)
        assert reorder(stored, lifetimes(stored, USUAL)) is None
