"""The figures of ``twinfer bench`` on microcontrollers, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.cycles import cycle_tables
from twinfer.bench.measure.limits import Standing, Verdict, mean, settings_of, standings
from twinfer.bench.measure.report import bits, engine_label, in_terminal, kernel_suffix, models, table
from twinfer.bench.page.table import Cell as PageCell
from twinfer.bench.page.table import Table as PageTable

Cell = str | Text


#: Characters that a line needs for all figures. Shorter lines leave out _BOUNDS, the columns of bounds.
ROOMY, _BOUNDS = 110, (5, 8)


def embedded_tables(rows: Sequence[Row], width: int = ROOMY) -> Iterator[RenderableType]:
    """Instructions and bytes on every core, then the layers of the models that have them, in lines of ``width``."""
    for target in dict.fromkeys(row["target"] for row in rows):
        own = [row for row in rows if row["target"] == target]
        yield _figures(target, own, width >= ROOMY)
        yield from (Text(f"{r['model']}: {r['engine']}: {r['error']}", style="yellow") for r in own if r.get("error"))
        for row in own:
            if row.get("layers") and row["engine"] == "compiled":
                yield _layers(row)
                if row["instances"]:
                    sizes = ", ".join(f"{kernel} {_number(size)}" for kernel, size in row["instances"].items())
                    yield Text(f"Bytes of shared bodies, paid once: {sizes}.")
    if rows:
        yield from _legend(rows)
    yield from cycle_tables(rows)
    yield from coding_tables(rows)
    yield from beside_tflm(standings(rows))


def _legend(rows: Sequence[Row]) -> Iterator[Text]:
    yield Text("MAC: multiply-accumulate; bytes of code: all read-only but weights; stack: written, and static bound.")
    if any("recorded" in row for row in rows):
        yield Text("TFLM: recorded (bench/data/peers_cortex_m.toml), at -O3 but where it says -Os, its smallest build;")
        yield Text("its weights are the .tflite file, which lies in flash whole.")
    if alike := sorted({row["model"] for row in rows if str(row.get("recorded", "")).startswith("alike")}):
        yield Text(f"TFLM ran MLPerf Tiny's own models of the same topology in place of {', '.join(alike)}.")


def _figures(target: str, rows: Sequence[Row], wide: bool) -> Table:
    """One heading per model, and below it one line per engine."""
    sizes = ("code\nbytes", "weight\nbytes", "arena\nbytes", "lower\nbound", "other\nRAM", "stack", "its\nbound")
    columns = _shown(("instructions", "a MAC", *sizes, "<outputs"), wide)
    shown = table(f"One inference on {target}", "<", *columns, gap=2 if wide else 1)
    for model in models(rows):
        shown.add_row(Text(model, style="bold"))
        own = [row for row in rows if row["model"] == model]
        macs = own[0]["macs"]
        for row in own:
            shown.add_row(_label(row), *_shown(_cells(row, macs), wide))
    return shown


def _shown(columns: Sequence[Any], wide: bool) -> list[Any]:
    """The columns that there is room for."""
    return [column for i, column in enumerate(columns) if wide or i not in _BOUNDS]


def _label(row: Row) -> Text:
    """The engine; for compiled code also what it is optimised for."""
    label = engine_label(row)
    label = label.append(f", {row['optimize']}") if row["engine"] == "compiled" else label
    return label.append("" if row.get("weights", "file") == "file" else f", {stored(row)}")


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


def _layers(row: Row) -> Table:
    """One line per step: its cost with a body of its own and with a shared one. The one in the emitted code is bold."""
    title = f"Layers of {row['model']} on {row['target']}, {row['optimize']}: instructions, and bytes of their own"
    columns = ("MACs", "a MAC", "share", "own\nbody", "\nbytes", "shared\nbody", "\nbytes", "<choice")
    cycles = ("cycles",) if "cycles" in row else ()
    shown = table(title, "#", "<operator", "<kernel", "<output", *columns, *cycles, gap=1)
    for layer in row["layers"]:
        shown.add_row(
            str(layer["index"]),
            layer["op"],
            kernel_suffix(layer["op"], layer["kernel"]),
            "×".join(map(str, layer["shape"])),
            _number(layer["macs"] or None),
            f"{layer['instructions'] / layer['macs']:.2f}" if layer["macs"] else "-",
            f"{100 * layer['instructions'] / max(row['instructions'], 1):.0f} %",
            *_choices(layer),
            *(_number(layer[key]) for key in cycles),
        )
    return shown


def _choices(layer: Row) -> Iterator[Cell]:
    """Instructions and bytes both ways, the chosen one in bold."""
    taken = [_number(layer[key]) for key in ("instructions", "code_bytes")]
    other = [_number(layer[key]) for key in ("other_instructions", "other_code_bytes")]
    shared = layer["shared"]
    for cells, here in ((other, False), (taken, True)) if shared else ((taken, True), (other, False)):
        yield from (Text(cell, style="bold" if here else "bright_black") for cell in cells)
    yield "shared" if shared else "own"


def beside_tflm(every: Sequence[Standing]) -> Iterator[RenderableType]:
    """One table per core of the ratios to TFLM: green within the project's limits, red beyond."""
    for target in dict.fromkeys(standing.target for standing in every):
        yield in_terminal(standing_table([standing for standing in every if standing.target == target]))
    if every:
        yield Text(
            "Instructions against TFLM + CMSIS-NN at -O3. Code: bytes, and against TFLM's smallest build. Weights"
        )
        yield Text(
            "against weights + bias + 5 B per channel; RAM against the plan's bound and TFLM's arena (limits.py)."
        )


