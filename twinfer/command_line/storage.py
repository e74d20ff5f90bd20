"""The options that say how constant weights are stored, and when coded ones are decoded."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinfer.bench.models.source import Source
    from twinfer.runtime.options import Options
    from twinfer.runtime.plan.plan import Plan
    from twinfer.runtime.target import Target

WEIGHTS = {
    "file": "as in the model's file: INT4 in 4 bits on microcontrollers, all others plain (the default)",
    "plain": "as kernels read them",
    "auto": "the smallest coding per layer, where that saves flash",
    "lut": "1 to 7 bits in a table of values",
    "huffman": "Huffman codes",
    "bitmap": "a bitmap of what is not zero",
}
DECODE = {"layer": "right before their layer, in every run (the default)", "start": "once, to memory of their own"}


def _told(choices: dict[str, str]) -> str:
    return "; ".join(f"{name}: {about}" for name, about in choices.items())


def add_storage(command: argparse.ArgumentParser) -> None:
    """Add the options for one way to store weights."""
    about = f"how constant weights are stored, with the same results. {_told(WEIGHTS)}"
    command.add_argument("--weights", choices=list(WEIGHTS), default="file", help=about)
    about = f"when coded weights are decoded. {_told(DECODE)}"
    command.add_argument("--decode", choices=list(DECODE), default="layer", help=about)


def add_storages(command: argparse.ArgumentParser) -> None:
    """Add the options for several ways, to compare them on microcontrollers."""
    about = f"on microcontrollers, one or several with commas: how constant weights are stored. {_told(WEIGHTS)}"
    command.add_argument("--weights", metavar="HOW", default="file", help=about)
    about = f"on microcontrollers, one or both with a comma: when they are decoded. {_told(DECODE)}"
    command.add_argument("--decode", metavar="WHEN", default="layer", help=about)


def unused_storage(plan: Plan) -> Iterator[str]:
    """A line for an option of storage that changes nothing for this plan."""
    how = plan.options
    if plan.decoding_bytes:
        return
    if how.weights not in ("file", "plain"):
        fewer = "that are smaller so" if how.weights == "auto" else "that can be stored so"
        yield f"--weights {how.weights} changes nothing: no layer has weights {fewer}"
    elif how.decode != "layer":
        yield f"--decode {how.decode} changes nothing: no weights are stored coded (--weights)"


def note_unused_storage(source: Source, targets: Iterable[Target], options: Iterable[Options]) -> None:
    """Note each way to store this model's weights that changes nothing on any target; the usual way is never noted."""
    from twinfer.command_line.terminal import note
    from twinfer.runtime.options import USUAL, Options
    from twinfer.runtime.plan.make import make_plan

    every, lines = list(targets), list[str]()
    for way in dict.fromkeys(Options(weights=how.weights, decode=how.decode) for how in options):
        told = [list(unused_storage(make_plan(source.graph, target, way))) for target in every if way != USUAL]
        lines += told[0] if told and all(told) else []
    for line in dict.fromkeys(lines):
        note(f"{source.name}: {line}")


def storages(weights: str, decode: str) -> tuple[tuple[Any, Any], ...]:
    """Pairs of how to store weights and when to decode them, each once; plain weights are never decoded.

    InvalidArgumentError for a word that is no option.
    """
    from twinfer.runtime.options import Options

    pairs: list[Any] = list(product(*([name.strip() for name in names.split(",")] for names in (weights, decode))))
    for how, when in pairs:
        Options(weights=how, decode=when)
    return tuple(dict.fromkeys((how, "layer" if how == "plain" else when) for how, when in pairs))
