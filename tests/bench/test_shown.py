"""Tables, words, charts and pages of documents that are made up, kept whole in golden_shown/: a change of any figure,
ratio, mark or word is seen. ``pytest tests/bench/test_shown.py --refresh-golden`` writes them anew.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from golden_files import compare
from page_text import json_lines, page_text
from rich.console import Console

from twinfer.bench.drift.drift import Limits, drift_tables, drifts
from twinfer.bench.drift.runs import runs_of
from twinfer.bench.drift.saved import Saved
from twinfer.bench.explain.ladder import Figures, Ladder, ladder_tables, ladder_words
from twinfer.bench.explain.ledger import Ledger, Line, Start, ledger_tables
from twinfer.bench.host.tune import Tuned
from twinfer.bench.lab import explain_figures as published
from twinfer.bench.measure import cycles as estimated
from twinfer.bench.measure import limits
from twinfer.bench.measure import report as reporting
from twinfer.bench.measure.embedded_html import embedded_html
from twinfer.bench.measure.embedded_report import coding_tables, embedded_tables
from twinfer.bench.models.source import load
from twinfer.bench.report.charts import layers_chart
from twinfer.bench.report.diff import diff_html, diff_tables, difference
from twinfer.bench.report.html import report_html
from twinfer.bench.report.remarks import remarks
from twinfer.bench.report.summary import summary
from twinfer.command_line import tune
from twinfer.command_line.show import search
from twinfer.command_line.show.conversion_html import report_html as conversion_html
from twinfer.command_line.show.search_html import search_html
from twinfer.converter.quantize.compare import OutputReport, Report, TensorReport
from twinfer.converter.search.find import Found
from twinfer.converter.search.space import Setting
from twinfer.converter.search.trial import Trial
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.tuned import Setting as Way

GOLDEN = Path(__file__).parent / "golden_shown"

Document = dict[str, Any]


def text(parts: Iterable[Any], width: int = 140) -> str:
    """What a terminal shows, without colours."""
    console = Console(file=io.StringIO(), width=width)
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


# -- made-up documents -------------------------------------------------------------------------------------------------

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


NAMES = ("folding", "packing", "instructions", "calls")


def ladder(unit: str = "instructions", flash: bool = True, seed: int = 0, peers: tuple[Any, ...] = ()) -> Ladder:
    rng = np.random.default_rng(seed)

    def one(same: bool = True) -> Figures:
        taken, *sizes = (int(n) for n in rng.integers(1000, 90_000, 3))
        return Figures(taken, sizes[0] if flash else None, sizes[1], same)

    ups, downs = [one() for _ in range(len(NAMES) + 1)], [one(i != 2) for i in range(len(NAMES))]
    return Ladder("net", "cortex-m4", unit, NAMES, tuple(ups), tuple(downs), peers)


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


OPS = (("CONV_2D", "conv"), ("ADD", "elementwise"), ("CONV_2D", "conv"), ("RESHAPE", "move"), ("CONV_2D", "conv"),
       ("LOGISTIC", "functions"))  # fmt: skip


def line_of(rng: Any, op: str, steps: list[int], name: str, unit: str = "instructions") -> Document:
    compiled, saved = int(rng.integers(20_000, 90_000)), [int(n) for n in rng.integers(-2500, 9000, len(KEYS))]
    if unit == "µs":
        compiled, saved = compiled / 1000, [n / 1000 for n in saved]
    return {"position": min(steps, default=None), "op": op, "name": name, "steps": steps, "compiled": compiled,
            "operators": [i + 7 for i in steps], "interpreted": compiled + sum(saved),
            "causes": dict(zip(KEYS, saved, strict=True))}  # fmt: skip


def total(lines: list[Document]) -> Document:
    sides = {side: sum(line[side] for line in lines) for side in ("interpreted", "compiled")}
    return {**sides, "causes": {key: sum(line["causes"][key] for line in lines) for key in KEYS}}


def program(rng: Any, same: bool = True) -> Document:
    taken, flash, ram = (int(n) for n in rng.integers(1000, 90_000, 3))
    return {"taken": taken, "flash_bytes": flash, "ram_bytes": ram, "same_bits": same}


def document(seed: int, unit: str = "instructions", **more: Any) -> Document:
    """A report of six operators, the second and third of which run row by row; the numbers in the file begin at 7."""
    rng = np.random.default_rng(seed)
    n = lambda most=90_000: int(rng.integers(1000, most))  # noqa: E731
    of = [(OPS[0][0], [0], "t0"), ("CHAIN", [1, 2], "operators 8 to 9, row by row")]
    of += [*((OPS[i][0], [i], f"t{i}") for i in (3, 4, 5)), ("RUN", [], "around")]
    lines = [line_of(rng, *each, unit) for each in of]
    nodes = []
    for i, (op, family) in enumerate(OPS):
        noise = {"own_snr_db": 20.0 + (i * 5 + seed) % 6, "total_snr_db": 11.5 + i} if i != 3 else {
            "own_snr_db": None, "total_snr_db": None}  # fmt: skip
        nodes.append({
            "position": i, "time": i + 1, "index": i + 7, "op": op, "family": family, "name": f"t{i}",
            "shape": [1, i + 2, 3], "type": "INT8", "kernel": f"tw_{i}", "variant": "plain" if i == 4 else "wide",
            "declined": [{"variant": "wide", "reason": "dilation"}] if i == 4 else [],
            "macs": n() if i != 1 else 0, "inputs": ["x"] if i == 0 else ["seen"] if i == 1 else [f"t{i - 1}"],
            "outputs": [f"t{i}"], "input_bytes": n(), "output_bytes": n(), "constant_bytes": n(), "code_bytes": n(),
            "weight_bytes": n(), **noise,
        })  # fmt: skip
    nodes[4]["inputs"] = ["t3", "t0"]
    nodes[3]["macs"] = 200  # far dearer than the others
    if seed % 2:  # a little dearer, in all
        nodes[5]["macs"], lines[4]["compiled"] = 10, 2000
    for line in lines:
        own = [nodes[i] for i in line["steps"]]
        line |= {key: sum(node[key] for node in own) for key in ("macs", "code_bytes", "weight_bytes")}
        line |= {"shape": own[-1]["shape"] if own else [], "kernels": [node["kernel"] for node in own]}
    whole = total(lines)
    groups = (("weights", 2), ("code", None), ("params", 0), ("bss", 1))
    flash = [{"name": f"s{i}", "group": group, "size": n(), "padding": i, "layer": layer}
             for i, (group, layer) in enumerate(groups)]  # fmt: skip
    bands = [{"name": f"b{i}", "kind": kind, "times": [i // 2, i // 2 + 0.5, i // 2 + 4], "lows": [0, 64 * i],
              "highs": [128 * (i + 1), 64 * i + n()]} for i, kind in enumerate(("tensor", "rows", "scratch", "state",
                                                                                "tensor", "tensor"))]  # fmt: skip
    hints = [{"kind": "rows", "text": f"hint {i}", "ram_bytes": n(), "ram_change": change, "instructions_change": None}
             for i, change in enumerate((-0.5, -0.021, -0.019))]  # fmt: skip
    live = [{"name": f"t{i}", "bytes": size} for i, size in enumerate((4000, 3000, 200, 1))]
    arena, bound = n(), 7000
    rungs = [{"technique": key, "added": program(rng, key != "packing"), "removed": program(rng, key != "folding")}
             for key in ("folding", "packing", "calls")]  # fmt: skip
    made = {
        "kind": "twinfer report", "schema": 1, "twinfer": "9.9", "model": "net", "sha256": "0123456789abcdef" * 4,
        "file_bytes": n(), "machine": {"cpu": "c"}, "target": "cortex-m4", "unit": unit,
        "options": {"optimize": "speed", "memory": "auto", "ram": 0, "input_rows": False},
        "totals": {**{key: whole[key] for key in ("interpreted", "compiled")}, "macs": sum(x["macs"] for x in nodes),
                   "arena_bytes": arena, "state_bytes": 512, "scratch_bytes": 64, "constant_bytes": n(),
                   "ram_bytes": n(), "flash_bytes": 300_000 + n(), "code_bytes": n(), "weight_bytes": n()},
        "layers": lines, "nodes": nodes, "inputs": ["x"], "outputs": ["t5"], "views": {"seen": "again", "again": "t0"},
        "memory": {"arena_bytes": arena, "state_bytes": 512, "lower_bound_bytes": bound, "proven": False,
                   "forced_by": {"position": 2, "layer": "operator 8 ADD", "bytes": bound, "tensors": live},
                   "hints": hints, "bands": bands, "operators": [f"{i} {op}" for i, (op, _) in enumerate(OPS)]},
        "same_bits": True,
        "ledger": {"unit": unit, "layers": lines, "total": whole, "same_bits": True, "words": ["Words."],
                   "bytes": {kind: line_of(rng, "", [], "") for kind in ("flash", "RAM")}},
        "ladder": {"unit": unit, "none": program(rng), "rungs": rungs, "peers": [], "words": ["More."]},
        "flash": flash, **more,
    }  # fmt: skip
    read: Document = {**made, "remarks": [vars(remark) for remark in remarks(made)]}
    return read


# -- what is shown of them ---------------------------------------------------------------------------------------------

PEER = {"engine": "tflm-cmsis", "instructions": 120_000, "code_bytes": 700, "weight_bytes": 44, "ram_bytes": 99}


def without_data(html: str) -> str:
    """A page without the document that it was made of."""
    return re.sub('<script[^>]*id="data">.*?</script>', "", html, flags=re.DOTALL)


def ledgers() -> Iterator[str]:
    ends = {key: (10.5 * i, 20.25 + i) for i, key in enumerate(KEYS)}
    sizes = {"flash": Line(None, "", "", 900, 1200, dict.fromkeys(KEYS, -100.0))}
    for unit, seed in (("instructions", 0), ("µs", 1), ("instructions", 2)):
        own = ledger(unit, seed, intervals=ends, bytes=sizes, same=seed != 1)
        yield text(ledger_tables(own))
        yield from own.document["words"]
    nothing = (Line(0, "ADD", "a", 0, 50, dict.fromkeys(KEYS, 0)), Line(1, "MUL", "b", 50, 0, dict.fromkeys(KEYS, 0)))
    yield text(ledger_tables(replace(ledger(), lines=nothing)))


def ladders() -> Iterator[str]:
    for own in (
        ladder(peers=(PEER, {**PEER, "engine": "tflm-reference", "instructions": None})),
        ladder("µs", False, 1),
    ):
        yield text(ladder_tables(own))
        yield from ladder_words(own) if own.unit != "µs" else ()
    explained = explained_rows(2)
    for row in explained["rows"]:
        row["total"]["causes"] |= {"sharing": -5000, "parameters": 9000, "dispatch_c": 30}
    yield published.headline(explained)


def drift() -> Iterator[str]:
    """Figures that stay, change within their limits or noise, and beyond."""
    rng = np.random.default_rng(3)
    places = itertools.product("ab", ("host", "cortex-m4"), ("interpreted", "compiled"))
    before = [row_of(rng, *place) for place in places]
    for i, noise in enumerate((1.0, 30_000.0)):
        after = [*(changed(rng, row, noise) for row in before), row_of(rng, "unknown", "cortex-m4", "compiled")]
        before[2]["ram_bytes"], after[2]["ram_bytes"] = 0, 32
        machine = {"cpu": "a", "isa": "v3"}
        outcome = drifts(runs_of(after), machine, [Saved(Path("base.json"), machine, runs_of(before))], Limits())
        yield text(drift_tables(outcome, Limits())) + f"{i}: {outcome.compared} compared"


def changed(rng: Any, row: Document, noise: float) -> Document:
    """The row of a later run."""
    kept = ("index", "spread_us")
    factors = (1.0, 1.0, 1.004, 0.97, 1.5, 3.0, 0.2)
    new = {key: value * rng.choice(factors) if isinstance(value, int | float) and key not in kept else value
           for key, value in row.items()}  # fmt: skip
    new |= {key: round(value) for key, value in new.items() if isinstance(row[key], int)}
    new |= {"spread_us": noise} if "spread_us" in row else {}
    return {**new, "layers": [changed(rng, each, noise) for each in row["layers"]]} if "layers" in row else new


def host() -> Iterator[str]:
    failed = {**host_rows()[2], "min_us": None, "error": "it refuses", "same_bits": None}
    for rows in (host_rows(), [*host_rows()[:2], failed]):
        yield text(reporting.tables(rows))
    yield text([reporting.times(host_rows(), brief=True)])


def boards() -> Iterator[str]:
    rows = board_rows()
    rows[1]["layers"] = [
        {"index": i, "op": "CONV_2D", "kernel": "tw_conv2d_s8", "shape": [1, i + 1], "macs": macs,
         "instructions": 3000 + i,
         "code_bytes": 200 + i, "other_instructions": 5000 + i, "other_code_bytes": 7 + i, "shared": shared}
        for i, (macs, shared) in enumerate(((1000, False), (0, True), (2000, True)))
    ]  # fmt: skip
    rows[1]["instances"] = {"tw_conv2d_s8": 1234, "tw_add_s8": None}
    yield text(embedded_tables(rows, 120)) + text(embedded_tables(rows, 80), 80)
    others = [*board_rows("cortex-m4", 5), *board_rows("cortex-m55", 6), *board_rows("cortex-m0", 7)]
    yield page_text(embedded_html(others))
    for each in limits.standings([*others, {**others[1], "weights": "lut", "instructions": 1}]):
        yield repr(each)
    coded = [
        {**row, "weights": how, "decode": when, "instructions": row["instructions"] * (2 + i),
         "code_bytes": 90_000 * (i + 1)}
        for i, (how, when) in enumerate((("plain", "layer"), ("lut", "layer"), ("lut", "start")))
        for row in board_rows()[:3]
    ]  # fmt: skip
    yield text(coding_tables(coded))
    about = {"cycles": 1000, "cycles_per_instruction": 1.5, "ms": 2.25, "microjoules": None, "unmodelled_share": 0.031,
             "source": "s"}  # fmt: skip
    yield text(estimated.cycle_tables([
        {"model": f"m{i}", "engine": engine, "optimize": "size", "target": target,
         "estimate": {"error": "no model"} if (i, target) == (1, "cortex-m4") else {**about, "cycles": 1000 * (i + 1)}}
        for target in ("cortex-m4", "cortex-m55") for i, engine in enumerate(("interpreted", "compiled", "compiled"))
    ]))  # fmt: skip


def reports() -> Iterator[str]:
    for seed in (0, 1):
        kept = document(seed, ("instructions", "µs")[seed])
        if seed:
            kept["ladder"]["peers"] = [PEER, {"engine": "tflm-reference"}]
        yield page_text(without_data(report_html(kept)))
        yield from summary(kept)


def facts() -> Iterator[str]:
    """What a page says of the plan and of bits, and remarks of other documents."""
    for above, proven, same in itertools.product((0, 1), (False, True), (False, True)):
        kept = document(4)
        memory = kept["memory"]
        memory["lower_bound_bytes"] = memory["arena_bytes"] + memory["state_bytes"] - above
        memory["proven"], kept["same_bits"] = proven, same
        lines = page_text(without_data(report_html(kept))).splitlines()
        yield from (
            line for line in lines if re.search("and state|placement|(All|PROGRAMS) .* bits|OTHER BITS\\.", line)
        )
    for seed in range(4):
        kept = document(seed)
        kept["ledger"]["total"]["causes"]["sharing"] *= -4 if seed % 2 else 1
        kept["ledger"]["same_bits"] = seed % 3 > 0
        yield from (f"{seed} {each.subject} {each.worth:.4f} {each.text}" for each in remarks(kept))
    kept["layers"][1] |= {"steps": [1], "operators": [8]}
    yield from json_lines(layers_chart({**kept["ledger"], "layers": kept["layers"]}).spec)


def differences() -> Iterator[str]:
    for unit in ("instructions", "µs"):
        a, b = document(7, unit), document(8, unit, options={"optimize": "size", "memory": "auto", "ram": 512})
        b["totals"]["state_bytes"] = a["totals"]["state_bytes"] = 0
        b["totals"]["macs"] = a["totals"]["macs"]
        diff = difference(a, b)
        html = diff_html(diff)
        yield text(diff_tables(diff)) + page_text(without_data(html))
        yield "{} are good, {} are bad".format(*(html.count(f'class="{look}"') for look in ("good", "bad")))


def ways() -> Iterator[str]:
    """What tuning found of three layers: one that others beat, two whose usual way is the best."""
    settings = (Way("wide"), Way("wide", 8), Way())
    nodes = [step.node for step in make_plan(load("digits_int8").graph).steps]
    times = ((10_000, 8000, 30_000), (5000, 4900, 9000), (7000, 7000)), ((1000, 960),)
    for some in times:
        layers = [Tuned(i + 2, nodes[i], settings[0], dict(zip(settings, each, strict=False)))
                  for i, each in enumerate(some)]  # fmt: skip
        yield text(tune.tables("digits", layers, "here"))
        yield from json_lines(tune.document("digits", layers))


def searches() -> Iterator[str]:
    """Searches with failed and beaten trials: what was chosen, nothing, and the float model beside others."""
    failed = Trial(Setting("int4", "minmax"), error="no int4 here", seconds=1.5)
    noisy = Trial(Setting("int8", "minmax"), 150, 0.3, 0.6, 12.0, "aa", seconds=2.5)
    small = Trial(Setting("int8", "mse", ("bias",)), 100, 0.2, 0.7, 20.0, "bb")
    best = Trial(Setting("int16x8", "minmax"), 200, 0.01, 0.89, 40.0, "cc")
    whole, near = (
        Trial(Setting("float", "minmax"), 300, 0.0, 0.9, 1.0),
        Trial(Setting("int8", "mse"), 390, 0.005, 0.9, 1.0),
    )
    about = {"metric": "answers", "cost": "flash", "calibrated": 24, "judged": 1200, "seed": 3, "search": "not shown"}
    job: Any = SimpleNamespace(judge=SimpleNamespace(float_score=0.9), floats=(9000.0, 800.0, 70.0))

    def found(chosen: Trial | None, *trials: Trial) -> Found:
        front = tuple(t for t in trials if t in (small, best, near, whole))
        return Found(0.05, trials, front, chosen, about, 400, job)

    for each in (found(best, failed, noisy, small, best), found(whole, whole, near, small), found(whole, whole, small)):
        yield text(search.tables(each)) + text(search.tables(each, True))
        yield from json_lines(search.document(each))
        yield page_text(without_data(search_html(each, "net")))
    for trials in ((failed, failed), (failed, noisy, small)):
        yield str(search.unmet(found(None, *trials)))
        yield page_text(without_data(search_html(found(None, *trials), "net")))


def conversions() -> Iterator[str]:
    """Tensors that clip more or less; integers reach from -63.5 to 64, and each end among the values has its line."""
    ends = ((-3.0, 3.0), (-75.0, 3.0), (-3.0, 65.0), (-75.0, 65.0), (-63.5, 64.0), (65.0, 66.0))
    for (low, high), clipped in zip(ends, (0.0, 0.01, 0.011, 1.0, 0.5, 0.009), strict=True):
        edges = (low, (low + high) / 2, high)
        shown = TensorReport("t", "ADD", "INT8", 0.5, -1, 30.0, 1.0, clipped, edges, (3, 4), (5, 6))
        html = conversion_html(Report(samples=1, outputs=(OutputReport("t", 30.0),), tensors=(shown,)), "m")
        yield "{} marked".format(html.count('class="bad"'))
        yield from (line for line in page_text(html).splitlines() if re.search("datum|values|Histogram|^ \\| t ", line))


SHOWN = (conversions, searches, ledgers, ladders, drift, host, boards, reports, facts, differences, ways)


@pytest.mark.parametrize("show", SHOWN)
def test_what_is_shown_is_as_kept(show: Callable[[], Iterator[str]], request: pytest.FixtureRequest) -> None:
    lines = [line.rstrip() for part in show() for line in part.splitlines()]
    compare(GOLDEN / f"{show.__name__}.txt", lines, request)


@pytest.mark.parametrize(
    ("reads", "outputs", "why"),
    [
        (["t4"], ["t5"], "its input is rounded before it"),
        (["t4"], ["t5", "t4"], "t4 has 2 readers"),  # who asks for the output reads it, too
        (["t4"], ["t5", "shown"], "t4 has 2 readers"),
        (["shown"], ["t5", "t4"], "t4 has 2 readers"),
        (["t4", "t0"], ["t5"], "t0 has 3 readers"),
        (["x"], ["t5"], "x has 2 readers"),
        (["alone"], ["t5"], "it reads an input of the model"),
        (["t3", "alone"], ["t5"], "t3 has 2 readers"),
    ],
)
def test_why_a_pass_is_alone(reads: list[str], outputs: list[str], why: str) -> None:
    kept = document(2, outputs=outputs, inputs=["x", "alone"])
    kept["views"]["shown"] = "t4"
    kept["nodes"][5]["inputs"] = reads
    (text,) = (remark.text for remark in remarks(kept) if "operator 12 LOGISTIC (t5) is a pass" in remark.text)
    assert f"over {kept['nodes'][5]['output_bytes']:,} B: {why}" in text
