"""``twinfer report`` and ``twinfer diff`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twinfer.bench.explain.ladder import Ladder
from twinfer.bench.explain.ledger import Ledger
from twinfer.bench.page.page import data_of
from twinfer.command_line.main import main
from twinfer.runtime.errors import ToolError

pytestmark = pytest.mark.usefixtures("board_tools")

REPORT = ("report", "digits_int8", "--target", "cortex-m4", "--no-ladder")


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.fixture
def reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, Path]:
    """A report as a page and as JSON."""
    html, figures = tmp_path / "r.html", tmp_path / "r.json"
    assert run(capsys, *REPORT, "-o", html, "--json", figures)[0] == 0
    return html, figures


def test_the_page_and_the_json_are_one(reports: tuple[Path, Path]) -> None:
    html, figures = reports
    told = json.loads(figures.read_text())
    assert data_of(html.read_text()) == told
    assert (told["model"], told["target"], told["unit"]) == ("digits_int8", "cortex-m4", "instructions")


def test_a_report_says_the_essential_in_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *REPORT, "-o", tmp_path / "r.html")
    assert status == 0
    assert out.startswith("digits_int8 on cortex-m4: ")
    assert [line for line in out.splitlines() if not line.startswith("  ")][1:] == [
        "What takes the time:",
        "What takes the RAM:",
        "What to look at:",
    ]


def test_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *REPORT, "--json", "-")
    assert status == 0
    assert json.loads(out)["kind"] == "twinfer report"


@pytest.mark.parametrize("wrong", [Ledger, Ladder])
def test_other_bits_have_a_status_of_their_own(wrong: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the programs that are compared, and of those with some of the techniques."""
    real = wrong.__getattribute__
    monkeypatch.setattr(wrong, "__getattribute__", lambda it, key: key != "same_bits" and real(it, key))
    assert main([*REPORT, "--ladder", "-o", str(tmp_path / "r.html")]) == 1
    assert "PROGRAMS GAVE OTHER BITS" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say where the report goes: -o report.html"),
        (["-o", "no/folder/r.html"], "there is no folder"),
        (["-o", "r.html", "--json", "r.html"], "named for two results"),
        (["-o", "r.html", "--target", "m99"], "no target 'm99'"),
        (["-o", "r.html", "--target", "generic"], "only planned for"),
        (["-o", "r.html", "--input-rows"], "take a whole input"),
    ],
)
def test_what_report_refuses(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, "report", "digits_int8", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert not list(tmp_path.iterdir())


# -- diff --------------------------------------------------------------------------------------------------------------


def test_reports_and_models_are_compared(
    reports: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html, figures = reports
    status, out, _ = run(capsys, "diff", html, figures)
    assert status == 0
    assert "No layer changed." in out
    page = tmp_path / "diff.html"
    status, out, _ = run(capsys, "diff", figures, "digits_int8", "--target", "m4", "--optimize", "size", "-o", page)
    assert status == 0
    assert "optimize: balanced → size" in out
    assert data_of(page.read_text())["kind"] == "twinfer diff"


def test_options_of_b_alone(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--with", "--memory layers --optimize speed")
    status, out, _ = run(capsys, "diff", "digits_int8", "--target", "m4", *given, "--json", "-")
    told = json.loads(out)
    assert status == 0
    both = [(told[side]["options"]["memory"], told[side]["options"]["optimize"]) for side in ("a", "b")]
    assert both == [("auto", "balanced"), ("layers", "speed")]


def test_another_target_for_b(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "diff", "digits_int8", "--target", "m4", "--with", "--target m0", "--json", "-")
    told = json.loads(out)
    assert status == 0
    assert (told["a"]["target"], told["b"]["target"], told["comparable"]) == ("cortex-m4", "cortex-m0", False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digits_int8"], "does not differ from itself"),
        (["digits_int8", "--with=--speed"], "--with: unrecognized arguments: --speed"),
        (["digits_int8", "--with='"], "--with ': No closing quotation"),
        (["missing.json", "digits_int8"], "missing.json: cannot be read"),
        (["digits_int8", "b.json"], "b.json is no report"),
        (["old.json", "old.json"], "old.json has schema 0"),
        (["broken.json", "b.json"], "broken.json: cannot be read as a report"),
        (["page.html", "b.json"], "page.html is no report"),
        (["b.json", "--with", "--memory rows"], "b.json is a report"),
    ],
)
def test_what_diff_refuses(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.json").write_text("[1]")
    Path("old.json").write_text('{"kind": "twinfer report", "schema": 0}')
    Path("broken.json").write_text('{"kind": ')
    Path("page.html").write_text("<html></html>")
    monkeypatch.setattr("twinfer.bench.report.document.report_of", lambda *given: {"kind": "twinfer report"})
    status, out, err = run(capsys, "diff", *arguments)
    assert (status, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("kind", ["r.json", "r.html"])
def test_options_of_a_model_beside_a_report(
    kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any
) -> None:
    """A report's options are fixed; those of a model are A's but for what --with says."""
    monkeypatch.chdir(tmp_path)
    data = '{"kind": "twinfer report", "schema": 1}'
    Path("r.json").write_text(data)
    Path("r.html").write_text(f'<script type="application/json" id="data">{data}</script>')
    asked = []

    def report_of(source: Any, card: Any, options: Any, wanted: Any, *_: Any) -> Any:
        asked.append((source.name, card and card.name, options.memory, options.optimize, wanted.seed))
        raise ToolError("noted")

    monkeypatch.setattr("twinfer.bench.report.document.report_of", report_of)
    how = ("--target", "m4", "--optimize", "size", "--seed", "3", "--with=--memory rows --seed 4")
    status, _, err = run(capsys, "diff", kind, "digits_int8", *how)
    assert (status, err) == (2, "twinfer: noted\n")
    assert asked == [("digits_int8", "cortex-m4", "rows", "size", 4)]
    status, _, err = run(capsys, "diff", "digits_int8", kind, *how)
    assert status == 2
    assert f"{kind} is a report, its options are fixed" in err
    assert len(asked) == 1
    status, _, err = run(capsys, "diff", "digits_int8", kind, "--target", "m0")
    assert asked[1:] == [("digits_int8", "cortex-m0", "auto", "balanced", 0)]
