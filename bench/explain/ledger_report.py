"""A ledger as tables and as words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer.bench.explain.causes import CAUSES, ordered
from twinfer.bench.explain.ledger import Ledger, Line, Start
from twinfer.bench.measure.report import bits_in_words, number, span, table

#: A saving below this share of what the interpreter takes is not worth a word.
WORTH_A_WORD = 0.002


def ledger_tables(ledger: Ledger) -> Iterator[RenderableType]:
    """The layers and their sum, flash and RAM, the start, and what it means in words."""
    yield _lines(ledger)
    if ledger.bytes:
        yield _bytes(ledger)
    yield Text(
        "\n".join(f"{_label(cause)}: {CAUSES[cause].about}." for cause in ordered(ledger.causes)), "bright_black"
    )
    yield Text(_started(ledger.start, ledger.target))
    yield Text("\n".join(words(ledger)))


def told(ledger: Ledger) -> dict[str, Any]:
    """The ledger's document, with what it means in words."""
    return {**ledger.document, "words": list(words(ledger))}


def _lines(ledger: Ledger) -> Table:
    causes = ordered(ledger.causes)
    title = f"{ledger.model} on {ledger.target}: {ledger.unit} of one inference, and what compiling saves by cause"
    heads = [CAUSES[cause].label for cause in causes]
    shown = table(title, "#", "<operator", "inter-\npreted", "com-\npiled", "×", *heads, gap=1)
    for line in ledger.lines:
        shown.add_row(span(line.operators), line.op, *_figures(line, causes, ledger.unit))
    shown.add_section()
    shown.add_row("", Text("total", style="bold"), *_figures(ledger.total, causes, ledger.unit))
    if ledger.intervals:
        ends = [ledger.intervals[cause] for cause in causes]
        shown.add_row("", "95 % from", "", "", "", *(number(low) for low, _ in ends))
        shown.add_row("", "to", "", "", "", *(number(high) for _, high in ends))
    return shown


def _bytes(ledger: Ledger) -> Table:
    causes = ordered(ledger.causes)
    shown = table("Bytes", "<", "inter-\npreted", "com-\npiled", "×", *(CAUSES[cause].label for cause in causes), gap=1)
    for kind, line in ledger.bytes.items():
        shown.add_row(kind, *_figures(line, causes, "bytes"))
    return shown


def _figures(line: Line, causes: Sequence[str], unit: str) -> list[str]:
    values = [line.interpreted, line.compiled, *(line.causes[cause] for cause in causes)]
    both, saved = [_figure(value, unit) for value in values[:2]], [_figure(value, unit) for value in values[2:]]
    return [*both, ratio(line), *saved]


def _figure(value: float, unit: str) -> str:
    return number(value) if unit == "µs" else f"{value:,.0f}"


def ratio(line: Line) -> str:
    """How many times as much the interpreter takes; a dash where that says nothing."""
    return f"{line.interpreted / line.compiled:.2f}" if min(line.interpreted, line.compiled) > 0 else "-"


def _label(cause: str) -> str:
    return CAUSES[cause].label.replace("-\n", "").replace("\n", " ")


def _started(start: Start, target: str) -> str:
    """What happens before the first inference, in words."""

    def told(parts: dict[str, float]) -> str:
        each = ", ".join(f"{what} {number(value)}" for what, value in parts.items())
        return f"{number(sum(parts.values()))} {start.unit} ({each})"

    own = f"only the interpreter needs {start.interpreter_bytes:,} bytes"
    if not start.interpreted:
        return f"Start on {target}: nothing on both sides, the plan is constants; {own} for its tables and loop."
    sides = f"interpreted {told(dict(start.interpreted))}, compiled {told(dict(start.compiled))}"
    return f"From the file to the first inference: {sides}; {own}, its extension with all kernels."


def words(ledger: Ledger) -> Iterator[str]:
    """What compiling is worth and why, a sentence a cause, the greatest first."""
    all_of = ledger.total
    saved, bits = all_of.interpreted - all_of.compiled, bits_in_words(ledger.same_bits)
    yield (
        f"Compiling {ledger.model} for {ledger.target} saves {_figure(saved, ledger.unit)} of "
        f"{_figure(all_of.interpreted, ledger.unit)} {ledger.unit}: {ratio(all_of)} ×, {bits}."
    )
    for cause in sorted(all_of.causes, key=lambda key: -abs(all_of.causes[key])):
        share = all_of.causes[cause] / max(all_of.interpreted, 1e-9)
        if abs(share) >= WORTH_A_WORD:
            yield f"{_label(cause)[0].upper()}{_label(cause)[1:]}: {100 * share:+.1f} %{_where(ledger, cause)}."


def _where(ledger: Ledger, cause: str) -> str:
    """The operators on which a cause weighs most, with what they would take without it."""
    kinds: dict[str, list[float]] = {}
    for line in ledger.lines:
        taken = kinds.setdefault(line.op, [0.0, 0.0])
        taken[0] += line.interpreted
        taken[1] += line.causes[cause]
    worth = {op: taken / (taken - saved) for op, (taken, saved) in kinds.items() if taken > max(saved, 0)}
    most = sorted((op for op in worth if kinds[op][1]), key=lambda op: -abs(kinds[op][1]))[:2]
    told = [f"{worth[op]:.2f} × on {op}" for op in most]
    return f" ({', '.join(told)})" if told else ""
