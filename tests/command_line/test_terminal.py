"""What tables look like."""

from __future__ import annotations

import pytest

from twinfer.bench.measure.report import table
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
