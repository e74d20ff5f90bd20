"""Names from models and files cannot harm a terminal, wherever they are shown."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.text import Text

from twinfer.bench.measure.grid import harmless
from twinfer.bench.measure.report import table
from twinfer.bench.page.page import page
from twinfer.command_line import terminal
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph
from twinfer.runtime.printable import in_html, printable
from twinfer.runtime.write.tflite import write

#: Clears the screen, rings, goes back, turns the direction of writing, and looks like markup and its closing tag.
EVIL = "e\x1b[2Jv\x07\x08\r\u202ei\x9bl\u2066[red][/x]"
SEEN = r"e\x1b[2Jv\x07\x08\r\u202ei\x9bl\u2066[red][/x]"


def dense(name: str = EVIL) -> Graph:
    b = Builder(name)
    x = b.input(f"x{name}", "FLOAT32", (1, 4))
    weights = b.constant(np.arange(-6, 6, dtype=np.float32).reshape(3, 4), name=f"w{name}")
    return b.graph([b.op("FULLY_CONNECTED", [x, weights, None])], signature=f"s{name}")


def custom() -> Graph:
    b = Builder(EVIL)
    x = b.input(f"x{EVIL}", "FLOAT32", (1, 3))
    return b.graph([b.op(f"CUSTOM:{EVIL}", [b.op("RELU", [x])], shape=(1, 3))])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Models with hostile names in files with hostile names, and samples."""
    file = EVIL.replace("/", "")
    for graph, name in ((dense(), file), (custom(), f"custom{file}")):
        (tmp_path / f"{name}.tflite").write_bytes(write(graph))
    np.savez(tmp_path / "data.npz", **{f"x{EVIL}": np.linspace(-1, 1, 80, dtype=np.float32).reshape(20, 1, 4)})
    return tmp_path


COMMANDS = (
    "inspect IN",
    "inspect CUSTOM",
    "run IN",
    "run IN --output EVIL=x.npy",
    "run IN --input EVIL",
    "verify IN IN --against none",
    "verify CUSTOM",
    "bench IN --against none --runs 3 --layers",
    "bench CUSTOM --target EVIL",
    "compile IN -o EVIL",
    "convert IN -o EVIL.tflite --quantize int8 --calibration data.npz --report",
    "convert EVIL -o EVIL.tflite",
    "convert IN -o x.tflite --shape EVIL=1,4",
    "convert IN -o x.tflite --passes EVIL",
    "search IN --data data.npz --max-loss 0 --metric error --precisions int4 --methods minmax --trials 1 --jobs 1",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_command_line(
    command: str, is_terminal: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = EVIL.replace("/", "")
    named = {"IN": f"{file}.tflite", "CUSTOM": f"custom{file}.tflite"}
    monkeypatch.chdir(folder)
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "200")
    main([named.get(word, word.replace("EVIL", file)) for word in command.split()])
    said = capsys.readouterr()
    text = said.out + said.err
    assert "\x1b[2J" not in text
    colours_and_bar = r"\x1b\[[0-9;]*[mKA]|\x1b\[\?25[lh]|\r\x1b" if is_terminal else "$^"
    assert not [c for c in re.sub(colours_and_bar, "", text) if not c.isprintable() and c != "\n"]
    assert r"\x1b[2J" in text or "search" in command


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([EVIL], ["bench", f"--{EVIL}"], ["compile", "x", "-o", "y", "--mode", EVIL]):
        with pytest.raises(SystemExit):
            main(arguments)
        error = capsys.readouterr().err
        assert printable(error) == error
        assert r"\x1b" in error


def test_what_is_kept() -> None:
    assert printable("plain µ×≈ 中文 é") == "plain µ×≈ 中文 é"
    assert printable("two\nlines\tand\x7f\ud800\u200f\u2028") == "two\nlines\tand\\x7f\\ud800\\u200f\\u2028"
    assert printable("two\nlines", keep="") == r"two\nlines"
    assert printable(printable(EVIL)) == printable(EVIL)
    assert in_html(f"<b>{EVIL}") == f"&lt;b&gt;{SEEN}"
    assert f"<title>{SEEN}</title>" in page(EVIL, [])


def test_tables_keep_their_columns() -> None:
    """Names are escaped before widths are measured; styles stay if nothing was escaped."""
    grid = table(EVIL, f"<{EVIL}", "n")
    grid.add_row(EVIL, "1")
    grid.add_row(Text("a\nb", style="red"), None)
    out = io.StringIO()
    Console(file=out, width=200, markup=False).print(grid)
    title, head, _, first, second = out.getvalue().splitlines()
    assert title.rstrip() == head.split("  ")[0] == first.split("  ")[0].rstrip() == SEEN
    assert second.split()[0] == r"a\nb"
    styled = Text.assemble("x", ("y", "red"))
    assert harmless(styled) is styled
    assert harmless(grid) is grid


def test_the_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    err = io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with terminal.progress(1) as told:
        told(0, EVIL, 0)
        told(0, "a", 0.5)
        told(1, "a", 0)
    drawn = err.getvalue()
    assert re.search(r"\d:\d\d:\d\d\S* left \S*-:--:--", drawn), "nothing is known at first"
    assert re.search(r"\d:\d\d:\d\d\S* left \S*\d:\d\d:\d\d", drawn)
    assert r"\x1b[2Jv\x07" in drawn
    assert "[red]" in drawn
    assert "\x1b[2J" not in drawn
    assert not set("\x07\x08\u202e\x9b\u2066") & set(drawn)
