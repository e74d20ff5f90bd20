"""What ``twinfer bench`` has found, as tables for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer import kernels_c
from twinfer.bench import peers
from twinfer.bench.compare import Row
from twinfer.runtime.errors import ToolError

#: Rises when a key of the JSON changes its meaning or goes; new ones may come.
SCHEMA = 1

#: Engine -> its name in tables.
NAMES = {"litert": "LiteRT (XNNPACK)", "litert-ref": "LiteRT (reference)", "tflm": "tflite-micro"}


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """The JSON document: what ran where, and a row an engine and model."""
    return {"schema": SCHEMA, "machine": machine(), "rows": list(rows)}


def machine() -> dict[str, Any]:
    """What the figures depend on beside the code."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "isa": kernels_c.LEVELS[kernels_c.level()],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "compiler": _compiler(),
        "peers": {name: peers.version(name) for name in ("litert", "tflm") if peers.version(name)},
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _compiler() -> str:
    from twinfer.aot.host import find_compiler
    from twinfer.aot.tools import compiler_version

    try:
        return compiler_version(find_compiler()).splitlines()[0]
    except (ToolError, IndexError):
        return ""


def tables(rows: Sequence[Row]) -> Iterator[RenderableType]:
    """The times of all models, then their sizes, then the layers of those that have them."""
    if not rows:
        return
    yield _times(rows)
    yield _sizes(rows)
    for model in _models(rows):
        own = [row for row in rows if row["model"] == model and row.get("layers")]
        if own:
            yield _layers(model, own)
            yield _dispatch(own[0])


def _models(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in rows))


def _table(title: str, *columns: str) -> Table:
    """Columns whose name begins with ``<`` are left-aligned."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column.removeprefix("<"), justify="left" if column[0] == "<" else "right", no_wrap=True)
    return table


def _times(rows: Sequence[Row]) -> Table:
    columns = ("<model", "<engine", "min µs", "median µs", "spread µs", "× interpreted", "GMAC/s", "<outputs")
    table = _table("Time of one inference", *columns)
    for model in _models(rows):
        table.add_section()
        label = model
        for row in (row for row in rows if row["model"] == model):
            table.add_row(Text(label), _engine(row["engine"]), *_time_cells(row))
            label = ""
    return table


def _engine(name: str) -> Text:
    return Text(NAMES.get(name, name), style="bold" if name == "compiled" else "")


def _time_cells(row: Row) -> list[str | Text]:
    if row["min_us"] is None:
        return ["-", "-", "-", "-", "-", Text(row.get("error", ""), style="yellow")]
    rate = row["macs"] / row["min_us"] / 1e3
    times = [number(row[key]) for key in ("min_us", "median_us", "spread_us")]
    return [*times, f"{row['ratio']:.2f}", f"{rate:.1f}" if row["macs"] else "-", _bits(row)]


def _bits(row: Row) -> Text:
    if row["same_bits"]:
        return Text("same bits", style="green")
    far = row["max_difference"]
    return Text(
        "differ" if far is None else f"differ by {far:.3g}", style="yellow" if row["engine"] in NAMES else "red"
    )


def number(value: float) -> str:
    """Four significant digits, no exponent."""
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return f"{value:,.{digits}f}"


def _sizes(rows: Sequence[Row]) -> Table:
    columns = ("<model", "operators", "MACs", "constants B", "arena B", "lower bound B", "over bound", "compile s")
    table = _table("Size", *columns)
    for row in rows:
        if row["engine"] != "compiled":
            continue
        bound = row["lower_bound_bytes"]
        over = f"{100 * (row['arena_bytes'] / bound - 1):.1f} %" if bound else "-"
        took = f"{row['compile_s']:.2f}" + (" (cached)" if row["compile_cached"] else "")
        counts = [
            f"{row[key]:,}" for key in ("operators", "macs", "constant_bytes", "arena_bytes", "lower_bound_bytes")
        ]
        table.add_row(Text(row["model"]), *counts, over, took)
    return table


def _layers(model: str, rows: Sequence[Row]) -> Table:
    """A line a step: kernel times, the step's share of the interpreted run, and Python dispatch's share of the step."""
    times = [f"{row['engine']} µs" for row in rows]
    table = _table(f"Layers of {model}", "#", "<operator", "<output", "<kernel", "MACs", *times, "share", "dispatch")
    total = sum(layer["min_us"] for layer in rows[0]["layers"])
    for group in zip(*(row["layers"] for row in rows), strict=True):
        first = group[0]
        dispatch = rows[0]["dispatch_us"]
        table.add_row(
            str(first["index"]),
            first["op"],
            "×".join(map(str, first["shape"])),
            first["kernel"].removeprefix("tw_"),
            f"{first['macs']:,}" if first["macs"] else "-",
            *(number(layer["min_us"]) for layer in group),
            f"{100 * first['min_us'] / max(total, 1e-9):.1f} %",
            f"{100 * dispatch / max(first['min_us'] + dispatch, 1e-9):.1f} %",
        )
    return table


def _dispatch(row: Row) -> Text:
    """The line about the loop in Python, which runs only where somebody looks on (``on_call``)."""
    steps, dispatch = len(row["layers"]), row["dispatch_us"]
    share = 100 * steps * dispatch / max(row["min_us"] + steps * dispatch, 1e-9)
    return Text(
        f"Dispatch from Python, as on_call does it: {dispatch:.3f} µs an operator, {share:.1f} % of such a run; "
        "invoke() alone makes one call into C."
    )
