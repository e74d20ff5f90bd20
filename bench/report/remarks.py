"""What a report's figures suggest: which layers to look at, why, and what it would be worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from twinfer.bench.measure.report import bits_in_words
from twinfer.bench.report.summary import behind, counted
from twinfer.runtime.target import PLAIN

#: What a remark is about.
Subject = Literal["time", "RAM", "flash", "accuracy"]

#: The least share of the total that deserves a remark.
LEAST = 0.005

#: The least share of the RAM that a change must save to be named.
WORTHWHILE = 0.02

#: How many times the median of instructions or time per MAC is dear.
DEAR = 2.0

#: A layer is large if it has this share of all weights, and noisy if its own roundings leave less signal, in dB.
LARGE, NOISY_DB = 0.25, 25.0

#: Families of operators that pass over values without a multiplication of matrices.
PASSES = ("elementwise", "functions")

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Remark:
    """``text`` is a sentence; ``worth`` the share of the whole that it is about, from 0 to 1.

    ``layer`` is the position of a step, None if it is about all.
    """

    subject: Subject
    layer: int | None
    text: str
    worth: float


def remarks(document: Document) -> list[Remark]:
    """All remarks on a report's document, for each subject the one that is worth most first."""
    every = [*_time(document), *_memory(document), *_flash(document), *_accuracy(document)]
    subjects: list[Subject] = ["time", "RAM", "flash", "accuracy"]
    return sorted(every, key=lambda remark: (subjects.index(remark.subject), -remark.worth))


def _time(document: Document) -> Iterator[Remark]:
    whole = max(document["totals"]["compiled"], 1e-9)
    for layer in document["layers"]:
        share = layer["compiled"] / whole
        ends = layer["operators"]
        together = f" for operators {min(ends)} to {max(ends)}" if len(ends) > 1 else ""
        cost = f"{counted(layer['compiled'], document['unit'])}{together}, {_percent(share)}"
        for node in (document["nodes"][at] for at in layer["steps"] if share >= LEAST):
            if text := _suspicion(document, node):
                yield Remark("time", node["position"], f"{text} ({cost}).", share / len(layer["steps"]))
    yield from _dear(document)
    yield from _causes(document)


def _suspicion(document: Document, node: Mapping[str, Any]) -> str:
    """What kind of a layer deserves a look, in words; nothing for one like any other."""
    layer, size = _layer(node), f"{node['output_bytes']:,} B"
    if node["declined"] and node["variant"] == PLAIN.variant:
        reasons = "; ".join(f"{each['variant']}: {each['reason']}" for each in node["declined"])
        return f"{layer} runs in plain C: {reasons}"
    if node["family"] in PASSES:
        return f"{layer} is a pass of its own over {size}: {_why(document, node)}"
    return f"{layer} only moves {size}" if node["family"] == "move" else ""


def _dear(document: Document) -> Iterator[Remark]:
    """Layers that take far more per MAC than the others."""
    unit, whole = document["unit"], max(document["totals"]["compiled"], 1e-9)
    lines = [layer for layer in document["layers"] if len(layer["steps"]) == 1 and layer["macs"]]
    usual = median([layer["compiled"] / layer["macs"] for layer in lines]) if lines else 0.0
    for layer in lines:
        surplus = layer["compiled"] - usual * layer["macs"]
        if layer["compiled"] >= DEAR * usual * layer["macs"] and surplus >= 2 * LEAST * whole:
            own, others = speed(layer["compiled"], layer["macs"], unit), speed(usual, 1, unit)
            verb = "takes" if unit == "instructions" else "does"
            text = f"{_layer(document['nodes'][layer['position']])} {verb} {own}, the median layer {others}"
            share = _percent(layer["compiled"] / whole)
            yield Remark("time", layer["position"], f"{text} ({share} of the whole).", surplus / whole)


def speed(taken: float, macs: int, unit: str) -> str:
    """How fast MACs are: instructions of each or, of times in µs, how many billions a second."""
    if unit == "instructions":
        return f"{taken / macs:.2f} instructions per MAC"
    return f"{macs / taken / 1e3:.1f} GMAC/s" if taken else "its MACs in no time that can be measured"


