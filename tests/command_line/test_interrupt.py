"""Ctrl-C keeps what is finished: it is shown and written, and a line says what is missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from limits import SAYS_BEGUN

from twinfer.bench.measure import compare, embedded
from twinfer.bench.models import verify
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.converter.search.trial import Bench

QUICK = ("--against", "none", "--runs", "1")


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """first.tflite, second.tflite, third.tflite, and mystery.tflite, which cannot run."""
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second", "third", "mystery"):
        b = Builder(name)
        x = b.input("x", "FLOAT32", (1, 3))
        op = "CUSTOM:Mystery" if name == "mystery" else "RELU"
        b.graph([b.op(op, [x], shape=(1, 3))]).save(f"{name}.tflite")


FILES = ("first.tflite", "second.tflite", "third.tflite")


@pytest.fixture
def broken_off(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str, int], None]:
    """Makes a function behave as if Ctrl-C came in its call number ``at``, from 0."""

    def patch(place: Any, name: str, at: int) -> None:
        real, calls = getattr(place, name), iter(range(1000))

        def function(*arguments: Any, **how: Any) -> Any:
            if next(calls) == at:
                raise KeyboardInterrupt
            return real(*arguments, **how)

        monkeypatch.setattr(place, name, function)

    return patch


Break = Callable[[Any, str, int], None]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    said = capsys.readouterr()
    return status, said.out, said.err


def test_bench_on_two_targets(broken_off: Break, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that cannot run is complained of, and is not missing."""
    measured = {"model": "first", "target": "cortex-m4", "engine": "tflm", "error": "not measured"}
    broken_off(compare, "compare", 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "need_tools", lambda card: None)
        patch.setattr(embedded, "measure_on", lambda *_: [measured])
        how = ("--target", "host,cortex-m4", "--json", "-")
        status, out, err = run(capsys, "bench", "first.tflite", "mystery.tflite", *FILES[1:], *QUICK, *how)
    assert status == 130
    rows = json.loads(out)["rows"]
    assert [(row["model"], row["target"]) for row in rows] == [*[("first", "host")] * 2, ("first", "cortex-m4")]
    complaint, line = err.splitlines()
    assert "Mystery" in complaint
    assert line.endswith(
        "missing: second.tflite on host, second.tflite on cortex-m4, third.tflite on host, third.tflite on cortex-m4"
    )


def test_a_bench_without_any_row_writes_nothing(broken_off: Break, capsys: pytest.CaptureFixture[str]) -> None:
    broken_off(compare, "compare", 0)
    Path("a.json").write_text("before")
    status, out, err = run(capsys, "bench", "first.tflite", *QUICK, "--json", "a.json", "--save")
    assert (status, out) == (130, "")
    message = "interrupted; missing: first.tflite on host; nothing is finished, so nothing is written"
    assert err == f"twinfer: {message}\n"
    assert Path("a.json").read_text() == "before"
    assert not Path(".twinfer").exists()


def test_half_a_bench_is_not_kept_but_compared(broken_off: Break, capsys: pytest.CaptureFixture[str]) -> None:
    """What is kept is whole."""
    assert main(["bench", *FILES, *QUICK, "--save"]) == 0
    (kept,) = Path(".twinfer").rglob("first.json")
    before = kept.read_text()
    broken_off(compare, "compare", 1)
    capsys.readouterr()
    how = ("--save", "--compare", "--max-drift", "1e6", "--json", "-")
    status, out, err = run(capsys, "bench", *FILES, *QUICK, *how)
    assert status == 130
    assert json.loads(out)["compared"] == 2 * 3
    assert err.startswith("twinfer: nothing was kept (--save)\n")
    assert kept.read_text() == before


def test_verify(broken_off: Break, capsys: pytest.CaptureFixture[str]) -> None:
    broken_off(verify, "verify", 1)
    status, out, err = run(capsys, "verify", *FILES, "--against", "none")
    assert (status, err) == (130, "twinfer: interrupted; missing: second.tflite on host, third.tflite on host\n")
    assert "first: proven" in out
    assert "second" not in out


SEARCH = ("search", "digits_float32", "--data", "d.npz", "--max-loss", "0.5", "--metric", "error", "--jobs", "1")


@pytest.fixture
def data() -> None:
    x = np.random.default_rng(1).standard_normal((24, 8, 8, 1)).astype(np.float32)
    np.savez("d.npz", x=x)


