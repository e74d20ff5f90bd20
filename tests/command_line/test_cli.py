"""The command line, end to end: output, files, exit status, and interruption."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
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
from twinfer.runtime.graph import Graph
from twinfer.runtime.read.files import cache_folder
from twinfer.runtime.tools import find_compiler
from twinfer.runtime.write.tflite import write

QUICK = ("--runs", "3", "--against", "none")


def two_inputs() -> Graph:
    """Float left [1, 3] + right [1, 3], and its RELU: two outputs."""
    b = Builder("two")
    left, right = b.input("left", "FLOAT32", (1, 3)), b.input("right", "FLOAT32", (1, 3))
    total = b.op("ADD", [left, right])
    return b.graph([total, b.op("RELU", [total])], signature="serve")


def custom() -> Graph:
    b = Builder("custom")
    x = b.input("x", "FLOAT32", (1, 3))
    return b.graph([b.op("CUSTOM:Mystery", [b.op("RELU", [x])], shape=(1, 3))])


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "two.tflite"
    path.write_bytes(write(two_inputs()))
    return str(path)


@pytest.fixture
def unsupported(tmp_path: Path) -> str:
    path = tmp_path / "custom.tflite"
    path.write_bytes(write(custom()))
    return str(path)


def twinfer(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "twinfer", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200, **options)


# -- bench -------------------------------------------------------------------------------------------------------------


def test_bench(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    assert main(["bench", model, "digits_int8", "--layers", *QUICK, "--json", str(path)]) == 0
    text = capsys.readouterr().out
    for word in ("two", "digits_int8", "interpreted", "compiled", "same bits", "Layers of two", "µs per operator"):
        assert word in text
    figures = json.loads(path.read_text())
    assert figures["schema"] == 1
    assert [(r["model"], r["engine"]) for r in figures["rows"]] == [
        (model, engine) for model in ("two", "digits_int8") for engine in ("interpreted", "compiled")
    ]


def test_bench_json_alone(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", model, *QUICK, "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2


def test_bench_goes_on_after_a_model_that_cannot_run(
    model: str, unsupported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", unsupported, model, *QUICK]) == 2
    captured = capsys.readouterr()
    assert "Mystery" in captured.err
    assert "same bits" in captured.out


def test_bench_tells_when_the_twins_differ(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(comparing, "same_bits", lambda a, b: False)
    assert main(["bench", model, *QUICK]) == 1
    assert "differ" in capsys.readouterr().out


def test_bench_against_what_is_not_there(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", model, "--against", "nobody"]) == 2
    assert "there is no peer 'nobody'" in capsys.readouterr().err


# -- inspect -----------------------------------------------------------------------------------------------------------


def test_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "digits_int8"]) == 0
    text = capsys.readouterr().out
    for word in ("8 operators", "DEPTHWISE_CONV_2D", "1×8×8×1", "in place", "lower bound", "◀ peak", "█", "▓"):
        assert word in text


def test_equal_constants_are_counted_once() -> None:
    """As in the file, where they share a buffer."""
    b = Builder("steps")
    x = b.input("x", "FLOAT32", (1, 3))
    for value in (1, 1, 2, 1):
        x = b.op("MUL", [x, np.full((1, 3), value, np.float32)])
    assert constant_bytes(b.graph([x])) == 2 * 3 * 4


def test_inspect_shows_signatures_and_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", model]) == 0
    assert "signature 'serve': left, right → " in capsys.readouterr().out
    assert main(["inspect", model, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["signatures"]["serve"]["inputs"] == ["left", "right"]
    assert [op["op"] for op in told["operators"]] == ["ADD", "RELU"]
    assert told["plan"]["arena_bytes"] >= told["plan"]["lower_bound_bytes"] == told["plan"]["peak"]["bytes"]


def test_inspect_shows_what_cannot_run(unsupported: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", unsupported]) == 0
    text = capsys.readouterr().out
    assert "operators without a kernel: CUSTOM:Mystery ×1" in text
    assert "No plan" in text
    assert main(["inspect", unsupported, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["plan"] is None
    assert told["unsupported"] == {"CUSTOM:Mystery": 1}


@pytest.mark.parametrize("output", [False, True], ids=["inside", "output"])
def test_inspect_shows_what_planning_computed(output: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder("shape")
    x = b.input("x", "FLOAT32", (2, 3))
    shape = b.op("SHAPE", [x], type="INT32", shape=(2,), out_type="INT32")
    y = b.op("ABS", [b.op("RESHAPE", [x, shape], shape=(2, 3))])
    b.graph([y, shape] if output else [y]).save(tmp_path / "shape.tflite")
    assert main(["inspect", str(tmp_path / "shape.tflite"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(op["op"], op["kernel"]) for op in told["operators"]] == [
        ("SHAPE", "tw_copy" if output else None), ("RESHAPE", None), ("ABS", "tw_abs_f32")
    ]  # fmt: skip
    assert main(["inspect", str(tmp_path / "shape.tflite")]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"0 SHAPE 2×3 2 INT32 - {'copy' if output else 'constant'} - -" in lines
    assert "1 RESHAPE 2×3 2×3 FLOAT32 - in place - 8" in lines


@pytest.mark.corpus("app", "op", sample=30)
def test_inspect_any_real_model(corpus_model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(corpus_model.path)]) == 0
    assert main(["inspect", str(corpus_model.path), "--json"]) == 0
    assert corpus_model.path.stem in capsys.readouterr().out


# -- verify ------------------------------------------------------------------------------------------------------------


def test_verify(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", model, "--samples", "2"]) == 0
    text = capsys.readouterr().out
    assert "two: proven on 2 samples" in text
    assert "ADD" in text
    assert main(["verify", model, "digits_int8", "--against", "none"]) == 0
    assert "All models" in capsys.readouterr().out


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


def test_verify_what_cannot_run(model: str, unsupported: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", unsupported, model, "--against", "none"]) == 2
    captured = capsys.readouterr()
    assert "Mystery" in captured.err
    assert "two: proven" in captured.out


# -- compile -----------------------------------------------------------------------------------------------------------


def test_compile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "c"
    assert main(["compile", "digits_int8", "--target", "host", "-o", str(folder)]) == 0
    assert "arena" in capsys.readouterr().out
    assert (folder / "digits_int8.h").exists()
    compiler = " ".join(find_compiler())
    subprocess.run(["make", "-C", str(folder), f"CC={compiler}", "test"], check=True, capture_output=True)
    (folder / "mine.txt").write_text("do not touch")
    assert main(["compile", "digits_int8", "-o", str(folder), "--name", "other"]) == 2
    assert "mine.txt" in capsys.readouterr().err
    assert main(["compile", "digits_int8", "-o", str(tmp_path / "d"), "--name", "not-c"]) == 2


# -- the command itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [["inspect", "no_such_model"], ["run", "absent.tflite"], ["verify", "/"], ["compile", "absent.tflite", "-o", "x"]],
)
def test_errors_are_one_clean_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("twinfer: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["onnx", "keras", "pt2"])
def test_frameworks_files_are_to_be_converted_first(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"net.{kind}").touch()
    assert main(["inspect", str(tmp_path / f"net.{kind}")]) == 2
    assert f"twinfer convert {tmp_path / 'net'}.{kind} -o" in capsys.readouterr().err


#: Models that the reference refuses for their values alone: RSQRT of a negative number, which twinfer defines.
SOUND = {"lrt_single_rsqrt_default_a16w8_recipe_quantized"}


@pytest.mark.corpus("reject")
def test_damaged_models(corpus_model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(corpus_model.path)]) == (0 if corpus_model.path.stem in SOUND else 2)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["bench", "--seconds", "0"], ["run"], ["verify", "--samples", "x", "y"]]
)
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2
    assert "usage: twinfer" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", "bench", "inspect", "run", "verify", "compile"])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main([*command.split(), "--help"])
    assert exit.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text or not command
    assert all(len(line) <= 120 for line in text.splitlines())


def test_version() -> None:
    done = twinfer("--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "twinfer")


def test_no_escape_codes_in_a_pipe(model: str) -> None:
    done = twinfer("inspect", model)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout


def test_terminals_that_know_ascii_only(model: str) -> None:
    done = twinfer("inspect", model, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "1x3" in done.stdout


def test_every_character_has_one_in_its_place() -> None:
    """Runs of characters that a terminal does not have, and single ones."""
    lines = ("12 µs × 3", "██▓▒░·", "→→a≈≠é")
    code = f"from twinfer.command_line.terminal import *; plain_where_needed(); [say(t) for t in {lines!r}]"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert done.stdout.decode().splitlines()[-3:] == ["12 us x 3", "##=s-.", ">>a~!?"], done.stderr


def test_nobody_reads_on() -> None:
    command = [sys.executable, "-m", "twinfer", "inspect", "digits_int8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""


def heed_ctrl_c() -> None:
    """For the start of a child process: nohup ignores Ctrl-C, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def ctrl_c_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_ignored")
def test_interrupted() -> None:
    command = [sys.executable, "-m", "twinfer", "bench", "digits_int8", "--against", "none", "--seconds", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c) as process:
        maps, until = Path(f"/proc/{process.pid}/maps"), time.monotonic() + 1200
        while str(cache_folder()) not in maps.read_text() and time.monotonic() < until:
            time.sleep(0.1)  # until the compiled model is loaded; Ctrl-C during imports may end CPython 3.11 by itself
        for _ in range(6):  # CPython drops one that meets a finaliser
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
                break
        assert process.poll() == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


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
