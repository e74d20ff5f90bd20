"""The arena split over several memories: the same bits, each memory within its size, never dearer than in one."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cases import assert_sanitized, compiled_together
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but
from row_nets import network

from twinfer.aot.build.host import compile_plans
from twinfer.aot.print.emit import emit
from twinfer.bench.models.builtin import builtin
from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Memory, Mode, Options
from twinfer.runtime.plan import replay
from twinfer.runtime.plan.choice import share_all
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.plan.regions import proof
from twinfer.runtime.plan.regions.traffic import Traffic, costs, traffic
from twinfer.runtime.run.guard import Guard, spread
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, TARGETS, Bank, Target

LAYERS, FED = Options(memory="layers"), Options(memory="rows", input_rows=True)

FAST, SLOW = Region("arena", "fast"), Region("arena", "slow")


def two_banks(fast: int, slow: int) -> tuple[Bank, Bank]:
    return Bank("fast", fast), Bank("slow", slow, 5, 3)


def split(graph: Graph, target: Target, options: Options, share: float) -> tuple[Plan, Plan]:
    """The plan in one arena, and the same over a memory with that share of its bytes and a slow one for all of them."""
    one = make_plan(graph, target, options)
    banks = two_banks(math.floor(share * one.arena_bytes), one.arena_bytes)
    return one, make_plan(graph, target.with_banks(*banks), options)


def outputs(session: Session, seed: int) -> list[bytes]:
    """What a run gives for random inputs, from memory full of rubbish."""
    session.feed(random_inputs(session.plan.graph, seed))
    poison(session)
    session.run()
    return [value.tobytes() for value in session.outputs()]


def naive(plan: Plan, bank: Bank) -> int:
    """What the traffic of a plan costs in one memory."""
    return sum(traffic(plan.program, plan.graph, plan.places).values(), Traffic()).cost(bank)


def check(one: Plan, plan: Plan) -> None:
    """Every memory within its size, and the cost at most that of the slow one alone."""
    room = {bank.name: bank for bank in plan.target.banks}
    assert plan.arenas
    assert all(plan.regions[region].nbytes <= room[region.bank].nbytes for region in plan.arenas)
    assert sum(costs(plan).values()) <= naive(one, room["slow"])
    assert replay.fault(plan) is None


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 1 << 20), st.sampled_from(["layers", "rows", "auto"]), st.floats(0, 1.2), st.sampled_from(TARGETS)
)
def test_random_networks(seed: int, memory: Memory, share: float, target: Target) -> None:
    one, plan = split(network(seed), target, Options(memory=memory), share)
    check(one, plan)
    assert outputs(Session(plan), seed) == outputs(Session(one), seed)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1 << 20), st.floats(0, 1.2))
def test_rows_that_are_given(seed: int, share: float) -> None:
    one, plan = split(network(seed), GENERIC, FED, share)
    check(one, plan)
    assert outputs(Session(plan), seed) == outputs(Session(one), seed)


def pairs_for(mode: Mode) -> dict[str, tuple[Plan, Plan]]:
    """Plans in one arena and split ones, of networks by layers, by rows and with given rows."""
    options = [replace(each, mode=mode) for each in (LAYERS, Options(memory="rows"), FED)]
    return {f"n{i}": split(network(i), TARGETS[i % len(TARGETS)], options[i % 3], i % 7 / 6) for i in range(14)}


@pytest.mark.parametrize("mode", deep_but(["compiled", "interpreted"], "compiled"))
def test_emitted(mode: Mode) -> None:
    """Many networks in one library."""
    pairs = pairs_for(mode)
    assert {plan.arenas for _, plan in pairs.values()} == {(FAST,), (SLOW,), (FAST, SLOW)}
    engines = compiled_together({name: plan for name, (_, plan) in pairs.items()})
    for name, (one, _) in pairs.items():
        assert outputs(engines[name], 3) == outputs(Session(one), 3)


@pytest.mark.deep
def test_self_tests_under_sanitizers(tmp_path: Path) -> None:
    """Every arena is an array of its own."""
    plans = {
        name: plan
        for name, (_, plan) in [*list(pairs_for("compiled").items())[:5], *list(pairs_for("interpreted").items())[9:12]]
    }
    projects = [(emit(plan, name, policy=share_all), random_inputs(plan.graph, 5)) for name, plan in plans.items()]
    assert_sanitized(tmp_path, projects)


def test_guard() -> None:
    """The guard sees every arena: gaps between all blocks, the same outputs."""
    one, plan = split(builtin()["kws_int8"](), DSP, Options(memory="layers", guard=True), 0.6)
    assert plan.arenas == (FAST, SLOW)
    wide = spread(plan)
    session = Session(wide)
    session.feed(random_inputs(plan.graph, 2))
    Guard(session).run()
    assert [value.tobytes() for value in session.outputs()] == outputs(Session(one), 2)
    compiled = compile_plans({"kws": wide.printed(guard=False)})["kws"]
    assert outputs(compiled, 2) == outputs(Session(one), 2)


def pooled(height: int, layers: int) -> Graph:
    """Pools over an input that keep its size."""
    b = Builder("pooled")
    x = b.input("x", "FLOAT32", (1, height, 8, 1))
    pool: dict[str, Any] = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "filter_height": 3, "filter_width": 3}
    for _ in range(layers):
        x = b.op("MAX_POOL_2D", [x], fused_activation_function="NONE", **pool)
    return b.graph([x])


def test_traffic() -> None:
    """Each of three tensors of 512 bytes is written once and read once; the fast memory takes two that do not meet."""
    plan = make_plan(pooled(16, 2), GENERIC.with_banks(*two_banks(512, 512)), LAYERS)
    moved = traffic(plan.program, plan.graph, plan.places)
    assert {each for tensor, each in moved.items() if tensor.nbytes == 512} == {Traffic(512, 512)}
    assert costs(plan) == {FAST: 2 * 1024, SLOW: 512 * 5 + 512 * 3}
    assert (plan.regions[FAST].nbytes, plan.regions[SLOW].nbytes, plan.proven) == (512, 512, True)


def test_one_memory_is_as_before() -> None:
    one = make_plan(pooled(16, 3), GENERIC, LAYERS)
    assert (one.arenas, costs(one)) == ((Region.ARENA,), {})
    assert "void *arena, const void" in emit(one, "m").code["m.h"]


def test_a_model_that_does_not_fit() -> None:
    target = GENERIC.with_banks(*two_banks(100, 400))
    message = r"fast of 100 bytes, slow of 400 bytes: operator 0 MAX_POOL_2D.* has 1,024 bytes live, of which tensor "
    with pytest.raises(UnsupportedOperatorError, match=message + r"'x'.* takes 512 bytes, more than slow has; take"):
        make_plan(pooled(16, 2), target, LAYERS)


def test_rows_where_only_these_fit() -> None:
    """By layers the pools need 1,024 bytes; on a host the usual plan is by layers, unless memories are too small."""
    host = TARGETS[0]
    assert not make_plan(pooled(16, 2), host).chains
    plan = make_plan(pooled(16, 2), host.with_banks(*two_banks(0, 800)))
    assert plan.chains
    assert plan.arena_bytes <= 800


@pytest.mark.parametrize(
    ("fast", "rows"), [(1024, "static M_ADDRESSES const tw_step m_table"), (512, "static TW_LAYER M_CODE(1) void m_1_")]
)
def test_interpreted(fast: int, rows: str) -> None:
    """A table where one memory holds all, else a function per layer; both call the shared kernel."""
    plan = make_plan(pooled(16, 2), GENERIC.with_banks(*two_banks(fast, 512)), replace(LAYERS, mode="interpreted"))
    source = emit(plan, "m").code["m.c"]
    assert rows in source
    assert source.count("TW_SHARED(tw_") == 1
    assert outputs(compile_plans({"m": plan})["m"], 1) == outputs(Session(plan), 1)


def moved_to(plan: Plan, region: Region) -> list[Plan]:
    """Each tensor of the other arena alone at the start of this one."""
    others = [tensor for tensor, place in plan.places.items() if place.region != region and tensor.nbytes]
    return [
        replace(plan, places={**plan.places, tensor: plan.places[tensor]._replace(region=region, offset=0)})
        for tensor in others
    ]


def test_the_proof_notices_a_tensor_elsewhere() -> None:
    """Over a tensor that is needed, out of the region, or away from the rest of its chain."""
    _, plan = split(builtin()["kws_int8"](), GENERIC, Options(memory="rows"), 0.5)
    assert plan.arenas == (FAST, SLOW)
    faults = [replay.fault(other) for other in moved_to(plan, FAST)]
    assert len(faults) > 3
    assert None not in faults


def test_the_proof_notices_wrong_regions() -> None:
    plan = make_plan(pooled(16, 2), GENERIC.with_banks(*two_banks(512, 512)), LAYERS)
    small = replace(plan, target=GENERIC.with_banks(*two_banks(511, 512)))
    assert replay.fault(small) == "arena_fast takes 512 bytes, its memory has 511"
    low = {**plan.regions, SLOW: plan.regions[SLOW]._replace(offset=500)}
    assert [*proof.faults(replace(plan, regions=low))] == [
        "arena_fast ends at byte 512 of one buffer, behind the start of arena_slow at 500"
    ]
    tensor = next(tensor for tensor, place in plan.places.items() if place.region == SLOW)
    beyond = {**plan.places, tensor: plan.places[tensor]._replace(offset=16)}
    assert replay.fault(replace(plan, places=beyond)) == f"{tensor} at 16 ends outside of arena_slow"


@pytest.mark.parametrize(
    ("banks", "message"),
    [
        ([("DTCM", 1)], "bank 'DTCM': its name"),
        ([("a b", 1)], "bank 'a b': its name"),
        ([("a", -1)], "bank 'a': its bytes"),
        ([("a", 1, -1)], "bank 'a': its bytes"),
        ([("a", 1), ("a", 2)], "two banks called 'a'"),
    ],
)
def test_bad_banks(banks: list[tuple[Any, ...]], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        GENERIC.with_banks(*(Bank(*each) for each in banks))
