"""Every figure that a table or page shows, recomputed here in another way from measurements that are made up."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.table import Table
from rich.text import Text

from twinfer.aot.build.targets import find
from twinfer.bench.drift.drift import Limits, drift_tables, drifts
from twinfer.bench.drift.runs import runs_of
from twinfer.bench.drift.saved import Saved
from twinfer.bench.explain.causes import CAUSES
from twinfer.bench.explain.ladder import Figures, Ladder, ladder_tables, ladder_words
from twinfer.bench.explain.ledger import Ledger, Line, Start, ledger_tables, lines_of, words
from twinfer.bench.explain.techniques import TECHNIQUES
from twinfer.bench.host import tune as tuning
from twinfer.bench.host.tune import HOPELESS, Tuned
from twinfer.bench.lab import explain_figures as pages
from twinfer.bench.lab import explain_figures as published
from twinfer.bench.measure import compare, limits
from twinfer.bench.measure import cycles as estimated
from twinfer.bench.measure import report as reporting
from twinfer.bench.measure.embedded_html import embedded_html, pictures, shown
from twinfer.bench.measure.embedded_report import coding_tables, embedded_tables
from twinfer.bench.measure.turns import Timing
from twinfer.bench.models.source import load
from twinfer.command_line import tune as tune_shown
from twinfer.command_line.tune import document as tune_document
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.tuned import Setting

M4, M55 = find("cortex-m4"), find("cortex-m55")


def cells(table: Any) -> list[list[str]]:
    """The lines of a table as they are, without heads."""
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return [list(line) for line in zip(*columns, strict=True)]


def heads(table: Any) -> list[str]:
    return [str(column.header).replace("-\n", "").replace("\n", " ") for column in table.columns]


def tables_of(parts: Any) -> list[Table]:
    return [part for part in parts if isinstance(part, Table)]


def texts_of(parts: Any) -> str:
    return "\n".join(str(part) for part in parts if isinstance(part, Text))


def value(text: str) -> float:
    """The number in a cell."""
    return float(text.replace(",", "").rstrip(" %×"))


def close(text: str, want: float) -> bool:
    """Whether a cell shows a number to the digits that it has."""
    digits = len(text.rstrip(" %").partition(".")[2])
    return abs(value(text) - want) <= 0.500001 * 10**-digits


# -- explain -----------------------------------------------------------------------------------------------------------

#: Causes, in another order than that of tables.
KEYS = ("parameters", "sharing", "dispatch_c")


def ledger(unit: str = "instructions", seed: int = 0, **more: Any) -> Ledger:
    rng, lines = np.random.default_rng(seed), []
    for i, op in enumerate(("CONV_2D", "ADD", "CONV_2D", "RUN")):
        saved = [int(n) for n in rng.integers(-2500, 2500, len(KEYS))]
        compiled = int(rng.integers(20_000, 90_000))
        causes = dict(zip(KEYS, saved, strict=True))
        steps, operators = ((), ()) if op == "RUN" else ((i,), (i + 11,)) if i else ((2, 0, 1), (8, 9, 7))
        ends = compiled + sum(saved), compiled
        lines.append(Line(min(steps, default=None), op, f"t{i}", *ends, causes, steps, operators))
    start = Start("ms", {"read": 1.25, "plan": 20.5}, {"load": 0.75}, 123_456)
    return Ledger("net", "cortex-m4", unit, tuple(lines), start, more.pop("same", True), **more)


def shown_order() -> list[str]:
    """The causes of ``KEYS`` as tables have them."""
    return [key for key in CAUSES if key in KEYS]


@pytest.mark.parametrize("unit", ["instructions", "µs"])
def test_a_ledgers_table(unit: str) -> None:
    ends = {key: (10.5 * i, 20.25 + i) for i, key in enumerate(KEYS)}
    own = ledger(unit, intervals=ends, bytes={"flash": Line(None, "", "", 900, 1200, dict.fromkeys(KEYS, -100.0))})
    lines, sizes = tables_of(ledger_tables(own))
    labels = [CAUSES[key].label.replace("-\n", "").replace("\n", " ") for key in shown_order()]
    assert heads(lines) == ["#", "operator", "interpreted", "compiled", "×", *labels]
    got = cells(lines)
    assert len(got) == len(own.lines) + 3
    for line, row in zip(own.lines, got, strict=False):
        assert row[:2] == [{3: "7-9", 1: "12" if line.steps == (1,) else "13", 0: ""}[len(line.steps)], line.op]
        want = [line.interpreted, line.compiled, line.interpreted / line.compiled]
        want += [line.causes[key] for key in shown_order()]
        assert all(itertools.starmap(close, zip(row[2:], want, strict=True))), (row, want)
    both = [sum(getattr(line, side) for line in own.lines) for side in ("interpreted", "compiled")]
    causes = [sum(line.causes[key] for line in own.lines) for key in shown_order()]
    assert all(itertools.starmap(close, zip(got[4][2:], [*both, both[0] / both[1], *causes], strict=True)))
    assert [value(cell) for cell in got[5][5:]] == [ends[key][0] for key in shown_order()]
    assert [value(cell) for cell in got[6][5:]] == [ends[key][1] for key in shown_order()]
    assert cells(sizes) == [["flash", "900", "1,200", "0.75", "-100", "-100", "-100"]]


def test_a_line_that_takes_nothing_has_no_ratio() -> None:
    own = ledger()
    empty = (Line(0, "ADD", "a", 0, 50, dict.fromkeys(KEYS, 0)), Line(1, "MUL", "b", 50, 0, dict.fromkeys(KEYS, 0)))
    (lines,) = tables_of(ledger_tables(replace(own, lines=empty)))
    assert [row[4] for row in cells(lines)] == ["-", "-", "1.00"]


@pytest.mark.parametrize("seed", range(4))
def test_a_ledgers_words(seed: int) -> None:
    own = ledger(seed=seed, same=seed % 2 == 0)
    first, *others = words(own)
    interpreted, compiled = (sum(getattr(line, side) for line in own.lines) for side in ("interpreted", "compiled"))
    assert f"saves {interpreted - compiled:,} of {interpreted:,} instructions: {interpreted / compiled:.2f} ×" in first
    assert ("OTHER BITS" in first) == bool(seed % 2)
    saved = {key: sum(line.causes[key] for line in own.lines) for key in KEYS}
    told_of = [key for key in sorted(KEYS, key=lambda key: -abs(saved[key])) if abs(saved[key]) >= 0.002 * interpreted]
    assert len(others) == len(told_of)
    for key, sentence in zip(told_of, others, strict=True):
        label = CAUSES[key].label.replace("-\n", "").replace("\n", " ")
        assert sentence.lower().startswith(f"{label}: {100 * saved[key] / interpreted:+.1f} %".lower())
        kinds = {line.op: [x for x in own.lines if x.op == line.op] for line in own.lines}
        sums = {op: (sum(x.interpreted for x in each), sum(x.causes[key] for x in each)) for op, each in kinds.items()}
        heavy = sorted((op for op in sums if sums[op][1]), key=lambda op: -abs(sums[op][1]))[:2]
        want = ", ".join(f"{sums[op][0] / (sums[op][0] - sums[op][1]):.2f} × on {op}" for op in heavy)
        assert sentence.endswith(f"({want})."), sentence
    assert own.document["words"] == [first, *others]
    assert "interpreted 21.75 ms (read 1.250, plan 20.50), compiled 0.750 ms (load 0.750)" in texts_of(
        ledger_tables(own)
    )
    assert "only the interpreter needs 123,456 bytes" in texts_of(ledger_tables(own))


@pytest.mark.parametrize("way", ["layers", "rows"])
def test_lines_of_a_plan(way: Any) -> None:
    """A line for each layer, one for all that run row by row together, and the rest; by the numbers of the file."""
    graph = load("vww_int8").graph
    graph = replace(graph, nodes=tuple(replace(node, index=node.index + 7) for node in graph.nodes))
    plan = make_plan(graph, M4.target, Options(memory=way))
    rng, count = np.random.default_rng(1), len(plan.steps)
    layers, whole = rng.integers(10, 900, (3, count)).tolist(), [90_000, 80_000, 70_000]
    *lines, rest = lines_of(plan, ("a", "b"), layers, whole)
    assert sorted(i for line in lines for i in line.steps) == list(range(count))
    assert any(len(line.steps) > 1 for line in lines) == (way == "rows")
    for line in lines:
        taken = [sum(program[i] for i in line.steps) for program in layers]
        assert (line.interpreted, line.compiled) == (taken[0], taken[2])
        assert line.causes == {"a": taken[0] - taken[1], "b": taken[1] - taken[2]}
        nodes = [plan.steps[i].node for i in line.steps]
        assert (line.position, line.operators) == (min(line.steps), tuple(node.index for node in nodes))
        if len(nodes) == 1:
            by_rows = ", row by row" if line.name.endswith(", row by row") else ""
            assert (line.op, line.name) == (nodes[0].op, f"{nodes[0].output.name}{by_rows}")
        else:
            ends = min(line.operators), max(line.operators)
            assert line.name == f"operators {ends[0]} to {ends[1]}, row by row"
    around = [total - sum(program) for total, program in zip(whole, layers, strict=True)]
    assert (rest.position, rest.steps, rest.operators) == (None, (), ())
    assert (rest.interpreted, rest.compiled) == (around[0], around[2])
    assert rest.causes == {"a": around[0] - around[1], "b": around[1] - around[2]}


NAMES = ("folding", "packing", "instructions", "calls")


def ladder(unit: str = "instructions", flash: bool = True, seed: int = 0, peers: tuple[Any, ...] = ()) -> Ladder:
    rng = np.random.default_rng(seed)

    def one(same: bool = True) -> Figures:
        taken, *sizes = (int(n) for n in rng.integers(1000, 90_000, 3))
        return Figures(taken, sizes[0] if flash else None, sizes[1], same)

    ups, downs = [one() for _ in range(len(NAMES) + 1)], [one(i != 2) for i in range(len(NAMES))]
    return Ladder("net", "cortex-m4", unit, NAMES, tuple(ups), tuple(downs), peers)


@pytest.mark.parametrize(("unit", "flash"), [("instructions", True), ("µs", False)])
def test_a_ladders_table(unit: str, flash: bool) -> None:
    peer = {"engine": "tflm-cmsis", "instructions": 120_000, "code_bytes": 700, "weight_bytes": 44, "ram_bytes": 99}
    failed = {**peer, "engine": "tflm-reference", "instructions": None}
    own = ladder(unit, flash, peers=(peer, failed) if flash else ())
    (table,) = tables_of(ladder_tables(own))
    got = cells(table)
    assert len(got) == 1 + len(NAMES) + flash
    width = 4 if flash else 3
    sizes_of = ["flash", "RAM"] if flash else ["RAM"]
    assert heads(table) == ["technique", f"{unit} added", "×", *sizes_of, f"{unit} without", "×", *sizes_of, "outputs"]

    def sizes(each: Figures) -> list[float]:
        return [*([each.flash_bytes] if each.flash_bytes is not None else []), each.ram_bytes]

    assert got[0][0] == "none of them"
    assert close(got[0][1], own.ups[0].taken)
    assert got[0][2] == ""
    assert [value(cell) for cell in got[0][3 : 1 + width]] == sizes(own.ups[0])
    assert got[0][1 + width :] == [""] * width + ["same bits"]
    for i, row in enumerate(got[1 : 1 + len(NAMES)]):
        up, down = own.ups[i + 1], own.downs[i]
        want = [
            up.taken,
            own.ups[i].taken / up.taken,
            *sizes(up),
            down.taken,
            down.taken / own.ups[-1].taken,
            *sizes(down),
        ]
        assert row[0] == f"+ {TECHNIQUES[NAMES[i]].label}"
        assert all(itertools.starmap(close, zip(row[1:-1], want, strict=True))), (row, want)
        assert row[-1] == ("OTHER BITS" if i == 2 else "same bits")
    if flash:
        assert got[-1][1:5] == ["120,000", f"{120_000 / own.ups[-1].taken:.2f}", "744", "99"]
        assert got[-1][-1] == "recorded"


@pytest.mark.parametrize("seed", range(3))
def test_a_ladders_words(seed: int) -> None:
    own = ladder(seed=seed)
    *each, last = ladder_words(own)
    for i, sentence in enumerate(each):
        before, up, down = own.ups[i], own.ups[i + 1], own.downs[i]
        assert f"{before.taken / up.taken:.2f} × when added, {down.taken / own.ups[-1].taken:.2f} × when" in sentence
        for kind, a, b in (("flash", before.flash_bytes, up.flash_bytes), ("RAM", before.ram_bytes, up.ram_bytes)):
            assert a is not None
            assert b is not None
            assert f"{'costs' if b > a else 'saves'} {abs(b - a):,} B of {kind}" in sentence
    first, whole = own.ups[0], own.ups[-1]
    assert last == f"All together: {first.taken / whole.taken:.1f} ×, RAM {whole.ram_bytes / first.ram_bytes:.2f} ×."


def small() -> Graph:
    b = Builder("small")
    return b.graph([b.op("EXP", [b.op("ABS", [b.input("x", "FLOAT32", (1, 4))])])])


def explained_rows(seed: int = 0) -> dict[str, Any]:
    """The JSON of three models on three targets."""
    rng, rows = np.random.default_rng(seed), []
    for model, target in itertools.product(
        ("a", "b", "tflm_micro_speech_quantized"), ("host", "cortex-m4", "cortex-m55")
    ):
        one = ledger("µs" if target == "host" else "instructions", int(rng.integers(1 << 20)))
        row = {**one.document, "model": model, "target": target}
        row["start"] = {"interpreted": {"read": 1.5, "plan": float(rng.integers(1, 99))},
                        "compiled": {"load": float(rng.integers(1, 9)), "first run": 0.5}}  # fmt: skip
        rows.append({**row, "ladder": ladder(seed=int(rng.integers(1 << 20))).document})
    return {"machine": {"cpu": "a CPU"}, "rows": rows}


def test_pages_of_ledgers() -> None:
    told_of = explained_rows()
    head, *lines = pages.ledgers(told_of)
    assert len(lines) == 9
    assert len(head) == 5 + len(CAUSES)
    for row, line in zip(told_of["rows"], lines, strict=True):
        sums = [sum(layer[side] for layer in row["layers"]) for side in ("interpreted", "compiled")]
        assert line[0] == ("micro_speech" if "micro" in row["model"] else row["model"])
        assert line[1] == row["target"]
        assert close(line[4], sums[0] / sums[1])
        for key, cell in zip(CAUSES, line[5:], strict=True):
            saved = sum(layer["causes"].get(key, 0) for layer in row["layers"])
            assert (cell == "") == (key not in KEYS)
            assert not cell or close(cell, 100 * saved / sums[0])


def test_pages_of_starts_and_ladders() -> None:
    told_of = explained_rows(1)
    head, *lines = pages.starts(told_of)
    hosts = [row for row in told_of["rows"] if row["target"] == "host"]
    assert head[1:] == ["read", "plan", "together", "compiled: load", "first run"]
    for row, line in zip(hosts, lines, strict=True):
        read, plan = row["start"]["interpreted"].values()
        want = [read, plan, read + plan, row["start"]["compiled"]["load"], row["start"]["compiled"]["first run"]]
        assert all(itertools.starmap(close, zip(line[1:], want, strict=True)))
    for target in ("cortex-m4", "cortex-m55"):
        rows = [row["ladder"] for row in told_of["rows"] if row["target"] == target]
        _, *lines = pages.ladder(target, told_of)
        assert [line[0] for line in lines[:4]] == [TECHNIQUES[name].label for name in NAMES]
        for k, each in enumerate(rows):
            taken = [each["none"]["taken"], *(rung["added"]["taken"] for rung in each["rungs"])]
            for i, rung in enumerate(each["rungs"]):
                added, without = lines[i][k + 1].split(" / ")
                assert close(added, taken[i] / taken[i + 1])
                assert close(without, rung["removed"]["taken"] / taken[-1])
            assert close(lines[4][k + 1], taken[0] / taken[-1])
            assert close(lines[5][k + 1], each["none"]["ram_bytes"] / each["rungs"][-1]["added"]["ram_bytes"])


@pytest.mark.parametrize("seed", range(2, 6))
def test_the_headline_has_geometric_means(seed: int) -> None:
    """Causes that cost are told like those that save."""
    told_of = explained_rows(seed)
    for row in told_of["rows"]:  # the shared bodies cost on every model, the constants save; the table does hardly
        row["total"]["causes"] |= {"sharing": -4000 - 500 * seed, "parameters": 9000, "dispatch_c": 30}
    text = " ".join(pages.headline(told_of).replace("\N{NO-BREAK SPACE}", " ").split())
    assert "geometric mean of 3 models" in text
    assert "on a computer (a CPU)" in text
    for target in ("host", "cortex-m4", "cortex-m55"):
        totals = [row["total"] for row in told_of["rows"] if row["target"] == target]
        interpreted, compiled = (np.array([t[side] for t in totals]) for side in ("interpreted", "compiled"))
        mean = math.exp(np.log(interpreted / compiled).mean())
        parts = []
        for key in shown_order():
            worth = math.exp(np.log((compiled + [t["causes"][key] for t in totals]) / compiled).mean())
            if abs(worth - 1) >= 0.015:
                parts.append(f"{CAUSES[key].word} {worth:.2f} ×")
        where = {"host": "a computer (a CPU)", "cortex-m4": "a Cortex-M4", "cortex-m55": "a Cortex-M55"}[target]
        assert f"on {where} {mean:.2f} × ({', '.join(parts)})" in text


# -- drift -------------------------------------------------------------------------------------------------------------


def row_of(rng: Any, model: str, target: str, engine: str) -> dict[str, Any]:
    n = lambda: int(rng.integers(1, 100_000))  # noqa: E731
    row = {"model": model, "target": target, "engine": engine}
    layers = [{"index": i, "op": "CONV_2D", "output": f"t{i}"} for i in range(2)]
    if target == "host":
        own = {"min_us": float(n()), "spread_us": 1.0, "arena_bytes": n(), "constant_bytes": n()}
        return {**row, **own, "layers": [{**layer, "min_us": float(n() % 9000 + 1)} for layer in layers]}
    names = ("instructions", "code_bytes", "weight_bytes", "ram_bytes", "stack_bytes")
    layers = [{**layer, "instructions": n(), "code_bytes": n()} for layer in layers]
    options = {"optimize": "speed", "weights": "file", "decode": "layer", "memory": "auto"}
    return {**row, **options, **{name: n() for name in names}, "layers": layers}


@pytest.mark.parametrize("seed", range(6))
def test_the_table_of_drifts_has_each_figure_that_changed(seed: int) -> None:
    """Counted figure by figure: which, from what, to what, by how many per cent, in words how many."""
    rng = np.random.default_rng(seed)
    places = list(itertools.product(("a", "b"), ("host", "cortex-m4"), ("interpreted", "compiled")))
    before = [row_of(rng, *place) for place in places]
    after = [dict(row) for row in before]
    want, compared = [], 0
    for old, new in zip(before, after, strict=True):
        new["layers"] = [dict(layer) for layer in old["layers"]]
        if host := old["target"] == "host":
            old["spread_us"], new["spread_us"] = (float(rng.choice([1, 30_000])) for _ in "ab")
        whole = ("min_us", "arena_bytes", "constant_bytes") if host else (
            "instructions", "code_bytes", "weight_bytes", "ram_bytes", "stack_bytes")  # fmt: skip
        part = ("min_us",) if host else ("instructions", "code_bytes")
        sides = [(None, old, new, whole), *((i, old["layers"][i], new["layers"][i], part) for i in range(2))]
        for layer, a, b, names in sides:
            for name in names:
                compared += 1
                factor = rng.choice([1.0, 1.0, 1.004, 0.97, 1.5, 3.0, 0.2])
                b[name] = a[name] * factor if name == "min_us" else round(a[name] * factor)
                noise = 0.0
                if name == "min_us":
                    noise = (
                        max(old["spread_us"], new["spread_us"])
                        if layer is None
                        else max(0.1, 0.05 * max(old["min_us"], new["min_us"]))
                    )
                limit = 0.25 if name == "min_us" else 0.01
                if abs(b[name] - a[name]) > max(limit * a[name], noise):
                    want.append((old["model"], old["target"], old["engine"], layer, name, a[name], b[name]))
    machine = {"cpu": "a", "isa": "v3"}
    outcome = drifts(runs_of(after), machine, [saved(machine, before)], Limits())
    got = [(*d.key[:3], d.layer.index if d.layer else None, d.figure, d.before, d.after) for d in outcome.every]
    assert sorted(got, key=str) == sorted(want, key=str)
    assert outcome.compared == compared
    worse = sum(after_ > before_ for *_, before_, after_ in want)
    *tables, last = drift_tables(outcome, Limits())
    assert f"{compared:,} figures compared with those saved: {worse} got worse, {len(want) - worse} better." in str(
        last
    )
    (table,) = tables
    assert len(cells(table)) == len(got)
    for row, (model, target, engine, layer, figure, a, b) in zip(cells(table), got, strict=True):
        assert row[:2] == [model, target]
        assert row[2].split(", ") == [engine, *(["speed"] if target != "host" and engine == "compiled" else [])]
        assert row[3] == ("" if layer is None else f"{layer} CONV_2D")
        assert row[4] == figure.replace("_", " ")
        assert close(row[5], a)
        assert close(row[6], b)
        assert close(row[7], 100 * (b / a - 1))
        assert row[7][0] == ("+" if b > a else "-")


def saved(machine: dict[str, Any], rows: list[dict[str, Any]]) -> Saved:
    return Saved(Path("base.json"), machine, runs_of(rows))


# -- bench on this computer --------------------------------------------------------------------------------------------


def host_rows() -> list[dict[str, Any]]:
    rows = []
    for m, model in enumerate(("a", "b")):
        for e, engine in enumerate(("interpreted", "compiled", "tflm")):
            layers = [
                {"index": i, "op": op, "kernel": f"tw_{k}", "shape": [1, 4, i + 1], "macs": macs, "output": "y",
                 "min_us": 2.5 * (i + 1) / (e + 1), "type": kind}
                for i, (op, k, macs, kind) in enumerate((("CONV_2D", "conv2d_wide_s8", 90_000, "INT8"),
                                                         ("ADD", "add_f32", 0, "FLOAT32"),
                                                         ("FULLY_CONNECTED", "fully_connected_f32", 70_000, "FLOAT32")))
            ]  # fmt: skip
            least = 40.0 / (e + 1) + m
            rows.append({
                "model": model, "engine": engine, "target": "host", "min_us": least, "median_us": least + 1.5,
                "spread_us": 3.25, "ratio": (40.0 + m) / least, "floor_us": 5.0 + m, "same_bits": e != 1 or m != 1,
                "max_difference": 0.0 if e != 1 or m != 1 else 3, "macs": 160_000 * (m + 1), "operators": 3,
                "constant_bytes": 5000 + m, "arena_bytes": 1100 + m, "lower_bound_bytes": 1000,
                "compile_cached": m == 1,
                "compile_s": 0.5, "layers": layers if e < 2 else [], "dispatch_us": 0.75,
                "peak": {"int8": 200.0, "float32": 50.0, "l2": 80.0},
            })  # fmt: skip
    return rows


@pytest.mark.parametrize("brief", [False, True])
def test_times_of_engines(brief: bool) -> None:
    rows, got = host_rows(), cells(reporting.times(host_rows(), brief=brief))
    at = 0
    for model in ("a", "b"):
        own = [row for row in rows if row["model"] == model]
        assert got[at][0] == model
        for row, line in zip(own, got[at + 1 : at + 4], strict=True):
            spreads = [] if brief else [row["min_us"] + 1.5, 3.25]
            want = [row["min_us"], *spreads, own[0]["min_us"] / row["min_us"], row["macs"] / row["min_us"] / 1000,
                    row["min_us"] / row["floor_us"]]  # fmt: skip
            assert all(itertools.starmap(close, zip(line[1:-1], want, strict=True))), (line, want)
            assert line[-1] == ("same bits" if row["same_bits"] else "differ by 3")
        floor = got[at + 4]
        assert floor[0].strip() == "floor"
        assert close(floor[1], own[0]["floor_us"])
        assert close(floor[-3], own[0]["macs"] / own[0]["floor_us"] / 1000)
        at += 5
    assert at == len(got)


def test_a_failed_engine_has_no_times() -> None:
    row = {**host_rows()[2], "min_us": None, "error": "it refuses", "same_bits": None}
    got = cells(reporting.times([host_rows()[0], row]))
    assert got[2][1:] == ["-"] * 6 + ["failed"]
    assert "a: " in texts_of(reporting.tables([*host_rows()[:2], row]))
    assert "it refuses" in texts_of(reporting.tables([*host_rows()[:2], row]))


def test_sizes_and_layers_of_a_model() -> None:
    rows = host_rows()
    parts = list(reporting.tables(rows))
    _, sizes, *layers = tables_of(parts)
    assert cells(sizes) == [
        ["a", "3", "160,000", "5,000", "1,100", "1,000", "10.0 %", "0.50"],
        ["b", "3", "320,000", "5,001", "1,101", "1,000", "10.1 %", "cached"],
    ]
    assert len(layers) == 2
    for table in layers:
        got = cells(table)
        interpreted = [2.5, 5.0, 7.5]
        for i, line in enumerate(got):
            macs, peak = (90_000, 0, 70_000)[i], (200, 50, 50)[i]
            assert line[:4] == [
                str(i),
                ("CONV_2D", "ADD", "FULLY_CONNECTED")[i],
                ("wide_s8", "f32", "f32")[i],
                f"1×4×{i + 1}",
            ]
            assert line[4] == (f"{macs:,}" if macs else "-")
            assert close(line[5], interpreted[i])
            assert close(line[6], interpreted[i] / 2)
            rate = macs / (interpreted[i] / 2) / 1000
            assert line[7:9] == ([f"{rate:.0f}", f"{100 * rate / peak:.0f} %"] if macs else ["-", "-"])
            assert close(line[9], 100 * interpreted[i] / 15)
            assert close(line[10], 100 * 0.75 / (interpreted[i] + 0.75))
    said = texts_of(parts)
    assert "200 GMAC/s of int8, 50 of float32; 80 GB/s out of L2" in said
    share = 100 * 3 * 0.75 / (40 + 3 * 0.75)
    assert f"0.750 µs per operator, {share:.1f} % of a run" in said


def test_a_row_of_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times in µs, the spread, the ratio to the interpreter, the greatest difference: from times that are given."""
    sizes = {"macs": 77, "arena_bytes": 64, "lower_bound_bytes": 48, "constant_bytes": 12}
    plan: Any = SimpleNamespace(graph=small(), steps=range(5), **sizes)
    monkeypatch.setattr(compare, "peak", lambda: SimpleNamespace(floor_us=lambda plan: 0.125))
    rng = np.random.default_rng(0)
    times = {name: Timing(tuple(rng.uniform(1e3, 9e3, 11)), 4) for name in ("interpreted", "compiled", "tflm")}
    want = [np.float32([1, 2, 3])]
    for name in ("interpreted", "compiled", "tflm", "failed"):
        other = compare.Contender(name, None, [np.float32([1, 2.5, 3])], {"more": 1})
        row = compare._row("m", other, times, want, plan)
        ours = name in ("interpreted", "compiled")
        assert (row["arena_bytes"], row["constant_bytes"]) == ((64, 12) if ours else (None, None))
        assert (row["floor_us"], row["more"]) == (0.125, 1)
        assert (row["model"], row["engine"], row["target"]) == ("m", name, "host")
        assert (row["operators"], row["macs"], row["lower_bound_bytes"]) == (2, 77, 48 if ours else None)
        if name == "failed":
            assert [row[key] for key in ("min_us", "median_us", "spread_us", "ratio", "rounds", "same_bits")] == [
                None
            ] * 6
            continue
        ns = np.array(times[name].ns)
        assert row["min_us"] == ns.min() / 1e3
        assert row["median_us"] == pytest.approx(np.median(ns) / 1e3)
        assert row["spread_us"] == pytest.approx((np.quantile(ns, 0.9) - np.quantile(ns, 0.1)) / 1e3)
        assert row["ratio"] == pytest.approx(np.min(times["interpreted"].ns) / ns.min())
        assert (row["rounds"], row["batch"], row["same_bits"], row["max_difference"]) == (11, 4, False, 0.5)


