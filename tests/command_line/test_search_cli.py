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

import numpy as np
import pytest
from test_interrupt import heed_ctrl_c

from twinfer.bench.lab.train_digits import load
from twinfer.bench.page.page import data_of
from twinfer.command_line.main import main, parser
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
