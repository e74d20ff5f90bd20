"""``twinfer search``: output, files, exit status, interruption, and what is shown of an outcome."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pages import Page
from rich.text import Text
from test_interrupt import heed_ctrl_c
from test_shown_commands import cells

from twinfer.bench.lab.train_digits import load
from twinfer.bench.page.page import data_of
from twinfer.command_line.main import main, parser
from twinfer.command_line.show import search as shown
from twinfer.command_line.show.search_html import search_html
from twinfer.converter.search.find import Found
from twinfer.converter.search.space import Setting
from twinfer.converter.search.trial import Trial
from twinfer.runtime.read.tflite import read_file

COMMAND = ("search", "digits_float32", "--methods", "minmax", "--calibrate", "24", "--jobs", "1")


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Digits that the built-in network was not trained on."""
    _, (pictures, labels) = load()
    np.savez(tmp_path / "data.npz", input=pictures, labels=labels)
    return str(tmp_path / "data.npz")


def test_the_command(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {key: str(tmp_path / f"made.{key}") for key in ("tflite", "json", "html", "jsonl")}
    files = ("-o", names["tflite"], "--json", names["json"], "--html", names["html"], "--resume", names["jsonl"])
    how = ("--data", file, "--max-loss", "0.02", "--trials", "14", *files)
    assert main([*COMMAND, *how]) == 0
    text = capsys.readouterr().out
    told = json.loads(Path(names["json"]).read_text())
    chosen = told["trials"][told["chosen"]]
    (line,) = [line for line in text.splitlines() if line.startswith("→")]
    assert f"{chosen['cost']:,}" in line
    assert chosen["setting"]["precision"] in line
    assert Path(names["tflite"]).stat().st_size == chosen["cost"]
    assert sum(trial["front"] for trial in told["trials"]) == text.count("%") - 1
    assert main([*COMMAND, *how, "--all"]) == 0
    assert capsys.readouterr().out.count("%") == len(told["trials"]) + 1
    assert json.loads(Path(names["json"]).read_text()) == told, "with the seconds: from the journal"
    assert data_of(Path(names["html"]).read_text()) == told


def test_a_budget_that_nothing_meets(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """8 steps of int4 weights cannot give the float model's outputs."""
    output = tmp_path / "none.tflite"
    np.savez(file, input=np.load(file)["input"])
    how = ("--metric", "error", "--max-loss", "1e-9", "--precisions", "int4", "--trials", "3", "-o", str(output))
    assert main([*COMMAND, "--data", file, *how]) == 1
    said = capsys.readouterr()
    least = min(float(loss) for loss in re.findall(r" (0\.\d{5}) ", said.out))
    assert f"none of 3 trials loses at most 1e-09: the least loss found is {least:.5f} (int4" in said.err
    assert not output.exists()


def test_images_of_onnx_as_channels_last(tmp_path: Path) -> None:
    """Both the data and the chosen model."""
    onnx, tools = pytest.importorskip("onnx"), pytest.importorskip("onnx_tools")
    output, name, rng = tmp_path / "made.tflite", str(tmp_path / "net.onnx"), np.random.default_rng(1)
    conv = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)
    shapes = {"x": tools.floats(rng, 1, 2, 4, 5)}, {"w": tools.floats(rng, 3, 2, 3, 3)}
    onnx.save(tools.model([conv], *shapes, ["y"]), name)
    np.savez(tmp_path / "data.npz", x=tools.floats(rng, 12, 4, 5, 2))
    how = ("--methods", "minmax", "--precisions", "int8", "--trials", "1", "--jobs", "1", "--metric", "error")
    data = ("--data", str(tmp_path / "data.npz"), "--max-loss", "50%", "-o", str(output))
    assert main(["search", name, *data, *how, "--channels-last"]) == 0
    assert read_file(output).inputs[0].shape == (1, 4, 5, 2)
    assert main(["search", name, *data, *how]) == 2


def test_files_are_asked_for_before_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("-o", "--html", "--json"):
        assert main([*COMMAND, "--data", "none.npz", "--max-loss", "0.1", option, "no/folder/file"]) == 2
        assert "there is no folder no/folder" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), ("0.7 %", 0.007), ("0.01", 0.01), ("50%", 0.5), ("0", 0.0)])
def test_a_loss_may_be_in_per_cent(text: str, share: float) -> None:
    assert parser().parse_args([*COMMAND, "--data", "x", "--max-loss", text]).max_loss == share


