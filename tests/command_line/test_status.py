"""Exit status: a difference counts before a failed run, in any order. And the report of a search."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pages import Page
from test_reports import cells

from twinfer.bench.measure import compare as comparing
from twinfer.bench.measure import embedded
from twinfer.bench.models import verify
from twinfer.bench.models.source import Source
from twinfer.bench.models.verify import Difference, Line, Proof
from twinfer.command_line.bench import judged
from twinfer.command_line.main import main
from twinfer.command_line.show import search as shown
from twinfer.command_line.show.search_html import search_html
from twinfer.converter.build import Builder
from twinfer.converter.search.find import Found
from twinfer.converter.search.space import Setting
from twinfer.converter.search.trial import Trial
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.write.tflite import write

QUICK = ("--runs", "1", "--against", "none")


@pytest.fixture
def models(tmp_path: Path) -> dict[str, str]:
    """One model that runs, and one that cannot run anywhere."""
    paths = {}
    for name, op in (("good", "RELU"), ("custom", "CUSTOM:Mystery")):
        b = Builder(name)
        graph = b.graph([b.op(op, [b.input("x", "FLOAT32", (1, 3))], shape=(1, 3))])
        paths[name] = str(tmp_path / f"{name}.tflite")
        Path(paths[name]).write_bytes(write(graph))
    return paths


@pytest.mark.parametrize("order", [("good", "custom"), ("custom", "good")])
def test_bench(
    order: tuple[str, str], models: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [models[name] for name in order]
    assert main(["bench", models["good"], *QUICK]) == 0
    assert main(["bench", *names, *QUICK]) == 2
    monkeypatch.setattr(comparing, "same_bits", lambda a, b: False)
    assert main(["bench", *names, *QUICK]) == 1
    assert "Mystery" in capsys.readouterr().err


RIGHT, FAR = None, Difference(0, (0, 1), 1.0, 2.0, 1.0, within=False)
NEAR = Difference(0, (0, 1), 1.0, 1.000001, 1e-6, within=True)


def proof(source: Source, difference: Difference | None, notes: dict[str, str]) -> Proof:
    return Proof(
        source.name,
        source.graph,
        [Line(source.graph.outputs[0], source.graph.nodes[0], {"compiled": difference})],
        1,
        notes,
    )


@pytest.mark.parametrize(
    ("difference", "notes", "alone", "beside_one_that_cannot_run"),
    [
        (RIGHT, {}, 0, 2),
        (NEAR, {}, 0, 2),
        (FAR, {}, 1, 1),
        (RIGHT, {"tflm": "refuses"}, 0, 2),
        (RIGHT, {"compiled on mine": "too large"}, 2, 2),
        (FAR, {"compiled on mine": "too large"}, 1, 1),
    ],
)
def test_verify(
    difference: Difference | None,
    notes: dict[str, str],
    alone: int,
    beside_one_that_cannot_run: int,
    models: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def prove(source: Source, *_: Any, **__: Any) -> Proof:
        if source.name == "custom":
            raise UnsupportedOperatorError("Mystery")
        return proof(source, difference, notes)

    monkeypatch.setattr(verify, "verify", prove)
    assert main(["verify", models["good"], "--against", "none"]) == alone
    for names in (models.values(), reversed(models.values())):
        assert main(["verify", *names, "--against", "none"]) == beside_one_that_cannot_run


def row(engine: str, same: bool | None, agrees: bool | None = None, error: str = "") -> dict[str, Any]:
    return {"engine": engine, "same_bits": same, "agrees": agrees, **({"error": error} if error else {})}


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([], 0),
        ([row("interpreted", True), row("compiled", True)], 0),
        ([row("interpreted", True), row("compiled", False)], 1),
        ([row("interpreted", False), row("compiled", True)], 1),
        ([row("compiled", False, agrees=True)], 0),
        ([row("compiled", False, agrees=False)], 1),
        ([row("compiled", None, error="too large")], 2),
        ([row("compiled", None, error="too large"), row("interpreted", False)], 1),
        ([row("compiled", True), row("tflm", False), row("litert", None, error="refuses")], 0),
    ],
)
def test_rows_are_judged_by_our_own_engines(rows: list[dict[str, Any]], status: int) -> None:
    assert judged(rows) == status


def test_floats_agree_within_the_tolerance_and_integers_to_the_bit() -> None:
    one = np.array([1.0, -4.0], np.float32)
    assert embedded.agree(one + np.float32([3.9e-5, 0]), one)
    assert not embedded.agree(one + np.float32([4.1e-5, 0]), one), "1e-5 of the largest magnitude"
    assert not embedded.agree(np.array([1, 3], np.int32), np.array([1, 2], np.int32))


# -- search ------------------------------------------------------------------------------------------------------------

FAILED = Trial(Setting("int4", "minmax"), error="no int4 here", seconds=1.5)
NOISY = Trial(Setting("int8", "minmax"), 150, 0.3, 0.6, 12.0, "aa", seconds=2.5)
SMALL = Trial(Setting("int8", "mse", ("bias",)), 100, 0.2, 0.7, 20.0, "bb")
BEST = Trial(Setting("int16x8", "minmax"), 200, 0.01, 0.89, 40.0, "cc")


def outcome(chosen: Trial | None, *trials: Trial) -> Found:
    """A search with failed and beaten trials."""
    search = {"metric": "answers", "cost": "flash", "calibrated": 24, "judged": 1200, "seed": 3, "search": "not shown"}
    job: Any = SimpleNamespace(judge=SimpleNamespace(float_score=0.9))
    front = tuple(t for t in trials if t in (SMALL, BEST))
    return Found(0.05, trials, front, chosen, search, 400, job)


def test_figures_of_a_search() -> None:
    """The JSON has the number of the chosen trial. Failed trials have an error in place of figures."""
    told = shown.document(outcome(BEST, FAILED, NOISY, SMALL, BEST))
    assert (told["chosen"], told["max_loss"]) == (3, 0.05)
    assert told["float"] == {"cost": 400, "score": 0.9}
    assert "search" not in told
    assert told["judged"] == 1200
    assert [trial["front"] for trial in told["trials"]] == [False, False, True, True]
    assert [trial.get("error") for trial in told["trials"]] == ["no int4 here", None, None, None]
    assert "cost" not in told["trials"][0]
    figures = {key: told["trials"][1][key] for key in ("cost", "loss", "score", "snr_db", "sha256", "seconds")}
    assert figures == {"cost": 150, "loss": 0.3, "score": 0.6, "snr_db": 12.0, "sha256": "aa", "seconds": 2.5}
    assert shown.document(outcome(None, FAILED))["chosen"] is None


@pytest.mark.parametrize(
    ("every", "kind", "costs"), [(False, "Pareto front", [100, 200]), (True, "Trials", [150, 100, 200])]
)
def test_table_of_a_search(every: bool, kind: str, costs: list[int]) -> None:
    table, about, failed = shown.tables(outcome(BEST, FAILED, NOISY, SMALL, BEST), every)
    assert str(table.title) == f"{kind} of 4, a loss of at most 0.05 allowed"  # type: ignore[union-attr]
    rows = cells(table)
    assert rows[0][1:5] == ["400", "100.0 %", "", "0.9000"]
    assert [row[1:3] for row in rows[1:]] == [[str(cost), f"{cost / 4:.1f} %"] for cost in costs]
    assert [row[0] for row in rows[1:]] == [""] * (len(costs) - 1) + ["→"]
    assert rows[-1][3:6] == ["0.01000", "0.8900", "40.0"]
    assert str(about).startswith("24 samples calibrated on, 1,200 others judged; seed 3.")
    assert str(failed) == f"failed: {FAILED.setting}: no int4 here"


def test_why_nothing_was_chosen() -> None:
    assert shown.unmet(outcome(None, FAILED, FAILED)) == "all 2 trials failed; the first one: no int4 here"
    assert shown.unmet(outcome(None, FAILED, NOISY, SMALL)).startswith(
        "none of 3 trials loses at most 0.05: the least loss found is 0.20000 (int8"
    )


def test_page_of_a_search() -> None:
    page = Page(search_html(outcome(BEST, FAILED, NOISY, SMALL, BEST), "net"))
    assert "4 trials (1 failed), seed 3; 24 samples calibrated on, 1,200 others judged." in page.text
    assert "Float model: flash 400, score 0.9000." in page.text
    (chart,), (table,) = page.charts, page.tables
    assert [(row["cost"], row["front"], row["chosen"]) for row in chart.rows] == [
        (150, False, False),
        (100, True, False),
        (200, True, True),
    ]
    assert chart.column("drawn") == [0.2, 0.2, 0.01], "NOISY loses 0.3 and lies on the upper edge: 4 budgets"
    (line,), (budget,) = chart.layers("line"), chart.layers("rule")
    assert [(row["cost"], row["drawn"]) for row in line["data"]["values"]] == [(100, 0.2), (200, 0.01), (200, 0.01)]
    assert chart.spec["layer"][0]["encoding"]["y"]["datum"] == 0.05
    assert budget["mark"]["strokeDash"]
    assert table.column("setting") == [str(SMALL.setting), str(BEST.setting)]
    assert [row[0].attributes.get("class") for row in table.rows] == [None, "good"]


def test_page_of_a_search_in_vain() -> None:
    page = Page(search_html(outcome(None, FAILED), "net"))
    assert (page.charts, page.tables[0].rows) == ([], [])
    assert "1 trials (1 failed)" in page.text
