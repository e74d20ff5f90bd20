"""What of a row of ``twinfer bench`` is watched: the figures of a run and of its layers that mean the same next time.

Of our own two engines alone: peers and recorded figures drift for reasons of their own. The ratio of the engines is not
watched: it falls when the interpreter gets faster.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]

#: What two rows must share to be compared. On the host the last five are empty, and of exact floats the last one is.
KEY = ("model", "target", "engine", "optimize", "weights", "decode", "memory", "floats")
Key = tuple[str, ...]

#: The figures of a run and of a layer on a microcontroller. QEMU counts them: with the same compiler they come again.
COUNTS = ("instructions", "code_bytes", "weight_bytes", "ram_bytes", "stack_bytes")
COUNTS_OF_LAYER = ("instructions", "code_bytes")

#: Those on the host: sizes are exact, too, but only on a CPU with the same instructions; times are not exact.
SIZES, TIME = ("arena_bytes", "constant_bytes"), "min_us"

OWN = ("interpreted", "compiled")

#: A difference in a layer's time says nothing if it is some ticks of the clock, in microseconds, or a small share of
#: the whole run: the shortest time of one layer among many is often off.
TICKS_US, SHARE = 0.1, 0.05


@dataclass(frozen=True)
class Layer:
    """A layer by the operator and the name of its output; ``index`` is that of its node."""

    index: int
    op: str
    output: str

    def __str__(self) -> str:
        return f"{self.index} {self.op} {self.output}"


@dataclass(frozen=True)
class Part:
    """The figures of a whole run (``layer`` is None) or of one layer, by name.

    ``noise_us``: a time that differs by no more than this has not changed.
    """

    layer: Layer | None
    figures: Mapping[str, float]
    noise_us: float = 0.0


@dataclass(frozen=True)
class Run:
    """What is watched of one row; ``layers`` is None if none were measured.

    They are found again by operator, output, and how many of both came before: an operator that is added or goes moves
    the indexes of those behind it.
    """

    key: Key
    whole: Part
    layers: Mapping[tuple[str, str, int], Part] | None

    @property
    def target(self) -> str:
        return self.key[1]

    def __str__(self) -> str:
        model, target, engine, *options = self.key
        return f"{model} on {target}: {', '.join([engine, *filter(None, options)])}"


def runs_of(rows: Iterable[Row]) -> list[Run]:
    """The runs of the rows that are watched and did not fail.

    Of a row with other types than ``twinfer bench`` writes it raises KeyError, TypeError or ValueError.
    """
    return [_run(row) for row in rows if row["engine"] in OWN and not row.get("error")]


def _run(row: Row) -> Run:
    host = row["target"] == "host"
    key = tuple(_text(row.get(name, "")) for name in KEY)
    whole = Part(None, _figures(row, (*SIZES, TIME) if host else COUNTS), float(row["spread_us"]) if host else 0.0)
    return Run(key, whole, _layers(row["layers"], whole.figures.get(TIME)) if row.get("layers") else None)


def _layers(rows: Sequence[Row], run_us: float | None) -> dict[tuple[str, str, int], Part]:
    """The layers of a run on the host that takes so long, or (None) on a microcontroller."""
    seen: Counter[tuple[str, str]] = Counter()
    names, noise = ((TIME,), max(TICKS_US, SHARE * run_us)) if run_us is not None else (COUNTS_OF_LAYER, 0.0)
    parts = {}
    for row in rows:
        layer = Layer(int(row["index"]), _text(row["op"]), _text(row["output"]))
        place = layer.op, layer.output
        parts[(*place, seen[place])] = Part(layer, _figures(row, names), noise)
        seen[place] += 1
    return parts


def _figures(row: Row, names: Iterable[str]) -> dict[str, float]:
    return {name: _number(row[name]) for name in names}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{value!r} is no figure")
    return value
