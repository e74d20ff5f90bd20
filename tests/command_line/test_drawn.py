"""What is drawn: arenas that are as small as can be, scratch, tensors that clip, bounds of histograms."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
from pages import Page
from rich.console import Console

from twinfer.command_line.show.conversion_html import report_html
from twinfer.command_line.show.memory import ArenaMap
from twinfer.command_line.show.model import dims
from twinfer.converter.build import Builder
from twinfer.converter.quantize.compare import OutputReport, Report, TensorReport
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.target import DSP


def test_open_dimensions() -> None:
    assert dims((-1, 3)) == "?×3"
    assert dims(()) == "()"


def drawn(plan: Plan) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        for part in ArenaMap(plan).render(120):
            console.print(part)
    return capture.get()


def test_an_arena_that_is_as_small_as_can_be() -> None:
    plan = tiny.dense()
    bound = plan.lower_bound_bytes
    assert f"{bound:,} bytes, at the lower bound" in drawn(tiny.sized(plan, bound))
    assert "50.0 % above the lower bound" in drawn(tiny.sized(plan, bound * 3 // 2))


def test_scratch_is_drawn_as_such() -> None:
    b = Builder("wide")
    x = b.input("x", "INT8", (1, 4, 4, 5), scale=0.1)
    w = b.constant(np.ones((3, 3, 3, 5), np.int8), scale=0.01)
    y = b.op("CONV_2D", [x, w, None], shape=(1, 2, 2, 3), scale=0.2, stride_h=1, stride_w=1, padding="VALID")
    plan = make_plan(b.graph([y]), DSP)
    assert {kind for *_, kind, _ in ArenaMap(plan).pieces(0)} == {"written", "scratch", "read"}


@pytest.mark.parametrize(("saturated", "marked"), [(0.01, False), (0.011, True), (1.0, True)])
def test_a_tensor_that_clips_is_marked(saturated: float, marked: bool) -> None:
    shown = TensorReport("t", "ADD", "INT8", 0.1, 0, 30.0, 1.0, saturated, (0.0, 1.0), (3,), (3,))
    report = Report(samples=1, outputs=(OutputReport("t", 30.0),), tensors=(shown,))
    (row,) = Page(report_html(report, "m")).tables[0].rows
    assert row[-1].text == f"{100 * saturated:.2f} %"
    assert (row[-1].attributes.get("class") == "bad") is marked


@pytest.mark.parametrize("edges", [(-3.0, 3.0), (-75.0, 3.0), (-3.0, 65.0), (-75.0, 65.0), (-63.5, 64.0), (65.0, 66.0)])
def test_bounds_are_drawn_where_values_are(edges: tuple[float, float]) -> None:
    """The integers reach from -63.5 to 64: each end that lies within the float values has its line."""
    low, high = edges
    ends = (low, (low + high) / 2, high)
    shown = TensorReport("t", "ADD", "INT8", 0.5, -1, 30.0, 1.0, 0.0, ends, (3, 4), (5, 6))
    made = Report(samples=1, outputs=(OutputReport("t", 30.0),), tensors=(shown,))
    (chart,) = [each for each in Page(report_html(made, "m")).charts if each.title == "t"]
    bounds = [layer["encoding"]["x"]["datum"] for layer in chart.layers("rule")]
    assert bounds == [end for end in (-63.5, 64.0) if low <= end <= high]
    assert [list(row.values()) for row in chart.rows] == [[low, ends[1], 3, 5], [ends[1], high, 4, 6]]
    (line,) = chart.layers("line")
    steps = [(step["x"], step["count"]) for step in line["data"]["values"]]
    assert steps == [(low, 5), (ends[1], 6), (high, 6)]
    assert f"from {low:.4g} to {high:.4g}" in chart.about
