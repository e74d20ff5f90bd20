"""wheel, sdist and editable install, each from clean sources into a clean environment where it is used."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from twinfer.kernels_c import lib
from twinfer.runtime.tools import find_compiler

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("runtime", "kernels_c", "converter", "aot", "bench")
FOR_DEVELOPERS = ("bench/fuzz/", "bench/lab/", "kernels_c/README.md")
MADE = ("*.so", "*.egg-info", "__pycache__", ".*")
MADE_AT_THE_ROOT = {"build", "dist", "out"}  # aot/build is a package
PIP = ("-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-compile")

RUN = """
import numpy as np
from twinfer import Interpreter
from twinfer.converter.build import Builder
from twinfer.runtime.write.tflite import write

b = Builder("tiny")
x = b.input("x", "INT8", (1, 4), scale=0.5, zero=3)
model = write(b.graph([b.op("RESHAPE", [x, np.array([2, 2], np.int32)], shape=(2, 2))]))
interpreter = Interpreter(model_content=model)
interpreter.allocate_tensors()
interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.array([[1, -2, 3, 127]], np.int8))
interpreter.invoke()
print(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist())
"""

LEVELS = """
from twinfer.kernels_c import lib
print(*(lib.tw_built(level) for level in range(lib.tw_level_count)))
"""

TYPED = """
from twinfer.runtime.plan.arena import Block, place
reveal_type(place([Block(1, 0, 1)]).offsets)
"""

pytestmark = pytest.mark.deep


@pytest.fixture(autouse=True)
def unoptimised(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler without optimisation takes 3 s instead of 50; ``make setup`` has built the kernels with all flags."""
    compiler = tmp_path_factory.mktemp("bin") / "cc"
    compiler.write_text(f'#!/bin/sh\nexec {shlex.join(find_compiler())} "$@" -O0\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Standard output of a command that must succeed, with no trace of this checkout in its environment."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "MYPYPATH")}
    done = subprocess.run(command, cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the sources only, without anything built before."""
    copy = tmp_path / "sources"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=_made)
    return copy


def _made(folder: str, names: list[str]) -> set[str]:
    """The names in a folder that are built files."""
    at_the_root = MADE_AT_THE_ROOT & set(names) if Path(folder) == ROOT else set()
    return at_the_root | shutil.ignore_patterns(*MADE)(folder, names)


def install(folder: Path, *what: str | Path) -> Path:
    """The Python of a new environment with only ``what`` and its dependencies."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run(python, *PIP, *what, cwd=folder)
    return python


def build(sources: Path, kind: str) -> Path:
    """The file that ``python -m build`` makes, with the build tools of this environment."""
    run(sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "-o", sources / "dist", sources, cwd=sources)
    (built,) = (sources / "dist").iterdir()
    return built


def wanted() -> set[str]:
    """Every file that must be in a distribution, as a path below the package."""
    front = ROOT / "twinfer"  # its symlinks are not followed
    paths = {path.relative_to(front).as_posix() for path in front.rglob("*.py")}
    for folder in FOLDERS:
        files = (p for p in (ROOT / folder).rglob("*") if p.is_file() and p.suffix not in (".so", ".pyc"))
        paths.update(path.relative_to(ROOT).as_posix() for path in files)
    return {path for path in (*paths, "py.typed") if not path.startswith(FOR_DEVELOPERS)}


def assert_complete(names: Iterable[str], prefixes: Iterable[str]) -> None:
    present = {name.removeprefix(prefix) for name in names for prefix in prefixes}
    missing = sorted(wanted() - present)
    assert not missing, f"not in the distribution: {missing}; see packages and package-data in pyproject.toml"
    useless = sorted(name for name in present if name.startswith(FOR_DEVELOPERS))
    assert not useless, f"in the distribution, though no command needs it: {useless}"


def assert_readable(names: Iterable[str], top: str) -> None:
    """The pages that README.md links to are included."""
    links = re.findall(r"\]\((\w[^)#]*)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    missing = {link for link in links if not link.startswith("https:")} - {name.removeprefix(top) for name in names}
    assert links
    assert not missing, f"not in the distribution: {sorted(missing)}; see MANIFEST.in"


def assert_works(python: Path, folder: Path, every_level: bool = True, **environment: str) -> None:
    """Runs a model through the compiled kernels, the command, and a type check of a user's script.

    The kernels are built for every level of instructions, or for this CPU's best alone.
    """
    away = folder / "away"
    away.mkdir()
    levels = run(python, "-c", LEVELS, cwd=away).split()
    assert levels == ["1"] * len(levels) if every_level else levels.count("1") == 1 == int(levels[lib.tw_level()])
    assert run(python, "-c", RUN, cwd=away) == "[[1, -2], [3, 127]]\n"
    assert "bench" in run(python.with_name("twinfer"), "--help", cwd=away)
    run(python.with_name("twinfer"), "compile", "digits_int8", "-o", "made", cwd=away)
    assert (away / "made" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    (away / "user.py").write_text(TYPED)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", os.devnull)
    said = run(*mypy, "--python-executable", python, "user.py", cwd=away, **environment)
    assert 'Revealed type is "tuple[int, ...]"' in said.replace("builtins.", "")


def test_wheel(sources: Path, tmp_path: Path) -> None:
    wheel = build(sources, "wheel")
    assert "-cp311-abi3-linux_" in wheel.name, "one wheel serves every Python from 3.11 on"
    with zipfile.ZipFile(wheel) as archive:
        assert_complete(archive.namelist(), ["twinfer/"])
        assert "twinfer/kernels_c/_ffi.abi3.so" in archive.namelist()
    assert_works(install(tmp_path, wheel), tmp_path)


def test_sdist(sources: Path, tmp_path: Path) -> None:
    sdist = build(sources, "sdist")
    top = sdist.name.removesuffix(".tar.gz")
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    assert_complete(names, [f"{top}/", f"{top}/twinfer/"])
    assert_readable(names, f"{top}/")
    built = [name for name in names if name.endswith(".so") or name.startswith(f"{top}/build/")]
    assert not built, "made files in the sdist"
    assert_works(install(tmp_path, sdist), tmp_path)


def test_editable(sources: Path, tmp_path: Path) -> None:
    python = install(tmp_path, "-e", sources)
    imported = run(python, "-c", "import twinfer.runtime; print(twinfer.runtime.__file__)", cwd=tmp_path)
    assert Path(imported.strip()).resolve() == sources / "runtime" / "__init__.py"
    # setuptools' editable installs work by an import hook, which type checkers do not run: tell them where it lies.
    assert_works(python, tmp_path, every_level=False, MYPYPATH=str(sources))
