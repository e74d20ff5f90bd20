"""Tables of a page: a click on a head sorts, long ones have a field that filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from twinfer.runtime.printable import in_html

#: Tables with more rows have a field that filters, and those with more scroll by themselves.
SHORT, LONG = 8, 60

#: Texts with more characters go on in a next line.
WIDE = 40


@dataclass(frozen=True)
class Cell:
    """A text, what it sorts by (None: the text), and how it looks: "good", "bad", or "" as usual."""

    text: str
    value: float | None = None
    look: str = ""

    @property
    def html(self) -> str:
        look = f' class="{self.look}"' if self.look else ""
        wide = " data-wide" if len(self.text) > WIDE else ""
        return f"<td{look}{self._order}{wide}>{_lines(self.text)}</td>"

    @property
    def _order(self) -> str:
        """What the script of the page sorts by, as JavaScript spells numbers; NaN is sorted as a text."""
        if self.value is None or isnan(self.value):
            return ""
        return f' data-value="{str(self.value).replace("inf", "Infinity")}"'


@dataclass(frozen=True)
class Table:
    """Rows of cells or texts below ``heads``; a head that begins with < stands over texts. ``foot`` is not sorted."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[Sequence[Cell | str], ...]
    foot: Sequence[Cell | str] = ()

    @property
    def html(self) -> str:
        left = [i for i, head in enumerate(self.heads) if head.startswith("<")]
        named = [(_side(i, left), _lines(head.removeprefix("<"))) for i, head in enumerate(self.heads)]
        heads = "".join(f'<th scope="col"{side}>{head}</th>' for side, head in named)
        body = "".join(f"<tr>{self._cells(row, left)}</tr>\n" for row in self.rows)
        foot = f"<tfoot><tr>{self._cells(self.foot, left)}</tr></tfoot>" if self.foot else ""
        long = " long" if len(self.rows) > LONG else ""
        kind = "sorted" if len(self.rows) > 1 else ""
        kind += " filtered" if len(self.rows) > SHORT else ""
        return (
            f'<div class="table{long}"><table class="{kind.strip()}"><caption>{in_html(self.caption)}</caption>'
            f"<thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody>{foot}</table></div>\n"
        )

    def _cells(self, row: Sequence[Cell | str], left: Sequence[int]) -> str:
        cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
        return "".join(cell.html.replace("<td", f"<td{_side(i, left)}", 1) for i, cell in enumerate(cells))


def _side(column: int, left: Sequence[int]) -> str:
    return ' data-side="left"' if column in left else ""


def _lines(text: str) -> str:
    return in_html(text).replace("\n", "<br>")
