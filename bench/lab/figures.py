"""Writes the figures of README.md and docs/, from the JSON files of the commands that are named there.

``python -m twinfer.bench.lab.figures`` writes them into the pages. The JSON files are in bench/lab/data/figures; ``make
figures`` writes these first. tests/bench/test_figures.py compares the pages with them.
"""

from __future__ import annotations

import io
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from twinfer.bench.lab import compression_report, fits, floors
from twinfer.bench.lab import explain_figures as explained
from twinfer.bench.lab.accuracy_models import MOST_DB
from twinfer.bench.lab.engines import BASELINE, OURS, PEERS
from twinfer.bench.measure import report
from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.embedded_report import beside_tflm, coded_figures
from twinfer.bench.measure.limits import mean, standings
from twinfer.runtime.errors import ToolError

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent / "data" / "figures"

#: Characters per line of a page.
WIDTH = 130

_NAMES = {"digits": "digits", "mnist": "MNIST 5k", "motions": "motions", "mlp": "MLP", "cnn": "CNN", "cnn1d": "1-D CNN",
          "cells": "cells", "raw_mlp": "MLP on raw features"}  # fmt: skip

#: The precisions that ``auto`` is shown beside, and itself.
_CHOSEN = ("int8", "int16x8", "auto")

#: Instruction-set levels of a PC -> their usual names.
_LEVELS = {"base": "no SIMD asked for", "v3": "AVX2", "v4": "AVX512-VNNI"}


def host(document: Any) -> str:
    """The table of times that ``twinfer bench`` prints, without median and spread."""
    return _printed(report.times(document["rows"], brief=True), 80)


def brief(document: Any) -> str:
    """One line per model: the shortest time of an inference by every engine."""
    engines = list(dict.fromkeys(row["engine"] for row in document["rows"]))
    lines = [["One inference, µs", *map(report.label, engines)]]
    for model in report.models(document["rows"]):
        times = {row["engine"]: row["min_us"] for row in document["rows"] if row["model"] == model}
        lines.append([model, *(report.number(times[engine]) if times.get(engine) else "-" for engine in engines)])
    return _markdown(lines)


def machine(document: Any) -> str:
    """The machine that the times are from, in one sentence."""
    about = document["machine"]
    compiler = re.sub(r"\s*\([^)]*\)", "", about["compiler"])
    peers = ", ".join(f"{report.label(name)} {version}" for name, version in about["peers"].items())
    return f"Measured on one core of: {about['cpu']}, {_LEVELS[about['isa']]}; {compiler}, {peers}."


def beside(core: str) -> Callable[[Any], str]:
    """The table of one core beside TFLM, as ``make bench-embedded`` prints it."""

    def text(document: Any) -> str:
        own = [standing for standing in standings(document["rows"]) if standing.target == core]
        return _printed(next(iter(beside_tflm(own))), 120)

    return text


def others(document: Any) -> str:
    """The cores without a table in the pages, in one sentence."""
    every = standings(document["rows"])
    means = {core: mean([s for s in every if s.target == core], "speed") for core in {s.target for s in every}}
    shares = [
        f"{m[0]} (M{core.removeprefix('cortex-m')})"
        for core, m in sorted(means.items(), key=lambda item: int(item[0].removeprefix("cortex-m")))
        if m and core not in ("cortex-m4", "cortex-m55")
    ]
    listed = f"{', '.join(shares[:-1])} and {shares[-1]}"
    return f"On the other cores the same four take {listed} of CMSIS-NN's instructions."


def simulated(document: Any) -> str:
    """One line per model: instructions, then cycles, and those an instruction, on every core."""
    rows = document["rows"]
    cores = list(dict.fromkeys(row["target"] for row in rows))
    lines = [["Cycles, counted", "instructions", *(core.removeprefix("riscv32-") for core in cores)]]
    for model in report.models(rows):
        own = {row["target"]: row for row in rows if row["model"] == model}
        counts = " / ".join(f"{count:,}" for count in dict.fromkeys(own[core]["instructions"] for core in cores))
        cycles = (own[core]["cycles"] for core in cores)
        lines.append([model, counts, *(f"{c['cycles']:,} ({c['cycles_per_instruction']:.2f})" for c in cycles)])
    return _markdown(lines)


def machines(document: Any) -> Sequence[Sequence[str]]:
    """One line per model: instructions on every machine, a multiply-accumulate in brackets."""
    rows = document["rows"]
    targets = list(dict.fromkeys(row["target"] for row in rows))
    lines = [["Instructions or operations", *targets]]
    for model in report.models(rows):
        own = [row for target in targets for row in rows if (row["model"], row["target"]) == (model, target)]
        lines.append([model, *(f"{r['instructions']:,} ({r['instructions'] / r['macs']:.2f})" for r in own)])
    return lines