@pytest.mark.parametrize("loss", ["1", "0.51", "100%", "-1%", "nan"])
def test_what_is_no_loss(loss: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--data", "none.npz", f"--max-loss={loss}"]) == 2
    assert "is no budget" in (error := capsys.readouterr().err)
    assert "--max-loss 1%" in error
    with pytest.raises(SystemExit):
        main([*COMMAND, "--data", "x", f"--max-loss={loss}%%x"])
    assert "is no share: write 1% or 0.01" in capsys.readouterr().err


@pytest.mark.usefixtures("board_tools")
def test_instructions_on_a_microcontroller(file: str, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    how = ("--cost", "instructions", "--target", "cortex-m4", "--trials", "1", "--precisions", "int8")
    assert main([*COMMAND, "--data", file, "--max-loss", "0.05", *how, "--json", str(told)]) == 0
    figures = json.loads(told.read_text())
    assert 100_000 < figures["trials"][0]["cost"] < 0.7 * figures["float"]["cost"]


def test_ctrl_c_ends_all_processes_and_leaves_the_journal(file: str, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    command = [sys.executable, "-m", "twinfer", "search", "digits_float32", "--data", file, "--max-loss", "0"]
    command += ["--jobs", "2", "--trials", "2000", "--resume", str(journal)]
    out = subprocess.PIPE
    process = subprocess.Popen(
        command, stdout=out, stderr=out, text=True, start_new_session=True, preexec_fn=heed_ctrl_c
    )
    until = time.monotonic() + 1200
    while time.monotonic() < until and not (journal.exists() and journal.read_bytes().count(b"\n") > 2):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    said, erred = process.communicate(timeout=1200)
    assert process.returncode == 130
    assert "Pareto front of " in said
    assert re.fullmatch(r"twinfer: interrupted; missing: up to \d+ of 2000 trials\n", erred)
    for line in journal.read_text().splitlines():
        assert set(json.loads(line)) == {"model", "data", "search", "key", "value"}


# -- what is shown -----------------------------------------------------------------------------------------------------

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


def test_figures() -> None:
    """The JSON has the number of the chosen trial. Failed trials have an error in place of figures."""
    told = shown.document(outcome(BEST, FAILED, NOISY, SMALL, BEST))
    assert (told["chosen"], told["max_loss"], told["judged"], "search" in told) == (3, 0.05, 1200, False)
    assert told["float"] == {"cost": 400, "score": 0.9}
    assert [trial["front"] for trial in told["trials"]] == [False, False, True, True]
    assert [trial.get("error") for trial in told["trials"]] == ["no int4 here", None, None, None]
    assert "cost" not in told["trials"][0]
    figures = {key: told["trials"][1][key] for key in ("cost", "loss", "score", "snr_db", "sha256", "seconds")}
    assert figures == {"cost": 150, "loss": 0.3, "score": 0.6, "snr_db": 12.0, "sha256": "aa", "seconds": 2.5}
    assert shown.document(outcome(None, FAILED))["chosen"] is None


@pytest.mark.parametrize(
    ("every", "kind", "costs"), [(False, "Pareto front", [100, 200]), (True, "Trials", [150, 100, 200])]
)
def test_table(every: bool, kind: str, costs: list[int]) -> None:
    table, about, failed = shown.tables(outcome(BEST, FAILED, NOISY, SMALL, BEST), every)
    assert str(table.title) == f"{kind} of 4, a loss of at most 0.05 allowed"  # type: ignore[union-attr]
    rows = cells(table)
    assert rows[0][1:5] == ["400", "100.0 %", "", "0.9000"]
    assert [row[1:3] for row in rows[1:]] == [[str(cost), f"{cost / 4:.1f} %"] for cost in costs]
    assert [row[0] for row in rows[1:]] == [""] * (len(costs) - 1) + ["→"]
    assert rows[-1][3:6] == ["0.01000", "0.8900", "40.0"]
    assert str(about).startswith("24 samples calibrated on, 1,200 others judged; seed 3.")
    assert str(failed) == f"failed: {FAILED.setting}: no int4 here"


def test_only_what_is_inside_the_budget_is_set_beside_a_float_model() -> None:
    """A cheaper one that loses too much is no alternative."""
    whole = Trial(Setting("float", "", ()), 300, 0.0, 0.9, 1.0)
    near = Trial(Setting("int8", "minmax", ()), 400, 0.005, 0.9, 1.0)
    far = Trial(Setting("int8", "minmax", ()), 100, 0.5, 0.9, 1.0)
    job: Any = SimpleNamespace(judge=SimpleNamespace(float_score=0.9))
    about = {"metric": "answers", "cost": "flash", "calibrated": 1, "judged": 2, "seed": 0}
    for front, said in {(near, far): "inside the budget 400.", (far,): "all others more."}.items():
        told = shown.tables(Found(0.01, (whole, *front), front, whole, about, 300, job))
        assert any(str(part).endswith(said) for part in told if isinstance(part, Text))


def test_why_nothing_was_chosen() -> None:
    assert shown.unmet(outcome(None, FAILED, FAILED)) == "all 2 trials failed; the first one: no int4 here"
    why = "none of 3 trials loses at most 0.05: the least loss found is 0.20000 (int8"
    assert shown.unmet(outcome(None, FAILED, NOISY, SMALL)).startswith(why)
    page = Page(search_html(outcome(None, FAILED), "net"))
    assert (page.charts, page.tables[0].rows) == ([], [])
    assert "1 trials (1 failed)" in page.text


def test_page() -> None:
    page = Page(search_html(outcome(BEST, FAILED, NOISY, SMALL, BEST), "net"))
    assert "4 trials (1 failed), seed 3; 24 samples calibrated on, 1,200 others judged." in page.text
    assert "Float model: flash 400, score 0.9000." in page.text
    (chart,), (table,) = page.charts, page.tables
    points = [(150, False, False), (100, True, False), (200, True, True)]
    assert [(row["cost"], row["front"], row["chosen"]) for row in chart.rows] == points
    assert chart.column("drawn") == [0.2, 0.2, 0.01], "NOISY loses 0.3 and lies on the upper edge: 4 budgets"
    (line,), (budget,) = chart.layers("line"), chart.layers("rule")
    assert [(row["cost"], row["drawn"]) for row in line["data"]["values"]] == [(100, 0.2), (200, 0.01), (200, 0.01)]
    assert chart.spec["layer"][0]["encoding"]["y"]["datum"] == 0.05
    assert budget["mark"]["strokeDash"]
    assert table.column("setting") == [str(SMALL.setting), str(BEST.setting)]
    assert [row[0].attributes.get("class") for row in table.rows] == [None, "good"]
