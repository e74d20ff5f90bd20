"""``twinfer run``: arrays in, arrays out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_cli import two_inputs

from twinfer.bench.models.source import load
from twinfer.command_line.main import main


@pytest.fixture
def model(tmp_path: Path) -> str:
    two_inputs().save(tmp_path / "two.tflite")
    return str(tmp_path / "two.tflite")


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_run(model: str, engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = np.array([[1, -2, 3]], np.float32), np.array([[0, 1, 1]], np.float32)
    np.save(tmp_path / "l.npy", left)
    np.save(tmp_path / "r.npy", right)
    files = ["--input", f"right={tmp_path}/r.npy", "--input", f"{tmp_path}/l.npy"]
    outputs = ["--output", str(tmp_path / "sum.npy"), "--output", str(tmp_path / "all.npz")]
    assert main(["run", model, *files, *outputs, "--engine", engine]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "sum.npy"), left + right)
    with np.load(tmp_path / "all.npz") as stored:
        names = stored.files
        np.testing.assert_array_equal(stored[names[1]], np.maximum(left + right, 0))
    assert "1×3" in capsys.readouterr().out
    assert main(["run", model, *files, "--output", f"{names[1]}={tmp_path}/relu.npy"]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "relu.npy"), np.maximum(left + right, 0))
    left_over = {p.name for p in tmp_path.iterdir()} - {
        "two.tflite",
        "l.npy",
        "r.npy",
        "sum.npy",
        "relu.npy",
        "all.npz",
    }
    assert not left_over


def test_run_on_a_larger_input_and_npz(model: str, tmp_path: Path) -> None:
    many = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(tmp_path / "in.npz", right=many, left=-many)
    assert main(["run", model, "--input", f"{tmp_path}/in.npz", "--output", f"{tmp_path}/y.npy"]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), many * 0)


def test_run_is_the_same_for_a_seed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for seed in ("1", "1", "2"):
        assert main(["run", model, "--seed", seed]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] != told[2]


@pytest.mark.parametrize("how", ["--engine interpreted", "--engine compiled", "--target cortex-m4"])
def test_run_says_that_interpreting_heeds_no_optimize(
    how: str, model: str, capsys: pytest.CaptureFixture[str], board_tools: None
) -> None:
    assert main(["run", model, "--optimize", "size", *how.split()]) == 0
    said = "twinfer: --optimize size changes nothing: it is for compiled code (--engine compiled)\n"
    assert capsys.readouterr().err == ("" if "compiled" in how else said)


def test_run_refuses_what_does_not_fit(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3), np.float32))
    np.save(tmp_path / "int.npy", np.zeros((1, 3), np.int8))
    np.save(tmp_path / "flat.npy", np.zeros(3, np.float32))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no array")
    x = str(tmp_path / "x.npy")
    wrong = {
        "needs float32": ["--input", str(tmp_path / "int.npy")],
        "it holds [3], tensor 'left'": ["--input", str(tmp_path / "flat.npy")],
        "cannot be read": ["--input", str(tmp_path / "text.npy")],
        "pickle": ["--input", str(tmp_path / "objects.npy")],
        "absent.npy": ["--input", str(tmp_path / "absent.npy")],
        "no tensor 'middle'": ["--input", f"middle={x}"],
        "not so many": ["--input", x, "--input", x, "--input", x],
        "cannot be written": ["--output", str(tmp_path / "no" / "folder" / "y.npy")],
    }
    for message, arguments in wrong.items():
        assert main(["run", model, *arguments]) == 2
        assert message in capsys.readouterr().err
    np.save(tmp_path / "picture.npy", np.zeros((1, 8, 8, 1), np.float32))
    assert main(["run", "digits_int8", "--input", str(tmp_path / "picture.npy")]) == 2
    x = load("digits_int8").graph.inputs[0]
    assert f"round(x / {x.scale:.6g}) {x.zero:+}" in capsys.readouterr().err