def foreign(document: Any) -> Sequence[Sequence[str]]:
    """One line per model and compiler: instructions of twinfer's C and of the other's, and their ratio."""
    lines = []
    for row in document["rows"]:
        told = ["crashes", "-", "-"]
        if "other" in row:
            told = [f"{row['other']:,}", f"{row['other'] / row['own']:.2f}", f"{row['most']:.2g}"]
        lines.append([row["target"], row["model"], row["compiler"], f"{row['own']:,}", *told])
    return [["Core", "model", "other compiler", "twinfer", "other", "ratio", "outputs differ by"], *lines]


def accuracy(document: Any) -> str:
    """One line per network: mean and standard deviation of the folds in percent; bytes of our file and the peers'."""
    heads = ["accuracy, %", "samples", "float", "ours", "refined", "onnxruntime, static", "ai-edge-quantizer"]
    lines = [[*heads, "bytes: ours, ORT, ai-edge"]]
    engines = (*OURS, *PEERS)
    for name, group in _networks(document["rows"]):
        own = {row["engine"]: row for row in group}
        accuracies = [report.spread(own[e]["accuracy"], own[e]["folds"]) for e in (BASELINE, *engines)]
        sizes = ", ".join(f"{own[e]['bytes']:,}" for e in (OURS[0], *PEERS))
        lines.append([name, f"{group[0]['samples']:,}", *accuracies, sizes])
    return _markdown(lines)


def models(others: Any) -> Sequence[Sequence[str]]:
    """One line per network with labels and per model that others made: dB of int8 by each quantiser, in brackets where
    most weights stay floats; then the means of the differences to a peer over the models that both quantise, and on how
    many of these one is below it."""
    ours, peers = ("ours", "ours, refined"), {"ORT": "onnxruntime, static", "ai-edge": "ai-edge-quantizer"}
    engines = dict(zip((*OURS, *PEERS), (*ours, *peers), strict=True))
    found: dict[str, dict[str, Row]] = {}
    for name, group in _networks(document("accuracy")["rows"]):
        rows = {engines[row["engine"]]: row["snr_db"] for row in group if row["engine"] in engines}
        found[name] = {engine: {"db": min(MOST_DB, max(0.0, db)), "floats": 0.0} for engine, db in rows.items()}
    for row in others["rows"]:
        if row["precision"] == "int8" and "db" in row:
            found.setdefault(row["model"], {})[row["engine"]] = row
    whole = {name: own for name, own in found.items() if {*ours} <= set(own)}
    lines = [["dB of int8", *ours, *peers.values()]]
    lines += [[name, *(_db(own.get(engine)) for engine in engines.values())] for name, own in sorted(whole.items())]
    for peer, label in peers.items():
        both = [own for own in whole.values() if peer in own and max(own[peer]["floats"], own["ours"]["floats"]) <= 0.5]
        gains = [[own[engine]["db"] - own[peer]["db"] for own in both] for engine in ours]
        means = (f"{sum(each) / len(both):+.1f}" for each in gains)
        lines.append([f"mean over {len(both)} models, above {label}", *means, "", ""])
        below = (str(sum(gain < -0.5 for gain in each)) for each in gains)
        lines.append(["of these below it by more than 0.5 dB", *below, "", ""])
    return lines


def _db(row: Row | None) -> str:
    if row is None:
        return "-"
    return f"({row['db']:.1f})" if row["floats"] > 0.5 else f"{row['db']:.1f}"


def precisions(document: Any) -> Sequence[Sequence[str]]:
    """One line per model that others made: dB of the worst output by precision, what auto costs, which it chose."""
    lines = [["dB of the worst output", *_CHOSEN, "instructions", "flash", "layers"]]
    for row in document["rows"]:
        if "labels" not in row and "auto" in row:
            ratios = (f"{row[name]:.1f}" if name in row else "refused" for name in _CHOSEN)
            lines.append([row["model"], *ratios, *_costs(row), _layers(row["chosen"])])
    return lines


def labelled(document: Any) -> Sequence[Sequence[str]]:
    """One line per network and data with labels: the share of right answers by precision, what auto costs."""
    lines = [["right answers, %", "samples", "float", *_CHOSEN, "instructions", "flash", "layers"]]
    for row in document["rows"]:
        if "labels" in row:
            name = ", ".join(_NAMES[part] for part in row["model"].split("/"))
            right = (f"{row[each]:.2f}" for each in ("float", *_CHOSEN))
            lines.append([name, f"{row['labels']:,}", *right, *_costs(row), _layers(row["chosen"])])
    return lines


