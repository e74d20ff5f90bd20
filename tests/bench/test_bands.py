"""What lies where and when in a plan's memory: the bands of the page's map."""

from __future__ import annotations

from itertools import pairwise

import pytest
from row_nets import network

from twinfer.aot.build.targets import find
from twinfer.bench.models.source import load
from twinfer.bench.report.maps import Band, bands
from twinfer.converter.stream.convert import stream
from twinfer.runtime.options import Memory, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.target import GENERIC


def rows(name: str, *, input_rows: bool = False) -> Plan:
    return make_plan(load(name).graph, find("cortex-m4").target, Options(memory="rows", input_rows=input_rows))


def at(band: Band, time: float) -> tuple[int, int] | None:
    """The bytes that a band holds at a time; None if it does not live then."""
    spans = zip(band.times, band.times[1:], zip(band.lows, band.highs, strict=True), strict=False)
    return next((there for first, end, there in spans if first <= time < end), None)


@pytest.mark.parametrize("name", ["kws_int8", "vww_int8", "ic_int8"])
@pytest.mark.parametrize("input_rows", [False, True])
def test_no_two_bands_share_a_byte(name: str, input_rows: bool) -> None:
    """In the middle of a part an output may lie over rows that it replaces: never more than the part's own."""
    plan = rows(name, input_rows=input_rows)
    every = bands(plan)
    in_chains = {step.position for step in plan.chains}
    assert in_chains
    for position in range(len(plan.nodes)):
        if position in in_chains:
            continue
        node = plan.nodes[position]
        read, written = ({t.name for t in tensors if t is not None} for tensors in (node.inputs, node.outputs))
        there = [(*place, band.name) for band in every if (place := at(band, position + 0.5)) and place[0] < place[1]]
        for a, b in pairwise(sorted(there)):
            both = {a[2], b[2]}
            assert a[1] <= b[0] or (both & read and both & written), "only an output may lie over an input"


@pytest.mark.parametrize("memory", ["layers", "rows"])
def test_an_input_that_lies_elsewhere_has_no_band(memory: Memory) -> None:
    for seed in range(6):
        graph = network(seed, "INT8")
        plan = make_plan(graph, GENERIC, Options(memory=memory, input_in_place=True))
        assert graph.inputs[0].name not in {band.name for band in bands(plan)}
        assert graph.inputs[0].name in {band.name for band in bands(make_plan(graph, GENERIC, Options(memory=memory)))}


@pytest.mark.parametrize("memory", ["layers", "rows"])
def test_every_tensor_has_a_band_of_its_bytes(memory: Memory) -> None:
    """From its first operator to behind its last one; states are told from values."""
    for graph in (stream(load("tcn_int8").graph).graph, network(3, "INT8"), load("kws_int8").graph):
        plan = make_plan(graph, GENERIC, Options(memory=memory))
        every = {(band.name, band.lows[0]): band for band in bands(plan)}
        rings = {ring.memory for chain in plan.chains.values() for ring in chain.rings.values()}
        held = [band for band in bands(plan) if band.kind == "state"]
        assert bool(held) == (plan.state_bytes > 0)
        assert all(max(band.highs) - min(band.lows) <= plan.state_bytes for band in held)
        in_rows = {
            t for chain in plan.chains.values() for link in chain.links for t in (link.out, *link.step.node.inputs)
        }
        for t in (t for t in plan.places if t.nbytes and t not in rings and t not in in_rows):
            band, (first, last) = every[t.name, plan.offsets[t]], plan.lives[t]
            assert (band.times[0], band.times[-1]) == (first, last + 1)
            assert (min(band.lows), max(band.highs)) == (plan.offsets[t], plan.offsets[t] + t.nbytes)
        order = [(band.times[0], band.lows[0]) for band in bands(plan)]
        assert order == sorted(order)


@pytest.mark.parametrize("seed", [19, 20, 33, 40])
def test_what_is_read_behind_a_chain_is_whole_until_then(seed: int) -> None:
    """Also an output of the model that the last chain reads."""
    plan = make_plan(network(seed), GENERIC, Options(memory="rows"))
    every, later = {band.name: band for band in bands(plan)}, 0
    for chain in plan.chains.values():
        positions = [layer.step.position for layer in chain.layers]
        sources = {t for link in chain.links for _, t, _ in link.sources} - {link.out for link in chain.links}
        behind = {t for step in plan.steps if step.position > max(positions) for t in step.node.inputs}
        for t in sources & {*behind, *plan.graph.outputs}:
            whole = plan.offsets[t], plan.offsets[t] + t.nbytes
            assert [at(every[t.name], position + 0.5) for position in positions] == [whole] * len(positions)
            later += 1
    assert later


def test_rows_come_and_go() -> None:
    """The rings of a chain hold several numbers of rows, an input by rows never all of it, and the output grows."""
    plan = rows("vww_int8", input_rows=True)
    every = {band.name: band for band in bands(plan)}
    chain = plan.fed
    assert chain is not None
    assert chain.feed is not None
    source = every[chain.feed.out.name]
    assert source.kind == "rows"
    assert max(h - low for low, h in zip(source.lows, source.highs, strict=True)) < chain.feed.out.nbytes / 4
    (last,) = (every[link.out.name] for link in chain.links if link.out not in chain.rings)
    sizes = [high - low for low, high in zip(last.lows, last.highs, strict=True)]
    grown = sizes[: sizes.index(chain.links[-1].out.nbytes) + 1]
    assert grown[0] == 0
    assert grown == sorted(grown)
    assert sizes[-1] < grown[-1], "the next chain eats it"
