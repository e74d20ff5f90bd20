"""The mutants' tables are not stale, and the tool tells noticed mutants from unnoticed. ``make mutants`` runs them."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from mutants import kernels
from mutants.__main__ import arguments, chosen
from mutants.journal import Journal
from mutants.judge import EQUIVALENT, HUNG, KILLED, PATIENCE, SURVIVED, Judge
from mutants.sandbox import Run, Sandbox
from mutants.score import as_json, counts, reached, report, share
from mutants.table import ASIDE, ROOT, Mutant, MutantError, by_convention, files_of_tests, read
from rich.console import Console

from twinfer.kernels_c import FOLDER

MUTANTS = read()
AREAS = {"runtime core", "runtime/ops", "kernels_c", "aot", "converter and passes", "bench", "command line"}

#: A project of one function, and its test.
TINY = {
    "area.py": "def area(a, b):\n    while a < 0:\n        a += 1\n    return a * b\n",
    "tests/test_area.py": "from area import area\n\n\ndef test_area():\n    assert area(-2, 3) == 0 < area(2, 3)\n",
    "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['.']\nmarkers = ['slow']\n",
}


def mutant(find: str, replace: str, equivalent: str = "", area: str = "tiny") -> Mutant:
    return Mutant(area, "area.py", find, replace, "it", ("tests/test_area.py",), (), equivalent)


KILL, LIVE, HANG = mutant("a * b", "a - b"), mutant("a * b", "b * a"), mutant("a += 1", "a += 0")


def test_some_two_hundred_over_every_area() -> None:
    by_area = Counter(m.area for m in MUTANTS if not m.equivalent)
    assert set(by_area) == AREAS
    assert min(by_area.values()) >= 15
    assert by_area.total() >= 200
    assert len({(m.file, m.find, m.replace) for m in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("file", sorted({m.file for m in MUTANTS}))
def test_every_mutant_applies_once_and_changes_code(file: str) -> None:
    source = (ROOT / file).read_text("utf-8")
    before = meaning(file, source)
    for each in (m for m in MUTANTS if m.file == file):
        assert meaning(file, each.applied(source)) != before, each


def meaning(file: str, source: str) -> str:
    """The code without comments and layout; SyntaxError if it is not valid Python."""
    if file.endswith(".py"):
        return ast.dump(ast.parse(source))
    return " ".join(re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL).split())


def test_the_tests_that_are_asked_are_there() -> None:
    asked = {p for m in MUTANTS for p in re.findall(r"tests/[\w/]+\.py", " ".join(m.tests + m.wide))}
    there = files_of_tests(ROOT)
    assert asked == there - ASIDE
    assert there > ASIDE
    with pytest.raises(MutantError, match=r"no tests by convention"):
        by_convention("runtime/nothing.py", ROOT)


def test_tests_by_convention() -> None:
    assert by_convention("runtime/plan/arena.py", ROOT) == ["tests/runtime/plan/test_arena.py"]
    (only,) = by_convention("kernels_c/conv/conv2d_mve_s16.h", ROOT)
    assert only == "tests/kernels/test_ops.py::test_reference_and_interpreter -k '[conv_2d-'"
    assert len(by_convention("runtime/ops/pool/pool_2d.py", ROOT)) == 2


@pytest.mark.parametrize(("find", "times"), [("nothing", 0), ("a ", 2)])
def test_a_snippet_that_is_not_there_once(find: str, times: int) -> None:
    with pytest.raises(MutantError, match=f"found {times} times"):
        mutant(find, "x").applied("a = a * b")


def test_a_field_that_is_not_known(tmp_path: Path) -> None:
    table = tmp_path / "x.toml"
    table.write_text('area = "x"\nwide = []\n[tests]\n"a.py" = ["t"]\n[[mutant]]\nfile = "a.py"\nline = 3\n')
    with pytest.raises(MutantError, match=r"x\.toml.*line"):
        read([table])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for path, text in TINY.items():
        (tmp_path / "p" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / path).write_text(text)
    subprocess.run(["git", "init", "-q", str(tmp_path / "p")], check=True)
    return tmp_path / "p"


def test_verdicts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noticed and unnoticed mutants. The tree itself is never changed, and known verdicts are not asked again."""
    mutants, path = [KILL, LIVE, mutant("a * b", "a*b", "the same")], project.parent / "journal"
    verdicts: dict[Mutant, str] = {}
    Judge(project, Journal(path), 2).judge(mutants, lambda m, verdict: verdicts.update({m: verdict["verdict"]}))
    assert [verdicts[m] for m in mutants] == [KILLED, SURVIVED, EQUIVALENT]
    assert {name: (project / name).read_text() for name in TINY} == TINY
    again: list[str] = []
    monkeypatch.setattr(Sandbox, "pytest", lambda *_: pytest.fail("asked again"))
    Judge(project, Journal(path), 1).judge(mutants, lambda m, verdict: again.append(verdict["verdict"]))
    assert sorted(again) == sorted(verdicts.values())


