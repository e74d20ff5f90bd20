"""``twinfer explain``, ``report`` and ``diff`` on the command line: what they write, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny

from twinfer.bench.explain.ladder import Ladder
from twinfer.bench.explain.ledger import Ledger
from twinfer.bench.page.page import data_of
from twinfer.command_line.main import main
from twinfer.runtime.errors import ToolError

pytestmark = pytest.mark.usefixtures("board_tools")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dense.tflite: three layers."""
    monkeypatch.chdir(tmp_path)
    tiny.dense().graph.save("dense.tflite")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    said = capsys.readouterr()
    return status, said.out, said.err


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    how = ("--json", "-", "--ladder", "--techniques", "folding")
    status, out, _ = run(capsys, "explain", "dense.tflite", "--target", "cortex-m4", *how)
    told = json.loads(out)
    assert (status, told["schema"], told["target"], told["unit"]) == (0, 1, "cortex-m4", "instructions")
    for line in (*told["layers"], told["total"]):
        assert set(line) == {"position", "op", "name", "steps", "operators", "interpreted", "compiled", "causes"}
        assert sum(line["causes"].values()) == line["interpreted"] - line["compiled"]
    (rung,) = told["ladder"]["rungs"]
    assert rung["technique"] == "folding"
    assert rung["added"]["taken"] < told["ladder"]["none"]["taken"]


@pytest.mark.deep
def test_a_page_of_two_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "explain", "digits_int8", "--target", "m4,m0", "--html", "e.html")[0] == 0
    html = Path("e.html").read_text()
    assert html.index("On cortex-m4</h2>") < html.index("On cortex-m0</h2>")
    assert html.count('<figure class="chart"') == 4


def test_shown_commands_and_models_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """The page and the JSON of a report are one; either may stand beside a model."""
    report = ("report", "dense.tflite", "--target", "cortex-m4", "--no-ladder")
    assert run(capsys, *report, "-o", "r.html", "--json", "r.json")[0] == 0
    assert data_of(Path("r.html").read_text()) == json.loads(Path("r.json").read_text())
    status, out, _ = run(capsys, "diff", "r.html", "r.json")
    assert (status, "No layer changed." in out) == (0, True)
    how = ("--target", "m4", "--optimize", "size", "-o", "d.html")
    status, out, _ = run(capsys, "diff", "r.json", "dense.tflite", *how)
    assert (status, "optimize: balanced → size" in out) == (0, True)
    assert data_of(Path("d.html").read_text())["kind"] == "twinfer diff"


@pytest.mark.parametrize("wrong", [Ledger, pytest.param(Ladder, marks=pytest.mark.deep)])
def test_other_bits_have_a_status_of_their_own(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the programs that are compared, and of those with some of the techniques."""
    real = wrong.__getattribute__
    monkeypatch.setattr(wrong, "__getattribute__", lambda it, key: key != "same_bits" and real(it, key))
    ladder = "--ladder" if wrong is Ladder else "--no-ladder"
    assert main(["report", "dense.tflite", "--target", "cortex-m4", ladder, "-o", "r.html"]) == 1
    assert "PROGRAMS GAVE OTHER BITS" in Path("r.html").read_text()


@pytest.mark.parametrize("kind", ["r.json", "r.html"])
def test_options_of_a_model_beside_a_report(kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """A report's options are fixed; those of a model are A's but for what --with says."""
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
    run(capsys, "diff", "digits_int8", kind, "--target", "m0")
    assert asked[1:] == [("digits_int8", "cortex-m0", "auto", "balanced", 0)]
