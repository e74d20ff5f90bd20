"""Layers by rows: the same bits as layer by layer, less memory, and a proof that notices every byte too few."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path

import numpy as np
import pytest
from cases import assert_sanitized, compiled_together, over_rubbish, same
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but
from row_nets import network
from sum_nets import ENDS
from sum_nets import network as sum_network

from twinfer.aot.build.host import compile_plans
from twinfer.aot.print.emit import emit
from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan import replay
from twinfer.runtime.plan.by_rows.candidates import _agree, height_of
from twinfer.runtime.plan.by_rows.chains import _ring
from twinfer.runtime.plan.by_rows.layers import layer_of
from twinfer.runtime.plan.by_rows.replay_rows import RowReplay
from twinfer.runtime.plan.by_rows.ring_sizes import Kept, _room, kept
from twinfer.runtime.plan.by_rows.schedule import ChainRun, goals
from twinfer.runtime.plan.choice import share_all
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Place, Plan
from twinfer.runtime.program import Chain, Layer, Ring
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC, TARGETS, Target

ROWS, LAYERS = Options(memory="rows"), Options(memory="layers")

each_kind = pytest.mark.parametrize("kind", ["INT8", "INT16", "FLOAT32"])


def chains(plan: Plan) -> Iterator[Chain]:
    return (part for part in plan.program if isinstance(part, Chain))


@each_kind
@given(seed=st.integers(0, 1 << 20), target=st.sampled_from(TARGETS), moves=st.booleans())
@settings(max_examples=80, deadline=None)
def test_interpreted(kind: str, seed: int, target: Target, moves: bool) -> None:
    graph = network(seed, kind, moves=moves)
    whole, rows = make_plan(graph, target, LAYERS), make_plan(graph, target, ROWS)
    same(over_rubbish(Session(rows), graph, seed), over_rubbish(Session(whole), graph, seed))


def test_what_moves_values_within_rows_ends_no_chain() -> None:
    """PAD, CONCATENATION and SLICE along columns and channels."""
    b, rng = Builder("moves"), np.random.default_rng(2)
    x = b.input("x", "FLOAT32", (1, 40, 6, 4))
    w = rng.standard_normal((8, 3, 3, 4)).astype(np.float32)
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"}
    y = b.op("CONV_2D", [x, w, np.zeros(8, np.float32)], **options)
    y = b.op("CONCATENATION", [y, b.op("RELU", [y])], axis=3, fused_activation_function="NONE")
    y = b.op("PAD", [y, np.array([(0, 0), (0, 0), (1, 0), (0, 3)], np.int32)])
    y = b.op("SLICE", [y, np.array([0, 0, 1, 5], np.int32), np.array([1, 40, 5, 9], np.int32)])
    pool = {"filter_height": 4, "filter_width": 1, "stride_h": 4, "stride_w": 1, "padding": "VALID"}
    graph = b.graph([b.op("MAX_POOL_2D", [y], **pool)])
    plan = make_plan(graph, GENERIC, ROWS)
    assert [len(chain.layers) for chain in chains(plan)] == [6], "one chain of all layers"
    assert plan.arena_bytes < 0.6 * make_plan(graph, GENERIC, LAYERS).arena_bytes
    same(over_rubbish(Session(plan), graph), over_rubbish(Session(make_plan(graph, GENERIC, LAYERS)), graph))


def unread_rows() -> Graph:
    """An output in the middle of a chain, whose last row nobody else reads; the layer before it has two readers."""
    b, rng = Builder("unread"), np.random.default_rng(1)

    def conv(x: Tensor, out: int, k: int = 1) -> Tensor:
        w = rng.standard_normal((out, k, k, x.shape[3])).astype(np.float32)
        return b.op("CONV_2D", [x, w, np.zeros(out, np.float32)], padding="SAME", stride_h=1, stride_w=1)

    def half(x: Tensor) -> Tensor:
        return b.op("MAX_POOL_2D", [x], padding="SAME", stride_h=2, stride_w=1, filter_height=1, filter_width=1)

    wide = conv(b.input("x", "FLOAT32", (1, 20, 8, 4)), 32, 3)
    middle = conv(wide, 2)
    total = b.op("ADD", [half(wide), conv(half(middle), 32)], fused_activation_function="NONE")
    return b.graph([middle, conv(total, 2)])


@pytest.mark.parametrize("mode", deep_but(["compiled", "interpreted"], "compiled"))
def test_compiled(mode: Mode) -> None:
    """Many networks in one library."""
    kinds = ("INT8", "INT8", "INT16", "FLOAT32")
    graphs = {f"n{seed}": network(seed, kinds[seed % 4], moves=seed >= 12) for seed in range(20)}
    graphs["unread"] = unread_rows()
    plans = {
        name: make_plan(graph, TARGETS[i % len(TARGETS)], replace(ROWS, mode=mode))
        for i, (name, graph) in enumerate(graphs.items())
    }
    assert sum(bool(plan.chains) for plan in plans.values()) >= 8
    assert [len(chain.layers) for chain in chains(plans["unread"])] == [7]
    for name, session in compiled_together(plans).items():
        want = over_rubbish(Session(make_plan(graphs[name], plans[name].target, LAYERS)), graphs[name], 1)
        same(over_rubbish(session, graphs[name], 1), want)


@pytest.mark.skipif(not (shutil.which("clang") or shutil.which("gcc")), reason="no compiler")
@pytest.mark.parametrize("mode", deep_but(["compiled", "interpreted"], "compiled"))
def test_sanitized(mode: Mode, tmp_path: Path) -> None:
    """Under ASan and UBSan; M4 and M55 have kernels of their own."""
    programs = []
    for seed in range(8):
        graph = network(seed, ("INT8", "FLOAT32", "INT16")[seed % 3], moves=seed >= 5)
        plan = make_plan(graph, TARGETS[seed % len(TARGETS)], replace(ROWS, mode=mode))
        policy = share_all if seed % 4 else None
        programs.append((emit(plan, f"n{seed}", policy=policy), random_inputs(graph, seed)))
    assert sum(bool(project.plan.chains) for project, _ in programs) >= 4
    assert_sanitized(tmp_path, programs)


@cache
def networks() -> list[Plan]:
    """Plans with chains of several layers."""
    plans = [make_plan(network(seed, layers=10), TARGETS[seed % len(TARGETS)], ROWS) for seed in range(150)]
    return [plan for plan in plans if any(len(chain.layers) > 1 for chain in chains(plan))]


def test_the_proof_notices_rings_of_a_row_less() -> None:
    """A row less in all, or of those that are kept when it is full; or one more kept than there is room for."""
    smaller, fewer = 0, 0
    for plan in networks():
        for chain in chains(plan):
            for tensor, ring in chain.rings.items():
                wrong = [{"capacity": ring.capacity - 1}] if ring.capacity > 1 else []
                wrong += [{"kept": ring.kept - 1}, {"kept": ring.capacity}] if ring.kept else []
                for change in wrong:
                    assert replay.fault(replace_ring(plan, chain, tensor, ring._replace(**change))) is not None
                smaller, fewer = smaller + (ring.capacity > 1), fewer + (ring.kept > 0)
    assert min(smaller, fewer) > 20


def replace_ring(plan: Plan, chain: Chain, tensor: Tensor, ring: Ring) -> Plan:
    changed = Chain(chain.layers, {**chain.rings, tensor: ring})
    return replace(plan, program=tuple(changed if part is chain else part for part in plan.program))


def some_chain(seed: int, rng: np.random.Generator) -> tuple[Chain, Kept] | None:
    """Layers of a random network as a chain, some of whose outputs are used outside, all of whose inputs die."""
    graph = sum_network(seed, rng.choice([*ENDS])) if seed % 2 else network(seed, ("INT8", "FLOAT32")[seed // 2 % 2])
    every = [
        layer if isinstance(layer := layer_of(step), Layer) else None
        for step in make_plan(graph, TARGETS[seed % len(TARGETS)], LAYERS).steps
    ]
    i = rng.integers(len(every))
    layers = [*takewhile(bool, every[i : i + rng.integers(1, 6)])]
    if not layers or not _agree(layers) or all(layer.rows.sums for layer in layers):
        return None
    band = int(rng.choice([1, 1, 2, 5]))
    layers = [replace(layer, band=min(layer.band * band, layer.height)) for layer in layers]
    outs = [layer.out for layer in layers]
    ends = {outs[-1], *(out for out in outs if rng.random() < 0.2)}
    ends |= {out for out in outs if not any(out is t for layer in layers for _, t, _ in layer.sources)}
    dying = {tensor for layer in layers for _, tensor, _ in layer.sources} - {*outs}
    keeps = kept(layers, ends, dying)
    rings = {t: Ring(_ring(t, r.capacity, height_of(layers, t)), r.capacity, r.kept) for t, r in keeps.rooms.items()}
    return Chain(tuple(layers), rings), keeps


def test_outputs_lie_over_dying_inputs_as_far_as_they_may() -> None:
    """At the distance that is counted nothing is lost, and one byte closer something is, unless they share a begin."""
    rng, tried = np.random.default_rng(0), {False: 0, True: 0}
    for seed in range(300):
        if (some := some_chain(seed, rng)) is None:
            continue
        chain, keeps = some
        used = [chain.rings[t].memory if t in chain.rings else t for layer in chain.layers for t in layer.step.touched]
        used += [tensor for layer in chain.layers for _, tensor, _ in layer.sources if tensor not in chain.rings]
        at = {t: 10_000 * (i + 2) for i, t in enumerate(dict.fromkeys(used)) if t.nbytes < 9_000}
        if len(at) < len({*used}):
            continue
        inputs = {t for layer in chain.layers for _, t, _ in layer.sources} - {layer.out for layer in chain.layers}
        for each in keeps.over:
            turned = replace(chain, backwards=each.backwards)
            for closer in (0, 1):
                begin = at[each.under] - each.distance + closer
                if each.backwards:
                    begin = at[each.under] + each.under.nbytes + each.distance - each.over.nbytes - closer
                spans = {t: (begin, begin + t.nbytes) for t, begin in {**at, each.over: begin}.items()}
                found = RowReplay(turned, spans, {t: spans[t] for t in inputs}, "chain").faults
                (low, high), (first, last) = spans[each.over], spans[each.under]
                if not closer:
                    assert not found, found
                elif each.distance and (low >= first if each.backwards else high <= last):  # else it saves no more
                    assert found
                    tried[each.backwards] += 1
    assert min(tried.values()) > 20, tried


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=12))
def test_a_ring_has_the_least_room(parts: list[tuple[int, int]]) -> None:
    """Parts of so many rows, before each of which so many rows are still needed; all ways to keep rows are tried."""
    spans, first, low = list[tuple[int, int, int]](), 0, 0
    for rows, needed in parts:
        low = max(low, first - needed)
        spans.append((low, first, first + rows))
        first += rows
    room = _room(spans)
    fits = [(c, k) for c in range(1, first + 1) for k in range(c) if _follow(spans, c, k)]
    assert (room.capacity, room.kept) == min(fits)


def _follow(spans: list[tuple[int, int, int]], capacity: int, kept: int) -> bool:
    """Whether every row is there when it is needed, followed row by row."""
    there: list[int] = []
    for low, first, end in spans:
        if len(there) + end - first > capacity:
            there = there[-kept:] if kept else []
        there += range(first, end)
        if len(there) > capacity or not set(range(low, end)) <= set(there):
            return False
    return True


def test_the_proof_notices_a_ring_over_another_and_over_scratch_memory() -> None:
    tried = 0
    for plan in networks():
        for chain in chains(plan):
            over = [*pairwise(ring.memory for ring in chain.rings.values())]
            for layer in chain.layers:
                used = [layer.out, *(tensor for _, tensor, _ in layer.sources)] if layer.step.scratch else []
                over += [(chain.rings[t].memory, layer.step.scratch) for t in used if t in chain.rings]
            for one, other in over:
                assert replay.fault(onto(plan, one, other)) is not None
                tried += 1
    assert tried > 20


def test_the_proof_notices_a_ring_over_what_is_read_later() -> None:
    """Beside the input that the chain may overwrite."""
    b = Builder("beside")
    x, small = b.input("x", "FLOAT32", (1, 16, 8, 4)), b.op("NEG", [b.input("z", "FLOAT32", (1, 1, 1, 4))])
    for out in (16, 4):
        w = np.ones((out, 3, 3, x.shape[3]), np.float32)
        x = b.op("CONV_2D", [x, w, np.ones(out, np.float32)], padding="SAME", stride_h=1, stride_w=1)
    plan = make_plan(b.graph([b.op("ADD", [x, small], fused_activation_function="NONE")]), GENERIC, ROWS)
    (chain,) = chains(plan)
    later = next(tensor for tensor in plan.places if tensor.name == small.name)
    assert plan.places[chain.layers[-1].out] == plan.places[chain.layers[0].sources[0][1]]
    for ring in chain.rings.values():
        assert "reads tensor 'neg" in (replay.fault(onto(plan, later, ring.memory)) or "")


def onto(plan: Plan, tensor: Tensor, other: Tensor) -> Plan:
    place = plan.places[other]
    return replace(plan, places={**plan.places, tensor: Place(place.region, place.offset)})


def alike_layers() -> Graph:
    """Convolutions and pools with the same params; an average and a maximum differ in nothing but the kernel."""
    b, rng = Builder("alike"), np.random.default_rng(4)
    x = b.input("x", "FLOAT32", (1, 20, 6, 3))
    w = b.constant(rng.standard_normal((3, 3, 3, 3)).astype(np.float32))
    bias = b.constant(np.zeros(3, np.float32))
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"}
    for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D") * 2:
        x = b.op("CONV_2D", [x, w, bias], **options, dilation_h_factor=1, dilation_w_factor=1)
        x = b.op(op, [x], **options, filter_height=3, filter_width=3)
    return b.graph([x])


def test_layers_that_are_alike_share_a_body_with_their_own_kernel() -> None:
    graph = alike_layers()
    plan = make_plan(graph, GENERIC, ROWS)
    text = emit(plan, "alike").code["alike.c"]
    bodies = re.findall(r"(\w+)\(&params, in, out, scratch\)", text)
    assert sorted(bodies) == ["tw_average_pool_2d_f32_body", "tw_conv2d_f32_body", "tw_max_pool_2d_f32_body"]
    (session,) = compile_plans({"alike": plan}).values()
    same(over_rubbish(session, graph, 3), over_rubbish(Session(make_plan(graph, GENERIC, LAYERS)), graph, 3))


def test_a_layer_computes_only_what_is_asked_for() -> None:
    """Every row once, in order, and none before what it needs is there; the last layer ends whole."""
    for plan in networks():
        for chain in chains(plan):
            walk = ChainRun(chain.layers, [layer.out for layer in chain.layers if layer.out not in chain.rings])
            for part in walk.parts():
                layer = chain.layers[part.link]
                assert part.first == walk.done[part.link] < part.end
                for _, tensor, height in layer.sources:
                    if tensor in walk.producer:
                        assert walk.done[walk.producer[tensor]] >= layer.rows.needed(part.first, part.end, height)[1]
            assert all(walk.done[i] == chain.layers[i].height for i in goals(chain))


@pytest.mark.parametrize("seed", [*range(16), 186, 870, 1257])  # of the last ones, chains would need more
def test_layers_run_by_rows_only_where_that_needs_less(seed: int) -> None:
    kinds = ("INT8", "FLOAT32", "INT16")
    graph, target = network(seed, kinds[seed % 3], layers=3 + seed % 8), TARGETS[seed % len(TARGETS)]
    whole, rows = make_plan(graph, target, LAYERS), make_plan(graph, target, ROWS)
    assert rows.arena_bytes < whole.arena_bytes or not rows.chains
    assert {t.name for t in rows.graph.outputs} == {t.name for t in whole.graph.outputs}


def test_chains_take_several_rows_at_once_where_there_is_room() -> None:
    """The peak of a wide layer behind lets narrow layers before it take more rows; one at the peak takes one."""
    bands = [layer.band for plan in networks() for chain in chains(plan) for layer in chain.layers]
    assert min(bands) == 1
    assert max(bands) >= 8


@pytest.mark.parametrize(("channels", "wide", "out"), [(4, 16, 4), (4, 16, 8), (2, 32, 2), (4, 16, 1)])
def test_two_inputs_that_die_in_one_chain(channels: int, wide: int, out: int) -> None:
    """The output lies over one of them."""
    b = Builder("two")
    inputs = [b.input(f"x{i}", "FLOAT32", (1, 16, 8, channels)) for i in range(2)]

    def conv(x: Tensor, to: int) -> Tensor:
        w = np.linspace(-1, 1, to * x.shape[3], dtype=np.float32).reshape(to, 1, 1, x.shape[3])
        options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"}
        return b.op("CONV_2D", [x, w, np.ones(to, np.float32)], **options)

    total = b.op("ADD", [conv(x, wide) for x in inputs], fused_activation_function="NONE")
    graph = b.graph([conv(total, out)])
    whole, rows = make_plan(graph, GENERIC, LAYERS), make_plan(graph, GENERIC, ROWS)
    assert [len(chain.layers) for chain in chains(rows)] == [4]
    same(over_rubbish(Session(rows), graph, 2), over_rubbish(Session(whole), graph, 2))


def test_observers_are_refused() -> None:
    graph = network(2)
    engine = Interpreter.from_graph(graph, ROWS, on_call=lambda position, step: None)
    engine.allocate_tensors()
    engine.set_tensor(0, random_inputs(graph)[0])
    with pytest.raises(InvalidArgumentError, match="cannot be observed"):
        engine.invoke()
    engine.on_call = None
    engine.invoke()


def test_plans_that_must_hold_every_value_have_no_chains() -> None:
    graph = network(2)
    assert make_plan(graph, options=ROWS).chains
    for options in (replace(ROWS, preserve_all=True), replace(ROWS, guard=True)):
        assert not make_plan(graph, options=options).chains
