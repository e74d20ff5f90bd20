"""The command line, end to end: what commands say in a terminal and in JSON, exit status, refusals."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinfer.bench.measure import compare as comparing
from twinfer.bench.models import verify as proving
from twinfer.command_line import inspect
from twinfer.command_line.main import main
from twinfer.command_line.show.description import constant_bytes
from twinfer.converter.build import Builder
from twinfer.runtime.errors import ModelWarning, TwinferError

QUICK = ("--runs", "3", "--against", "none")


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Float left [1, 3] + right [1, 3], and its RELU: two outputs."""
    b = Builder("two")
    left, right = b.input("left", "FLOAT32", (1, 3)), b.input("right", "FLOAT32", (1, 3))
    total = b.op("ADD", [left, right])
    b.graph([total, b.op("RELU", [total])], signature="serve").save(tmp_path / "two.tflite")
    return str(tmp_path / "two.tflite")


@pytest.fixture
def unsupported(tmp_path: Path) -> str:
    b = Builder("custom")
    x = b.input("x", "FLOAT32", (1, 3))
    b.graph([b.op("CUSTOM:Mystery", [b.op("RELU", [x])], shape=(1, 3))]).save(tmp_path / "custom.tflite")
    return str(tmp_path / "custom.tflite")


def twinfer(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "twinfer", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200, **options)


# -- bench, verify -----------------------------------------------------------------------------------------------------


def test_bench(model: str, unsupported: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also beside a model that cannot run."""
    path = tmp_path / "figures.json"
    assert main(["bench", model, unsupported, "digits_int8", "--layers", *QUICK, "--json", str(path)]) == 2
    said = capsys.readouterr()
    assert "Mystery" in said.err
    for word in ("two", "digits_int8", "interpreted", "compiled", "same bits", "Layers of two", "µs per operator"):
        assert word in said.out
    figures = json.loads(path.read_text())
    assert figures["schema"] == 1
    assert [(r["model"], r["engine"]) for r in figures["rows"]] == [
        (model, engine) for model in ("two", "digits_int8") for engine in ("interpreted", "compiled")]  # fmt: skip


def test_bench_tells_when_the_twins_differ(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(comparing, "same_bits", lambda a, b: False)
    assert main(["bench", model, *QUICK, "--json", "-"]) == 1
    assert [row["same_bits"] for row in json.loads(capsys.readouterr().out)["rows"]] == [False, False]


def test_verify_names_the_first_difference(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    right = proving.operator

    class Wrong:
        def __init__(self, node: Any) -> None:
            self.node = node

        def reference(self, node: Any, inputs: Any) -> Any:
            values = right(node).reference(node, inputs)
            if node.op == "DEPTHWISE_CONV_2D":
                values[0][0, 1, 2, 3] ^= 1
            return values

    monkeypatch.setattr(proving, "operator", Wrong)
    assert main(["verify", "digits_int8", "--against", "none"]) == 1
    text = capsys.readouterr().out
    assert "≠" in text
    assert "operator 1 DEPTHWISE_CONV_2D" in text
    assert "element [0, 1, 2, 3] of sample 0" in text


# -- inspect -----------------------------------------------------------------------------------------------------------


def test_equal_constants_are_counted_once() -> None:
    """As in the file, where they share a buffer."""
    b = Builder("steps")
    x = b.input("x", "FLOAT32", (1, 3))
    for value in (1, 1, 2, 1):
        x = b.op("MUL", [x, np.full((1, 3), value, np.float32)])
    assert constant_bytes(b.graph([x])) == 2 * 3 * 4


def test_inspect_shows_what_cannot_run(unsupported: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", unsupported]) == 0
    text = capsys.readouterr().out
    assert "operators without a kernel: CUSTOM:Mystery ×1" in text
    assert "No plan" in text
    assert main(["inspect", unsupported, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["plan"], told["unsupported"]) == (None, {"CUSTOM:Mystery": 1})


@pytest.mark.parametrize("output", [False, True], ids=["inside", "output"])
def test_inspect_shows_what_planning_computed(output: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder("shape")
    x = b.input("x", "FLOAT32", (2, 3))
    shape = b.op("SHAPE", [x], type="INT32", shape=(2,), out_type="INT32")
    y = b.op("ABS", [b.op("RESHAPE", [x, shape], shape=(2, 3))])
    b.graph([y, shape] if output else [y]).save(tmp_path / "shape.tflite")
    assert main(["inspect", str(tmp_path / "shape.tflite")]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"0 SHAPE 2×3 2 INT32 - {'copy' if output else 'constant'} - -" in lines
    assert "1 RESHAPE 2×3 2×3 FLOAT32 - in place - 8" in lines


# -- the command itself ------------------------------------------------------------------------------------------------

#: Models that the reference refuses for their values alone (RSQRT of a negative number, which twinfer defines), or
#: whose operator it lacks.
SOUND = {"lrt_single_rsqrt_default_a16w8_recipe_quantized", "lrt_max_unpooling_2d_valid"}


@pytest.mark.corpus("reject")
def test_damaged_models(corpus_model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(corpus_model.path)]) == (0 if corpus_model.path.stem in SOUND else 2)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", "bench", "inspect", "run", "verify", "compile"])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main([*command.split(), "--help"])
    assert exit.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text or not command
    assert all(len(line) <= 120 for line in text.splitlines())


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["--version"])
    assert (exit.value.code, capsys.readouterr().out.split()[0]) == (0, "twinfer")


def test_a_pipe_to_a_program_that_knows_ascii_only(model: str) -> None:
    done = twinfer("inspect", model, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert done.stdout.isascii()
    assert "1x3" in done.stdout


def test_nobody_reads_on() -> None:
    command = [sys.executable, "-m", "twinfer", "inspect", "digits_int8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""


def test_warnings_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def planned(*_: Any) -> tuple[None, str]:
        warnings.warn("odd", ModelWarning, stacklevel=1)
        return None, "no reason"

    monkeypatch.setattr(inspect, "planned", planned)
    assert main(["inspect", "digits_int8"]) == 0
    assert capsys.readouterr().err == "twinfer: warning: odd\n"


def test_the_package_is_light_and_complete() -> None:
    import twinfer as package

    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)
    with pytest.raises(AttributeError, match="nothing_such"):
        package.nothing_such  # noqa: B018
    assert issubclass(package.ModelError, TwinferError)
    check = "import sys, twinfer; sys.exit('numpy' in sys.modules or 'rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_output_that_is_no_terminal_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    from twinfer.command_line.terminal import PIPE_WIDTH, console

    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert console().width == PIPE_WIDTH
    monkeypatch.setenv("COLUMNS", "72")
    assert console().width == 72