def _layers(chosen: str) -> str:
    """How many layers have which precision, shorter."""
    return re.sub(r"all layers in | layers? in| \(which TFLM refuses\)|the (?=others)| in(?= )", "", chosen)


def _costs(row: Row) -> Iterator[str]:
    """Instructions and flash of what auto chose, beside int8, or beside float where int8 divides by 0."""
    auto, beside = row["costs"]["auto"], "int8" if "int8" in row["costs"] else "float"
    for own, other in list(zip(auto, row["costs"][beside], strict=True))[:2]:
        yield f"× {own / other:.2f}" + (" of float's" if beside == "float" else "")


def compression(document: Any) -> str:
    """One line per network: the least bytes at some points below int8, and the range of what each fold alone would
    choose."""
    lines = [["bytes", "int8", "at int8's accuracy", "0.5 points below", "1 point", "2 points"]]
    for name, group in _networks(document["rows"]):
        int8 = next(row for row in group if row["setting"] == "int8")
        cheapest = [compression_report.least(group, loss) for loss in compression_report.LOSSES]
        lines.append(
            [name, f"{int8['bytes']:,}", *(f"{each.bytes:,}, {each.share} ({each.spread})" for each in cheapest)]
        )
    return _markdown(lines)


def coding(document: Any) -> str:
    """One line per model and way to store weights: flash, RAM and instructions, each with its ratio to plain
    weights."""
    lines = [["Cortex-M4", "flash", "", "RAM", "", "instructions", ""]]
    for model in report.models(document["rows"]):
        own = [row for row in document["rows"] if row["model"] == model and row["engine"] == "compiled"]
        plain = next(row for row in own if row["weights"] == "plain")
        lines += [[f"{model}, {row['weights']}", *coded_figures(row, plain)] for row in own]
    return _markdown(lines)


def streaming(document: Any) -> str:
    """Two lines per model: what a run over the window takes, and what a step takes, with its ratio."""
    lines = [["Streaming on Cortex-M4", "rows", "MACs", "", "instructions", "", "arena", "state"]]
    for row in document["rows"]:
        window, step = row["window"], row["step"]
        shares = {key: f"÷ {window[key] / step[key]:.1f}" for key in ("macs", "instructions")}
        for name, rows, cost, share in ((row["model"], row["rows"], window, {}), ("a step", row["hop"], step, shares)):
            counts = [text for key in ("macs", "instructions") for text in (f"{cost[key]:,}", share.get(key, ""))]
            lines.append([name, str(rows), *counts, f"{cost['arena_bytes']:,}", f"{cost['state_bytes']:,}"])
    return _markdown(lines)


def many_samples(document: Any) -> str:
    """One line per model: µs a sample by a loop over runs and by predict, the shortest and the median, and how many
    times faster than the loop by the shortest."""
    ways = {"loop": "loop over runs", "predict": "predict", "workers": "workers=2", "batch": "batch_size=32"}
    lines = [["µs a sample: min, median", *(text for name in ways.values() for text in (name, ""))]]
    for row in document["rows"]:
        cells = [row["model"]]
        for way in ways:
            own, ratio = row.get(way), ""
            if own and way != "loop":
                ratio = f"× {row['loop']['min_us'] / own['min_us']:.1f}"
            cells += [f"{own['min_us']:,.1f}, {own['median_us']:,.1f}" if own else "-", ratio]
        lines.append(cells)
    return _markdown(lines)


def rows(document: Any) -> str:
    """One line per model and core: RAM by layers, by rows and with the input by rows, and what rows cost."""
    costs = ("instructions", "flash_bytes", "weights_read")
    heads = ["RAM on Cortex-M", "core", "by layers", "by rows", "", "input by rows", "", "instructions", "flash"]
    lines = [[*heads, "weights read"]]
    for row in document["rows"]:
        whole, ram = row["layers"], row["layers"]["ram_bytes"]
        bytes_of = [text for size in (row["rows"]["ram_bytes"], row["input_rows_bytes"]) for text in _beside(size, ram)]
        ratios = [f"× {row['rows'][cost] / max(whole[cost], 1):.2f}" for cost in costs]
        lines.append([row["model"], f"M{row['board'].removeprefix('cortex-m')}", f"{ram:,}", *bytes_of, *ratios])
    return _markdown(lines)


def _beside(size: int | None, whole: int) -> tuple[str, str]:
    """A number of bytes, and its ratio to a whole."""
    return ("-", "") if size is None else (f"{size:,}", f"× {size / whole:.2f}")


