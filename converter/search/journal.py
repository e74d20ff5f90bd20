"""The journal of a search: one line of JSON per result, so that no trial runs twice."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinfer.runtime.errors import InvalidArgumentError

#: The keys of a line: the model and data it is about, the set-up of the search, the question, and the answer.
_KEYS = ("model", "data", "search", "key", "value")

#: The beginning of every line. Only a last line that begins so may be cut off.
_START = b'{"data": "'


class Journal:
    """Answers by question, for one model, one data set (their SHA-256s) and one set-up of the search.

    ``path`` None: kept in memory only. A file is read, and every answer is appended at once. Searches of other set-ups
    in the file are passed over. A last line that was not written whole is cut off. InvalidArgumentError for a file that
    is no journal, or is of another model or data.
    """

    def __init__(self, path: str | os.PathLike[str] | None, model: str, data: str, search: Mapping[str, Any]) -> None:
        self._about = {"model": model, "data": data, "search": _plain(search)}
        self._known: dict[str, Any] = {}
        self._path = None if path is None else Path(path)
        if self._path is not None:
            try:
                self._read(self._path)
            except OSError as error:
                raise InvalidArgumentError(f"{path}: cannot be used as a journal: {error.strerror or error}") from None

    def _read(self, path: Path) -> None:
        if os.path.lexists(path) and not os.path.isfile(path):
            raise InvalidArgumentError(f"{path}: cannot be used as a journal: it is no regular file")
        path.open("ab").close()  # there, and to be written to
        content = path.read_bytes()
        *lines, torn = content.split(b"\n")
        for number, text in enumerate(lines, 1):
            self._line(text, f"{path}, line {number}")
        if torn and torn[: len(_START)] != _START[: len(torn)]:
            raise _foreign(f"{path}, line {len(lines) + 1}")
        if torn:
            os.truncate(path, len(content) - len(torn))

    def _line(self, text: bytes, where: str) -> None:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict) or set(line) != set(_KEYS):
            raise _foreign(where)
        for what in ("model", "data"):
            if line[what] != self._about[what]:
                own, other = self._about[what][:12], str(line[what])[:12]
                raise InvalidArgumentError(
                    f"{where}: the journal of other {what} (SHA-256 {other}…, not {own}…); give another file"
                )
        if line["search"] == self._about["search"]:
            self._known[_text(line["key"])] = line["value"]

    def get(self, key: Mapping[str, Any]) -> Any:
        return self._known.get(_text(_plain(key)))

    def add(self, key: Mapping[str, Any], value: Any) -> None:
        """Notes an answer; it is on disk before this returns."""
        self._known[_text(_plain(key))] = _plain(value)
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(_text({**self._about, "key": _plain(key), "value": _plain(value)}).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())


def _foreign(where: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{where}: this is no line of a search's journal; give another file")


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _plain(value: Any) -> Any:
    return json.loads(_text(value))
