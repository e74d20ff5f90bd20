"""The figures of ``twinfer bench``, as tables for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer import kernels_c
from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.grid import Grid
from twinfer.bench.measure.tflm import LABELS
from twinfer.bench.page.table import Cell
from twinfer.bench.page.table import Table as PageTable
from twinfer.bench.peers.engines import benched, peers, version
from twinfer.runtime.errors import ToolError
from twinfer.runtime.printable import printable
from twinfer.runtime.run import isa
from twinfer.runtime.tools import compiler_version

#: Rises when a key of the JSON goes or changes its meaning. New keys do not count.
SCHEMA = 1


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """The JSON document: what ran where, and a row per engine, model and target."""
    return {"schema": SCHEMA, "machine": machine(), "rows": list(rows)}


def machine() -> dict[str, Any]:
    """All that the figures depend on beside the code."""
    from twinfer.runtime.tools import find_compiler

    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "isa": kernels_c.LEVELS[isa.level()],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "compiler": _compiler(find_compiler),
        **_compilers(),
        "peers": {name: version(name) for name in benched() if version(name)},
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _compilers() -> dict[str, str]:
    """The compilers of the microcontrollers, one per board folder: "arm_compiler"."""
    from twinfer.aot.build.targets import find, names

    compilers = {card.board: card.compiler for card in map(find, names())}
    return {f"{board}_compiler": _compiler(lambda name=name: (name,)) for board, name in compilers.items()}  # type: ignore[misc]


def _compiler(command: Callable[[], Sequence[str]]) -> str:
    """The first line of a compiler's version; empty if there is no compiler."""
    try:
        return compiler_version(command()).splitlines()[0]
    except (ToolError, IndexError):
        return ""


def tables(rows: Sequence[Row]) -> Iterator[RenderableType]:
    """The times of all models, then their sizes, then the layers of those that have them."""
    if not rows:
        return
    yield times(rows)
    for row in (row for row in rows if row.get("error")):
        yield Text(f"{row['model']}: {label(row['engine'])}: {row['error']}", style="yellow")
    yield _sizes(rows)
    for model in models(rows):
        own = [row for row in rows if row["model"] == model and row.get("layers")]
        if own:
            yield _layers(model, own)
            yield _peak(own[0])
            yield _dispatch(own[0])


def models(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in rows))


def table(title: str, *columns: str, gap: int = 2) -> Table:
    """A table that fits narrow terminals. Columns with names that begin with "<" are left-aligned and may be folded."""
    style = {"title_justify": "left", "title_style": "bold", "header_style": "bold", "pad_edge": False}
    shown = Grid(title=printable(title), box=box.SIMPLE_HEAD, show_edge=False, padding=(0, gap - 1, 0, 0), **style)  # type: ignore[arg-type]
    for column in columns:
        left = column[:1] == "<"
        shown.add_column(
            printable(column.removeprefix("<")), justify="left" if left else "right", no_wrap=not left, overflow="fold"
        )
    return shown


def in_terminal(page: PageTable, title: str = "", gap: int = 2) -> Table:
    """A page's table for a terminal: what is good is green, what is bad is red; its last line is bold."""
    shown = table(title or page.caption, *page.heads, gap=gap)
    for row in page.rows:
        shown.add_row(*map(_colour, row))
    if page.foot:
        shown.add_row(*map(_colour, page.foot), style="bold")
    return shown


def _colour(cell: Cell | str) -> Text:
    cell = cell if isinstance(cell, Cell) else Cell(cell)
    return Text(cell.text, {"good": "green", "bad": "bold red"}.get(cell.look, ""))


def times(rows: Sequence[Row], *, brief: bool = False) -> Table:
    """One heading per model, and below it one line per engine, then the floor; ``brief``: without median and spread."""
    spreads = () if brief else ("median", "spread")
    shown = table("Time of one inference", "<", "min µs", *spreads, "× interpr.", "GMAC/s", "× floor", "<outputs")
    for model in models(rows):
        own = [row for row in rows if row["model"] == model]
        shown.add_row(Text(model, style="bold"))
        for row in own:
            shown.add_row(engine_label(row), *_time_cells(row, spreads))
        if floor := own[0].get("floor_us"):
            rate = f"{own[0]['macs'] / floor / 1e3:.1f}"
            shown.add_row(Text("  floor", style="dim"), number(floor), *[""] * len(spreads), "", rate, "1.00", "")
    return shown


def label(engine: str) -> str:
    """An engine's name in tables; our own keep their names."""
    return peers()[engine].label if engine in peers() else LABELS.get(engine, engine)


def engine_label(row: Row) -> Text:
    return Text(f"  {label(row['engine'])}", style="bold" if row["engine"] == "compiled" else "")


def _time_cells(row: Row, spreads: Sequence[str]) -> list[str | Text]:
    if row["min_us"] is None:
        return [*["-"] * (4 + len(spreads)), Text("failed", style="yellow")]
    rate = row["macs"] / row["min_us"] / 1e3
    times = [number(row[f"{key}_us"]) for key in ("min", *spreads)]
    far = f"{row['min_us'] / row['floor_us']:.2f}" if row.get("floor_us") else "-"
    return [*times, f"{row['ratio']:.2f}", f"{rate:.1f}" if row["macs"] else "-", far, bits(row)]