def search(document: Any) -> str:
    """The result of the search, and the number of its trials."""
    trials = document["trials"]
    best = trials[document["chosen"]]
    int8s = (t for t in trials if t["setting"]["precision"] == "int8" and "cost" in t)
    int8 = min(int8s, key=lambda trial: len(json.dumps(trial["setting"])))  # the one without anything else
    text = f"`make search`: the digits take {best['cost']:,} bytes, {best['setting']['precision']}, instead of int8's "
    text += f"{int8['cost']:,}, {100 * best['loss']:.1f} points below float, after {len(trials)} trials."
    return _wrapped(text)


def weights_apart(document: Any) -> str:
    """Three lines for each model: weights as arrays of the program, as a block, in pages."""
    lines = [["Weights apart, on Cortex-M4", "flash, bytes", "block, bytes", "arena, bytes", "instructions"]]
    for row in document["rows"]:
        least = row["linked"]["instructions"]
        for way in ("linked", "blob", "paged"):
            figures = [row[way][key] for key in ("flash_bytes", "block_bytes", "arena_bytes", "instructions")]
            cells = [f"{figure:,}" if figure else "-" for figure in figures]
            more = "" if way == "linked" else f" ({100 * (figures[-1] / least - 1):+.1f} %)"
            lines.append([f"{row['model']}, {way}", *cells[:-1], cells[-1] + more])
    return _markdown(lines)


def threads(document: Any) -> str:
    """A line for each model: one thread beside two."""
    lines = [["Threads", "1, µs", "2, µs", "share", "arena, bytes"]]
    for row in document["rows"]:
        one, two = row["min_us"]
        arenas = " → ".join(f"{nbytes:,}" for nbytes in row["arena_bytes"])
        lines.append([row["model"], f"{one:,.1f}", f"{two:,.1f}", f"{two / one:.2f}", arenas])
    return _markdown(lines)


def steady_models(document: Any) -> list[list[str]]:
    """Fewest and most instructions of every model over random inputs."""
    rows = [[name.removesuffix("_int8"), *counts] for name, counts in document["models"].items()]
    lines = [[name, f"{least:,}", f"{most:,}", f"{100 * (1 - least / most):.3f}"] for name, least, most in rows]
    return [["Instructions on Cortex-M4", "fewest", "most", "difference, %"], *lines]


def steady_kernels(document: Any) -> str:
    """How many kernels take the same instructions for all inputs, and the others by how much they differ."""
    differ = {name.removeprefix("tw_"): 100 * share for name, share in document["kernels"].items()}
    steady = sum(not share for share in differ.values())
    parts = []
    for said, low, high in (("up to 1 %", 0, 1), ("up to 10 %", 1, 10), ("more", 10, 100)):
        parts.append(f"by {said}: {', '.join(name for name, share in differ.items() if low < share <= high)}")
    head = (
        f"Steady on Cortex-M4: {steady} of {len(differ)} kernels take the same number of instructions for all inputs."
    )
    return _wrapped(f"{head} The others differ {'; '.join(parts)}.")


def browser(document: Any) -> str:
    """Shortest and median time of an inference in a browser by every engine, in micros, and how it stands to ours."""
    engines = list(dict.fromkeys(row["engine"] for row in document["rows"]))
    lines = [["In Chromium, µs: shortest, median", *engines]]
    for model in dict.fromkeys(row["model"] for row in document["rows"]):
        rows = {row["engine"]: row for row in document["rows"] if row["model"] == model}
        ours = rows["twinfer"]
        lines.append([model, *(_in_browser(rows[engine], ours) for engine in engines)])
    return _markdown(lines)


def _in_browser(row: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    if "error" in row:
        return "does not run"
    times = f"{row['min_us']:,.0f}, {row['median_us']:,.0f}"
    return times if row is ours else f"{times} ({row['min_us'] / ours['min_us']:.1f} ×)"


def browser_counts(document: Any) -> str:
    """What a module of ours takes: operations of a run as wasmtime counts them, by multiply-accumulates, and bytes."""
    lines = [["Modules of twinfer", "operations", "a multiply-accumulate", "bytes of .wasm"]]
    for row in document["rows"]:
        if row["engine"] == "twinfer":
            share = row["operations"] / row["macs"]
            lines.append([row["model"], f"{row['operations']:,}", f"{share:.2f}", f"{row['module_bytes']:,}"])
    return _markdown(lines)


def browser_machine(document: Any) -> str:
    """The machine and the versions, in one sentence."""
    about = document["machine"]
    peers = ", ".join(about["peers"].values())
    return _wrapped(f"Measured in Chromium {about['chromium']} on one core of: {about['cpu']}; {peers}.")


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDTH))


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    rule = "|---" * len(lines[0]) + "|"
    head, *rest = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([head.replace("|  |", "| |"), rule, *rest])


