"""Pages as text: what is escaped, what is kept, what links lead to. How they look: ``test_browser.py``."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from pages import Page

from twinfer.bench.page import page as pages
from twinfer.bench.page.chart import CONFIG, Chart, Charts, distinct, field, values
from twinfer.bench.page.page import Section, data_of, json_in_script, library, need_library, page
from twinfer.bench.page.table import SHORT, Cell, Table
from twinfer.runtime.errors import ToolError

#: A model's name that would end a script, begin a comment and an element, and move a cursor.
EVIL = "</script><!--<script><b>&\"'\x1b\u202e"


def chart(title: str = "t", **spec: Any) -> Chart:
    return Chart(title, "about", {"mark": "bar", "data": values([]), **spec})


# -- tables ------------------------------------------------------------------------------------------------------------


def table(*rows: Any, **more: Any) -> str:
    return Table("about", ("<name", "size\nB"), rows, **more).html


def test_texts_of_tables_are_escaped() -> None:
    html = Table(EVIL, (f"<{EVIL}",), ((EVIL,), (Cell(EVIL),)), (EVIL,)).html
    (shown,) = Page(html).tables
    seen = "</script><!--<script><b>&\"'\\x1b\\u202e"
    assert [shown.caption, *(cell.text for cell in shown.heads)] == [seen] * 2
    assert [cell.text for row in (*shown.rows, shown.foot) for cell in row] == [seen] * 3


def test_columns_of_texts_stand_left() -> None:
    (shown,) = Page(table(("a", Cell("1", look="bad")), foot=("all", "1"))).tables
    for first, second in (shown.heads, *shown.rows, shown.foot):
        assert first.attributes["data-side"] == "left"
        assert "data-side" not in second.attributes
    assert shown.rows[0][1].attributes["class"] == "bad"
    assert "class" not in shown.rows[0][0].attributes


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        (0, "0"),
        (-2.5, "-2.5"),
        (np.float64(3.0), "3.0"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, None),
    ],
)
def test_what_a_cell_sorts_by(value: float | None, kept: str | None) -> None:
    """Numbers as JavaScript spells them; without one the script takes the text."""
    (shown,) = Page(table(("a", Cell("n", value)))).tables
    assert shown.rows[0][1].attributes.get("data-value") == kept


@pytest.mark.parametrize(
    ("count", "kinds"), [(1, ""), (2, "sorted"), (SHORT, "sorted"), (SHORT + 1, "sorted filtered")]
)
def test_long_tables_are_filtered(count: int, kinds: str) -> None:
    (shown,) = Page(table(*[(str(i), "1") for i in range(count)])).tables
    assert shown.look == kinds
    assert len(shown.rows) == count


# -- charts ------------------------------------------------------------------------------------------------------------


def test_every_chart_has_the_style_of_all() -> None:
    whole = chart(height=9).whole
    assert whole["config"] == CONFIG
    assert (whole["width"], whole["height"]) == ("container", 9)
    assert chart(width=5).whole["width"] == 5, "a chart may say otherwise"


def test_a_height_in_steps_is_counted() -> None:
    rows = values([{"a": name, "b": 1} for name in ("x", "y", "x")])
    steps: Any = {"height": {"step": 20}, "data": rows, "encoding": {"y": field("a", "nominal")}}
    assert chart(**steps).whole["height"] == 40
    layers = [{"mark": "rule", "encoding": {"x": {"datum": 1}}}, {"mark": "bar", "encoding": steps.pop("encoding")}]
    assert chart(**steps, layer=layers).whole["height"] == 40
    assert chart(height={"step": 20}).whole["height"] == 20
    assert chart(height="container").whole["height"] == "container"


def test_data_of_charts_are_harmless_and_finite() -> None:
    rows = [{"name": EVIL, "x": math.nan, "y": -math.inf, "z": 1.5, "n": None}]
    (row,) = values(rows)["values"]
    assert row == {"name": "</script><!--<script><b>&\"'\\x1b\\u202e", "x": None, "y": None, "z": 1.5, "n": None}


def test_names_that_come_again_have_places_of_their_own() -> None:
    assert distinct(["a", "b", "a", "a"]) == ["a", "b", "a (2)", "a (3)"]
    assert distinct(["a", "a (2)", "a"]) == ["a", "a (2)", "a (3)"]
    assert distinct(["{}", "{}"], "{}-{}") == ["{}", "{}-2"]


# -- pages -------------------------------------------------------------------------------------------------------------


def test_a_page_holds_all_that_it_needs() -> None:
    html = page("title", ["<p>hello</p>", chart("one"), Charts((chart("two"), chart("three")), 150)])
    shown = Page(html)
    assert shown.loads == []
    assert [each.title for each in shown.charts] == ["one", "two", "three"]
    assert [each.about for each in shown.charts] == ["about"] * 3
    assert [name for name in shown.ids if name.startswith("chart-")] == ["chart-0", "chart-1", "chart-2"]
    assert "--least: 150px" in html
    assert library() in html


def test_without_charts_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    html = page("title", [Section("only", (Table("t", ("a",), (("1",),)),))])
    assert len(html) < 20_000
    assert Page(html).tables[0].column("a") == ["1"]


def test_names_end_no_script() -> None:
    """Neither in the data, nor in a chart's, nor as a title."""
    evil = Chart(EVIL, EVIL, {"mark": "bar", "data": values([{"name": EVIL}])})
    html = page(EVIL, [evil, Section(EVIL, (evil,))], {EVIL: EVIL})
    shown = Page(html)
    assert html.count("</script>") == html.count("<script") - html.count("<!--<script") == 5
    assert shown.charts[0].title == shown.charts[1].about == "</script><!--<script><b>&\"'\\x1b\\u202e"
    assert data_of(html) == {EVIL: EVIL}


def test_json_in_scripts() -> None:
    text = json_in_script({"a": ("</script>", math.inf), "b": [math.nan, 1.0]})
    assert "<" not in text
    assert json.loads(text) == {"a": ["</script>", None], "b": [None, 1.0]}


@pytest.mark.parametrize(("title", "anchor"), [("A b/C ", "a-b-c"), ("<m> 1", "m-1"), ("中文", "section")])
def test_anchors(title: str, anchor: str) -> None:
    assert Section(title, ()).anchor == anchor


def test_contents_lead_to_every_section() -> None:
    """Also where titles have the same anchor."""
    shown = Page(page("t", [Section(title, (f"<p>{i}</p>",)) for i, title in enumerate(("a b", "A-B", "c", "a b 2"))]))
    anchors = ["a-b", "a-b-2", "c", "a-b-2-2"]
    assert shown.links == [f"#{anchor}" for anchor in anchors]
    assert [name for name in shown.ids if name in anchors] == anchors


def test_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    library.cache_clear()
    for needs in (need_library, library, lambda: page("t", [chart()])):
        with pytest.raises(ToolError, match=r"pip install 'twinfer\[report\]'"):
            needs()