def test_dispatch_and_layers_of_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(small())
    steps = len(plan.steps)
    given = {"c": Timing((5000.0, 4000.0)), "python": Timing((9000.0, 4600.0))}
    monkeypatch.setattr(compare, "interleave", lambda runs, **_: given)
    session = SimpleNamespace(run=None, run_observed=None, plan=plan)
    assert compare._dispatch_us(session, compare.Comparison()) == pytest.approx(0.6 / steps)
    given["python"] = Timing((3000.0,))
    assert compare._dispatch_us(session, compare.Comparison()) == 0
    profiles = [[[900] * steps, [700] * steps], [[500] * steps, [800] * steps]]
    sessions = [SimpleNamespace(plan=plan, profile=lambda n, p=p: p.pop(0) if len(p) > 1 else p[0]) for p in profiles]
    first, second = compare._layers(sessions, 1e-3)
    assert [layer["min_us"] for layer in first] == [0.7] * steps
    assert [layer["min_us"] for layer in second] == [0.5] * steps


# -- bench on microcontrollers -----------------------------------------------------------------------------------------


MACS = {"kws": 50_000, "vww": 70_000, "own": 30_000}


def board_rows(target: str = "cortex-m4", seed: int = 0) -> list[dict[str, Any]]:
    """Two models of the mean and one beside it, in two settings, and TFLM's recorded figures."""
    rng, rows = np.random.default_rng(seed), []
    n = lambda: int(rng.integers(1000, 90_000))  # noqa: E731
    for model in ("kws", "vww", "own"):
        for engine, optimize in (("interpreted", "speed"), ("compiled", "speed"), ("compiled", "size")):
            rows.append({
                "model": model, "engine": engine, "target": target, "optimize": optimize, "weights": "file",
                "decode": "layer", "memory": "auto", "macs": MACS[model], "instructions": n(), "code_bytes": n(),
                "weight_bytes": n(), "arena_bytes": (arena := n()), "lower_bound_bytes": n(), "ram_bytes": arena + n(),
                "stack_bytes": n(), "stack_bound_bytes": None if engine == "interpreted" else n(), "same_bits": True,
                "max_difference": 0.0, "layers_arena_bytes": n(), "rows_arena_bytes": n(),
            })  # fmt: skip
        for engine in ("tflm-cmsis", "tflm-cmsis-small"):
            rows.append({
                "model": model, "engine": engine, "target": target, "recorded": model, "macs": MACS[model],
                "instructions": n(), "code_bytes": n(), "weight_bytes": n(), "arena_bytes": (arena := n()),
                "lower_bound_bytes": None, "ram_bytes": arena + n(), "stack_bytes": n(), "same_bits": None,
                "max_difference": None, "weights_floor_bytes": n(), "optimize": "O3",
            })  # fmt: skip
    return rows


