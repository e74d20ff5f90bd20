"""What an HTML page says: its tables and the descriptions of its charts, read as a browser reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

#: Elements that have no end.
_EMPTY = {"meta", "br", "input", "link", "img", "hr"}


@dataclass
class ShownCell:
    """A cell: its text, lines joined by a space, and its attributes."""

    attributes: dict[str, str]
    text: str = ""


@dataclass
class ShownTable:
    """A table: the caption, its class, and cells of the head, the body and the foot."""

    look: str
    caption: str = ""
    heads: list[ShownCell] = field(default_factory=list)
    rows: list[list[ShownCell]] = field(default_factory=list)
    foot: list[ShownCell] = field(default_factory=list)

    def column(self, head: str) -> list[str]:
        """The texts below a head."""
        (place,) = [i for i, each in enumerate(self.heads) if each.text == head]
        return [row[place].text for row in self.rows]


@dataclass
class ShownChart:
    """A chart: its caption, what it says to those who do not see it, and what Vega-Lite gets."""

    title: str = ""
    about: str = ""
    spec: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The data that its marks share."""
        return self.spec["data"]["values"]

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows]

    def layers(self, mark: str) -> list[dict[str, Any]]:
        """The layers of one kind of mark, those inside of others, too."""
        return [each for each in _layers(self.spec) if _mark(each) == mark]


def _layers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [layer for each in spec.get("layer", ()) for layer in _layers(each)]
    return [spec, *inner] if "mark" in spec else inner


def _mark(layer: dict[str, Any]) -> str:
    return layer["mark"]["type"] if isinstance(layer["mark"], dict) else layer["mark"]


class Page(HTMLParser):
    """A parsed page. ``texts``: what is shown outside of tables; ``loads``: addresses that it names."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[ShownTable] = []
        self.charts: list[ShownChart] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == [], "every element ends"

    @property
    def text(self) -> str:
        """All that is shown outside of tables, with single spaces."""
        return " ".join(" ".join(self.texts).split())

    @property
    def cell(self) -> ShownCell:
        """The cell that was begun last."""
        table = self.tables[-1]
        return (table.foot if "tfoot" in self.open else table.rows[-1] if "tbody" in self.open else table.heads)[-1]

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        self.loads += [given[name] for name in ("src", "href", "srcset") if name in given and tag != "a"]
        if tag not in _EMPTY:
            self.open.append(tag)
        self._begin(tag, given)

    def _begin(self, tag: str, given: dict[str, str]) -> None:
        """Open a table, a row, a cell or a chart."""
        if tag == "table":
            self.tables.append(ShownTable(given.get("class", "")))
        elif tag == "tr" and "tbody" in self.open:
            self.tables[-1].rows.append([])
        elif tag in ("th", "td"):
            table = self.tables[-1]
            row = table.foot if "tfoot" in self.open else table.rows[-1] if "tbody" in self.open else table.heads
            row.append(ShownCell(given))
        elif tag == "figure":
            self.charts.append(ShownChart())
        elif "aria-label" in given and "figure" in self.open:
            self.charts[-1].about = given["aria-label"]
        elif tag == "br" and {"th", "td"} & set(self.open):
            self.cell.text += " "

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> ends what is open"

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            if "figure" in self.open:
                self.charts[-1].spec = json.loads(data)
        elif "caption" in self.open:
            self.tables[-1].caption += data
        elif "figcaption" in self.open:
            self.charts[-1].title += data
        elif {"th", "td"} & set(self.open):
            self.cell.text += data
        elif "style" not in self.open:
            self.texts.append(data)
