"""Every figure of a report's page, recomputed in another way from a document that is made up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from statistics import median
from typing import Any

import numpy as np
import pytest

from twinfer.bench.explain.causes import CAUSES
from twinfer.bench.explain.techniques import TECHNIQUES
from twinfer.bench.measure.tflm import LABELS
from twinfer.bench.report.charts import ladder_chart, layers_chart, noise_chart, waterfall
from twinfer.bench.report.diff import diff_html, diff_tables, difference
from twinfer.bench.report.diff import layers_chart as differences
from twinfer.bench.report.html import report_html
from twinfer.bench.report.maps import NAMES, arena_chart, flash_chart
from twinfer.bench.report.remarks import remarks
from twinfer.bench.report.summary import answers, summary

Document = dict[str, Any]

#: Causes, in another order than that of tables.
KEYS = ("parameters", "sharing", "dispatch_c")

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


def program(rng: Any, same: bool = True) -> Document:
    taken, flash, ram = (int(n) for n in rng.integers(1000, 90_000, 3))
    return {"taken": taken, "flash_bytes": flash, "ram_bytes": ram, "same_bits": same}


def tables(page: str) -> dict[str, list[list[str]]]:
    """Caption -> the texts of a page's rows, the foot last."""
    found = {}
    for text in re.findall(r"<table.*?</table>", without_scripts(page), re.DOTALL):
        caption = plain(re.findall(r"<caption>(.*?)</caption>", text)[0])
        rows = re.findall(r"<tr>(.*?)</tr>", text.split("</thead>")[1], re.DOTALL)
        found[caption] = [[plain(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in rows]
    return found


def without_scripts(page: str) -> str:
    return re.sub("<script.*?</script>", "", page, flags=re.DOTALL)


def plain(html: str) -> str:
    return unescape(re.sub("<[^>]*>", " ", html)).strip()


def shown_order() -> list[str]:
    return [key for key in CAUSES if key in KEYS]


def both(line: Document) -> list[str]:
    """A line's cells of both sides, their ratio."""
    return [f"{line['interpreted']:,}", f"{line['compiled']:,}", f"{line['interpreted'] / line['compiled']:.2f}"]


NUMBERS = {1: "8-9", 0: "7", 2: "10", 3: "11", 4: "12", 5: ""}


@pytest.mark.parametrize("seed", range(2))
def test_the_tables_of_a_page(seed: int) -> None:
    kept = document(seed)
    of, whole = tables(report_html(kept)), kept["ledger"]["total"]
    for i, (line, row) in enumerate(zip(kept["layers"], of["Layers: instructions of one inference"], strict=False)):
        macs = sum(kept["nodes"][k]["macs"] for k in line["steps"])
        shape = f"1×{max(line['steps']) + 2}×3" if line["steps"] else ""
        assert row[:4] == [NUMBERS[i], line["op"], line["name"], shape]
        assert row[4:7] == both(line)
        assert row[7] == f"{100 * line['compiled'] / whole['compiled']:.1f}"
        assert row[8:10] == [f"{macs:,}" if line["steps"] else "", f"{line['compiled'] / macs:.2f}" if macs else ""]
        assert row[10:] == [f"{sum(kept['nodes'][k][key] for k in line['steps']):,}"
                            for key in ("code_bytes", "weight_bytes")]  # fmt: skip
    last = of["Layers: instructions of one inference"][-1]
    assert last[4:9] == [*both(whole), "", f"{sum(node['macs'] for node in kept['nodes']):,}"]
    saved = of["What compiling saves, in instructions"]
    for line, row in zip([*kept["layers"], whole], saved, strict=True):
        assert row[2:] == [*both(line), *(f"{line['causes'][key]:,}" for key in shown_order())]
    for (kind, line), row in zip(kept["ledger"]["bytes"].items(), of["What it saves in bytes"], strict=True):
        assert row == [kind, *both(line), *(f"{line['causes'][key]:,}" for key in shown_order())]
    rungs, before = kept["ladder"]["rungs"], kept["ladder"]["none"]
    first, *others = of["Techniques added to nothing, and each left out of all"]
    assert first == ["none of them", f"{before['taken']:,}", "", *rest(before), "", "", "", "", "same bits"]
    for rung, row in zip(rungs, others, strict=True):
        added, removed = rung["added"], rung["removed"]
        worth = before["taken"] / added["taken"], removed["taken"] / rungs[-1]["added"]["taken"]
        assert row[0] == f"+ {TECHNIQUES[rung['technique']].label}"
        assert row[1:5] == [f"{added['taken']:,}", f"{worth[0]:.2f}", *rest(added)]
        assert row[5:9] == [f"{removed['taken']:,}", f"{worth[1]:.2f}", *rest(removed)]
        assert row[9] == ("same bits" if rung["technique"] == "calls" else "OTHER BITS")
        before = added
    peak, hints = kept["memory"]["forced_by"]["tensors"], kept["memory"]["hints"]
    assert of["What is live at the peak"] == [[each["name"], f"{each['bytes']:,}"] for each in peak]
    assert of["Changes that were planned"] == [[hint["text"], f"{hint['ram_bytes']:,}"] for hint in hints]
    symbols = sorted(kept["flash"], key=lambda s: -s["size"] - s["padding"])
    assert of["Symbols, with what their alignment takes"] == [
        [s["name"], s["group"], "" if s["layer"] is None else f"{s['layer'] + 7}", f"{s['size'] + s['padding']:,}"]
        for s in symbols
    ]


def shown(value: float, unit: str) -> str:
    """µs with four digits, at most three of them behind the point; instructions as they are."""
    digits = max(0, min(3, 4 - len(str(int(abs(value)))))) if unit == "µs" else 0
    return f"{value:,.{digits}f}"


def rest(figures: Document) -> list[str]:
    return [f"{figures['flash_bytes']:,}", f"{figures['ram_bytes']:,}"]


@pytest.mark.parametrize("above", [0, 1])
@pytest.mark.parametrize("proven", [False, True])
@pytest.mark.parametrize("same", [False, True])
def test_the_facts_of_a_page(above: int, proven: bool, same: bool) -> None:
    kept = document(4)
    memory, totals = kept["memory"], kept["totals"]
    memory["lower_bound_bytes"] = memory["arena_bytes"] + memory["state_bytes"] - above
    memory["proven"], kept["same_bits"] = proven, same
    page = report_html(kept)
    facts = dict(re.findall(r"<li><b>([^<]*)</b><span>([^<]*)</span></li>", page))
    whole = totals["arena_bytes"] + totals["state_bytes"]
    assert facts == {
        f"{totals['compiled']:,}": "compiled: instructions of one inference",
        f"{totals['interpreted']:,}": "interpreted: instructions of one inference",
        f"{totals['interpreted'] / totals['compiled']:.2f} ×": "what compiling is worth",
        f"{totals['macs']:,}": "MACs",
        f"{whole:,} B": "arena and state" + ("" if above else ", no plan has less"),
        f"{totals['flash_bytes']:,} B": f"flash, {totals['code_bytes']:,} of them no weights",
    }
    text = plain(without_scripts(page))
    assert f"Arena {memory['arena_bytes']:,} bytes, state 512: together {whole:,}." in text
    assert f"Most bytes are live at operator 8 ADD: {whole - above:,}." in text
    assert ("no placement has fewer" in text, "better placement may exist" in text) == (proven, not proven)
    assert ("All programs gave the same bits" in text, "PROGRAMS GAVE OTHER BITS" in text) == (same, not same)
    assert "<h2>Quantisation noise</h2>" in page
    assert f"{kept['file_bytes']:,} bytes of .tflite; optimize speed, memory auto. " in text
    assert "twinfer 9.9; sha256 0123456789abcdef…; " in text
    parts = {part.split("</h2>")[0]: part for part in without_scripts(page).split("<h2>")[1:]}
    order = {"Layers": ["figure", "table"], "Memory": ["figure", "table", "table"], "Flash": ["figure", "table"],
             "What compiling is worth": ["figure", "table", "table"], "Techniques": ["figure", "table"],
             "Quantisation noise": ["figure"], "Graph": ["figure"], "In short": []}  # fmt: skip
    assert {title: re.findall("<(figure|table) class", part) for title, part in parts.items()} == order


@pytest.mark.parametrize("unit", ["instructions", "µs"])
@pytest.mark.parametrize("seed", range(3))
def test_the_summary(seed: int, unit: str) -> None:
    kept = document(seed, unit)
    first, *lines = summary(kept)
    whole = kept["totals"]
    taken = {"instructions": f"{whole['compiled']:,} instructions", "µs": f"{shown(whole['compiled'], 'µs')} µs"}[unit]
    worth = f"{whole['interpreted'] / whole['compiled']:.2f} × as much interpreted."
    assert first == f"net on cortex-m4: {taken} compiled, {worth}"
    heads, parts = [line for line in lines if line[0] != " "], answers(kept)
    assert (
        heads == ["What takes the time:", "What takes the RAM:", "What to look at:"] == [f"{head}:" for head in parts]
    )
    assert [line[2:] for line in lines if line[0] == " "] == [text for some in parts.values() for text in some]
    time, ram, look = parts.values()
    heavy = sorted((x for x in kept["layers"] if x["steps"]), key=lambda x: -x["compiled"])[:3]
    for layer, text in zip(heavy, time, strict=False):
        share, figure = 100 * layer["compiled"] / whole["compiled"], shown(layer["compiled"], unit)
        i = kept["layers"].index(layer)
        named = f"{NUMBERS[i]} {layer['op']} ({layer['name']})" if i != 1 else "Operators 8 to 9, row by row"
        assert text == f"{named}: {figure}{' µs' * (unit == 'µs')}, {share:.1f} %."
    assert time[3] == f"Together {100 * sum(x['compiled'] for x in heavy) / whole['compiled']:.0f} % of the whole."
    told = {subject: [r["text"] for r in kept["remarks"] if r["subject"] == subject][:3]
            for subject in ("RAM", "time", "flash", "accuracy")}  # fmt: skip
    assert [text[1:] for text in ram] == [text[1:] for text in told.pop("RAM")]
    assert [text[1:] for text in look] == [text[1:] for some in told.values() for text in some]
    assert all(text[0].isupper() for text in (*ram, *look))
    kept["layers"][1] |= {"steps": [1], "operators": [8]}
    assert [bar["layer"] for bar in data(layers_chart({**kept["ledger"], "layers": kept["layers"]}))[::2]] == [
        "7 CONV_2D", "8 row by row", "10 RESHAPE", "11 CONV_2D", "12 LOGISTIC", "around"]  # fmt: skip


# -- remarks -----------------------------------------------------------------------------------------------------------


def expected_remarks(kept: Document) -> Iterator[tuple[str, str, float]]:
    """Subject, a part of the text, worth."""
    whole, lines = kept["totals"]["compiled"], kept["layers"]
    for i, why in ((1, "t0 has 2 readers"), (4, "runs in plain C: wide: dilation"), (3, "only moves"),
                   (5, "its input is rounded")):  # fmt: skip
        line = next(x for x in lines if i in x["steps"])
        share = line["compiled"] / whole
        where = " for operators 8 to 9" if i == 1 else ""
        taken = f"({line['compiled']:,} instructions{where}, {100 * share:.1f} %)"
        yield "time", f"operator {i + 7} {OPS[i][0]} .t{i}. .*{why}.*{re.escape(taken)}", share / len(line["steps"])
    alone = [x for x in lines if len(x["steps"]) == 1 and x["macs"]]
    usual = median(x["compiled"] / x["macs"] for x in alone)
    for line in alone:
        surplus = line["compiled"] - usual * line["macs"]
        if line["compiled"] >= 2 * usual * line["macs"] and surplus >= 0.01 * whole:
            yield "time", f"takes {line['compiled'] / line['macs']:.2f} .*median layer {usual:.2f} ", surplus / whole
    cost = -kept["ledger"]["total"]["causes"]["sharing"]
    if cost >= 0.005 * whole:
        saved = kept["ledger"]["bytes"]["flash"]["causes"]["sharing"]
        yield "time", f"share kernels cost {cost:,} .*{100 * cost / whole:.1f} %.* save {saved:,} B", cost / whole
    share = 1 - whole / kept["totals"]["interpreted"]
    if share >= 0.05:
        bits = "with the same bits" if kept["ledger"]["same_bits"] else "but with OTHER BITS"
        yield "time", f"Compiling saves {100 * share:.1f} % .*, {bits}", share
    memory = kept["memory"]
    together = kept["totals"]["arena_bytes"] + kept["totals"]["state_bytes"]
    largest = re.escape("t0 (4,000 B), t1 (3,000 B), t2 (200 B); rows of one lie")
    yield "RAM", f"peak is at operator 8 ADD, where 7,000 B are live: {largest}", memory["lower_bound_bytes"] / together
    yield "RAM", "Possible: hint 0", 0.5
    yield "RAM", "Possible: hint 1", 0.021
    weights = sum(node["constant_bytes"] for node in kept["nodes"])
    for node in kept["nodes"]:
        if (share := node["constant_bytes"] / weights) >= 0.25:
            yield (
                "flash",
                f"{node['name']}. has {100 * share:.1f} % of all weights: {node['constant_bytes']:,} B",
                share,
            )
    code = kept["totals"]["code_bytes"]
    share = code / kept["totals"]["flash_bytes"]
    yield "flash", f"tables are {code:,} B, {100 * share:.1f} % of the flash", share
    noisy = sorted((x for x in kept["nodes"] if (x["own_snr_db"] or 99) < 25), key=lambda x: x["own_snr_db"])
    for node in noisy[:3]:
        ratios = f"{node['own_snr_db']:.1f} dB .*{node['total_snr_db']:.1f} dB with"
        yield "accuracy", f"operator {node['index']} .*{ratios}", (25 - node["own_snr_db"]) / 100


@pytest.mark.parametrize("seed", range(8))
def test_all_remarks_with_what_they_are_worth(seed: int) -> None:
    kept = document(seed)
    if seed % 2:
        kept["ledger"]["total"]["causes"]["sharing"] = -9000
    kept["ledger"]["same_bits"] = seed % 3 > 0
    got, want = remarks(kept), list(expected_remarks(kept))
    assert len(got) == len(want)
    subjects = ["time", "RAM", "flash", "accuracy"]
    assert got == sorted(got, key=lambda remark: (subjects.index(remark.subject), -remark.worth))
    for subject, text, worth in want:
        found = [r for r in got if r.subject == subject and re.search(text, r.text)]
        assert len(found) == 1, (text, [r.text for r in got])
        assert found[0].worth == pytest.approx(worth)


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


# -- charts ------------------------------------------------------------------------------------------------------------


def data(chart: Any, layer: int | None = None) -> list[Document]:
    part = chart.spec if layer is None else chart.spec["layer"][layer]
    read: list[Document] = part["data"]["values"]
    return read


@pytest.mark.parametrize("seed", range(3))
def test_bars_and_points(seed: int) -> None:
    kept = document(seed)
    kept["ladder"]["peers"] = [{"engine": "tflm-cmsis", "instructions": 123_456}, {"engine": "tflm-reference"}]
    ledger, whole = kept["ledger"], kept["ledger"]["total"]
    assert f"{whole['interpreted']:,} interpreted" in layers_chart(ledger).about
    assert f"{whole['compiled']:,} compiled" in layers_chart(ledger).about
    for bar in data(layers_chart(ledger)):
        line = next(x for x in ledger["layers"] if x["name"] == bar["name"])
        assert bar["taken"] == line[bar["program"]]
        assert [bar[f"{s} (instructions)"] for s in ("interpreted", "compiled")] == both(line)[:2]
    at = whole["interpreted"]
    first, *bars, last = data(waterfall(ledger))
    for bar, side in ((first, "interpreted"), (last, "compiled")):
        ends = (side, 0, whole[side], whole[side], "whole", f"{whole[side]:,}")
        assert tuple(bar[key] for key in ("cause", "from", "to", "end", "kind", "figure")) == ends
    for key, bar in zip(shown_order(), bars, strict=True):
        saved = whole["causes"][key]
        assert (bar["cause"], bar["from"], bar["to"], bar["end"]) == (CAUSES[key].word, at, at - saved,
                                                                       max(at, at - saved))  # fmt: skip
        assert bar["figure"] == f"{'-' if saved >= 0 else '+'}{abs(saved):,}"
        assert bar["kind"] == ("saved" if saved >= 0 else "cost")
        assert f"{CAUSES[key].word} {saved:,}" in waterfall(ledger).about
        at -= saved
    rungs, chart = kept["ladder"]["rungs"], ladder_chart(kept["ladder"])
    taken = [kept["ladder"]["none"]["taken"], *(rung["added"]["taken"] for rung in rungs)]
    assert f"together {taken[0] / taken[-1]:.1f} times" in chart.about
    *points, peer = data(chart)
    assert [(p["taken"], p["figure"], p["whose"]) for p in points] == [(n, f"{n:,}", "twinfer") for n in taken]
    before = [taken[0], *taken[:-1]]
    assert [(p["before"], p["end"]) for p in points] == [(m, max(m, n)) for m, n in zip(before, taken, strict=True)]
    assert [peer[key] for key in ("program", "taken", "before", "end", "figure", "whose")] == [
        LABELS["tflm-cmsis"], 123_456, 123_456, 123_456, "123,456", "others"]  # fmt: skip
    taken.append(123_456)
    rule, dots, said = chart.spec["layer"]
    assert (channels(rule), channels(dots)) == ({"x": "before", "x2": "taken"}, {"x": "taken", "color": "whose"})
    assert channels(said) == {"x": "end", "text": "figure"}
    assert channels(layers_chart(ledger).spec["layer"][0]) == {"x": "taken"}
    assert channels(waterfall(ledger).spec["layer"][0]) == {"x": "from", "x2": "to", "color": "kind"}
    assert channels(noise_chart(kept).spec) == {"x": "layer", "y": "dB", "color": "noise"}
    scale = dots["encoding"]["x"]["scale"]
    assert scale["domainMin"] == pytest.approx(0.9 * min(taken))
    assert f"pow({1.1 * max(taken) / (0.9 * min(taken))}," in scale["domainMax"]["expr"]
    points = {(p["layer"], p["noise"]): p["dB"] for p in data(noise_chart(kept))}
    names = {"own_snr_db": "of the layer alone", "total_snr_db": "with all before it"}
    judged = [node for node in kept["nodes"] if node["own_snr_db"]]
    assert points == {(node["index"], name): node[key] for node in judged for key, name in names.items()}
    assert f"the least is {min(points.values())} dB at " in noise_chart(kept).about


def test_the_map_of_the_arena() -> None:
    """What lives from an operator to the next: the most bytes that each tensor then has, the largest first."""
    kept = document(5)
    bands, chart = kept["memory"]["bands"], arena_chart(kept)
    live, moment = (param["value"] for param in chart.spec["params"])
    assert moment == kept["memory"]["forced_by"]["position"], "the slider stands at the peak"
    slider = chart.spec["params"][1]["bind"]
    assert (slider["min"], slider["max"], slider["step"]) == (0, len(OPS) - 1, 1)
    areas, now, bound = chart.spec["layer"]
    assert channels(areas) == {"x": "time", "y": "low", "y2": "high", "detail": "band", "color": "kind"}
    assert areas["encoding"]["x"]["scale"]["domain"] == [-1, len(OPS)]
    assert (now["transform"], channels(now)) == ([{"calculate": "at + 0.5", "as": "time"}], {"x": "time"})
    assert (data(chart, 2), channels(bound)) == ([{"bound": 7000}], {"y": "bound"})
    kinds = areas["encoding"]["color"]["scale"]
    assert kinds["domain"] == [NAMES[kind] for kind in ("tensor", "rows", "scratch", "state")]
    assert len(set(kinds["range"])) == 4
    for at, lines in enumerate(live):
        sizes = {}
        for band in bands:
            middle = [k for k in range(2) if band["times"][k] < at + 1 and band["times"][k + 1] > at]
            if middle:
                sizes[band["name"]] = max(band["highs"][k] - band["lows"][k] for k in middle)
        order = sorted(sizes, key=lambda name: -sizes[name])
        want = [f"operator {at} {OPS[at][0]}", *(f"{sizes[name]:,} B {name}" for name in order[:4])]
        assert [line for line in lines if line][: len(want)] == want
        others = [sizes[name] for name in order[4:]]
        assert lines[-1] == (f"and {sum(others):,} B in {len(others)} others" if others else "")
    for area in data(chart, 0):
        band = bands[area["band"]]
        most = max(high - low for low, high in zip(band["lows"], band["highs"], strict=True))
        assert (area["bytes"], area["first"], area["end"]) == (f"{most:,}", band["times"][0], band["times"][-1])
    whole = kept["memory"]["arena_bytes"] + kept["memory"]["state_bytes"]
    assert f"6 tensors in {whole:,} bytes" in chart.about
    tree = {leaf["name"]: leaf for leaf in flash_chart(kept).spec["data"][0]["values"] if "size" in leaf}
    assert {name: leaf["size"] for name, leaf in tree.items()} == {
        s["name"]: s["size"] + s["padding"] for s in kept["flash"] if s["group"] != "bss"}  # fmt: skip


def test_the_map_of_the_flash() -> None:
    """A leaf for every symbol in flash, in the area of its group, with its alignment; groups in their order."""
    kept = document(6)
    chart = flash_chart(kept)
    root, *nodes = chart.spec["data"][0]["values"]
    areas = [node["id"] for node in nodes if "size" not in node]
    assert areas == ["weights", "code", "params"], "bss is in no flash"
    assert {node["parent"] for node in nodes if "size" not in node} == {root["id"]}
    leaves = [(node["name"], node["parent"], node["group"], node["size"]) for node in nodes if "size" in node]
    assert leaves == [(s["name"], s["group"], s["group"], s["size"] + s["padding"])
                      for s in kept["flash"] if s["group"] != "bss"]  # fmt: skip
    (colours,) = chart.spec["scales"]
    assert colours["domain"] == areas
    whole = f"{kept['totals']['flash_bytes']:,}"
    assert f"{whole} bytes" in chart.title
    assert f"bytes of {whole} in flash, one per symbol: {', '.join(areas)}." in chart.about


# -- differences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["instructions", "µs"])
def test_a_page_of_differences(unit: str) -> None:
    """Both figures, their difference with its sign, in per cent of the first; more is bad, less is good."""
    a, b = document(7, unit), document(8, unit, options={"optimize": "size", "memory": "auto", "ram": 512})
    b["totals"]["state_bytes"] = a["totals"]["state_bytes"] = 0
    b["totals"]["macs"] = a["totals"]["macs"]
    diff = difference(a, b)
    page = diff_html(diff)
    of = tables(page)
    rows = {row[0].split(",")[0]: row[1:] for row in of["Totals"]}
    for key in ("arena_bytes", "ram_bytes", "flash_bytes", "weight_bytes"):
        label = {"ram_bytes": "RAM"}.get(key, key.partition("_")[0] + "s" * (key == "weight_bytes"))
        old, new = a["totals"][key], b["totals"][key]
        assert rows[label] == [f"{old:,}", f"{new:,}", f"{new - old:+,}", f"{100 * (new / old - 1):+.1f}"]
        look = "good" if new < old else "bad"
        assert re.search(rf'class="{look}"[^>]*>{re.escape(f"{new - old:+,}")}<', page)
    assert rows["MACs"][2:] == ["0", "0"]
    assert "state" not in rows
    for side in ("compiled", "interpreted"):
        old, new = a["totals"][side], b["totals"][side]
        assert rows[side][:3] == [shown(old, unit), shown(new, unit), "+" * (new > old) + shown(new - old, unit)]
    changed = ["optimize: speed → size", "ram: 0 → 512", "input_rows: False → None"]
    assert all(line in plain(page) for line in changed)
    assert [line.rstrip() for line in texts(diff) if "→" in line] == changed
    layers = of[f"Layers, compiled, {unit}"]
    for i, row in enumerate(layers):
        old, new = a["layers"][i]["compiled"], b["layers"][i]["compiled"]
        assert row[:3] == [NUMBERS[i], a["layers"][i]["op"], a["layers"][i]["name"]]
        change = "+" * (new > old) + shown(new - old, unit)
        assert row[3:7] == [shown(old, unit), shown(new, unit), change, f"{100 * (new / old - 1):+.1f}"]
    bars = [(f"{NUMBERS[i]} {line['op']}".strip(), side, line["compiled"], shown(line["compiled"], unit))
            for i in range(len(layers)) for side, line in (("a", a["layers"][i]), ("b", b["layers"][i]))]  # fmt: skip
    chart = differences(diff)
    told = [(bar["layer"], bar["report"], bar["taken"], bar["figure"].removesuffix(" µs")) for bar in data(chart)]
    assert told == bars
    assert channels(chart.spec) == {"y": "layer", "yOffset": "report", "x": "taken", "color": "report"}
    assert chart.spec["encoding"]["x"]["title"] == unit
    assert page.count('<figure class="chart"') == 1
    first, totals, changed = diff_tables(diff)
    for side, own in (("a", a), ("b", b)):
        assert f"{side}: net on cortex-m4, 0123456789ab, twinfer 9.9" in str(first)
        assert own["target"] == "cortex-m4"
    assert in_terminal(totals) == [[row[0], *row[1:]] for row in of["Totals"]]
    by_change = sorted(layers, key=lambda row: -abs(float(row[5].replace(",", ""))))
    assert [row[:2] + row[2:6] for row in in_terminal(changed)] == [row[:2] + row[3:7] for row in by_change]


def in_terminal(table: Any) -> list[list[str]]:
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return [list(line) for line in zip(*columns, strict=True)]


def channels(spec: Document) -> dict[str, str]:
    """Which column each channel of a chart shows."""
    return {name: of["field"] for name, of in spec["encoding"].items() if "field" in of}


def texts(diff: Document) -> list[str]:
    return str(next(iter(diff_tables(diff)))).splitlines()