@pytest.mark.parametrize("wide", [True, False])
def test_figures_on_a_core(wide: bool) -> None:
    rows = board_rows()
    first, *_ = tables_of(embedded_tables(rows, 120 if wide else 80))
    got = [line for line in cells(first) if any(line[1:])]
    assert [line[0] for line in cells(first) if not any(line[1:])] == ["kws", "vww", "own"]
    assert len(got) == len(rows)
    for row, line in zip(rows, got, strict=True):
        sizes = [row["code_bytes"], row["weight_bytes"], row["arena_bytes"], row["lower_bound_bytes"],
                 row["ram_bytes"] - row["arena_bytes"], row["stack_bytes"], row.get("stack_bound_bytes")]  # fmt: skip
        sizes = sizes if wide else [*sizes[:3], *sizes[4:6]]
        want = [f"{row['instructions']:,}", f"{row['instructions'] / MACS[row['model']]:.2f}"]
        want += ["-" if size is None else f"{size:,}" for size in sizes]
        assert line[1:-1] == want
        assert line[-1] == ("recorded" if "recorded" in row else "same bits")
        label = {"tflm-cmsis": "TFLM + CMSIS-NN", "compiled": f"compiled, {row['optimize']}"}
        assert line[0].strip().startswith(label.get(row["engine"], row["engine"].split("-")[0].replace("tflm", "TFLM")))


