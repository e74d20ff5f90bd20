"""Golden files of many lines, one for each model, operator or kind: what is told now is held against what is kept."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest


def compare(file: Path, told: Iterable[str], request: pytest.FixtureRequest) -> None:
    """Fails unless the lines are those of the file. With --refresh-golden the file is written anew first."""
    lines = list(told)
    if request.config.getoption("refresh_golden"):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    kept = file.read_text(encoding="utf-8").splitlines()
    changed = [line for line in lines if line not in set(kept)]
    assert lines == kept, f"{len(changed)} lines of {file.name} changed; if it is meant: --refresh-golden"
