"""Chains that end in sums: the same bits, less memory, and a proof that notices when sums are lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cases import assert_sanitized, compiled_together, outputs_of, over_rubbish, same
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but
from sum_nets import ENDS, SumNetwork, flat_input, network

from twinfer import kernels_c
from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.kernels_c import ffi
from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Array, Graph, Tensor
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan import replay
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Call, Chain, Layer
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, MVE, Target

ROWS, LAYERS = Options(memory="rows"), Options(memory="layers")
CORES = (GENERIC, DSP, MVE)

each_end = pytest.mark.parametrize("end", ENDS)
each_core = pytest.mark.parametrize("target", CORES, ids=lambda target: target.name)


def sums_of(plan: Plan) -> list[Layer]:
    """The layers of a plan that keep sums."""
    chains = [part for part in plan.program if isinstance(part, Chain)]
    return [layer for chain in chains for layer in chain.layers if layer.rows.sums]


def by_layers(graph: Graph, seed: int = 1) -> list[Array]:
    outputs: list[Array] = outputs_of(Session(make_plan(graph, options=LAYERS)), random_inputs(graph, seed))
    return outputs


@each_core
@each_end
def test_the_same_bits_in_less_memory(end: str, target: Target) -> None:
    """Every kernel that keeps sums is taken, and a plan without it would be larger."""
    taken = 0
    for seed in range(20):
        graph = network(seed, end)
        plan = make_plan(graph, target, ROWS)
        same(over_rubbish(Session(plan), graph, seed), by_layers(graph, seed))
        for layer in sums_of(plan):
            assert layer.step.node.op == ENDS[end]
            assert plan.arena_bytes < make_plan(graph, target, LAYERS).arena_bytes
            taken += 1
    assert taken >= 5


@given(seed=st.integers(0, 1 << 20), end=st.sampled_from([*ENDS]), target=st.sampled_from(CORES))
@settings(max_examples=80, deadline=None)
def test_random_networks(seed: int, end: str, target: Target) -> None:
    graph = network(seed, end, layers=seed % 4)
    same(over_rubbish(Session(make_plan(graph, target, ROWS)), graph, seed), by_layers(graph, seed))


def programs(mode: Mode) -> Iterator[tuple[Graph, Plan]]:
    """Networks with sums, over all ends and cores."""
    for i, end in enumerate([*ENDS] * 6):
        graph = network(i, end)
        plan = make_plan(graph, CORES[i % len(CORES)], replace(ROWS, mode=mode))
        if sums_of(plan):
            yield graph, plan


@each_core
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axes", [(1,), (2,), (3,), (2, 1), (1, 3), (2, 3), (1, 2, 3), (-2, -3), (-1,)])
def test_means_over_any_dimensions(axes: tuple[int, ...], keep: bool, target: Target) -> None:
    """Behind layers by rows; only a mean over height and width adds up rows."""
    net = SumNetwork(np.random.default_rng(2))  # its mean over height and width is the end of a chain
    x = net.conv(net.conv(net.x))
    out = net.builder.op("MEAN", [x, np.array(axes, np.int32)], scale=0.03, zero=4, keep_dims=keep)
    graph = net.builder.graph([out])
    plan = make_plan(graph, target, ROWS)
    for got, want in zip(over_rubbish(Session(plan), graph), by_layers(graph), strict=True):
        np.testing.assert_array_equal(got, want)
    assert bool(sums_of(plan)) == ({axis % 4 for axis in axes} == {1, 2})


@pytest.mark.parametrize("mode", deep_but(["compiled", "interpreted"], "compiled"))
def test_compiled(mode: Mode) -> None:
    every = {f"n{i}": each for i, each in enumerate(programs(mode))}
    kernels = {layer.step.call.kernel for _, plan in every.values() for layer in sums_of(plan)}
    assert kernels >= {"tw_average_pool_2d_sums_s8", "tw_mean_sums_s8", "tw_fully_connected_sums_s8"}
    for name, session in compiled_together({name: plan for name, (_, plan) in every.items()}).items():
        same(over_rubbish(session, every[name][0]), by_layers(every[name][0]))


@pytest.mark.skipif(not (shutil.which("clang") or shutil.which("gcc")), reason="no compiler")
@pytest.mark.deep
@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_sanitized(mode: Mode, tmp_path: Path) -> None:
    every = [(emit(plan, f"n{i}"), random_inputs(graph, 1)) for i, (graph, plan) in enumerate(programs(mode))]
    assert len(every) >= 12
    assert_sanitized(tmp_path, every)


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("core", deep_but(["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55"], "cortex-m4"))
def test_under_qemu(core: str) -> None:
    card = find(core)
    modes: list[Mode] = ["compiled", "interpreted"]
    graphs = [network(seed, end) for seed in range(4) for end in ENDS]
    plans = [make_plan(g, card.target, replace(ROWS, mode=modes[i % 2])) for i, g in enumerate(graphs)]
    assert sum(bool(sums_of(plan)) for plan in plans) >= 8
    jobs = [Job(random_inputs(graph, 1), i) for i, graph in enumerate(graphs)]
    firmware = build([emit(plan, f"n{i}") for i, plan in enumerate(plans)], card)
    for graph, result in zip(graphs, run_jobs(firmware, jobs, count=False), strict=True):
        same(result.outputs, by_layers(graph))


# -- kernels -----------------------------------------------------------------------------------------------------------


def called(call: Call, x: Array, cuts: Sequence[int]) -> Array:
    """The output of a kernel that gets its input in pieces, cut at these elements."""
    out, scratch = np.zeros(call.written[0].nbytes, np.uint8), np.full(call.scratch + 16, 0xA5, np.uint8)
    keep = [
        np.frombuffer(each.array.tobytes(), np.uint8).copy() for each in call.inputs[1:] if isinstance(each, Constant)
    ]
    scratch = scratch[-scratch.ctypes.data % 16 :]
    function = kernels_c.kernel(call.kernel, 0)
    for first, end in pairwise(cuts):
        piece = x[first:end].copy()
        addresses = [ffi.from_buffer(piece), *map(ffi.from_buffer, keep)]
        params = kernels_c.new_params(call.kernel, {**call.params, "part": {"first": first, "count": end - first}})
        inputs = ffi.new("void *[]", [ffi.cast("void *", each) for each in addresses])
        outputs = ffi.new("void *[]", [ffi.cast("void *", ffi.from_buffer(out))])
        function(params, ffi.cast("const void *const *", inputs), outputs, ffi.cast("void *", ffi.from_buffer(scratch)))
    return out


@each_core
@each_end
def test_any_pieces_give_the_same(end: str, target: Target) -> None:
    """A kernel that adds up gives what the whole call gives, however its input is cut."""
    rng = np.random.default_rng(5)
    tried = 0
    for seed in range(12):
        plan = make_plan(network(seed, end), target, LAYERS)
        step = next(step for step in plan.steps if step.node.op == ENDS[end])
        call, (x,) = step.call.rows_call, [t for t in step.call.inputs if isinstance(t, Tensor)]
        if call is None:
            continue
        value = rng.integers(-128, 128, x.size).astype(np.int8)
        assert call.rows is not None
        units = call.rows.units
        at = sorted({0, x.size, *(units * rng.integers(0, x.size // units, 3))})
        want = step.node.op, called(call, value, [0, x.size])
        assert (step.node.op, called(call, value, at).tolist()) == (want[0], want[1].tolist())
        tried += 1
    assert tried >= 6


# -- the proof ---------------------------------------------------------------------------------------------------------


def test_the_proof_notices_lost_sums() -> None:
    """Sums that lie where another layer of their chain computes, or has its scratch memory."""
    tried = 0
    for seed in range(40):
        plan = make_plan(network(seed, "flattened"), DSP, ROWS)
        for layer in sums_of(plan):
            sums, chain = layer.step.scratch, plan.chains[layer.step]
            assert sums is not None
            others = [ring.memory for ring in chain.rings.values()]
            others += [each.step.scratch for each in chain.layers if each.step.scratch not in (None, sums)]
            for other in others:
                assert other is not None
                moved = replace(plan, places={**plan.places, sums: plan.places[other]})
                assert replay.fault(moved) is not None
                tried += 1
    assert tried >= 20


def test_an_output_of_sums_comes_with_the_last_row() -> None:
    """It may lie over what has been read by then, but not over rows that are still to come."""
    plan = next(plan for plan in (make_plan(network(s, "dense"), DSP, ROWS) for s in range(40)) if sums_of(plan))
    (layer,) = sums_of(plan)
    chain = plan.chains[layer.step]
    ring = chain.rings[layer.sources[0][1]]
    assert replay.fault(plan) is None
    over = replace(plan, places={**plan.places, ring.memory: plan.places[layer.out]})
    assert replay.fault(over) is not None


# -- copies that are not made ------------------------------------------------------------------------------------------


def test_a_reshape_in_a_chain_is_no_step() -> None:
    """Who reads it reads the rows before it; the operator is still one of the plan's."""
    plans = [make_plan(network(seed, "flattened"), DSP, ROWS) for seed in range(20)]
    viewed = [plan for plan in plans if any(part.views for part in plan.program if isinstance(part, Chain))]
    assert len(viewed) >= 5
    for plan in viewed:
        assert [node.op for node in plan.nodes] == [node.op for node in plan.graph.nodes]
        assert all(step.node.op != "RESHAPE" for step in plan.steps)


