"""``twinfer search``: output, files, exit status, and interruption."""

from __future__ import annotations

import io
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
from rich.console import Console
from rich.text import Text
from test_cli import heed_ctrl_c
from test_search import many_small_layers

from twinfer.bench.lab.train_digits import load
from twinfer.bench.page import page as charts
from twinfer.bench.page.page import data_of
from twinfer.command_line.main import main, parser
from twinfer.command_line.show.search import tables
from twinfer.converter.search import trial as trial_module
from twinfer.converter.search.find import Found
from twinfer.converter.search.space import CORRECTIONS, Setting
from twinfer.converter.search.trial import Trial
from twinfer.runtime.errors import UnsupportedOperatorError
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
    every = capsys.readouterr().out
    assert every.count("%") == len(told["trials"]) + 1
    assert json.loads(Path(names["json"]).read_text()) == told, "with the seconds: from the journal"
    _check_page(Path(names["html"]).read_text(), told)


def test_a_float_model_that_is_cheapest_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data, out = (str(tmp_path / name) for name in ("m.tflite", "d.npy", "o.tflite"))
    many_small_layers().save(model)
    np.save(data, np.random.default_rng(9).normal(size=(60, 4)).astype(np.float32))
    how = ("--max-loss", "0.5", "--metric", "error", "--trials", "2", "--methods", "minmax", "--jobs", "1")
    assert main(["search", model, "--data", data, "-o", out, "--json", str(tmp_path / "s.json"), *how]) == 0
    text = capsys.readouterr().out
    told = json.loads((tmp_path / "s.json").read_text())
    assert told["chosen"] == "float"
    (line,) = [line for line in text.splitlines() if line.startswith("→")]
    assert line.split()[-1] == "float"
    size = Path(out).stat().st_size
    assert size == told["float"]["cost"]
    least = min(trial["cost"] for trial in told["trials"])
    assert f"The float model is chosen: it costs {size:,}, the cheapest quantised one that is inside" in text
    assert f"inside the budget {least:,}." in " ".join(text.split())


def test_the_table_fits_80_columns() -> None:
    """Long settings are folded between words, never inside one."""
    settings = [Setting("int16x8", "percentile-99.99", CORRECTIONS), Setting("int4", "moving-average", ())]
    trials = tuple(Trial(setting, 99_999_999, 0.12345, 0.9999, -12.3) for setting in settings)
    job: Any = SimpleNamespace(judge=SimpleNamespace(float_score=0.9999))
    about = {"metric": "answers", "cost": "instructions", "calibrated": 200, "judged": 360, "seed": 0}
    written = io.StringIO()
    console = Console(width=80, file=written)
    for part in tables(Found(0.01, trials, trials, trials[0], about, 99_999_999, job)):
        console.print(part)
    shown = set(re.split(r"[, \n]+", written.getvalue()))
    assert {word for setting in settings for word in re.split("[, ]+", str(setting))} <= shown
    assert {"99,999,999", "0.12345", "0.9999"} <= set(written.getvalue().split())


def test_only_what_is_inside_the_budget_is_set_beside_a_float_model() -> None:
    """A cheaper one that loses too much is no alternative."""
    float_ = Trial(Setting("float", "", ()), 300, 0.0, 0.9, 1.0)
    near, far = (
        Trial(Setting("int8", "minmax", ()), cost, loss, 0.9, 1.0) for cost, loss in ((400, 0.005), (100, 0.5))
    )
    job: Any = SimpleNamespace(judge=SimpleNamespace(float_score=0.9))
    about = {"metric": "answers", "cost": "flash", "calibrated": 1, "judged": 2, "seed": 0}
    for front, said in {(near, far): "inside the budget 400.", (far,): "all others more."}.items():
        found = Found(0.01, (float_, *front), front, float_, about, 300, job)
        told = [str(part) for part in tables(found) if isinstance(part, Text)]
        assert any(line.endswith(said) for line in told), told


def _check_page(html: str, told: dict[str, Any]) -> None:
    """A point per trial, the front in the table, and all that the JSON has; the page loads nothing."""
    page, trials = Page(html), told["trials"]
    (chart,), (table,) = page.charts, page.tables
    for key in ("cost", "loss", "front"):
        assert chart.column(key) == [trial[key] for trial in trials]
    assert [row["chosen"] for row in chart.rows].index(True) == told["chosen"]
    front = sorted(trial["cost"] for trial in trials if trial["front"])
    assert table.column("flash") == [f"{cost:,}" for cost in front]
    assert data_of(html) == told
    assert page.loads == []
    assert f"{len(trials)} trials (0 failed), seed {told['seed']}; {told['calibrated']:,} samples" in page.text
    assert f"samples calibrated on, {told['judged']:,} others judged. Float model: flash" in page.text
    assert f"flash {told['float']['cost']:,}, score {told['float']['score']:.4f}" in page.text


