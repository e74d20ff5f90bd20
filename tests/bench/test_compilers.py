"""The search for compilers that translate emitted C wrongly: it tries what it should, and sees a wrong program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from twinfer.aot.print import emit as emitter
from twinfer.bench.lab import compilers
from twinfer.bench.lab.compilers import Compiler, main, sound
from twinfer.runtime.read.tflite import read_file


@pytest.fixture
def only_gcc(monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is needed")
    monkeypatch.setattr(compilers, "installed", lambda root="": iter([Compiler(("gcc",))]))
    monkeypatch.setattr(compilers, "LEVELS", ("-O0",))


def test_graphs_beyond_the_kernels_are_left_out() -> None:
    assert sound(44, 3) == [44, 46]  # one of seven loops


@pytest.mark.usefixtures("only_gcc")
def test_right_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--graphs", "2", "--seed", "44", "-o", str(tmp_path / "wrong")]) == 0
    assert capsys.readouterr().out.split("gcc")[1].split()[1:4:2] == ["0", "1"]
    assert not (tmp_path / "wrong").exists()


@pytest.mark.usefixtures("only_gcc")
def test_wrong_programs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = emitter.RunFunctions
    monkeypatch.setattr(emitter, "RunFunctions", lambda plan, data, calls: right(plan, data, [*calls][1:]))
    assert main(["--graphs", "1", "-o", str(tmp_path)]) == 1
    assert [t.name for t in read_file(tmp_path / "g0.tflite").inputs]


@pytest.mark.usefixtures("only_gcc")
def test_a_compiler_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--graphs", "1", "--flags=-fno-such-option", "-o", str(tmp_path / "none")]) == 1
    assert "no-such-option" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("only_gcc")
def test_one_compiler_of_two_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = [Compiler(("gcc",)), Compiler(("gcc", "-fno-such-option"))]
    monkeypatch.setattr(compilers, "installed", lambda root="": iter(both))
    assert main(["--graphs", "1", "-o", str(tmp_path / "none")]) == 1
