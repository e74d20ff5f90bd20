"""Limits of the tables that a plan is written into, from both sides; and the traffic of calls in loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cases import over_rubbish
from row_nets import network

from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.by_rows import candidates
from twinfer.runtime.plan.by_rows.layers import layer_of
from twinfer.runtime.plan.by_rows.schedule import MOST_HEIGHT
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.plan.regions.traffic import Traffic, costs, traffic
from twinfer.runtime.program import COPY, Call, Chain, Loop, Slice, Step
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC, Bank

#: The greatest number in 16 bits.
MOST = 65_535


def conv(taps: int, stride: int, dilation: int, padding: str, height: int) -> Graph:
    """A convolution over a long image and RELU, which run by rows together."""
    b = Builder("long")
    x = b.input("x", "INT8", (1, height, 1, 1), 0.1)
    w, bias = b.constant(np.arange(1, taps + 1, dtype=np.int8).reshape(1, taps, 1, 1), 0.1), np.zeros(1, np.int32)
    options = {"padding": padding, "stride_h": stride, "stride_w": 1, "dilation_h_factor": dilation}
    inputs = [x, w, b.constant(bias, 0.01)]
    y = b.op("CONV_2D", inputs, scale=0.2, **options, dilation_w_factor=1)
    return b.graph([b.op("RELU", [b.op("RELU6", [y])])])


@pytest.mark.parametrize("what", ["stride", "pad", "reach"])
def test_layers_by_rows_have_numbers_of_16_bits(what: str) -> None:
    (step,) = (s for s in make_plan(conv(2, 1, 1, "SAME", 9)).steps if s.node.op == "CONV_2D")
    assert step.call.rows is not None
    for number in (1, MOST, MOST + 1, 1 << 20):
        call = replace(step.call, rows=step.call.rows._replace(**{what: number}), rows_call=None)
        assert isinstance(layer_of(replace(step, call=call, body=(call,))), str) == (number > MOST)


@pytest.mark.parametrize("n", [MOST, MOST + 1, 3 * MOST])
@pytest.mark.parametrize("what", ["stride", "reach"])
def test_real_layers_at_the_limit(what: str, n: int) -> None:
    """At the limit one runs by rows; beyond it the numbers would be cut, and it does not. The bits are the same."""
    graph = conv(2, n, 1, "VALID", n + 2) if what == "stride" else conv(2, 5, n, "SAME", 10)
    plan = make_plan(graph, GENERIC, Options(memory="layers"))
    (step,) = (s for s in plan.steps if s.node.op == "CONV_2D")
    assert isinstance(layer_of(step), str) == (n > MOST)
    by_rows = make_plan(graph, GENERIC, Options(memory="rows"))
    assert outputs(by_rows) == outputs(plan)
    layer = layer_of(step)
    if not isinstance(layer, str):
        first = Chain((layer,), {})
        alone = replace(plan, program=tuple(first if part is step else part for part in plan.program))
        assert outputs(alone) == outputs(plan)


def outputs(plan: Plan) -> list[bytes]:
    return [value.tobytes() for value in over_rubbish(Session(plan), plan.graph)]


def test_rings_have_no_more_rows_than_the_table_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def largest(seed: int) -> int:
        plan = make_plan(network(seed, layers=8), GENERIC, Options(memory="rows"))
        rings = [ring for part in plan.program if isinstance(part, Chain) for ring in part.rings.values()]
        return max((ring.capacity for ring in rings), default=0)

    free = [largest(seed) for seed in range(20)]
    monkeypatch.setattr(candidates, "MOST_ROWS", 3)
    bound = [largest(seed) for seed in range(20)]
    assert max(free) > 3
    assert max(bound) == 3


@pytest.mark.parametrize("extra", [0, 1])
def test_values_of_too_many_rows_run_whole(extra: int) -> None:
    """The planner walks row by row, so it leaves values of more rows alone; such an input cannot come by rows."""
    b = Builder("long")
    graph = b.graph([b.op("RELU", [b.op("ABS", [b.input("x", "FLOAT32", (1, MOST_HEIGHT + extra, 1, 1))])])])
    plan = make_plan(graph, GENERIC, Options(memory="layers"))
    assert [isinstance(layer_of(step), str) for step in plan.steps] == [extra > 0] * 2
    if extra:
        with pytest.raises(InvalidArgumentError, match=f"'x' .* has {MOST_HEIGHT + 1} rows"):
            make_plan(graph, GENERIC, Options(input_rows=True))


# -- traffic -----------------------------------------------------------------------------------------------------------


def looped() -> tuple[Plan, dict[str, Tensor]]:
    """A plan whose program is a step with a loop of four trips: what it reads and writes moves, or stays."""
    b = Builder("loop")
    graph = b.graph([b.op("RELU", [b.input("x", "INT8", (1, 64), 0.1)])])
    plan = make_plan(graph, GENERIC.with_banks(Bank("fast", 1 << 12, 1, 1), Bank("slow", 1 << 12, 5, 3)))
    parts = {name: Tensor(name, "INT8", (n,)) for name, n in
             (("sliced", 64), ("whole", 48), ("table", 16), ("codes", 8), ("scratch", 24))}  # fmt: skip
    x, y = graph.inputs[0], graph.outputs[0]
    (old,) = plan.steps
    read = Call(old.call.kernel, old.call.params, (Slice(parts["sliced"], 0, 16), parts["whole"], None,
                Slice(parts["table"], 4, 0)), (parts["codes"],))  # fmt: skip
    write = replace(read, inputs=(parts["codes"], x), outputs=(Slice(y, 0, 16),))
    once = replace(read, inputs=(x,), outputs=(parts["sliced"],))
    last = replace(read, inputs=(Slice(parts["sliced"], 48),), outputs=(Slice(y, 48),))
    step = Step(old.node, 0, write, (once, Loop(4, (read, write)), last), parts["scratch"])
    places = dict.fromkeys((*parts.values(), x, y), plan.places[x])
    return replace(plan, program=(step,), places=places), {**parts, "x": x, "y": y}


def test_traffic_in_loops() -> None:
    """What moves counts once for all trips, what stays once a trip; scratch, caller and calls outside count once."""
    plan, t = looped()
    assert traffic(plan.program, plan.graph, plan.places) == {
        t["x"]: Traffic(64 + 4 * 64, 64),  # once by itself, in every trip; by the caller
        t["sliced"]: Traffic(64 + 64, 64),
        t["whole"]: Traffic(4 * 48, 0),
        t["table"]: Traffic(4 * 16, 0),
        t["codes"]: Traffic(4 * 8, 4 * 8),
        t["y"]: Traffic(64, 64 + 64),
        t["scratch"]: Traffic(24, 24),
    }


@pytest.mark.parametrize("by", [0, 16])
def test_traffic_of_copies(by: int) -> None:
    """A copy to where the value is moves nothing; one to another place reads and writes all of it."""
    plan, t = looped()
    copy = Call(COPY, {"size": 64}, (t["x"],), (t["y"],))
    step = Step(plan.steps[0].node, 0, copy, (copy,))
    place = plan.places[t["x"]]
    moved = traffic((step,), plan.graph, {t["x"]: place, t["y"]: place._replace(offset=place.offset + by)})
    assert moved == {t["x"]: Traffic(64 * (by > 0), 64), t["y"]: Traffic(64, 64 * (by > 0))}


@pytest.mark.parametrize("bank", ["fast", "slow"])
def test_costs_are_traffic_times_the_memorys_own(bank: str) -> None:
    plan, _ = looped()
    home = Region("arena", bank)
    places = {tensor: place._replace(region=home) for tensor, place in plan.places.items()}
    read = 320 + 128 + 192 + 64 + 32 + 64 + 24
    written = 64 + 64 + 32 + 128 + 24
    want = read + written if bank == "fast" else 5 * read + 3 * written
    extents = {Region("arena", name): plan.regions[next(iter(plan.regions))] for name in ("fast", "slow")}
    other = Region("arena", "slow" if bank == "fast" else "fast")
    assert costs(replace(plan, places=places, regions=extents)) == {home: want, other: 0}