def bits_in_words(same: bool) -> str:
    """How the programs' outputs compare, for the end of a sentence."""
    return "with the same bits" if same else "but with OTHER BITS"


def bits(row: Row) -> Text:
    if row["same_bits"]:
        return Text("same bits", style="green")
    far = row["max_difference"]
    text = "differ" if far is None else f"differ by {far:.0f}" if far >= 1 else f"differ by {far:.1g}"
    foreign = row["engine"] in peers() or row["engine"] in LABELS  # whose differences are not our fault
    return Text(text, style="yellow" if foreign or row.get("agrees") else "bold red")


def span(numbers: Sequence[int]) -> str:
    """The numbers of the operators in a line: 11, 0-3, or nothing."""
    return "-".join(dict.fromkeys(str(end) for end in (min(numbers), max(numbers)))) if numbers else ""


def number(value: float) -> str:
    """Four significant digits, no exponent."""
    if value < 0:
        return f"-{number(-value)}"
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return f"{value:,.{digits}f}"


def spread(value: float, folds: Sequence[float]) -> str:
    """A mean and, over several figures, their standard deviation."""
    return f"{value:.2f} ±{stdev(folds):.2f}" if len(folds) > 1 else f"{value:.2f}"


def _sizes(rows: Sequence[Row]) -> Table:
    columns = ("MACs", "constant\nbytes", "arena\nbytes", "lower\nbound", "over\nbound", "compiled\nin s")
    shown = table("Size", "<", "opera-\ntors", *columns)
    for row in rows:
        if row["engine"] != "compiled":
            continue
        bound = row["lower_bound_bytes"]
        over = f"{100 * (row['arena_bytes'] / bound - 1):.1f} %" if bound else "-"
        keys = ("operators", "macs", "constant_bytes", "arena_bytes", "lower_bound_bytes")
        took = "cached" if row["compile_cached"] else f"{row['compile_s']:.2f}"
        shown.add_row(Text(row["model"], style="bold"), *(f"{row[key]:,}" for key in keys), over, took)
    return shown


def _layers(model: str, rows: Sequence[Row]) -> Table:
    """One line per step: kernel times, the step's share of the interpreted run, Python dispatch's share of the step."""
    times = [f"{row['engine'][:6]}.\nµs" for row in rows]
    columns = ("#", "<operator", "<kernel", "<output", "MACs", *times, "GMAC\n/s", "of\npeak", "share", "dis-\npatch")
    shown = table(f"Layers of {model}", *columns, gap=1)
    total = sum(layer["min_us"] for layer in rows[0]["layers"])
    dispatch = rows[0]["dispatch_us"]
    for group in zip(*(row["layers"] for row in rows), strict=True):
        first = group[0]
        shown.add_row(
            str(first["index"]),
            first["op"],
            kernel_suffix(first["op"], first["kernel"]),
            "×".join(map(str, first["shape"])),
            f"{first['macs']:,}" if first["macs"] else "-",
            *(number(layer["min_us"]) for layer in group),
            *_rate(group[-1], rows[0]),
            f"{100 * first['min_us'] / max(total, 1e-9):.0f} %",
            f"{100 * dispatch / max(first['min_us'] + dispatch, 1e-9):.0f} %",
        )
    return shown


def _rate(layer: Row, row: Row) -> tuple[str, str]:
    """GMAC/s of a layer, and its share of what this machine can do."""
    if not layer["macs"]:
        return "-", "-"
    rate = layer["macs"] / max(layer["min_us"], 1e-3) / 1e3
    most = row["peak"]["float32" if layer["type"] == "FLOAT32" else "int8"]
    return f"{rate:.0f}", f"{100 * rate / most:.0f} %"


def _peak(row: Row) -> Text:
    """The line about what was measured of this machine."""
    peak = row["peak"]
    return Text(
        f"Peak of a core here, measured: {peak['int8']:.0f} GMAC/s of int8, {peak['float32']:.0f} of float32; "
        f"{peak['l2']:.0f} GB/s out of L2.\nGMAC/s are those of the compiled layers."
    )


def kernel_suffix(op: str, kernel: str) -> str:
    """The part of a kernel's name behind the operator's: wide_s8 of tw_conv2d_wide_s8."""
    words, rest = op.lower().replace("_", ""), kernel.removeprefix("tw_")
    for at in range(len(rest) + 1):
        if rest[:at].replace("_", "") == words:
            return rest[at:].lstrip("_") or rest
    return rest


def _dispatch(row: Row) -> Text:
    """The line about the loop in Python, which runs only with ``on_call``."""
    steps, dispatch = len(row["layers"]), row["dispatch_us"]
    share = 100 * steps * dispatch / max(row["min_us"] + steps * dispatch, 1e-9)
    return Text(
        f"Dispatch from Python, as with on_call: {dispatch:.3f} µs per operator, {share:.1f} % of a run;\n"
        "without on_call, invoke() is one call into C."
    )