def test_a_budget_that_nothing_meets(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """8 steps of int4 weights cannot give the float model's outputs."""
    output = tmp_path / "none.tflite"
    arrays = dict(np.load(file))
    del arrays["labels"]
    np.savez(file, **arrays)
    how = ("--metric", "error", "--max-loss", "1e-9", "--precisions", "int4", "--trials", "3", "-o", str(output))
    assert main([*COMMAND, "--data", file, *how]) == 1
    said = capsys.readouterr()
    assert "Pareto front of 3" in said.out
    least = min(float(loss) for loss in re.findall(r" (0\.\d{5}) ", said.out))
    assert f"none of 3 trials loses at most 1e-09: the least loss found is {least:.5f} (int4" in said.err
    assert not output.exists()


def test_all_trials_failed(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*_: Any) -> Any:
        raise UnsupportedOperatorError("not at all")

    monkeypatch.setattr(trial_module, "quantize", fails)
    assert main([*COMMAND, "--data", file, "--max-loss", "0.1", "--html", str(Path(file).with_name("a.html"))]) == 1
    said = capsys.readouterr()
    assert "all 3 trials failed; the first one: not at all" in said.err
    assert said.out.count("failed: ") == 3


def test_images_of_onnx_as_channels_last(tmp_path: Path) -> None:
    """Both the data and the chosen model."""
    onnx, tools = pytest.importorskip("onnx"), pytest.importorskip("onnx_tools")
    output, name, rng = tmp_path / "made.tflite", str(tmp_path / "net.onnx"), np.random.default_rng(1)
    conv = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)
    onnx.save(
        tools.model([conv], {"x": tools.floats(rng, 1, 2, 4, 5)}, {"w": tools.floats(rng, 3, 2, 3, 3)}, ["y"]), name
    )
    np.savez(tmp_path / "data.npz", x=tools.floats(rng, 12, 4, 5, 2))
    how = ("--methods", "minmax", "--precisions", "int8", "--trials", "1", "--jobs", "1", "--metric", "error")
    data = ("--data", str(tmp_path / "data.npz"), "--max-loss", "50%", "-o", str(output))
    assert main(["search", name, *data, *how, "--channels-last"]) == 0
    assert read_file(output).inputs[0].shape == (1, 4, 5, 2)
    assert main(["search", name, *data, *how]) == 2


def test_without_the_library_of_charts_nothing_is_searched(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(charts, "find_spec", lambda name: None)
    monkeypatch.setattr(trial_module, "quantize", lambda *how: pytest.fail("it tries a setting"))
    page = Path(file).with_name("a.html")
    assert main([*COMMAND, "--data", file, "--max-loss", "0.1", "--html", str(page)]) == 2
    assert "pip install 'twinfer[report]'" in capsys.readouterr().err
    assert not page.exists()


def test_wrong_arguments(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--data", file, "--max-loss", "0.1", "--methods", "best"]) == 2
    assert "'best' is no method" in capsys.readouterr().err
    assert main([*COMMAND, "--data", "none.npz", "--max-loss", "0.1"]) == 2
    assert "none.npz" in capsys.readouterr().err
    for option in ("-o", "--html", "--json"):  # before the search, which takes long
        assert main([*COMMAND, "--data", "none.npz", "--max-loss", "0.1", option, "no/folder/file"]) == 2
        assert "there is no folder no/folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("loss", "share"),
    [("1", "1.0"), ("0.51", "0.51"), ("100%", "1.0"), ("-1%", "-0.01"), ("nan", "nan")],
)
def test_per_cent_are_no_shares(loss: str, share: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--data", "none.npz", f"--max-loss={loss}"]) == 2
    error = capsys.readouterr().err
    assert f"a loss of at most {share} is no budget" in error
    assert "--max-loss 1%" in error


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), ("0.7 %", 0.007), ("0.01", 0.01), ("50%", 0.5), ("0", 0.0)])
def test_a_loss_may_be_in_per_cent(text: str, share: float) -> None:
    assert parser().parse_args([*COMMAND, "--data", "x", "--max-loss", text]).max_loss == share


@pytest.mark.parametrize("text", ["%", "one", "1%%x", ""])
def test_a_loss_is_a_number(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*COMMAND, "--data", "x", "--max-loss", text])
    assert f"--max-loss: {text!r} is no share: write 1% or 0.01" in capsys.readouterr().err


def test_instructions_on_a_microcontroller(
    file: str, board_tools: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = tmp_path / "told.json"
    how = ("--cost", "instructions", "--target", "cortex-m4", "--trials", "1", "--precisions", "int8")
    assert main([*COMMAND, "--data", file, "--max-loss", "0.05", *how, "--json", str(told)]) == 0
    figures = json.loads(told.read_text())
    assert 100_000 < figures["trials"][0]["cost"] < 0.7 * figures["float"]["cost"]
    assert "instructions" in capsys.readouterr().out
    assert main([*COMMAND, "--data", file, "--max-loss", "0.05", "--cost", "instructions"]) == 2
    assert "--target cortex-m4" in capsys.readouterr().err


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