def gmean(values: list[float]) -> float:
    return math.exp(np.log(values).mean())


@pytest.mark.parametrize(
    ("target", "mean_most", "most"), [("cortex-m4", 0.55, 0.70), ("cortex-m55", 0.60, 0.85), ("cortex-m0", None, None)]
)
def test_figures_beside_tflm(target: str, mean_most: float | None, most: float | None) -> None:
    """All ratios and verdicts from the raw rows; the mean is geometric, over the models of the mean alone."""
    rows = board_rows(target, 3)
    *_, table = tables_of(embedded_tables(rows))
    by = {(row["model"], row["engine"], row["optimize"]): row for row in rows}
    got = cells(table)
    every = limits.standings(rows)
    for model, line, standing in zip(("kws", "vww", "own"), got, every, strict=False):
        fast, little = by[model, "tflm-cmsis", "O3"], by[model, "tflm-cmsis-small", "O3"]
        speed, size = by[model, "compiled", "speed"], by[model, "compiled", "size"]
        assert line[0] == model
        want = [own["instructions"] / fast["instructions"] for own in (speed, size)]
        assert all(itertools.starmap(close, zip(line[1:3], want, strict=True)))
        for own, cell in zip((speed, size), line[3:5], strict=True):
            absolute, ratio = cell.split()
            assert absolute == f"{own['code_bytes']:,}"
            assert close(ratio, own["code_bytes"] / little["code_bytes"])
        other = speed["ram_bytes"] - speed["arena_bytes"]
        want = [speed["weight_bytes"] / fast["weights_floor_bytes"], speed["ram_bytes"] / speed["lower_bound_bytes"]]
        want += [(speed[f"{way}arena_bytes"] + other) / fast["arena_bytes"] for way in ("", "layers_", "rows_")]
        assert all(itertools.starmap(close, zip(line[5:], want, strict=True)))
        ratio = speed["instructions"] / fast["instructions"]
        assert standing.instructions["speed"].good == (None if most is None else ratio <= most)
        assert standing.instructions["size"].good is None
        for setting, own, limit in (("speed", speed, 0.35), ("size", size, 0.20)):
            assert standing.code[setting].good == (own["code_bytes"] <= limit * little["code_bytes"])
        assert standing.weights.good == (want[0] <= 1.10)
        assert standing.ram.good == (want[1] <= 1.10)
        assert [each.good for each in standing.arena.values()] == [each <= 1 for each in want[2:]]
    means = []
    for setting in ("speed", "size"):
        ratios = [
            by[m, "compiled", setting]["instructions"] / by[m, "tflm-cmsis", "O3"]["instructions"]
            for m in ("kws", "vww")
        ]
        means.append(gmean(ratios))
    assert got[3][0] == "mean of 2"
    assert all(itertools.starmap(close, zip(got[3][1:3], means, strict=True)))
    average = limits.mean(every, "speed")
    assert average is not None
    assert average[0].good == (None if mean_most is None else means[0] <= mean_most)
    size = limits.mean(every, "size")
    assert size is not None
    assert size[0].good is None
    assert shown(every) == "speed"
    (chart,) = pictures([every]).charts
    text = str(vars(chart))
    assert f"mean {means[0]:.2f}" in text
    assert (f"(≤ {mean_most}" in text) == (mean_most is not None)
    page = embedded_html(rows)
    assert "mean of 2" in page
    for line in got[:3]:
        assert all(f">{cell}</td>" in page for cell in line[5:])