@pytest.mark.usefixtures("data")
def test_search(broken_off: Break, capsys: pytest.CaptureFixture[str]) -> None:
    """Also in the middle of a round. The model is not written: it would not be the one that the search finds."""
    how = ("--methods", "minmax,mse", "--precisions", "int8", "--trials", "9")
    broken_off(Bench, "trial", 1)
    status, out, err = run(capsys, *SEARCH, *how, "-o", "o.tflite", "--json", "a.json", "--html", "a.html")
    assert (status, err) == (130, "twinfer: interrupted; missing: up to 8 of 9 trials, o.tflite\n")
    told = json.loads(Path("a.json").read_text())
    assert (told["interrupted"], len(told["trials"]), told["chosen"]) == (True, 1, 0)
    assert not Path("o.tflite").exists()
    assert Path("a.html").exists()
    assert "Pareto front" in out


# -- a real Ctrl-C -----------------------------------------------------------------------------------------------------


@contextmanager
def heeded() -> Iterator[None]:
    """Children heed Ctrl-C; nohup ignores it, and they would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def heed_ctrl_c() -> None:
    """For the start of a child process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def broken_off_by_ctrl_c(*arguments: str) -> tuple[int, str]:
    """The exit status, and what the command has said after it has said that it has begun."""
    code = f"{SAYS_BEGUN}\nfrom twinfer.__main__ import run\nsys.exit(run())\n"
    command = [sys.executable, "-c", code, *arguments]
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    with heeded(), subprocess.Popen(command, stdout=nothing, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline() == "begun\n"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=1200)
        finally:
            process.kill()
    return process.returncode, err.replace("begun\n", "")


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """heavy.tflite, one layer of 10^12 multiply-accumulates, and data for it."""
    folder = tmp_path_factory.mktemp("heavy")
    b = Builder("heavy")
    x = b.input("x", "FLOAT32", (1, 512, 512, 32))
    weights = np.full((32, 63, 63, 32), 0.001, np.float32)
    y = b.op("CONV_2D", [x, weights, np.zeros(32, np.float32)], padding="SAME", stride_h=1, stride_w=1)
    b.graph([y]).save(folder / "heavy.tflite")
    np.savez(folder / "x.npz", x=np.zeros((1, 512, 512, 32), np.float32))
    return folder


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("run heavy.tflite", "interrupted"),
        pytest.param("run heavy.tflite --engine compiled", "interrupted", marks=pytest.mark.deep),
        pytest.param(
            "bench heavy.tflite --against none", "interrupted; missing: heavy.tflite on host", marks=pytest.mark.deep
        ),
        pytest.param("compile heavy.tflite -o project", "interrupted", marks=pytest.mark.deep),
        ("convert heavy.tflite -o o.tflite --quantize int8 --calibration x.npz", "interrupted"),
    ],
)
def test_ctrl_c_within_a_layer(command: str, said: str, heavy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(heavy)
    before = set(heavy.iterdir())
    status, err = broken_off_by_ctrl_c(*command.split())
    assert status == 130
    assert err.startswith(f"twinfer: {said}")
    assert err.count("\n") == 1
    assert set(heavy.iterdir()) == before


def state(number: int | str) -> str:
    """A process is R running, S waiting, Z ended and not yet heard of, or "" gone."""
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][0]
    return ""


def test_ctrl_c_ends_a_compiler_and_what_it_has_started(tmp_path: Path) -> None:
    """And leaves no folder in the cache."""
    compiler, cache, started = (tmp_path / name for name in ("cc", "cache", "started"))
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec echo one\nexec > /dev/null 2>&1\n'
        f"sleep 600 & echo $! $$ > {tmp_path}/half; mv {tmp_path}/half {started}; wait\n"
    )
    compiler.chmod(0o755)
    code = "import sys; from twinfer.__main__ import run; sys.exit(run())"
    command = [sys.executable, "-c", code, "run", "first.tflite", "--engine", "compiled"]
    environment = {**os.environ, "CC": str(compiler), "XDG_CACHE_HOME": str(cache)}
    with heeded(), subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (started.exists() and state(process.pid) == "S"):
            time.sleep(0.05)  # until it waits for the compiler
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=1200)
    assert (process.returncode, err) == (130, "twinfer: interrupted\n")
    until = time.monotonic() + 60
    while any(state(number) not in ("", "Z") for number in started.read_text().split()):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_ctrl_c_during_the_imports() -> None:
    code = (
        "import sys, builtins\n"
        "real = builtins.__import__\n"
        "def imports(name, *rest):\n"
        "    if name == 'twinfer.command_line.main': raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "from twinfer.__main__ import run\n"
        "builtins.__import__ = imports\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "twinfer: interrupted\n")
