"""``twinfer bench --save`` and ``--compare``, as a user and as docs/workflows/drift.yml call them."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from needs import ROOT, deep_but

from twinfer.bench.models.source import load, name_of
from twinfer.command_line.main import main
from twinfer.converter.build import Builder

QUICK = ("--against", "none", "--runs", "1")
THERE = ("--target", "cortex-m4", "--layers", "--engine", "compiled")


def network(units: int) -> None:
    """Writes model.tflite: two dense layers; ``units`` is the second one's outputs."""
    rng = np.random.default_rng(1)
    b = Builder("model")
    y = b.input("x", "INT8", (1, 16), scale=0.5, zero=3)
    for count in (16, units):
        weights = b.constant(rng.integers(-127, 128, (count, y.shape[-1]), np.int8), scale=0.01)
        y = b.op("FULLY_CONNECTED", [y, weights, None], shape=(1, count), scale=40, zero=7)
    b.graph([y]).save("model.tflite")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    network(8)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["bench", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.usefixtures("board_tools")
def test_a_larger_layer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "model.tflite", *THERE, "--save")
    assert status == 0
    (kept,) = Path(".twinfer/bench").glob("*/base/model.json")
    assert err == f"twinfer: figures are kept in {kept}\n"
    status, out, _ = run(capsys, "model.tflite", *THERE, "--compare", "--max-drift", "0")
    assert status == 0
    assert "figures compared with those saved: 0 got worse, 0 better." in out
    network(12)
    status, out, _ = run(capsys, "model.tflite", *THERE, "--compare", "--json", "after.json")
    assert status == 1
    told = json.loads(Path("after.json").read_text())
    (row,) = (row for row in told["rows"] if row["engine"] == "compiled")
    layers = [drift for drift in told["drift"] if drift["layer"] and drift["engine"] == "compiled"]
    assert {drift["layer"]["index"] for drift in layers} == {1}, "the first layer is as before"
    slower = next(drift for drift in layers if drift["figure"] == "instructions")
    assert slower["after"] == row["layers"][1]["instructions"]
    assert slower["worse"]
    assert slower["percent"] == pytest.approx(100 * (slower["after"] / slower["before"] - 1))
    assert "1 FULLY_CONNECTED" in out
    assert f"{slower['before']:,.0f}" in out


def test_the_host_has_sizes_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    """The limit on times is so wide that noise cannot reach it."""
    assert run(capsys, "model.tflite", *QUICK, "--save", "a.json")[0] == 0
    status, out, err = run(capsys, "model.tflite", *QUICK, "--compare", "a.json", "--max-drift", "1e6", "--json", "-")
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert (told["drift"], told["compared"], told["remarks"]) == ([], 2 * 3, [])
    saved = json.loads(Path("a.json").read_text())
    assert set(saved) == {"schema", "machine", "rows"}
    Path("fast.json").write_text(
        json.dumps({**saved, "rows": [{**row, "min_us": row["min_us"] / 100} for row in saved["rows"]]})
    )
    assert run(capsys, "model.tflite", *QUICK, "--compare", "fast.json")[0] == 1
    assert run(capsys, "model.tflite", *QUICK, "--compare", "fast.json", "--max-drift", "1e6")[0] == 0
    slow = [{**row, "min_us": row["min_us"] * 100, "constant_bytes": 9999} for row in saved["rows"]]
    Path("slow.json").write_text(json.dumps({**saved, "rows": slow}))
    status, out, _ = run(capsys, "model.tflite", *QUICK, "--compare", "slow.json")
    assert (status, "0 got worse" in out, "Drift of more than 1 %" in out) == (0, True, True), "better is no failure"
    for row in saved["rows"]:
        row["constant_bytes"] -= 1
    Path("a.json").write_text(json.dumps(saved))
    status, out, _ = run(capsys, "model.tflite", *QUICK, "--compare", "a.json", "--max-drift", "0", "--json", "-")
    assert status == 1
    assert {"interpreted", "compiled"} == {
        drift["engine"] for drift in json.loads(out)["drift"] if drift["figure"] == "constant_bytes"
    }
    saved["machine"]["cpu"] = "another"
    Path("a.json").write_text(json.dumps(saved))
    status, out, err = run(capsys, "model.tflite", *QUICK, "--compare", "a.json", "--max-drift", "0", "--json", "-")
    told = json.loads(out)
    assert (status, told["drift"], len(told["remarks"])) == (2, [], 2), "a comparison of nothing is no success"
    assert err.startswith("twinfer: nothing was compared (--compare): ")


@pytest.mark.parametrize("model", ["digits_int8", "model.tflite", "sub/model.2.tflite"])
def test_names_are_known_before_models_are_read(model: str) -> None:
    Path("sub").mkdir()
    Path("sub/model.2.tflite").write_bytes(Path("model.tflite").read_bytes())
    assert load(model).name == name_of(model)


# -- docs/workflows/drift.yml ------------------------------------------------------------------------------------------


def steps() -> list[dict[str, Any]]:
    told = yaml.safe_load((ROOT / "docs" / "workflows" / "drift.yml").read_text(encoding="utf-8"))
    (job,) = told["jobs"].values()
    assert told[True] == "pull_request", "YAML 1.1 takes the key on for a truth"
    return list(job["steps"])


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize(("units", "status"), deep_but([(8, 0), (9, 1)], (9, 1)))
def test_the_workflow_fails_on_drift(units: int, status: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands of ours, with another model.tflite before the second one."""
    monkeypatch.setenv("RUNNER_TEMP", str(folder))
    before, after = (step["run"] for step in steps() if step.get("run", "").startswith("twinfer "))
    assert main(shlex.split(os.path.expandvars(before))[1:]) == 0
    network(units)
    assert main(shlex.split(os.path.expandvars(after))[1:]) == status
    assert bool(json.loads((folder / "after.json").read_text())["drift"]) == bool(status)