def test_pictures_and_tables_beside_tflm() -> None:
    """One scale for all cores; bars, the line of TFLM, that of the mean; in the table good and bad as limits say."""
    rows = [*board_rows("cortex-m4", 5), *board_rows("cortex-m55", 6)]
    every = limits.standings(rows)
    cores = [every[:3], every[3:]]
    charts = pictures(cores).charts
    ratios = [[own.instructions["speed"].value for own in core] for core in cores]
    for chart, core, own in zip(charts, cores, ratios, strict=True):
        average = gmean(own[:2])
        assert chart.title.startswith(f"{core[0].target}, speed: mean {average:.2f} (≤ 0.")
        ledger_document = [(row["model"], row["ratio"], row["to TFLM"]) for row in chart.spec["data"]["values"]]
        assert ledger_document == [(each.model, ratio, f"{ratio:.2f}") for each, ratio in zip(core, own, strict=True)]
        bars, *lines, figures = chart.spec["layer"]
        assert bars["encoding"]["x"]["field"] == figures["encoding"]["x"]["field"] == "ratio"
        assert bars["encoding"]["x"]["scale"]["domain"] == [0, 1.02 * max([*ratios[0], *ratios[1], 1])]
        assert [line["encoding"]["x"]["datum"] for line in lines] == [1, pytest.approx(average)]
        assert all(f"{each.model} {ratio:.2f}" in chart.about for each, ratio in zip(core, own, strict=True))
    parts = [part.split("</table>")[0] for part in embedded_html(rows).split("<caption>")[1:]]
    assert [part.split("<")[0] for part in parts] == ["Beside TFLM on cortex-m4", "Beside TFLM on cortex-m55"]
    for part, core, own in zip(parts, cores, ratios, strict=True):
        body = re.findall(r"<tr>(.*?)</tr>", part.split("</thead>")[1], re.DOTALL)
        assert len(body) == 4
        for line, each in zip(body, core, strict=False):
            found = re.findall(r"<td(?: class=\"(\w+)\")?[^>]*>([^<]*)</td>", line)
            verdicts = [*each.instructions.values(), *each.code.values(), each.weights, each.ram, *each.arena.values()]
            looks = {None: "", True: "good", False: "bad"}
            want = [("", each.model), *((looks[v.good], v.text or f"{v.value:.2f}") for v in verdicts)]
            assert found == want
        assert "mean of 2</td><td" in body[3]
        assert f">{gmean(own[:2]):.2f}</td>" in body[3]