def _table(lines: Callable[[Any], Sequence[Sequence[str]]]) -> Callable[[Any], str]:
    return lambda document: _markdown(lines(document))


#: The beginning of a figure's block in a page -> its JSON file, and the function that writes the block.
FIGURES: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "| One inference, µs |": ("host", brief),
    "Time of one inference": ("host", host),
    "Measured on ": ("host", machine),
    "| accuracy, % |": ("accuracy", accuracy),
    "| dB of int8 |": ("accuracy_models", _table(models)),
    "| dB of the worst output |": ("precisions", _table(precisions)),
    "| right answers, % |": ("precisions", _table(labelled)),
    "| bytes |": ("compression", compression),
    "| Cortex-M4 |": ("coded", coding),
    "| Streaming on Cortex-M4 |": ("streams", streaming),
    "| RAM on Cortex-M |": ("rows", rows),
    "`make search`: ": ("search", search),
    "What compiling is worth by cause, ": ("explain", lambda told: _wrapped(explained.headline(told))),
    "| Interpreted and compiled |": ("explain", _table(explained.ledgers)),
    "| First inference, ms |": ("explain", _table(explained.starts)),
    **{
        f"| Techniques on {core} |": ("explain", _table(partial(explained.ladder, core)))
        for core in ("host", "cortex-m4", "cortex-m55")
    },
    "| Fitted: ≈ ms, flash, RAM |": ("fits", _table(lambda document: fits.table(document["rows"]))),
    "| Weights apart, on Cortex-M4 |": ("apart", weights_apart),
    "| Threads |": ("threads", threads),
    "| µs a sample: min, median |": ("samples", many_samples),
    "| Estimated cycles |": ("cycles", _table(explained.beside_published)),
    "| Cycles, counted |": ("rtl", simulated),
    "| Instructions or operations |": ("machines", _table(machines)),
    "| Core | model | other compiler |": ("foreign", _table(foreign)),
    "| Kinds of layers on Cortex-M4 |": ("floors", _table(floors.table)),
    "Steady on Cortex-M4: ": ("steady", steady_kernels),
    "| In Chromium, µs: shortest, median |": ("browser", browser),
    "Measured in Chromium ": ("browser", browser_machine),
    "| Modules of twinfer |": ("browser", browser_counts),
    "| Instructions on Cortex-M4 |": ("steady", _table(steady_models)),
    "Beside TFLM on cortex-m4\n": ("embedded", beside("cortex-m4")),
    "Beside TFLM on cortex-m55": ("embedded", beside("cortex-m55")),
    "On the other cores ": ("embedded", others),
}


def document(name: str) -> Any:
    """The JSON that a command has written."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def blocks() -> Iterator[tuple[str, str]]:
    """The beginning and the text of every figure's block."""
    for start, (name, text) in FIGURES.items():
        yield start, text(document(name))


def pages() -> dict[Path, str]:
    """The texts of README.md and all of docs/, by path."""
    paths = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    return {path: path.read_text(encoding="utf-8") for path in paths}


def updated(texts: Mapping[Path, str]) -> dict[Path, str]:
    """The pages with every block replaced by its figures.

    A block ends before an empty line, or at the end of its code or page. ToolError if a block is not in the pages
    exactly once.
    """
    texts = dict(texts)
    for start, text in blocks():
        pattern = re.compile(rf"^{re.escape(start)}.*?(?=\n\n|\n```|\n\Z)", re.MULTILINE | re.DOTALL)
        homes = [path for path, page in texts.items() for _ in pattern.findall(page)]
        if len(homes) != 1:
            raise ToolError(
                f"a block that begins with {start!r} is there {len(homes)} times in README.md and docs/, not once"
            )
        texts[homes[0]] = pattern.sub(lambda _, text=text: text, texts[homes[0]])  # type: ignore[misc]
    return texts


def _networks(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """The name of every network, and its rows."""
    for group in compression_report.networks(rows).values():
        yield f"{_NAMES[group[0]['set']]}, {_NAMES[group[0]['model']]}", group


def _printed(table: RenderableType, width: int) -> str:
    """The table as a terminal of that width shows it, without colours."""
    written = io.StringIO()
    Console(file=written, width=width, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in written.getvalue().rstrip().splitlines())


def main() -> int:
    for path, text in updated(pages()).items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
