"""An HTML page or a JSON document as lines of text, without what is of this machine: for golden files."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

#: Keys of JSON that name this machine or this moment, and of charts that say how wide they are.
_MACHINE = ("machine", "processor", "cpu", "date", "made", "seconds", "config", "$schema")

#: The longest JSON that stands on one line, and as many parts of a list as are shown.
_LONGEST, _SHOWN = 400, 8


def json_lines(value: Any, name: str = "") -> Iterator[str]:
    """A JSON document without what is of this machine: a line for each part that is short or has no inner parts.

    Of a long list there are the first parts and a check sum of the others.
    """
    parts = [*value.items()] if isinstance(value, dict) else [*enumerate(value)] if isinstance(value, list) else []
    line = f"{name}: {json.dumps(_rounded(value), ensure_ascii=False)}"
    if not any(isinstance(part, dict | list) for _, part in parts) or (name and len(line) <= _LONGEST):
        yield line
        return
    if isinstance(value, list) and len(parts) > _SHOWN + 1:
        rest = json.dumps(_rounded(value[_SHOWN:]))
        parts = [*parts[:_SHOWN], (f"{_SHOWN} to {len(value) - 1}", f"{zlib.crc32(rest.encode()):08x}")]
    for key, part in parts:
        if key not in _MACHINE:
            yield from json_lines(part, f"{name}.{key}")


def _rounded(value: Any) -> Any:
    """Floats to four digits, which are the same on every machine."""
    if isinstance(value, dict):
        return {key: "…" if key in _MACHINE else _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def page_text(html: str) -> str:
    """A line for each block or row of the page, and the data of its charts."""
    page = _Page()
    page.feed(html)
    return "".join(page.parts) + "\n"


class _Page(HTMLParser):
    """The text of a page, a line for each block or row, and the data of its charts."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.open = [""]

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("br", "meta", "link", "img", "input", "hr", "path", "rect", "line", "circle", "wbr", "col"):
            self.open.append(tag)
        if tag in ("p", "h1", "h2", "h3", "tr", "table", "li", "section", "div", "figure", "summary", "br", "title"):
            self.parts.append("\n")
        elif tag in ("td", "th"):
            self.parts.append(" | ")
        self.parts += [f"[{value}] " for name, value in attrs if name in ("title", "aria-label", "href", "id")]

    def handle_endtag(self, tag: str) -> None:
        while tag in self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open[-1] == "script" and data.lstrip().startswith("{"):
            self.parts.append("\n" + "\n".join(json_lines(json.loads(data))) + "\n")
        elif self.open[-1] not in ("style", "script"):
            self.parts.append(" ".join(data.split()) if data.strip() else "")