@pytest.mark.parametrize(
    ("target", "ratio", "good"),
    [("cortex-m4", 0.70, True), ("cortex-m4", 0.71, False), ("cortex-m55", 0.85, True), ("cortex-m55", 0.86, False)],
)
def test_limits_of_a_models_instructions(target: str, ratio: float, good: bool) -> None:
    """Coded weights, which cost instructions, are not judged; a figure at its limit is within."""
    own = [{**row, "instructions": 10_000} if "recorded" in row else row for row in board_rows(target)[:5]]
    own[1]["instructions"] = round(10_000 * ratio)
    for rows in (own, [*own, {**own[1], "weights": "lut", "instructions": 1}]):
        (standing,) = limits.standings(rows)
        assert standing.instructions["speed"].good is good


def test_hello_has_a_limit_of_its_own() -> None:
    rows = [{**row, "recorded": "hello"} if "recorded" in row else row for row in board_rows()[:5]]
    for instructions, good in ((883, True), (884, False)):
        own = [{**row, "instructions": instructions} if row["engine"] == "compiled" else row for row in rows]
        (standing,) = limits.standings(own)
        assert standing.instructions["speed"].good == good


def test_layers_on_a_core() -> None:
    row = {**board_rows()[1], "instructions": 10_000, "instances": {"tw_conv2d_s8": 1234, "tw_add_s8": None}}
    row["layers"] = [
        {"index": i, "op": "CONV_2D", "kernel": "tw_conv2d_s8", "shape": [1, i + 1], "macs": macs,
         "instructions": 3000 + i,
         "code_bytes": 200 + i, "other_instructions": 5000 + i, "other_code_bytes": 7 + i, "shared": shared}
        for i, (macs, shared) in enumerate(((1000, False), (0, True), (2000, True)))
    ]  # fmt: skip
    parts = list(embedded_tables([row]))
    _, layers, *_ = tables_of(parts)
    for i, line in enumerate(cells(layers)):
        taken, other = [f"{3000 + i:,}", f"{200 + i}"], [f"{5000 + i:,}", f"{7 + i}"]
        macs = (1000, 0, 2000)[i]
        per = [f"{macs:,}", f"{(3000 + i) / macs:.2f}"] if macs else ["-", "-"]
        share = [f"{100 * (3000 + i) / 10_000:.0f} %"]
        both = [*other, *taken, "shared"] if i else [*taken, *other, "own"]
        assert line == [str(i), "CONV_2D", "s8", f"1×{i + 1}", *per, *share, *both]
    assert "Bytes of shared bodies, paid once: tw_conv2d_s8 1,234, tw_add_s8 -." in texts_of(parts)
    loop = {**row, "engine": "interpreted"}
    assert not [table for table in tables_of(embedded_tables([loop])) if str(table.title).startswith("Layers of")]


