"""What a notebook shows of a graph and of a plan."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import twinfer
from twinfer.bench.models.source import load
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph
from twinfer.runtime.write.html import ROWS

EVIL = "<script>alert('x')</script>&\x1b[2J"


def shown(page: str) -> tuple[str, list[list[list[str]]]]:
    """The headline, and the cells of every table by rows. The page must be well formed."""
    tree = ElementTree.fromstring(f"<div>{page}</div>")
    assert {node.tag for node in tree.iter()} <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    tables = [[["".join(cell.itertext()) for cell in row] for row in table.iter("tr")] for table in tree.iter("table")]
    return "".join(tree.find("p").itertext()), tables  # type: ignore[union-attr]


def chain(count: int, name: str = "x") -> Graph:
    b = Builder(name)
    y = b.input(name, "FLOAT32", (1, 3))
    for _ in range(count):
        y = b.op("NEG", [y], shape=(1, 3))
    return b.graph([y])


def test_a_graph() -> None:
    headline, (ends, operators) = shown(load("digits_int8").graph._repr_html_())
    assert headline == "Graph digits: 8 operators"
    assert ends[1][2:] == ["1×8×8×1", "INT8"]
    assert [row[0] for row in ends] == ["", "input", "output"]
    assert operators[:2] == [["#", "operator", "output", "type"], ["0", "CONV_2D", "1×8×8×16", "INT8"]]
    assert len(operators) == 1 + 8


def test_a_plan() -> None:
    plan = twinfer.make_plan(load("digits_int8").graph)
    headline, (steps,) = shown(plan._repr_html_())
    for figure in (plan.arena_bytes, plan.lower_bound_bytes, plan.state_bytes, plan.constant_bytes):
        assert f" {figure:,} bytes" in headline
    assert headline.startswith(f"Plan digits: for {plan.target.name}: arena ")
    assert f", {plan.macs:,} MACs" in headline
    assert steps[0] == ["#", "operator", "kernel", "variant", "MACs"]
    for row, step in zip(steps[1:], plan.steps, strict=True):
        assert row[1:4] == [step.node.op, step.call.kernel, step.choice.variant]
        assert row[4] == (f"{step.call.macs:,}" if step.call.macs else "-")


@pytest.mark.parametrize("count", [ROWS, ROWS + 2])
def test_long_tables_are_cut(count: int) -> None:
    graph = chain(count)
    for value, rest in ((graph, "and 2 more"), (twinfer.make_plan(graph), "and 2 more")):
        table = shown(value._repr_html_())[1][-1]
        assert len(table) == 1 + ROWS + (count > ROWS)
        assert (table[-1] == [rest]) is (count > ROWS)


def test_names_are_escaped() -> None:
    graph = chain(1, EVIL)
    for value in (graph, twinfer.make_plan(graph)):
        page = value._repr_html_()
        assert "<script" not in page
        assert "\x1b" not in page
        assert r"&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;\x1b[2J" in page
