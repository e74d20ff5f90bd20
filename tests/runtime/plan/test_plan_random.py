"""Random graphs: with shared memory, steps in place and dropped steps, outputs equal those of separate memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from chains import chain
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Options, Technique
from twinfer.runtime.plan import arena
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import Alias
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import TARGETS

#: Some of them give an output twice. test_sharing.py has programs with variables.
graphs = st.builds(lambda graph, times: replace(graph, outputs=times * graph.outputs),
                   st.integers(0, 1 << 20).map(chain), st.integers(1, 2))  # fmt: skip


def twice(engine: Session, plan: Plan) -> list[bytes]:
    """The outputs of two runs with different inputs, and the variables after them."""
    seen = []
    engine.reset_variables()
    for seed in (1, 2):
        poison(engine)
        engine.feed(random_inputs(plan.graph, seed))
        engine.run()
        seen += [engine.view(t).tobytes() for t in (*plan.graph.outputs, *plan.variables)]
    return seen


def assert_sound(plan: Plan) -> None:
    """No tensor shares memory with one whose value is still needed, unless it replaces it or is the same value."""
    same = {part.to for part in plan.program if isinstance(part, Alias) and part.source.variable}
    others = [t for t in plan.offsets if t not in same]
    blocks = [arena.Block(t.nbytes, *plan.lives[t]) for t in others]
    places = [plan.offsets[t] for t in others]
    for i, (a, at) in enumerate(zip(blocks, places, strict=True)):
        for b, bt in zip(blocks[:i], places[:i], strict=True):
            handed_over = a.first == b.last or b.first == a.last
            apart = a.last < b.first or b.last < a.first or at + a.size <= bt or bt + b.size <= at
            assert apart or handed_over
    ends = {
        region: max((place.offset + t.nbytes for t, place in plan.places.items() if place.region == region), default=0)
        for region in plan.regions
    }
    assert {region: extent.nbytes for region, extent in plan.regions.items()} == ends
    assert (plan.arena_bytes, plan.state_bytes) == (ends[Region.ARENA], ends[Region.STATE])
    lasting = [t for t, place in plan.places.items() if place.region == Region.STATE]
    assert not lasting or plan.regions[Region.STATE].offset >= plan.arena_bytes
    assert plan.memory_bytes == max(plan.offsets[t] + t.nbytes for t in plan.offsets)
    assert plan.scratch_bytes == max((t.nbytes for t in scratch_of(plan)), default=0)
    assert plan.constant_bytes == sum(constant.array.nbytes for constant in plan.constants)


@settings(max_examples=150, deadline=None)
@given(graphs, st.sampled_from(TARGETS))
def test_shared_memory_gives_the_values_of_separate_memory(graph: Graph, target: Any) -> None:
    plan, separate = make_plan(graph, target), make_plan(graph, target, options=Options(preserve_all=True))
    assert_sound(make_plan(graph, target, Options(memory="layers")))  # rows may lie over a dying input
    assert plan.lower_bound_bytes <= plan.arena_bytes <= separate.arena_bytes
    assert twice(Session(plan), plan) == twice(Session(separate), separate)


@settings(max_examples=100, deadline=None)
@given(graphs, st.sampled_from(TARGETS), st.frozensets(st.sampled_from(get_args(Technique)), min_size=1))
def test_a_plan_without_a_technique_gives_the_same_values(graph: Graph, target: Any, without: Any) -> None:
    plan, less = make_plan(graph, target), make_plan(graph, target, Options(without=without))
    if "placement" not in without:  # or all live for ever
        assert_sound(make_plan(graph, target, Options(without=without, memory="layers")))
    assert twice(Session(less), less) == twice(Session(plan), plan)
    blocks = [less.offsets[tensor] for tensor in less.offsets if tensor.nbytes and tensor not in scratch_of(less)]
    if "placement" in without and "in_place" in without:
        assert len(set(blocks)) == len(blocks), "every tensor lies apart"


def scratch_of(plan: Plan) -> set[Tensor]:
    return {step.scratch for step in plan.steps if step.scratch is not None}