def test_coded_weights_beside_plain_ones() -> None:
    rows = [
        {**row, "weights": how, "decode": when, "instructions": row["instructions"] * (2 + i),
         "code_bytes": 90_000 * (i + 1)}
        for i, (how, when) in enumerate((("plain", "layer"), ("lut", "layer"), ("lut", "start")))
        for row in board_rows()[:3]
    ]  # fmt: skip
    assert not [*coding_tables([row for row in rows if row["weights"] != "plain"])], "nothing to set them beside"
    assert not [*coding_tables([row for row in rows if row["weights"] == "plain"])]
    (table,) = coding_tables(rows)
    got = [line for line in cells(table) if any(line[1:])]
    assert len(got) == 9
    order = [[row for row in rows if (row["engine"], row["optimize"]) == (e, o)]
             for e, o in (("interpreted", "speed"), ("compiled", "speed"), ("compiled", "size"))]  # fmt: skip
    for group, lines in zip(order, (got[0:3], got[3:6], got[6:9]), strict=True):
        plain = group[0]
        for row, line in zip(group, lines, strict=True):
            assert line[0].strip() == ("plain" if row is plain else f"lut at the {row['decode']}")
            for k, names in enumerate(
                (("code_bytes", "weight_bytes"), ("ram_bytes", "stack_bytes"), ("instructions",))
            ):
                own, base = (sum(each[name] for name in names) for each in (row, plain))
                assert line[1 + 2 * k : 3 + 2 * k] == [f"{own:,}", f"{own / base:.2f}"]


# -- cycles ------------------------------------------------------------------------------------------------------------


def test_figures_of_an_estimate() -> None:
    own = SimpleNamespace(cycles=480_000, cycles_per_instruction=1.25, branch_cycles=3, flash_cycles=4,
                          unmodelled_share=0.0625, source="llvm-mca")  # fmt: skip
    both = estimated.figures(own, SimpleNamespace(clock_mhz=120, energy_pj_per_cycle=50))
    assert (both["cycles"], both["ms"], both["microjoules"]) == (480_000, 4.0, 24.0)
    none = estimated.figures(own, SimpleNamespace(clock_mhz=None, energy_pj_per_cycle=None))
    assert (none["ms"], none["microjoules"]) == (None, None)
    assert [none[key] for key in ("cycles_per_instruction", "branch_cycles", "flash_cycles", "unmodelled_share")] == [
        1.25,
        3,
        4,
        0.0625,
    ]


