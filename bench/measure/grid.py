"""Tables that cannot harm a terminal, whatever models and files are called."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer.runtime.printable import printable


def harmless(cell: RenderableType, keep: str = "") -> RenderableType:
    """The cell with names from models escaped and without markup. A Group is our own and stays as it is."""
    if not isinstance(cell, str | Text):
        return cell
    text = cell if isinstance(cell, Text) else Text(cell)
    plain = printable(str(cell), keep)
    return text if plain == text.plain else Text(plain, style=text.style)


class Grid(Table):
    """A table with cells that cannot harm a terminal."""

    def add_row(self, *cells: RenderableType | None, **how: Any) -> None:
        super().add_row(*(cell if cell is None else harmless(cell) for cell in cells), **how)
