"""What tables look like."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from twinfer.bench.measure.report import table
from twinfer.command_line import terminal
from twinfer.command_line.terminal import show


@pytest.mark.parametrize("colours", [False, True])
def test_titles_stay_on_a_line(
    colours: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However narrow the table is; and no line ends with spaces."""
    if colours:
        monkeypatch.setenv("FORCE_COLOR", "1")
    titles = ("A title that is much wider than its table", "Another title that is much wider than its table")
    first, second = (table(title, "<a", "b") for title in titles)
    first.add_row("left", "1")
    second.add_row("left", "")
    show([first, second])
    lines = capsys.readouterr().out.splitlines()
    plain = [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in lines]
    assert (plain[0], plain[plain.index("") + 1]) == titles
    assert not any(line.endswith(" ") for line in plain)


def test_what_models_say_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Names in brackets, of tensors and in titles, stand as they are; nothing in them is coloured."""
    named = table("of [bold]all[/bold] :smile:", "<a [red]", "b")
    named.add_row("CUSTOM:[red]x[/red] :warning:", "[link=http://x]1")
    show([named, Text("[bold]said[/bold] :smile:")])
    text = capsys.readouterr().out
    for said in ("of [bold]all[/bold] :smile:", "a [red]", "CUSTOM:[red]x[/red] :warning:", "[link=http://x]1",
                 "[bold]said[/bold] :smile:"):  # fmt: skip
        assert said in text


def test_characters_that_a_stream_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """On both streams the nearest ASCII, else a question mark; bytes that cannot be read stay an error."""
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="ascii") for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(terminal.sys, name, stream)
    terminal.plain_where_needed()
    for stream in streams.values():
        stream.write("1×3 → 漢, 12 µs, ██▓▒░·, →→a≈≠é\n")
        stream.flush()
        assert stream.buffer.getvalue() == b"1x3 > ?, 12 us, ##=s-., >>a~!?\n"  # type: ignore[attr-defined]
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", errors="twinfer")


def test_the_bar_shows_how_far_all_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that are done and the share of the one at hand; drawn at its beginning, and then not too often."""
    now, drawn = [100.0], list[tuple[float, str]]()
    monkeypatch.setattr(terminal, "Console", lambda **_: Console(file=io.StringIO(), force_terminal=True))
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        Progress, "update", lambda self, task, completed, description, refresh: drawn.append((completed, description))
    )
    totals = []
    monkeypatch.setattr(Progress, "add_task", lambda self, description, total: totals.append(total))
    with terminal.progress(3) as told:
        for done, share, passed in ((0, 0, 0), (0, 0.25, 0.05), (0, 0.5, 0.06), (1, 0, 0.01), (2, 0.75, 0.2)):
            now[0] += passed
            told(done, f"model\n{done}", share)
    assert totals == [3]
    assert [completed for completed, _ in drawn] == [0, 0.5, 1, 2.75]
    assert all("\n" not in text for _, text in drawn)
    assert [text[-1] for _, text in drawn] == ["0", "0", "1", "2"]


def test_no_bar_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress(2) as told:
        told(1, "model", 0.5)
    assert capsys.readouterr() == ("", "")
