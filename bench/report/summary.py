"""A report in a few sentences: what takes the time, what takes the RAM, what to look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twinfer.bench.explain.causes import BY_ROWS
from twinfer.bench.measure.report import number, span

Document = Mapping[str, Any]

#: Layers that are named, and remarks of each subject.
FEW = 3

HEADINGS = ("What takes the time", "What takes the RAM", "What to look at")


def figure(value: float, unit: str) -> str:
    """A figure with its unit: µs, bytes, or a number of instructions."""
    return f"{number(value)} µs" if unit == "µs" else f"{value:,.0f}" + (" B" if unit == "bytes" else "")


def counted(value: float, unit: str) -> str:
    """The same, with the word that says what is counted."""
    return f"{figure(value, unit)} instructions" if unit == "instructions" else figure(value, unit)


def behind(name: str, views: Mapping[str, str]) -> str:
    """The value that a view shows."""
    while name in views:
        name = views[name]
    return name


def layer_label(layer: Mapping[str, Any]) -> str:
    """A line of the ledger in a few characters: its operators' numbers and name, or what it stands for."""
    at = span(layer["operators"])
    if not at:
        return str(layer["name"])
    return f"{at} {layer['op']}" if layer["op"] != BY_ROWS else f"{at} row by row"


def summary(document: Document) -> Iterator[str]:
    """The summary for a terminal, line by line."""
    totals, unit = document["totals"], document["unit"]
    yield (
        f"{document['model']} on {document['target']}: {counted(totals['compiled'], unit)} compiled, "
        f"{totals['interpreted'] / max(totals['compiled'], 1e-9):.2f} × as much interpreted."
    )
    for heading, sentences in answers(document).items():
        yield f"{heading}:"
        yield from (f"  {sentence}" for sentence in sentences)


def answers(document: Document) -> dict[str, list[str]]:
    """Heading -> sentences."""

    def of(*subjects: str) -> list[str]:
        """The first few remarks of each subject."""
        every = [[remark["text"] for remark in document["remarks"] if remark["subject"] == s][:FEW] for s in subjects]
        return [_sentence(text) for texts in every for text in texts]

    parts = list(_heaviest(document)), of("RAM"), of("time", "flash", "accuracy")
    return dict(zip(HEADINGS, parts, strict=True))


def _heaviest(document: Document) -> Iterator[str]:
    """The layers that take most."""
    whole = max(document["totals"]["compiled"], 1e-9)
    layers = sorted((x for x in document["layers"] if x["steps"]), key=lambda layer: -layer["compiled"])[:FEW]
    for layer in layers:
        share, name = 100 * layer["compiled"] / whole, str(layer["name"])
        name = _sentence(name) if layer["op"] == BY_ROWS else f"{layer_label(layer)} ({name})"
        yield f"{name}: {figure(layer['compiled'], document['unit'])}, {share:.1f} %."
    if len(layers) > 1:
        yield f"Together {100 * sum(layer['compiled'] for layer in layers) / whole:.0f} % of the whole."


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
