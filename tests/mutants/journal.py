"""The verdicts on mutants, one line of JSON each, so that a stopped run continues where it was."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any


class Journal:
    """Verdicts by key. An existing file is read; a last line that was not written whole is ignored."""

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self._path, self._lock, self._known = path, threading.Lock(), dict[str, dict[str, Any]]()
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        text = path.read_text("utf-8") if path.exists() else ""
        for line in text.splitlines(keepends=True):
            if line.endswith("\n"):
                entry = json.loads(line)
                self._known[entry.pop("key")] = entry
        if text and not text.endswith("\n"):
            path.write_text(text[: text.rfind("\n") + 1], "utf-8")

    def get(self, key: str) -> dict[str, Any] | None:
        """The verdict, or None."""
        return self._known.get(key)

    def add(self, key: str, verdict: dict[str, Any]) -> None:
        """Notes a verdict; it is in the file before this returns. Threads may call it."""
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            self._known[key] = verdict
            file.write(json.dumps({"key": key, **verdict}) + "\n")
