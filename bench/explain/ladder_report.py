"""A ladder as a table and as words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer.bench.explain.ladder import Figures, Ladder
from twinfer.bench.explain.techniques import TECHNIQUES
from twinfer.bench.measure.recorded import LABELS
from twinfer.bench.measure.report import number, table

#: A change below this share is not worth a word.
WORTH_A_WORD = 0.005


def ladder_tables(ladder: Ladder) -> Iterator[RenderableType]:
    """The rungs both ways, what they mean, and figures of others."""
    yield _rungs(ladder)
    about = [f"{TECHNIQUES[key].label}: {TECHNIQUES[key].about}." for key in ladder.techniques]
    about.append("Without a technique there are none that need it either.")
    yield Text("\n".join(about), "bright_black")
    yield Text("\n".join(ladder_words(ladder)))


def told_ladder(ladder: Ladder) -> dict[str, Any]:
    """The ladder's document, with what it means in words."""
    return {**ladder.document, "words": list(ladder_words(ladder))}


def _rungs(ladder: Ladder) -> Table:
    flash = ladder.whole.flash_bytes is not None
    heads = [ladder.unit, "×", *(["flash"] if flash else []), "RAM"]
    columns = [f"{head}\n{way}" if head == ladder.unit else head for way in ("added", "without") for head in heads]
    title = f"{ladder.model} on {ladder.target}: techniques added to nothing, and each left out of all"
    shown = table(title, "<", *columns, "<outputs", gap=1)
    shown.add_row("none of them", *_cells(ladder, ladder.ups[0], None), *[""] * len(heads), _bits(ladder.ups[0]))
    rungs = zip(ladder.techniques, ladder.ups, ladder.ups[1:], ladder.downs, strict=False)
    for key, before, up, down in rungs:
        cells = [*_cells(ladder, up, before.taken / up.taken), *_cells(ladder, down, down.taken / ladder.whole.taken)]
        shown.add_row(f"+ {TECHNIQUES[key].label}", *cells, _bits(up, down))
    for row in ladder.peers:
        if row["instructions"]:
            figures = [f"{row['instructions']:,}", f"{row['instructions'] / ladder.whole.taken:.2f}"]
            sizes = [f"{row['code_bytes'] + row['weight_bytes']:,}", f"{row['ram_bytes']:,}"]
            shown.add_row(LABELS[row["engine"]], *figures, *sizes, *[""] * len(heads), "recorded")
    return shown


def _cells(ladder: Ladder, figures: Figures, ratio: float | None) -> list[str]:
    taken = number(figures.taken) if ladder.unit == "µs" else f"{figures.taken:,.0f}"
    flash = [] if figures.flash_bytes is None else [f"{figures.flash_bytes:,}"]
    return [taken, "" if ratio is None else f"{ratio:.2f}", *flash, f"{figures.ram_bytes:,}"]


def _bits(*programs: Figures) -> Text:
    return Text("same bits") if all(each.same_bits for each in programs) else Text("OTHER BITS", style="bold red")


def ladder_words(ladder: Ladder) -> Iterator[str]:
    """What every technique is worth, a sentence each, in the order of the ladder."""
    for key, before, up, down in zip(ladder.techniques, ladder.ups, ladder.ups[1:], ladder.downs, strict=False):
        when_added, when_gone = before.taken / up.taken, down.taken / ladder.whole.taken
        parts = [
            f"{when_added:.2f} × when added, {when_gone:.2f} × when all else is there",
            *_bytes("flash", before.flash_bytes, up.flash_bytes),
            *_bytes("RAM", before.ram_bytes, up.ram_bytes),
        ]
        nothing = max(abs(when_added - 1), abs(when_gone - 1)) < WORTH_A_WORD and len(parts) == 1
        yield f"{_capital(TECHNIQUES[key].label)}: {'nothing here' if nothing else '; '.join(parts)}."
    first, last = ladder.ups[0], ladder.whole
    yield f"All together: {first.taken / last.taken:.1f} ×, RAM {last.ram_bytes / max(first.ram_bytes, 1):.2f} ×."


def _bytes(kind: str, before: int | None, after: int | None) -> Iterator[str]:
    """What a technique costs or saves in bytes, if it does."""
    if before is None or after is None or before == after:
        return
    verb = "costs" if after > before else "saves"
    yield f"{verb} {abs(after - before):,} B of {kind}"


def _capital(label: str) -> str:
    return label[0].upper() + label[1:]
