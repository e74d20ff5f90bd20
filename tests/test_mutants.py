"""The tool that plants faults: which it finds in a file, and that it tells noticed ones from others."""

from __future__ import annotations

import ast
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from mutants import Copy, asked_for, faults, run
from needs import ROOT

AREA = """def area(a, b: "int < 1", *, edge=2):
    if a < 0 and b:
        raise ValueError(f"{a + 1}")
    a += edge
    return max(shift(a, b, by=1), 0)
"""
HEADER = """#define STEP (1 + 2)
/* a + b */
static inline int32_t tw_sum(int32_t a, const int32_t *b) {
    int32_t sum = tw_min(a, *b) - 3;
    if (a >= 0) sum = a;
    return sum;
}
"""


def planted(path: Path, text: str) -> set[str]:
    """What becomes of a file, the changed line of every fault."""
    path.write_text(text)
    found, lines = faults(path), text.split("\n")
    new = [(text[: each.start] + each.new + text[each.end :]).split("\n") for each in found]
    return {" ".join(line.strip() for line in one if line not in lines) for one in new}


def test_faults_of_python(tmp_path: Path) -> None:
    assert planted(tmp_path / "area.py", AREA) == {
        *(f'def area(a, b: "int < 1", *, edge=(2 {step})):' for step in ("+ 1", "- 1")),
        *(f"if {test}:" for test in ("False", "True", "((a < 0) or (b))", "((a < 0))", "((b))", "((a) <= (0)) and b")),
        *(f"if a < (0 {step}) and b:" for step in ("+ 1", "- 1")),
        "pass",
        *(f"return {value}" for value in ("min(shift(a, b, by=1), 0)", "max(shift(b, a, by=1), 0)")),
        *(f"return max(shift(a, b, by=(1 {step})), 0)" for step in ("+ 1", "- 1")),
        *(f"return max(shift(a, b, by=1), (0 {step}))" for step in ("+ 1", "- 1")),
        "return max(shift(a, b), 0)",
    }


def test_faults_of_c(tmp_path: Path) -> None:
    assert planted(tmp_path / "sum.h", HEADER) == {
        *(f"int32_t sum = {value};" for value in ("tw_max(a, *b) - 3", "tw_min(*b, a) - 3", "tw_min(a, *b) + 3")),
        *(f"int32_t sum = tw_min(a, *b) - (3 {step});" for step in ("+ 1", "- 1")),
        *(f"if ({test}) sum = a;" for test in ("0", "1", "a > 0", "a >= (0 + 1)", "a >= (0 - 1)")),
    }


@pytest.mark.parametrize(
    "file", ["runtime/plan/arena.py", "twinfer/command_line/inspect.py", "kernels_c/pool/pool_2d.h"]
)
def test_files_of_the_project(file: str) -> None:
    source = (ROOT / file).read_bytes()
    found = faults(ROOT / file)
    assert len(found) > 20
    if file.endswith(".py"):
        before = ast.dump(ast.parse(source))
        for each in found:
            assert ast.dump(ast.parse(source[: each.start] + each.new.encode() + source[each.end :])) != before, each
    listing = [sys.executable, "-m", "pytest", "-q", "--collect-only", *shlex.split(asked_for(file, ROOT))]
    assert "::test_" in subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one function, and a test that never gives it 0."""
    texts = {
        "bench/area.py": "def area(a, b):\n    return b or a\n",
        "tests/bench/test_area.py": "from area import area\n\n\ndef test_area():\n    assert area(3, 4) == 4\n",
        "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['bench']\nmarkers = ['slow']\n",
    }
    for path, text in texts.items():
        (tmp_path / "p" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / path).write_text(text)
    subprocess.run(["git", "init", "-q", str(tmp_path / "p")], check=True)
    return tmp_path / "p"


def test_verdicts(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Which faults are noticed; the tree itself is unchanged."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it starts in a fifth of the time
    before = (project / "bench" / "area.py").read_bytes()
    assert run(["bench/area.py"], 0, 5, None, project) == (2, 3)
    assert (project / "bench" / "area.py").read_bytes() == before
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "2 of 3 noticed",
        "3 of 3 faults in 1 files, seed 0",
        "SURVIVED bench/area.py:2: b or a -> ((b))",
        "noticed  bench/area.py:2: b or a -> ((a))",
        "noticed  bench/area.py:2: b or a -> ((b) and (a))",
    ]


def test_kernels_of_a_test_are_those_of_the_headers(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a fault of Python follows one of C; a header that does not compile is not judged."""
    header = "bench/sum.h"
    (project / header).write_text(HEADER)
    built, tested = [HEADER], list[str]()

    def ran(copy: Copy, command: list[str], _: float) -> int:
        text = (copy.folder / header).read_text()
        if "setup.py" in command:
            built.append(text)
        else:
            assert text == built[-1]
            tested.append(text)
        return 0

    monkeypatch.setattr(Copy, "_run", ran)
    run([header, "bench/area.py"], 2, 99, "tests", project)
    assert len(set(tested)) == 11, "ten faults of C"
    assert tested.count(HEADER) == 4, "without a fault, and with three of Python"
    monkeypatch.setattr(Copy, "_run", lambda self, command, _: int("setup.py" in command))
    assert run([header], 0, 3, "tests", project) == (0, 0)
