"""The kernels' headers as files: any of them may meet in one program."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from twinfer.kernels_c import FOLDER

_GUARD = re.compile(r"^#ifndef (\w+)\n#define \1\n", re.MULTILINE)


def test_include_guards_differ() -> None:
    """Of two headers with one guard, a program that includes both sees the first alone."""
    guards = {path: _GUARD.findall(path.read_text(encoding="utf-8")) for path in Path(FOLDER).rglob("*.h")}
    assert guards
    assert [path.name for path, names in guards.items() if len(names) != 1] == []
    counts = Counter(name for names in guards.values() for name in names)
    assert [name for name, count in counts.items() if count > 1] == []
