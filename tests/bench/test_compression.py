"""The compression benchmark: its rows, its front, its picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import Page

from twinfer.bench.lab import compression
from twinfer.bench.lab.compression import CARD, SETTINGS, flash
from twinfer.bench.lab.compression_report import compression_html, least, pareto, picture, tables
from twinfer.bench.lab.networks import NETWORKS
from twinfer.bench.models.builtin import int8_model
from twinfer.bench.page.page import data_of
from twinfer.converter.convert import convert
from twinfer.runtime.errors import ToolError

SOME = [s for s in SETTINGS if s.name in ("float", "int8", "cluster 3, fitted", "prune 70%")]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(compression, "NETWORKS", {"digits": {"mlp": NETWORKS["digits"]["mlp"]}})
    monkeypatch.setattr(compression, "SETTINGS", SOME)
    page, rows = tmp_path / "c.html", tmp_path / "c.json"
    command = ["digits", "--json", str(rows), "--html", str(page), "--folds", "2"]
    assert compression.main(command) == 0
    written = json.loads(rows.read_text())
    by_name = {row["setting"]: row for row in written["rows"]}
    assert list(by_name) == [s.name for s in SOME]
    assert written["folds"] == 2
    assert all(row["samples"] == by_name["float"]["samples"] > 700 for row in written["rows"])
    assert by_name["float"]["loss_points"] == 0
    assert by_name["float"]["accuracy"] > 95
    assert all(len(row["folds"]) == len(row["folds_coded"]) == 2 for row in written["rows"])
    assert by_name["cluster 3, fitted"]["coded"] < by_name["int8"]["coded"] < by_name["float"]["coded"]
    assert by_name["prune 70%"]["zeros"] >= 0.7
    out = capsys.readouterr().out
    assert "2 of 5 folds" in out
    assert "Least flash" in out
    assert data_of(page.read_text()) == {"folds": 2, "rows": written["rows"]}
    (chart,) = Page(page.read_text()).charts
    shown = [row["setting"] for row in written["rows"] if row["family"] != "float" and row["loss_points"] <= 6]
    assert chart.column("setting") == shown
    assert len(shown) >= 2


def test_without_the_data_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise ToolError("sklearn is not installed: pip install --no-deps scikit-learn")

    monkeypatch.setattr(compression, "DATASETS", {"digits": missing})
    assert compression.main(["digits"]) == 2
    assert "pip install" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        compression.main(["cifar"])


def test_flash_counts_what_is_emitted() -> None:
    """Fewer values take less flash, decoders included; plain weights take the same for any values."""
    graph = int8_model("kws")
    small = convert(graph, cluster=2)
    assert flash(graph, "plain") == pytest.approx(flash(small, "plain"), rel=0.01)
    assert flash(small, "auto") < 0.6 * flash(small, "plain")
    assert flash(graph, "auto") <= flash(graph, "plain")
    assert CARD == "cortex-m4"


def row(coded: int, loss: float) -> dict[str, object]:
    fixed = {"family": "pruned", "setting": "made up", "accuracy": 95 - loss, "loss_points": loss, "coded": coded}
    fixed |= {"folds": [95 - loss] * 2, "folds_coded": [coded] * 2}
    return {**fixed, "set": "s", "model": "<m>", "samples": 9, "snr_db": None, "zeros": 0.5, "bytes": 9, "convert_s": 1}


def setting(name: str, accuracies: Sequence[float], coded: Sequence[int]) -> dict[str, object]:
    """A row of two folds of the same size; int8's file takes 100 bytes."""
    whole = {"accuracy": mean(accuracies), "folds": accuracies, "coded": round(mean(coded)), "folds_coded": coded}
    return {"family": name, "setting": name, "bytes": 100, **whole}


def test_least_flash_is_chosen_by_all_folds_and_by_each_alone() -> None:
    group = [
        setting("float", [99.0, 99.0], [1, 1]),
        setting("int8", [98.0, 96.0], [90, 92]),
        setting("small", [98.2, 95.8], [50, 52]),
        setting("smaller", [97.6, 95.6], [40, 44]),
    ]
    chosen = [least(group, loss) for loss in (0.0, 0.3, 0.4, 2.0)]
    assert [(each.bytes, each.share, each.spread) for each in chosen] == [
        (51, "51 %", "50-92"),  # the second fold alone would take int8
        (51, "51 %", "50-52"),
        (42, "42 %", "40-44"),
        (42, "42 %", "40-44"),
    ]


def test_the_front_is_marked_in_the_table() -> None:
    """By a point and in green, in every network on its own."""
    of = [(2048, 1.0), (1024, 2.0), (4096, 3.0)]
    rows = [{**row(size, loss), "set": name, "setting": "int8"} for name in "st" for size, loss in of]
    shown, *_ = tables(rows, 1)
    heads = [str(cell) for cell in shown.columns[0].cells]  # type: ignore[union-attr]
    assert [head[:1] for head in heads] == ["s", "●", "●", " ", "t", "●", "●", " "]
    assert [line.style for line in shown.rows] == [None, "green", "green", "", None, "green", "green", ""]  # type: ignore[union-attr]


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(-5, 15)), min_size=1, max_size=20))
def test_the_front(points: list[tuple[int, int]]) -> None:
    rows = [row(size, loss) for size, loss in points]
    best = pareto(rows)
    for each in rows:
        beaten = any(b["coded"] <= each["coded"] and b["loss_points"] <= each["loss_points"] for b in best)
        assert beaten
    assert all(np.diff([b["coded"] for b in best]) > 0)
    assert all(np.diff([b["loss_points"] for b in best]) < 0)
    drawn = picture("net", rows).spec["data"]["values"]
    shown = [each for each in rows if each["loss_points"] <= 6] or rows
    assert [(each["bytes"], each["points lost"]) for each in drawn] == [(b["coded"], b["loss_points"]) for b in shown]
    assert [each["best"] for each in drawn] == [each in pareto(shown) for each in shown]


def test_the_page() -> None:
    """A section per network: its settings in the chart, its front in the table, which sorts by numbers."""
    rows = [row(2048, 1.0), row(1024, 2.0), row(4096, 3.0), {**row(512, 0.0), "family": "float"}]
    html = compression_html([*rows, {**row(7, 1.0), "set": "other"}], 1)
    page = Page(html)
    assert page.links == ["#s-m", "#other-m"]
    assert set(page.ids) >= {"s-m", "other-m"}
    first, second = page.charts
    assert [(each["KiB"], each["best"]) for each in first.rows] == [(2, True), (1, True), (4, False)]
    assert [each["accuracy"] for each in second.rows] == [94]
    front = [f"{each['setting']} {each['accuracy']:.2f} % in {each['coded']:,} bytes" for each in pareto(rows[:3])]
    assert first.about.endswith(f"of 3 settings. On the Pareto front, the smallest first: {', '.join(front)}")
    assert "1 of 5 folds held out" in page.text
    assert "settings that lose more than 6 points are left out of the pictures." in page.text
    assert page.tables[0].column("coded B") == ["512"], "the float model beats all"
    assert [cell.attributes.get("data-value") for cell in page.tables[0].rows[0]][-1] == "512"
    assert page.loads == []