def test_hung(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that hangs is ended with all that it started, and counts as noticed."""
    copy = Sandbox(project, project.parent / "copy")
    with copy.planted(HANG):
        assert copy.pytest("tests/test_area.py", 0.1).code is None
    assert (copy.folder / "area.py").read_text() == TINY["area.py"]
    monkeypatch.setattr(Sandbox, "pytest", lambda _, tests, limit: Run(None if limit < PATIENCE else 0, 1.0, ""))
    verdicts: list[str] = []
    Judge(project, Journal(project.parent / "j"), 1).judge(
        [HANG], lambda _, verdict: verdicts.append(verdict["verdict"])
    )
    assert verdicts == [HUNG]


def test_tests_that_fail_without_a_mutant(project: Path) -> None:
    (project / "area.py").write_text(TINY["area.py"].replace("a * b", "0"))
    with pytest.raises(MutantError, match="fails without a mutant"):
        Judge(project, Journal(project.parent / "j"), 1).judge([mutant("+= 1", "+= 2")], lambda *_: None)


def test_another_file_or_test_is_another_question(project: Path) -> None:
    first = KILL.key("tests/test_area.py", project)
    assert first == KILL.key("tests/test_area.py", project) != LIVE.key("tests/test_area.py", project)
    for path in ("area.py", "tests/test_area.py"):
        (project / path).write_text(TINY[path] + "\n")
        first, before = KILL.key("tests/test_area.py", project), first
        assert first != before


def test_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.add("a", {"verdict": KILLED})
    with (tmp_path / "j").open("a") as file:
        file.write('{"key": "b", "ver')
    again = Journal(tmp_path / "j")
    assert again.get("a") == {"verdict": KILLED}
    assert again.get("b") is None
    again.add("c", {"verdict": SURVIVED})
    assert Journal(tmp_path / "j").get("c") == {"verdict": SURVIVED}
    assert Journal(tmp_path / "j", fresh=True).get("a") is None


def test_a_mutated_kernel_is_built_for_every_level(tmp_path: Path) -> None:
    tmp_path /= "kernels_c"
    shutil.copytree(FOLDER, tmp_path, ignore=shutil.ignore_patterns("*.so"))
    assert {"conv2d_wide.h", "fully_connected.h"} <= {
        path.name for path in kernels.reached(tmp_path, "isa/wide/wide.h")
    }
    assert "softmax.h" not in {path.name for path in kernels.reached(tmp_path, "isa/wide/wide.h")}
    kernels.build(tmp_path, "functions/relu.h")
    listed = subprocess.run(["nm", "-D", str(tmp_path / "mutant.so")], capture_output=True, text=True, check=True)
    assert {f"tw_relu_s8_{level}" for level in ("base", "v3", "v4")} <= set(listed.stdout.split())
    relu = tmp_path / "functions" / "relu.h"
    relu.write_text(relu.read_text().replace("params", "nothing"))
    with pytest.raises(MutantError, match="does not compile"):
        kernels.build(tmp_path, "functions/relu.h")


def test_score(capsys: pytest.CaptureFixture[str]) -> None:
    words = [KILLED] * 8 + [HUNG] + [SURVIVED] + [EQUIVALENT] * 5
    judged = [(mutant("a", str(i)), {"verdict": word}) for i, word in enumerate(words)]
    assert share(counts(judged)["tiny"]) == 0.9
    assert reached(judged)
    one_more = [*judged, (mutant("a", "x", area="other"), {"verdict": SURVIVED})]
    assert not reached(one_more)
    assert counts(one_more)["all"].total() == 16
    console = Console(width=160)
    for part in report(one_more):
        console.print(part)
    said = re.sub("[│┃]", "", capsys.readouterr().out)
    assert re.search(r"tiny +15 +9 +1 +1 +5 +90%", said)
    assert re.search(r"other +1 +0 +0 +1 +0 +0%", said)
    assert "survived: area.py: a -> x (it)" in said
    assert json.loads(json.dumps(as_json(judged)))["areas"]["tiny"]["score"] == 0.9


def test_what_is_asked_for() -> None:
    assert {m.file for m in chosen(MUTANTS, "runtime/plan/arena.py", None)} == {"runtime/plan/arena.py"}
    assert {m.area for m in chosen(MUTANTS, None, "bench")} == {"bench"}
    with pytest.raises(MutantError, match=r"no mutants of x; the areas are .*kernels_c"):
        chosen(MUTANTS, "x", None)
    assert arguments(["--jobs", "3"]).jobs == 3
