"""What ``twinfer bench`` has found on microcontrollers, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer.bench.compare import Row
from twinfer.bench.report import bits, engine_label, models, table, variant

Cell = str | Text


def embedded_tables(rows: Sequence[Row]) -> Iterator[RenderableType]:
    """Of every core instructions and bytes, then the layers of the models that have them."""
    for target in dict.fromkeys(row["target"] for row in rows):
        own = [row for row in rows if row["target"] == target]
        yield _figures(target, own)
        yield from (Text(f"{r['model']}: {r['engine']}: {r['error']}", style="yellow") for r in own if r.get("error"))
        for model in models(own):
            layered = [row for row in own if row["model"] == model and row.get("layers")]
            if layered:
                yield _layers(f"Layers of {model} on {target}: instructions", layered)
    if rows:
        yield from _legend(rows)


def _legend(rows: Sequence[Row]) -> Iterator[Text]:
    yield Text("MAC: multiply-accumulate; bytes of code: all read-only but weights; stack: written, and static bound.")
    if any("recorded" in row for row in rows):
        yield Text("TFLM: recorded (bench/data/peers_cortex_m.toml), at -O3 but where it says -Os, its smallest build;")
        yield Text("its weights are the .tflite file, which lies in flash whole.")
    if alike := sorted({row["model"] for row in rows if str(row.get("recorded", "")).startswith("alike")}):
        yield Text(f"TFLM ran MLPerf Tiny's own models of the same topology in place of {', '.join(alike)}.")


def _figures(target: str, rows: Sequence[Row]) -> Table:
    """A heading for every model, and below it a line an engine."""
    columns = ("instructions", "a MAC", "code\nbytes", "weight\nbytes", "arena\nbytes", "lower\nbound", "other\nRAM")
    made = table(f"One inference on {target}", "<", *columns, "stack", "its\nbound", "<outputs")
    for model in models(rows):
        made.add_row(Text(model, style="bold"))
        own = [row for row in rows if row["model"] == model]
        macs = own[0]["macs"]
        for row in own:
            made.add_row(engine_label(row), *_cells(row, macs))
    return made


def _cells(row: Row, macs: int) -> list[Cell]:
    if row["instructions"] is None:
        return [*["-"] * 9, Text("failed", style="yellow")]
    per_mac = f"{row['instructions'] / macs:.2f}" if macs else "-"
    sizes = [row.get(key) for key in ("code_bytes", "weight_bytes", "arena_bytes", "lower_bound_bytes")]
    other = row["ram_bytes"] - row["arena_bytes"]
    numbers = [*sizes, other, row["stack_bytes"], row.get("stack_bound_bytes")]
    outputs = Text("recorded", style="bright_black") if "recorded" in row else bits(row)
    return [f"{row['instructions']:,}", per_mac, *map(_number, numbers), outputs]


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _layers(title: str, rows: Sequence[Row]) -> Table:
    """A line a step: instructions by mode, and of the compiled one a MAC's, its share of the run, and its own code."""
    modes = [row["engine"] for row in rows]
    made = table(title, "#", "<operator", "<kernel", "<output", "MACs", *modes, "a MAC", "share", "code\nbytes", gap=1)
    total = rows[-1]["instructions"]
    for group in zip(*(row["layers"] for row in rows), strict=True):
        last = group[-1]
        made.add_row(
            str(last["index"]),
            last["op"],
            variant(last["op"], last["kernel"]),
            "×".join(map(str, last["shape"])),
            _number(last["macs"] or None),
            *(f"{layer['instructions']:,}" for layer in group),
            f"{last['instructions'] / last['macs']:.2f}" if last["macs"] else "-",
            f"{100 * last['instructions'] / max(total, 1):.0f} %",
            f"{last['code_bytes']:,}",
        )
    return made
