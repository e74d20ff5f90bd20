"""What --memory and --ram choose: the smallest plan, one that costs little, or the cheapest that fits."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but, need_tools
from row_nets import network

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.models.source import load
from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan import memory
from twinfer.runtime.plan.by_rows import price
from twinfer.runtime.plan.by_rows.layers import layer_of
from twinfer.runtime.plan.by_rows.price import rows_share
from twinfer.runtime.plan.by_rows.ring_sizes import Kept, Room
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.price import instructions
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import GENERIC, HOST, Target

MODELS = ("kws_int8", "vww_int8", "ic_int8", "ad01_int8")

each_model = pytest.mark.parametrize("model", deep_but(MODELS, "kws_int8", "ic_int8"))
each_core = pytest.mark.parametrize("core", deep_but(["cortex-m0", "cortex-m4", "cortex-m55"], "cortex-m4"))


@cache
def planned(model: str, core: str, **options: object) -> Plan:
    return make_plan(load(model).graph, find(core).target, Options(**options))  # type: ignore[arg-type]


@each_model
@each_core
def test_auto_costs_little(model: str, core: str) -> None:
    """It needs no more than layers, no less than rows, and its chains cost at most their share by the estimate."""
    layers, auto, rows = (planned(model, core, memory=way) for way in ("layers", "auto", "rows"))
    assert rows.arena_bytes <= auto.arena_bytes <= layers.arena_bytes
    assert rows_share(auto) <= memory.SHARE
    assert not layers.chains
    if rows_share(rows) <= memory.SHARE / 2:
        assert auto.arena_bytes == rows.arena_bytes or auto.arena_bytes < 1.05 * rows.arena_bytes


def test_auto_is_by_layers_on_a_host() -> None:
    graph = load("vww_int8").graph
    auto, layers = (make_plan(graph, HOST, Options(memory=way)) for way in ("auto", "layers"))  # type: ignore[arg-type]
    assert not auto.chains
    assert auto.arena_bytes == layers.arena_bytes


@each_model
def test_every_ram_from_the_least_to_that_of_layers(model: str) -> None:
    """The plan fits, costs no more than one for less, and one byte below the least there is none."""
    least, most = (planned(model, "cortex-m4", memory=way).memory_bytes for way in ("rows", "layers"))
    costs = []
    for ram in sorted({least, *range(least, most, max(1, (most - least) // 4)), most}):
        plan = planned(model, "cortex-m4", ram=ram)
        assert plan.memory_bytes <= ram
        costs.append(rows_share(plan))
    assert costs[-1] == 0, "all layers fit one by one"
    assert all(less >= more - 0.001 for less, more in pairwise(costs)), "more RAM never costs more"
    assert planned(model, "cortex-m4", memory="layers", ram=most).memory_bytes == most
    with pytest.raises(UnsupportedOperatorError, match=f"needs {least:,} bytes of RAM, 1 more than ram={least - 1:,}"):
        planned(model, "cortex-m4", ram=least - 1)


@given(st.integers(0, 10**6), st.integers(0, 4000))
@settings(max_examples=60, deadline=None)
def test_a_plan_fits_or_says_what_forces_it(seed: int, ram: int) -> None:
    graph = network(seed, "INT8")
    try:
        plan = make_plan(graph, GENERIC, Options(ram=ram))
    except UnsupportedOperatorError as error:
        pattern = r"needs ([\d,]+) bytes of RAM, ([\d,]+) more than ram=([\d,]+); (.+) forces that with ([\d,]+) bytes"
        needed = re.search(pattern, str(error))
        assert needed is not None
        bytes_needed, missing, given_ram = (int(number.replace(",", "")) for number in needed.groups()[:3])
        assert (bytes_needed - missing, given_ram) == (ram, ram)
        rows = make_plan(graph, GENERIC, Options(memory="rows"))
        assert bytes_needed == rows.memory_bytes
        assert int(needed[5].replace(",", "")) == rows.lower_bound_bytes
        names = [str(node) for node in graph.nodes]
        assert needed[4] in (*names, "its input")
    else:
        assert ram == 0 or plan.memory_bytes <= ram


def test_too_little_ram_by_layers_names_the_way_out() -> None:
    with pytest.raises(UnsupportedOperatorError, match="take memory='rows' or 'auto'"):
        planned("vww_int8", "cortex-m4", memory="layers", ram=30_000)
    assert planned("vww_int8", "cortex-m4", ram=30_000).memory_bytes <= 30_000


def test_what_lasts_takes_its_part_of_the_ram() -> None:
    """A model with a state: whatever is given between the least and that of layers, a plan fits with its state."""
    b = Builder("state")
    y = b.input("x", "FLOAT32", (1, 40, 8, 4))
    for kernel in (3, 3, 5):
        filters = np.ones((4, kernel, kernel, 4), np.float32)
        y = b.op("CONV_2D", [y, filters, None], padding="SAME", stride_h=1, stride_w=1)
    square = np.ones((60, 60), np.float32)
    state = b.variable("state", "FLOAT32", (1, 60))
    z = b.op("RNN", [b.input("z", "FLOAT32", (1, 60)), square, square, np.ones(60, np.float32), state], shape=(1, 60))
    graph, target = b.graph([y, z]), find("cortex-m4").target
    least, most = (make_plan(graph, target, Options(memory=way)).memory_bytes for way in ("rows", "layers"))
    assert least < most
    for ram in range(least, most + 1, max(1, (most - least) // 40)):
        plan = make_plan(graph, target, Options(ram=ram))
        assert (plan.state_bytes, plan.memory_bytes <= ram) == (240, True)


@pytest.mark.parametrize("wrong", [{"memory": "columns"}, {"ram": -1}])
def test_wrong_options(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError):
        Options(**wrong)  # type: ignore[arg-type]


@each_model
@pytest.mark.parametrize("core", deep_but(["cortex-m4", "cortex-m55"], "cortex-m4"))
def test_estimates_are_near_what_qemu_counts(model: str, core: str) -> None:
    """Of all instructions, and of what rows cost on top: enough to choose by."""
    card = find(core)
    counted = {}
    for way in ("layers", "auto", "rows"):
        asked = 1 << 24 if way == "layers" else 0  # with which no larger variants are taken, as by rows
        plan = make_plan(load(model).graph, card.target, Options(memory=way, ram=asked))  # type: ignore[arg-type]
        (result,) = run_jobs(build(emit(plan, "model"), card), [Job(random_inputs(plan.graph, 0))])
        counted[way] = result.counts[0], plan
    (whole, layers), (auto, _), (by_rows, rows) = counted.values()
    assert 0.7 < instructions(layers.steps, card.target) / whole < 1.3, instructions(layers.steps, card.target) / whole
    more = by_rows / whole - 1
    assert abs(rows_share(rows) - more) < max(0.05, 0.15 * more)
    assert auto <= 1.08 * whole, "rows that nobody asked for cost about 5 % at most"


@pytest.mark.parametrize("model", deep_but(MODELS[:3], "kws_int8"))
def test_estimates_are_near_what_wasmtime_counts(model: str) -> None:
    need_tools("clang", "wasm-ld")
    card = find("wasm32")
    plan = make_plan(load(model).graph, card.target)
    (result,) = run_jobs(build(emit(plan, "model"), card), [Job(random_inputs(plan.graph, 0))])
    assert 0.85 < instructions(plan.steps, card.target) / result.counts[0] < 1.15


def test_narrow_chains_are_tried_too() -> None:
    """Chains of few rows at once sometimes fit together better than wide ones: the smaller plan is taken."""
    narrower = 0
    for seed in range(40):
        planner = _planner(network(seed, "INT8", layers=8))
        if not planner._partitions.peaks:
            continue
        wide, narrow = (planner._by_rows(planner._partitions.peaks[0], wide=each) for each in (True, False))
        assert planner._least().arena_bytes == min(wide.arena_bytes, narrow.arena_bytes)
        narrower += narrow.arena_bytes < wide.arena_bytes
    assert narrower


@pytest.mark.parametrize("model", deep_but(["kws_int8", "vww_int8", "ic_int8"], "kws_int8", "ic_int8"))
def test_the_cheapest_that_fits_is_taken(model: str) -> None:
    """For the bytes of every plan that there is: none of those that fit costs less than the one that is taken."""
    planner = _planner(load(model).graph, find("cortex-m4").target)
    every = [planner._by_rows(peak) for peak in planner._partitions.peaks]
    for wanted in every[::4]:
        fit = [each.extra for each in every if each.nbytes <= wanted.nbytes]
        taken = planner._fitting(wanted.nbytes)
        assert taken.nbytes <= wanted.nbytes
        assert taken.extra <= min(fit)


def test_a_call_costs_its_set_up() -> None:
    """SMLAD's depthwise convolution prepares every channel in every call."""
    plan = planned("kws_int8", "cortex-m4", memory="layers")
    layer = layer_of(plan.steps[1])
    assert not isinstance(layer, str)
    assert layer.rows.setup > 1000
    calls = Kept({}, (), (4,), (layer.height,))
    assert price.more([layer], calls, plan.target) == 3 * (price.CALL + layer.rows.setup)
    rooms = {layer.out: Room(capacity=4, kept=2, moves=3)}
    moved = price.more([layer], calls._replace(rooms=rooms), plan.target) - price.more([layer], calls, plan.target)
    assert moved == pytest.approx(3 * (price.MOVE + price.MOVED * 2 * layer.out.nbytes / layer.height))


def _planner(graph: Graph, target: Target = GENERIC) -> memory._Planner:
    from twinfer.runtime.plan import coding
    from twinfer.runtime.plan.inline import inline
    from twinfer.runtime.plan.lifetimes import lifetimes
    from twinfer.runtime.plan.lower import lower

    options = Options(memory="rows")
    stored = coding.store(lower(inline(graph), target), target, options)
    return memory._Planner(stored, lifetimes(stored, options), target, options)
