"""The tables of a report, made from its document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twinfer.bench.explain.causes import CAUSES, ordered
from twinfer.bench.explain.techniques import TECHNIQUES
from twinfer.bench.measure.report import span
from twinfer.bench.measure.tflm import LABELS
from twinfer.bench.page.table import Cell, Table
from twinfer.bench.report.remarks import speed
from twinfer.bench.report.summary import figure

Document = Mapping[str, Any]
Line = Mapping[str, Any]

#: Heads of two columns that several tables have.
BOTH = ("inter-\npreted", "compiled", "×")


def layers_table(document: Document) -> Table:
    """What every layer takes and weighs; the last row is the sum."""
    unit, whole = document["unit"], max(document["totals"]["compiled"], 1e-9)
    fast = "instr.\na MAC" if unit == "instructions" else "GMAC/s"
    heads = ("#", "<operator", "<output", "<shape", *BOTH, "share\n%", "MACs", fast, "code\nB", "weights\nB")
    rows = tuple(_layer(layer, unit, whole) for layer in document["layers"])
    foot: Sequence[Cell | str] = (
        "",
        "total",
        "",
        "",
        *_both(document["ledger"]["total"], unit),
        "",
        count(document["totals"]["macs"]),
    )
    return Table(f"Layers: {unit} of one inference", heads, rows, foot)


def _layer(layer: Line, unit: str, whole: float) -> Sequence[Cell | str]:
    share, fast = 100 * layer["compiled"] / whole, Cell("")
    if layer["macs"] and layer["steps"] and layer["compiled"] > 0:
        text = speed(layer["compiled"], layer["macs"], unit).split()[0]
        fast = Cell(text, float(text))
    return (
        operators(layer["operators"]),
        layer["op"],
        layer["name"],
        "×".join(map(str, layer["shape"])),
        *_both(layer, unit),
        Cell(f"{share:.1f}", share),
        count(layer["macs"] if layer["steps"] else None),
        fast,
        count(layer["code_bytes"]),
        count(layer["weight_bytes"]),
    )


def measured(value: float, unit: str) -> Cell:
    """A figure without its unit, which the head says."""
    return Cell(figure(value, unit).removesuffix(" µs").removesuffix(" B"), value)


def count(value: int | None) -> Cell:
    """A number of something; nothing if it is unknown."""
    return Cell("" if value is None else f"{value:,}", value)


def operators(numbers: Sequence[int]) -> Cell:
    """The numbers of operators in the model's file, in their order."""
    return Cell(span(numbers), min(numbers, default=None))


def _both(line: Line, unit: str) -> tuple[Cell, Cell, Cell]:
    both = line["interpreted"], line["compiled"]
    ratio = both[0] / both[1] if min(both) > 0 else None
    return measured(both[0], unit), measured(both[1], unit), Cell("-" if ratio is None else f"{ratio:.2f}", ratio)


def peak_tables(document: Document) -> Iterator[Table]:
    """What is live at the peak, and the changes that would lower it."""
    memory = document["memory"]
    live = tuple((each["name"], count(each["bytes"])) for each in memory["forced_by"]["tensors"])
    if live:
        yield Table("What is live at the peak", ("<tensor", "bytes"), live)
    hints = tuple((hint["text"], count(hint["ram_bytes"])) for hint in memory["hints"])
    if hints:
        yield Table("Changes that were planned", ("<change", "RAM then\nB"), hints)


def ledger_tables(ledger: Document) -> Iterator[Table]:
    """What compiling saves by cause, line by line, and of bytes."""
    causes, unit = ordered(ledger["total"]["causes"]), ledger["unit"]
    heads = (*BOTH, *(CAUSES[cause].label for cause in causes))

    def cells(line: Line, own: str) -> tuple[Cell, ...]:
        return (*_both(line, own), *(measured(line["causes"][cause], own) for cause in causes))

    rows = [(operators(line["operators"]), line["op"], *cells(line, unit)) for line in ledger["layers"]]
    foot: Sequence[Cell | str] = ("", "total", *cells(ledger["total"], unit))
    yield Table(f"What compiling saves, in {unit}", ("#", "<operator", *heads), tuple(rows), foot)
    if ledger["bytes"]:
        sizes = [(kind, *cells(line, "bytes")) for kind, line in ledger["bytes"].items()]
        yield Table("What it saves in bytes", ("<", *heads), tuple(sizes))


def ladder_table(ladder: Document) -> Table:
    """The rungs of a ladder both ways, and what others take; flash only where it is known."""
    unit, whole, before = ladder["unit"], ladder["rungs"][-1]["added"]["taken"], ladder["none"]
    sizes = ("flash", "RAM") if before["flash_bytes"] is not None else ("RAM",)
    heads = [f"{unit}\n{way}" if head == unit else head for way in ("added", "without") for head in (unit, "×", *sizes)]

    def cells(figures: Document, ratio: float | None) -> list[Cell]:
        worth = Cell("") if ratio is None else Cell(f"{ratio:.2f}", ratio)
        return [measured(figures["taken"], unit), worth, *(count(figures[f"{size.lower()}_bytes"]) for size in sizes)]

    nothing = [""] * (2 + len(sizes))
    rows: list[Sequence[Cell | str]] = [("none of them", *cells(before, None), *nothing, _bits(before))]
    for rung in ladder["rungs"]:
        own, without = rung["added"], rung["removed"]
        both = *cells(own, before["taken"] / own["taken"]), *cells(without, without["taken"] / whole)
        rows.append((f"+ {TECHNIQUES[rung['technique']].label}", *both, _bits(own, without)))
        before = own
    for peer in (peer for peer in ladder["peers"] if peer.get("instructions")):
        figures = {"taken": peer["instructions"], "flash_bytes": peer["code_bytes"] + peer["weight_bytes"]}
        ratio = peer["instructions"] / whole
        rows.append((LABELS[peer["engine"]], *cells({**peer, **figures}, ratio), *nothing, "recorded"))
    return Table(
        "Techniques added to nothing, and each left out of all", ("<technique", *heads, "<outputs"), tuple(rows)
    )


def _bits(*programs: Document) -> Cell:
    same = all(each["same_bits"] for each in programs)
    return Cell("same bits" if same else "OTHER BITS", look="" if same else "bad")


def symbols_table(document: Document) -> Table:
    """Every symbol of the flash, with what its alignment takes."""
    sizes = [(symbol["size"] + symbol["padding"], symbol) for symbol in document["flash"]]
    of = {node["position"]: (node["index"],) for node in document["nodes"]}
    rows = tuple(
        (symbol["name"] or "without a name", symbol["group"], operators(of.get(symbol["layer"], ())), count(size))
        for size, symbol in sorted(sizes, key=lambda pair: -pair[0])
    )
    return Table("Symbols, with what their alignment takes", ("<symbol", "<group", "operator", "bytes"), rows)
