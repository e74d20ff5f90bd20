"""Real plans, corrupted in every way: what gives other bits, memory full of rubbish, is refused by the proof."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_nets import network

from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan import replay
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Extent, Place, Plan, Region
from twinfer.runtime.program import Chain, Layer
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.poison import POISONS, poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, MVE, Bank

#: Bytes behind a plan's own that a corrupted one may use without harm.
SLACK = 1 << 14


@pytest.fixture(autouse=True)
def slack(monkeypatch: pytest.MonkeyPatch) -> None:
    size = lambda plan: max(extent.end for extent in plan.regions.values()) + SLACK  # noqa: E731
    monkeypatch.setattr(Plan, "buffer_bytes", property(size))


@cache
def planned(seed: int) -> tuple[Graph, Plan]:
    """A network of any type on any target, by layers or by rows."""
    graph = network(seed, ("INT8", "INT16", "FLOAT32")[seed % 3], layers=5)
    options = Options(memory=("rows", "layers", "rows", "auto")[seed % 4])
    return graph, make_plan(graph, (GENERIC, DSP, MVE)[seed // 3 % 3], options)


@cache
def wanted(seed: int) -> list[bytes]:
    graph, _ = planned(seed)
    return results(make_plan(graph, options=Options(memory="layers", preserve_all=True)), graph, POISONS[0])


def results(plan: Plan, graph: Graph, value: int) -> list[bytes]:
    """The outputs of the second of two runs, over rubbish."""
    session = Session(plan)
    for seed in (1, 2):
        session.feed(random_inputs(graph, seed))
        poison(session, value)
        session.run()
    return [each.tobytes() for each in session.outputs()]


def right(plan: Plan, seed: int) -> bool:
    """Whether a plan gives what separate memory gives, whatever lies in memory before."""
    graph, _ = planned(seed)
    return all(results(plan, graph, value) == wanted(seed) for value in POISONS)


def moved(plan: Plan, tensor: Tensor, offset: int) -> Plan:
    """The plan with a tensor elsewhere in its region."""
    place = plan.places[tensor]
    return replace(plan, places={**plan.places, tensor: Place(place.region, max(0, offset))})


def with_chain(plan: Plan, chain: Chain, **changes: Any) -> Plan:
    new = Chain(**{**vars(chain), **changes})
    return replace(plan, program=tuple(new if part is chain else part for part in plan.program))


def corrupted(draw: Any, plan: Plan) -> Plan:
    """One change: a block moved, two parts swapped, one left out, a ring or a layer of another size."""
    tensors = [tensor for tensor in plan.places if tensor.nbytes]
    chains = [part for part in plan.program if isinstance(part, Chain)]
    rings = [(chain, tensor) for chain in chains for tensor in chain.rings]
    of_rings = ["ring", "band"] * 2 if rings else []
    kind = draw(st.sampled_from(["move", "onto", "edge", "edge", "swap", "drop", "turn", *of_rings]))
    if kind in ("move", "onto"):
        tensor, other = (draw(st.sampled_from(tensors)) for _ in "ab")
        step = max(4, tensor.nbytes // 8 // 4 * 4)
        by = draw(st.sampled_from([4, -4, 16, -16, 64, -64, step, -step]))
        return moved(plan, tensor, plan.places[tensor if kind == "move" else other].offset + (kind == "move") * by)
    if kind == "edge":  # the least that two blocks can have in common
        tensor, other = (draw(st.sampled_from(tensors)) for _ in "ab")
        size, begin = tensor.dtype.itemsize, plan.places[other].offset
        return moved(plan, tensor, draw(st.sampled_from([begin + other.nbytes - size, begin - tensor.nbytes + size])))
    if kind == "swap":
        i, program = draw(st.integers(0, max(0, len(plan.program) - 2))), [*plan.program]
        program[i : i + 2] = reversed(program[i : i + 2])
        return replace(plan, program=tuple(program))
    if kind == "drop":
        i = draw(st.integers(0, len(plan.program) - 1))
        return replace(plan, program=plan.program[:i] + plan.program[i + 1 :])
    if kind == "turn":
        chain = draw(st.sampled_from(chains or [None]))
        alone = chain is not None and len(chain.layers) == 1
        return with_chain(plan, chain, backwards=not chain.backwards) if alone else plan
    chain, tensor = draw(st.sampled_from(rings))
    if kind == "band":
        layers = [*chain.layers]
        i = draw(st.integers(0, len(layers) - 1))
        band = draw(st.integers(1, layers[i].height))
        layers[i] = Layer(layers[i].step, layers[i].rows, layers[i].height, band, layers[i].sources)
        return with_chain(plan, chain, layers=tuple(layers))
    ring = chain.rings[tensor]
    capacity = max(1, ring.capacity + draw(st.integers(-2, 1)))
    new = ring._replace(capacity=capacity, kept=min(max(0, ring.kept + draw(st.integers(-2, 1))), capacity))
    return with_chain(plan, chain, rings={**chain.rings, tensor: new})


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 119), st.data())
def test_no_wrong_plan_is_taken(seed: int, data: st.DataObject) -> None:
    """One to three corruptions, the first ones such that the proof takes them."""
    _, plan = planned(seed)
    for _ in range(data.draw(st.integers(1, 3))):
        bad = corrupted(data.draw, plan)
        if replay.fault(bad) is None:
            plan = bad
    assert right(plan, seed)


def test_no_ring_that_loses_rows_is_taken() -> None:
    """Every ring of many plans, a little smaller, or with fewer rows that stay: what is taken gives the same bits."""
    refused = 0
    for seed in range(90):
        _, plan = planned(seed)
        for chain in (part for part in plan.program if isinstance(part, Chain)):
            for (tensor, ring), (less, fewer) in itertools.product(
                chain.rings.items(), ((0, 1), (1, 0), (1, 1), (0, 2))
            ):
                if ring.capacity - less < 1 or ring.kept < fewer:
                    continue
                small = ring._replace(capacity=ring.capacity - less, kept=ring.kept - fewer)
                bad = with_chain(plan, chain, rings={**chain.rings, tensor: small})
                if replay.fault(bad) is None:
                    assert right(bad, seed)
                else:
                    refused += 1
    assert refused > 40


def test_corruptions_do_harm_and_right_plans_are_taken() -> None:
    """The comparison above is one: many of the corrupted plans that the proof refuses give other bits."""
    rng, refused, wrong = np.random.default_rng(0), 0, 0
    for seed in range(60):
        _, plan = planned(seed)
        assert replay.fault(plan) is None
        assert right(plan, seed)
        tensors = [tensor for tensor in plan.places if tensor.nbytes]
        a, b = rng.choice(len(tensors), 2)
        bad = moved(plan, tensors[a], plan.places[tensors[b]].offset)
        if replay.fault(bad) is not None:
            refused, wrong = refused + 1, wrong + (not right(bad, seed))
    assert refused > 15
    assert wrong > refused / 2


def depthwise(kind: str, channels: int) -> Graph:
    """A layer that the DSP kernel computes channel by channel, over its own input."""
    b, rng = Builder("planes"), np.random.default_rng(channels)
    x = b.input("x", kind, (1, 9, 8, channels), 0.05 if kind == "INT8" else 0.001)
    x = b.op("RELU", [x])
    w = b.constant(rng.integers(-127, 128, (1, 3, 3, channels)).astype(np.int8), [0.01] * channels, axis=3)
    bias = rng.integers(-99, 99, channels).astype(np.int32 if kind == "INT8" else np.int64)
    bias = b.constant(bias, [(0.05 if kind == "INT8" else 0.001) * 0.01] * channels)
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "depth_multiplier": 1}
    return b.graph([b.op("DEPTHWISE_CONV_2D", [x, w, bias], scale=0.1 if kind == "INT8" else 0.002, **options)])


@pytest.mark.parametrize("kind", ["INT8", "INT16"])
@pytest.mark.parametrize("channels", [2, 3, 6, 8])
def test_planes_lie_whole_pixels_below(kind: str, channels: int) -> None:
    """Channel by channel a kernel may write over its input only whole pixels below it: nothing else is taken."""
    graph = depthwise(kind, channels)
    plan = make_plan(graph, DSP, Options(memory="rows"))
    (step,) = (step for step in plan.steps if step.node.op == "DEPTHWISE_CONV_2D")
    assert step.call.rows is not None
    pixel = channels * (1 if kind == "INT8" else 2)
    assert step.call.rows.planes == pixel
    alone = replace(plan, program=tuple(part for old in plan.program for part in steps(old)))
    x, y = next(t for t in step.call.read if isinstance(t, Tensor)), step.call.written[0]
    region = Region.ARENA
    wide = replace(alone, regions={**alone.regions, region: Extent(alone.regions[region].offset, 1 << 13)})
    base = 64 * pixel
    one = results(make_plan(graph, DSP, Options(memory="layers", preserve_all=True)), graph, POISONS[0])
    taken = []
    for by in range(24 * pixel + 1):
        at = replace(wide, places={t: Place(region, base - by if t is y else base + (4096 if t not in (x, y) else 0))
                                   for t in wide.places})  # fmt: skip
        if replay.fault(at) is None:
            taken.append(by)
            if by % (1 if kind == "INT8" else 2) == 0:
                assert all(results(at, graph, value) == one for value in POISONS)
    assert taken
    assert all(by % pixel == 0 for by in taken)


def steps(part: Any) -> Iterator[Any]:
    yield from (layer.step for layer in part.layers) if isinstance(part, Chain) else (part,)


# -- regions -----------------------------------------------------------------------------------------------------------


def split() -> Plan:
    graph = network(5, layers=6)
    one = make_plan(graph, DSP, Options(memory="layers"))
    banks = Bank("fast", one.arena_bytes * 2 // 3), Bank("slow", one.arena_bytes, 5, 3)
    plan = make_plan(graph, DSP.with_banks(*banks), Options(memory="layers"))
    assert len(plan.arenas) == 2
    assert replay.fault(plan) is None
    return plan


def inside(plan: Plan) -> bool:
    """Byte by byte: every tensor within its region, no byte in two of them, no region larger than its memory."""
    owner: dict[int, Region] = {}
    for region, extent in plan.regions.items():
        for byte in range(extent.offset, extent.end):
            if owner.setdefault(byte, region) != region:
                return False
    rooms = {bank.name: bank.nbytes for bank in plan.target.banks}
    if any(region.bank and extent.nbytes > rooms[region.bank] for region, extent in plan.regions.items()):
        return False
    for tensor, place in plan.places.items():
        at = plan.regions[place.region].offset + place.offset
        if any(owner.get(byte) != place.region for byte in range(at, at + tensor.nbytes)):
            return False
    return True


def changed_regions(plan: Plan) -> Iterator[Plan]:
    for region, extent in plan.regions.items():
        for by in (-64, -1, 1, 64):
            if extent.offset + by >= 0:
                yield replace(plan, regions={**plan.regions, region: Extent(extent.offset + by, extent.nbytes)})
            if extent.nbytes + by >= 0:
                yield replace(plan, regions={**plan.regions, region: Extent(extent.offset, extent.nbytes + by)})
    for bank in plan.target.banks:
        for by in (-1, -64, 0):
            banks = [replace(each, nbytes=plan.regions[Region("arena", each.name)].nbytes + by * (each is bank))
                     for each in plan.target.banks]  # fmt: skip
            yield replace(plan, target=plan.target.with_banks(*banks))
    for tensor, place in plan.places.items():
        room = plan.regions[place.region].nbytes - tensor.nbytes
        for offset in (room, room + 1, -1):
            yield replace(plan, places={**plan.places, tensor: Place(place.region, offset)})


def test_regions_hold_what_lies_in_them() -> None:
    """Of regions the proof asks exactly that, beside what values ask."""
    seen = {True: 0, False: 0}
    for bad in changed_regions(split()):
        good = inside(bad)
        seen[good] += 1
        said = [*replay.proof.faults(bad)]
        assert (not said) == good, said
    assert min(seen.values()) > 5


def test_a_chain_lies_in_one_region() -> None:
    """All that it touches has one address to count from."""
    tried = 0
    for seed in range(40):
        plan = make_plan(network(seed, layers=6), DSP, Options(memory="rows"))
        arena = plan.regions[Region.ARENA]
        other = Region("arena", "other")
        wide = {**plan.regions, other: Extent(plan.buffer_bytes, arena.nbytes)}
        for chain in (part for part in plan.program if isinstance(part, Chain)):
            rows = [link.out for link in chain.links] + [t for link in chain.links for _, t, _ in link.sources]
            used = {chain.rings[t].memory if t in chain.rings else t for t in rows}
            used |= {layer.step.scratch for layer in chain.layers if layer.step.scratch is not None}
            for tensor in used if len(used) > 1 else ():
                torn = {**plan.places, tensor: Place(other, plan.places[tensor].offset)}
                said = [*replay.proof.faults(replace(plan, places=torn, regions=wide))]
                assert any("of its chain in" in each for each in said)
                tried += 1
    assert tried > 40