def test_a_reshape_that_others_read_is_made() -> None:
    """As an output of the model it must be there."""
    chained = 0
    for seed in range(20):
        graph = network(seed, "flattened")
        flat = next(node.output for node in graph.nodes if node.op == "RESHAPE")
        graph = replace(graph, outputs=(*graph.outputs, flat))
        plan = make_plan(graph, DSP, ROWS)
        chained += any(isinstance(part, Chain) for part in plan.program)
        assert not sums_of(plan)
        same(over_rubbish(Session(plan), graph), by_layers(graph))
    assert chained >= 5


def test_rows_of_a_flat_input_are_those_of_its_image() -> None:
    for seed in range(12):
        graph = flat_input(seed)
        image = graph.nodes[0].output
        session = Session(make_plan(graph, DSP, replace(ROWS, input_rows=True)))
        plan, rows = session.plan, session.feed_rows
        assert rows is not None
        assert plan.fed is not None
        assert plan.fed.feed is not None
        assert plan.fed.feed.height == image.shape[1]
        assert all(step.node.op != "RESHAPE" for step in plan.steps)
        poison(session)
        rows.begin()
        for row in random_inputs(graph, 1)[0].reshape(image.shape[1], -1):
            rows.push(row)
        rows.finish()
        same(session.outputs(), by_layers(graph))