def test_estimates_are_shown_for_every_row() -> None:
    about = {
        "cycles": 1000,
        "cycles_per_instruction": 1.5,
        "ms": 2.25,
        "microjoules": None,
        "unmodelled_share": 0.031,
        "source": "s",
    }
    rows = [
        {"model": f"m{i}", "engine": engine, "optimize": "size", "target": target,
         "estimate": {"error": "no model"} if (i, target) == (1, "cortex-m4") else {**about, "cycles": 1000 * (i + 1)}}
        for target in ("cortex-m4", "cortex-m55") for i, engine in enumerate(("interpreted", "compiled", "compiled"))
    ]  # fmt: skip
    parts = list(estimated.estimate_tables([*rows, {"target": "cortex-m4"}]))
    first, second = tables_of(parts)
    assert cells(first) == [
        ["m0", "  interpreted", "1,000", "1.50", "2.25", "3.1 %"],
        ["m2", "  compiled, size", "3,000", "1.50", "2.25", "3.1 %"],
    ]
    assert len(cells(second)) == 3
    assert texts_of(parts).count("No estimate for cortex-m4: no model") == 1
    assert texts_of(parts).count("Source: s.") == 2


def test_published_cycles_beside_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    of = {"version": "1", "files": "f"}
    records = (
        published.Published("X with CMSIS-NN", "b", "cortex-m4", 80.0, per_second={"m": 3.0}, **of),
        published.Published("Y", "b", "cortex-m4", 100.0, per_second={"m": 7.0, "n": 2.0}, **of),
        published.Published("Z", "b", "cortex-m55", 100.0, per_second={"m": 9.0}, **of),
    )
    monkeypatch.setattr(published, "published", lambda: records)
    row = {"target": "cortex-m4", "instructions": 1_000_000, "engine": "compiled"}
    estimate = {"estimate": {"cycles": 1_500_000, "cycles_per_instruction": 1.5}}
    peer = {"model": "m", "target": "cortex-m4", "engine": "tflm-cmsis", "instructions": 20_000_000}
    rows = [
        {**row, "model": "m", **estimate},
        {**row, "model": "n", **estimate},
        {**row, "model": "m", "engine": "interpreted", **estimate},
        peer,
    ]
    _, *lines = published.beside_published({"rows": rows})
    per = 80e6 / 3 / 20e6
    assert lines == [
        [
            "m",
            "cortex-m4",
            "1,000,000",
            "1,500,000",
            "1.50",
            f"X with CMSIS-NN {80e6 / 3:,.0f}; Y {100e6 / 7:,.0f}",
            f"{per:.2f}",
        ],
        ["n", "cortex-m4", "1,000,000", "1,500,000", "1.50", "Y 50,000,000", ""],
    ]


# -- tune --------------------------------------------------------------------------------------------------------------

WAYS = (Setting("wide"), Setting("wide", 8), Setting())


def tuned(*times: tuple[int, ...]) -> list[Tuned]:
    nodes = [step.node for step in make_plan(load("digits_int8").graph).steps]
    return [Tuned(i + 2, nodes[i], WAYS[0], dict(zip(WAYS, each, strict=False))) for i, each in enumerate(times)]


def test_the_table_of_ways() -> None:
    given = [(10_000, 8000, 30_000), (5000, 4900, 9000), (7000, 7000)]
    layers = tuned(*given)
    table, *said = tune_shown.tables("digits", layers, "here")
    best = [8000, 5000, 7000]
    for i, line in enumerate(cells(table)):
        usual = given[i][0]
        assert line[:2] == [str(i + 2), layers[i].node.op]
        assert line[2] == "×".join(map(str, layers[i].node.output.shape))
        assert (line[3], close(line[4], usual / 1e3)) == ("wide", True)
        if best[i] == usual:
            assert line[5:] == ["the same", "", ""]
        else:
            assert line[5:] == ["wide, blocks of 8", "8.000", f"{100 * (usual / best[i] - 1):.0f} %"]
    share = 100 * (sum(each[0] for each in given) / sum(best) - 1)
    assert str(said[0]) == f"The usual ways take {share:.1f} % longer than the best: not within 5 %."
    assert "within 5 %" in str(list(tune_shown.tables("d", tuned((1000, 960)), ""))[1])
    assert "here" in str(said[1])
    told_of = tune_document("digits", layers)
    assert told_of["loss"] == pytest.approx(share / 100)
    assert [layer["min_us"] for layer in told_of["layers"]] == [
        dict(zip(("wide", "wide, blocks of 8", Setting().variant), (ns / 1e3 for ns in each), strict=False))
        for each in given
    ]
    assert [(layer["usual"], layer["best"]) for layer in told_of["layers"]] == [
        ("wide", "wide, blocks of 8"), ("wide", "wide"), ("wide", "wide")]  # fmt: skip


def test_trials_keep_the_shortest_times_and_give_up_hopeless_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = tuning._Trials(load("digits_int8").graph)
    counts = [0] * len(trials._sessions)
    assert len(counts) > 1
    rounds = [iter([900, 700, 800, 700]), *(iter([700 * k * HOPELESS + 1000] * 4) for k in range(1, len(counts)))]
    for i, session in enumerate(trials._sessions):

        def profile(runs: int, i: int = i, steps: int = len(session.plan.steps)) -> list[int]:
            assert runs == 1
            counts[i] += 1
            return [int(next(rounds[i]))] * steps

        monkeypatch.setattr(session, "profile", profile)
    for _ in range(4):
        trials.time()
    several = [layer for layer in trials.tuned() if len(layer.times) > 1]
    assert counts[0] == 4
    assert several
    for layer in several:
        assert layer.times[layer.usual] == 700
        assert all(ns > 700 for way, ns in layer.times.items() if way != layer.usual)
        assert layer.best == layer.usual
    known, usual = trials.times[name := next(iter(trials._ways))], trials._ways[name][0]
    for ns, hopes in ((1, True), (700 * HOPELESS, True), (700 * HOPELESS + 1, False)):
        known[way := trials._ways[name][-1]] = int(ns)
        assert trials._hopes(name, way) == hopes
        assert trials._hopes(name, usual)