def _causes(document: Document) -> Iterator[Remark]:
    """What the choice between own and shared kernels costs, and what a loop in Python does."""
    causes, taken = document["ledger"]["total"]["causes"], document["totals"]
    cost = -causes.get("sharing", 0)
    if cost > 0 and cost >= LEAST * taken["compiled"]:
        saved = document["ledger"]["bytes"]["flash"]["causes"]["sharing"]
        share = cost / max(taken["compiled"], 1e-9)
        text = (
            f"Layers that share kernels cost {counted(cost, document['unit'])} ({_percent(share)}) and save "
            f"{saved:,.0f} B of flash; --optimize speed gives every layer a kernel of its own."
        )
        yield Remark("time", None, text, share)
    share = (taken["interpreted"] - taken["compiled"]) / max(taken["interpreted"], 1e-9)
    if share >= 10 * LEAST:
        bits = bits_in_words(document["ledger"]["same_bits"])
        text = f"Compiling saves {_percent(share)} of what the interpreter takes, {bits}."
        yield Remark("time", None, text, share)


def _memory(document: Document) -> Iterator[Remark]:
    memory, totals = document["memory"], document["totals"]
    whole = max(totals["arena_bytes"] + totals["state_bytes"], 1)
    forced = memory["forced_by"]
    largest = ", ".join(f"{each['name']} ({each['bytes']:,} B)" for each in forced["tensors"][:3])
    if forced["bytes"]:
        over = sum(each["bytes"] for each in forced["tensors"]) > forced["bytes"]
        rows = "; rows of one lie where those of another were" if over else ""
        text = f"The peak is at {forced['layer']}, where {forced['bytes']:,} B are live: {largest}{rows}."
        at = next((node["position"] for node in document["nodes"] if node["time"] == forced["position"]), None)
        yield Remark("RAM", at, text, forced["bytes"] / whole)
    for hint in (hint for hint in memory["hints"] if -hint["ram_change"] >= WORTHWHILE):
        yield Remark("RAM", None, f"Possible: {hint['text']}.", -hint["ram_change"])


def _flash(document: Document) -> Iterator[Remark]:
    nodes, whole = document["nodes"], sum(node["constant_bytes"] for node in document["nodes"])
    for node in nodes:
        share = node["constant_bytes"] / max(whole, 1)
        if share >= LARGE and len(nodes) > 1:
            text = f"{_layer(node)} has {_percent(share)} of all weights: {node['constant_bytes']:,} B."
            yield Remark("flash", node["position"], text, share)
    code = document["totals"]["code_bytes"]
    if code:
        share = code / document["totals"]["flash_bytes"]
        text = f"Code, params and tables are {code:,} B, {_percent(share)} of the flash; --optimize size shares more."
        yield Remark("flash", None, text, share)


def _accuracy(document: Document) -> Iterator[Remark]:
    noisy = [n for n in document["nodes"] if n["own_snr_db"] is not None and n["own_snr_db"] < NOISY_DB]
    for node in sorted(noisy, key=lambda node: node["own_snr_db"])[:3]:
        text = (
            f"{_layer(node)} loses most by its own rounding: {node['own_snr_db']:.1f} dB of signal to noise on random "
            f"inputs ({node['total_snr_db']:.1f} dB with the layers before it)."
        )
        yield Remark("accuracy", node["position"], text, (NOISY_DB - node["own_snr_db"]) / 100)


def _why(document: Document, node: Mapping[str, Any]) -> str:
    """Why an element-wise layer is not part of the one before it."""
    read = [[behind(name, document["views"]) for name in other["inputs"]] for other in document["nodes"]]
    given = [behind(name, document["views"]) for name in document["outputs"]]
    own = [behind(name, document["views"]) for name in node["inputs"]]
    for name in own:
        readers = sum(name in names for names in (*read, given))
        if readers > 1:
            return f"{name} has {readers} readers"
    if any(name in document["inputs"] for name in own):
        return "it reads an input of the model"
    return "its input is rounded before it, and bits would change without"


def _layer(node: Mapping[str, Any]) -> str:
    return f"operator {node['index']} {node['op']} ({node['name']})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
