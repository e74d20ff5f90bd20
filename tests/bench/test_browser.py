"""Every page in a browser, at two widths and in both themes: ``tests/tools/browser.py`` says what is looked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import browser
import numpy as np
import pytest
from browser import shared_browser  # noqa: F401
from needs import ROOT, deep_but

from twinfer.bench.lab.compression_report import compression_html
from twinfer.bench.measure.embedded_html import embedded_html
from twinfer.bench.measure.tflm import tflm_rows
from twinfer.bench.models.source import load
from twinfer.bench.page.chart import Chart, field, values
from twinfer.bench.page.page import Section, page
from twinfer.bench.page.table import Cell, Table
from twinfer.command_line.show.conversion_html import report_html
from twinfer.command_line.show.search_html import search_html
from twinfer.converter.compress.layers import Footprint
from twinfer.converter.quantize.compare import BARS, OutputReport, Report, Sensitivity, TensorReport
from twinfer.converter.search.find import Found
from twinfer.converter.search.space import CORRECTIONS, Setting
from twinfer.converter.search.strategy import front
from twinfer.converter.search.trial import Trial

LONG = "a_model/with/quite_a_long_name_that_never_ends_number_{}_of_many"


@pytest.fixture(params=deep_but(["telephone", "every window"], "telephone"))
def look(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], None]:
    """A function that looks at a page; skips without a browser."""
    browser.need_browser()

    def at(html: str) -> None:
        (tmp_path / "page.html").write_text(html, encoding="utf-8")
        browser.check(tmp_path / "page.html", every=request.param == "every window")

    return at


def figures(name: str) -> Any:
    return json.loads((ROOT / "bench" / "lab" / "data" / "figures" / f"{name}.json").read_text())


# -- bench -------------------------------------------------------------------------------------------------------------


def beside_tflm(names: Sequence[str], cores: Sequence[str], ratios: Sequence[float]) -> list[Any]:
    """Rows of models that TFLM knows as kws: TFLM's own, and one of ours with a share of its instructions."""
    rows: list[Any] = []
    for (name, ratio), core in product(zip(names, ratios, strict=True), cores):
        peers = [{**row, "model": name, "recorded": name} for row in tflm_rows(load("kws_int8"), core)]
        fast = {key: value for key, value in peers[0].items() if key != "recorded"}
        own = {"engine": "compiled", "optimize": "speed", "lower_bound_bytes": 16_000, "weights": "file"}
        rows += [{**fast, **own, "instructions": int(ratio * fast["instructions"])}, *peers]
    return rows


def test_figures_of_all_cores(look: Callable[[str], None]) -> None:
    look(embedded_html(figures("embedded")["rows"]))


@pytest.mark.parametrize("ratio", deep_but([0.02, 0.97, 2.5], 0.97))
def test_one_model_on_two_cores(look: Callable[[str], None], ratio: float) -> None:
    """Few bars: the pictures are lower than their texts are wide, and lines come near figures."""
    look(embedded_html(beside_tflm(["kws"], ("cortex-m4", "cortex-m55"), [ratio])))


def test_many_models_with_long_names(look: Callable[[str], None]) -> None:
    names = [LONG.format(i) for i in range(30)]
    look(embedded_html(beside_tflm(names, ("cortex-m4", "cortex-m0"), np.linspace(0.01, 40, 30).tolist())))


# -- compression, search, convert --------------------------------------------------------------------------------------


def test_compressed_networks(look: Callable[[str], None]) -> None:
    measured = figures("compression")
    look(compression_html(measured["rows"], measured["folds"]))


def trials(count: int) -> list[Trial]:
    """Trials of all kinds, some with layers of long names, and losses from 0 to beyond the picture."""
    rng = np.random.default_rng(1)
    settings = [
        Setting(
            ("int4", "int8", "int16x8")[i % 3], "percentile-99.999", CORRECTIONS, layers=((LONG.format(i), "int8"),)
        )
        for i in range(count)
    ]
    return [
        Trial(setting, int(rng.integers(10**5, 10**7)), float(rng.exponential(0.02)), 0.9, 20.0, "aa")
        for setting in settings
    ]


@pytest.mark.parametrize(("count", "budget"), deep_but([(1, 0.02), (60, 0.02), (60, 0.0)], (60, 0.02)))
def test_a_search(look: Callable[[str], None], count: int, budget: float) -> None:
    tried = trials(count)
    best = sorted((tried[i] for i in front([(t.cost, t.loss) for t in tried])), key=lambda t: t.cost)
    about = {"metric": "answers", "cost": "instructions", "calibrated": 24, "judged": 1200, "seed": 3}
    job: Any = SimpleNamespace(judge=SimpleNamespace(float_score=0.9))
    look(search_html(Found(budget, tuple(tried), tuple(best), best[-1], about, 10**8, job), LONG))


def tensor(number: int) -> TensorReport:
    rng = np.random.default_rng(number)
    edges = np.linspace(-(10.0 ** (number % 7 - 5)), 10.0 ** (number % 5), BARS + 1)
    counts = [rng.integers(0, 10**5, BARS).tolist() for _ in range(2)]
    name, operator = LONG.format(number), "DEPTHWISE_CONV_2D"
    noise = (-300.0, 300.0, 12.3)[number % 3]
    return TensorReport(name, operator, "INT8", 1e-5, -128, noise, 0.99999, 0.02, tuple(edges.tolist()), *counts)