def standing_table(own: Sequence[Standing]) -> PageTable:
    """The ratios of the models on one core, and their mean."""
    settings, memories = settings_of(own), list(dict.fromkeys(way for each in own for way in each.arena))
    heads = [*(f"instr.\n{s}" for s in settings), *(f"code\n{s}" for s in settings)]
    heads += ["weights\n/ floor", "RAM\n/ bound", *(f"/ arena\n{memory}" for memory in memories)]
    rows = list[Sequence[PageCell | str]]()
    for each in own:
        verdicts = [*(each.instructions.get(s) for s in settings), *(each.code.get(s) for s in settings)]
        verdicts += [each.weights, each.ram, *(each.arena.get(memory) for memory in memories)]
        rows.append((each.model, *map(_cell, verdicts)))
    means = [mean(own, setting) for setting in settings]
    foot = list[PageCell | str]()
    if first := next(filter(None, means), None):
        foot = [f"mean of {first[1]}", *(_cell(m and m[0]) for m in means), *[""] * (len(heads) - len(means))]
    return PageTable(f"Beside TFLM on {own[0].target}", ("<", *heads), tuple(rows), foot)


def _cell(verdict: Verdict | None) -> PageCell:
    if verdict is None:
        return PageCell("-")
    return PageCell(str(verdict), verdict.value, {None: "", True: "good", False: "bad"}[verdict.good])


# -- weights stored coded ----------------------------------------------------------------------------------------------


def coding_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """One table per core, of the models and settings that were measured with weights stored in several ways."""
    for target in dict.fromkeys(row["target"] for row in rows):
        own = [row for row in rows if row["target"] == target and row.get("instructions") and "weights" in row]
        shown = table(f"Weights stored coded on {target}", "<", "flash", "", "RAM", "", "instructions", "")
        groups, order = dict[tuple[str, ...], list[Row]](), models(own)
        for row in sorted(own, key=lambda row: order.index(row["model"])):
            groups.setdefault((row["model"], row["engine"], row["optimize"]), []).append(row)
        for names, group in groups.items():
            plain = next((row for row in group if row["weights"] == "plain"), None)
            if plain is not None and len(group) > 1:
                shown.add_row(Text(", ".join(names), style="bold"))
                for row in group:
                    shown.add_row(f"  {stored(row)}", *coded_figures(row, plain))
        if shown.row_count:
            yield shown


def stored(row: Row) -> str:
    """How a row's weights are stored and when they are decoded, in words."""
    how = str(row["weights"])
    return {"file": "as in the file", "plain": "plain"}.get(how, f"{how} at the {row['decode']}")


def coded_figures(row: Row, plain: Row) -> Iterator[str]:
    """Flash, RAM and instructions, each with its ratio to the same with plain weights."""
    for keys in (("code_bytes", "weight_bytes"), ("ram_bytes", "stack_bytes"), ("instructions",)):
        value, base = (sum(each[key] for key in keys) for each in (row, plain))
        yield f"{value:,}"
        yield f"{value / max(base, 1):.2f}"
