"""The project folder: it builds, its self-test tells right from wrong, and nothing of anybody else's is overwritten."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest
import tiny

from twinfer.aot import project as project_module
from twinfer.aot.emit import Mode
from twinfer.aot.project import write_project
from twinfer.runtime.errors import InvalidArgumentError


def make(folder: Path, *goals: str) -> subprocess.CompletedProcess[str]:
    if not shutil.which("make") or not shutil.which("cc"):
        pytest.skip("make and a C compiler are needed")
    return subprocess.run(["make", "-C", folder, *goals], capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("name", tiny.MODELS)
def test_builds_and_passes(name: str, mode: Mode, tmp_path: Path) -> None:
    write_project(tiny.MODELS[name](), name, tmp_path / "made", mode=mode)
    done = make(tmp_path / "made", "all", "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name}: ok" in done.stdout
    assert (tmp_path / "made" / "build" / f"lib{name}.a").exists()


@pytest.mark.parametrize("name", tiny.MODELS)
def test_cmake_builds_and_passes(name: str, tmp_path: Path) -> None:
    if not shutil.which("cmake"):
        pytest.skip("cmake is needed")
    write_project(tiny.MODELS[name](), name, tmp_path / "made")
    (tmp_path / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.13)
project(caller CXX)
add_subdirectory(made)
add_executable(caller main.cpp)
target_link_libraries(caller {name})
""")
    call = f"{name}_run_static(nullptr, nullptr)"
    (tmp_path / "main.cpp").write_text(f'#include "{name}.h"\nint main() {{ return {call}; }}\n')
    for source, test in (("made", [f"ctest --output-on-failure -R {name}_test"]), (".", ["./caller"])):
        build = tmp_path / source / "build"
        for command in (f"cmake -S {tmp_path / source} -B {build}", f"cmake --build {build}", *test):
            folder = build if build.exists() else tmp_path
            done = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "warning" not in done.stdout + done.stderr
    write_project(tiny.MODELS[name](), name, tmp_path / "made")


@pytest.mark.parametrize("name", tiny.MODELS)
def test_changed_golden_byte_fails(name: str, tmp_path: Path) -> None:
    write_project(tiny.MODELS[name](), name, tmp_path)
    path = tmp_path / f"{name}_test.c"
    before = path.read_text()
    first = r"(_test_want_0\[\d+\]\[\d+\] = \{\s*\{\s*)(-?\d+)"
    changed = re.sub(first, lambda m: f"{m[1]}{(int(m[2]) + 1) % 100}", before)
    assert changed != before
    path.write_text(changed)
    done = make(tmp_path, "test")
    assert done.returncode != 0
    assert f"{name}: output 0: run 0, element 0, byte " in done.stdout
    assert f"{name}: FAILED" in done.stdout


def test_only_the_kernels_used(tmp_path: Path) -> None:
    write_project(tiny.passing(), "m", tmp_path)
    assert sorted(p.name for p in (tmp_path / "kernels").iterdir()) == ["copy.h", "tw.h"]
    write_project(tiny.passing(), "m", tmp_path, mode="interpreted")
    assert sorted(p.name for p in (tmp_path / "kernels").iterdir()) == ["copy.h", "run.h", "tw.h"]


def test_replaces_its_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    write_project(tiny.dense(), "old", folder)
    (folder / "build").mkdir()
    (folder / "build" / "x.o").touch()
    write_project(tiny.passing(), "new", folder)
    assert not (folder / "old.c").exists()
    assert (folder / "new.c").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize("path", ["main.c", "src/main.c", ".hidden"])
def test_refuses_what_it_did_not_write(path: str, tmp_path: Path) -> None:
    for made_before in (False, True):
        folder = tmp_path / str(made_before)
        if made_before:
            write_project(tiny.dense(), "m", folder)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("mine")
        with pytest.raises(InvalidArgumentError, match=re.escape(path)):
            write_project(tiny.dense(), "m", folder)
        assert (folder / path).read_text() == "mine"


def test_refuses_a_file_and_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match="not a folder"):
        write_project(tiny.dense(), "m", tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidArgumentError, match="not a folder"):
        write_project(tiny.dense(), "m", tmp_path / "link")
    (tmp_path / "elsewhere").mkdir()
    write_project(tiny.dense(), "m", tmp_path / "link")
    assert (tmp_path / "elsewhere" / "m.c").exists()


def test_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        write_project(tiny.dense(), "m", ".")
        assert Path("m.c").exists()


def test_nothing_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(tiny.dense(), "m", tmp_path / "made")
    before = {p: p.read_text() for p in (tmp_path / "made").rglob("*.*")}
    monkeypatch.setattr(
        project_module.Path, "write_bytes", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full"))
    )
    for folder in ("made", "fresh"):
        with pytest.raises(InvalidArgumentError, match="cannot be written: disk full"):
            write_project(tiny.passing(), "m", tmp_path / folder)
    assert {p: p.read_text() for p in (tmp_path / "made").rglob("*.*")} == before
    assert [p.name for p in tmp_path.iterdir()] == ["made"]