@pytest.mark.parametrize("count", deep_but([1, 40], 40))
def test_a_conversion_with_long_names(look: Callable[[str], None], count: int) -> None:
    tensors = tuple(tensor(i) for i in range(count))
    layers = tuple(Sensitivity(t.name, t.operator, t.snr_db) for t in tensors)
    stored = tuple(Footprint(t.name, t.operator, "INT8", 9**9, 256, 0.5, 7.99, 9**9, 9**9, None, 9**9) for t in tensors)
    outputs = tuple(OutputReport(t.name, -300.0 + i) for i, t in enumerate(tensors))
    look(report_html(Report(10_000, outputs, tensors, layers, stored), LONG))


# -- what pages do -----------------------------------------------------------------------------------------------------


def test_tables_sort_by_numbers_and_texts(tmp_path: Path) -> None:
    browser.need_browser()
    rows = (("b", Cell("1,024 B", 1024)), ("a", Cell("-")), ("c", Cell("9 B", 9)), ("d", Cell("∞", float("inf"))))
    html = page("t", [Table("Sizes", ("<name", "bytes"), rows, foot=("all", "x"))])
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    for _, _, shown in browser.windows(tmp_path / "page.html", widths=(1280,), themes=("light",)):
        for name, order in (("", "bacd"), ("bytes", "adbc"), ("bytes", "cbda"), ("name", "dcba"), ("name", "abcd")):
            if name:
                shown.get_by_role("button", name=name).press("Enter")
            assert "".join(shown.locator("tbody tr:visible td:first-child").all_inner_texts()) == order


def test_a_filter_hides_rows(tmp_path: Path) -> None:
    browser.need_browser()
    rows = tuple((f"Layer {i}", "CONV" if i % 2 else "ADD") for i in range(12))
    (tmp_path / "page.html").write_text(page("t", [Table("Layers", ("<name", "<operator"), rows)]))
    for _, _, shown in browser.windows(tmp_path / "page.html", widths=(390,), themes=("dark",)):
        shown.get_by_label("Filter: Layers").fill("conv")
        seen = shown.locator("tbody tr:visible td:first-child").all_inner_texts()
    assert seen == [f"Layer {i}" for i in range(1, 12, 2)]


def test_the_button_turns_light_into_dark_and_back(tmp_path: Path) -> None:
    browser.need_browser()
    (tmp_path / "page.html").write_text(page("t", []))
    ground = "getComputedStyle(document.body).backgroundColor"
    for _, _, shown in browser.windows(tmp_path / "page.html", widths=(390,)):
        grounds = [shown.evaluate(ground)]
        for _ in range(2):
            shown.locator("#theme").press("Enter")
            grounds.append(shown.evaluate(ground))
        assert grounds[0] == grounds[2] != grounds[1]


@pytest.mark.parametrize(("before", "after"), deep_but([(1280, 390), (390, 1280)], (1280, 390)))
def test_charts_follow_the_window(before: int, after: int, tmp_path: Path) -> None:
    browser.need_browser()
    (tmp_path / "page.html").write_text(page("t", [bars(5)]))
    for _, _, shown in browser.windows(tmp_path / "page.html", widths=(before,), themes=("light",)):
        shown.set_viewport_size({"width": after, "height": 800})
        shown.wait_for_timeout(500)
        assert browser.faults(shown) == []
        width = shown.locator(".plot svg").evaluate("svg => svg.getBoundingClientRect().width")
        assert width == pytest.approx(shown.locator("main").evaluate("main => main.clientWidth"), abs=2)


# -- the looking itself ------------------------------------------------------------------------------------------------


def bars(count: int, **spec: Any) -> Chart:
    rows = [{"a": f"name {i}", "b": i} for i in range(count)]
    encoding = {"y": field("a", "nominal", axis={"labelOverlap": False}), "x": field("b")}
    return Chart("Bars", "bars", {"height": 200, "data": values(rows), "mark": "bar", "encoding": encoding, **spec})


WIDE = '<p style="width: 1300px">wide</p>'
SECRET = "https://example.invalid/"

#: A part of a page that is wrong -> what is said of it.
WRONG: dict[str, tuple[Any, str]] = {
    "wide": (WIDE, "the window 390"),
    "overlap": (bars(60), "lies over"),
    "clipped": (bars(3, padding=0, title={"text": "x" * 400, "anchor": "start"}), "is clipped by its picture"),
    "wide picture": (bars(3, width=1500), "is shrunk"),
    "warned": (bars(3, mark={"type": "bar", "magic": "no"}, encoding={"magic": {"field": "a"}}), "warning"),
    "pale": ('<p style="color: #8888; background: #999">pale</p>', "contrast"),
    "cut": ("<table><tr><td style='max-width: 2rem; overflow: hidden'>abcdefghijklmnop</td></tr></table>", "fit"),
    "loads": (f'<img alt="" src="{SECRET}x.png">', f"it loads {SECRET}x.png"),
    "fails": ("<script>throw new Error('no')</script>", "error: no"),
    "not drawn": (bars(3, data={"url": "none.csv"}), "error"),
    "unreached": ('<p><button tabindex="-1">press</button></p>', "Tab does not come to <button"),
}


@pytest.mark.parametrize("fault", deep_but(list(WRONG), "wide", "pale"))
def test_what_is_wrong_is_found(fault: str, tmp_path: Path) -> None:
    browser.need_browser()
    part, said = WRONG[fault]
    (tmp_path / "page.html").write_text(page("t", [Section("s", (part,))]))
    wrong = browser.findings(tmp_path / "page.html", widths=(390,), themes=("light",))
    assert any(said in line for line in wrong), wrong
