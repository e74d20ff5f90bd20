"""What ``twinfer run`` shows: its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from twinfer.bench.measure.report import table
from twinfer.runtime.graph import Array, Graph


def summary(graph: Graph, inputs: Sequence[Array], outputs: Sequence[Array]) -> Table:
    """A line for every input and output: its range, mean, and first values."""
    lines = table("", "<", "<name", "<type", "<shape", "min", "max", "mean", "<largest at", "<values")
    for kind, tensors, values in (("in", graph.inputs, inputs), ("out", graph.outputs, outputs)):
        for i, (tensor, value) in enumerate(zip(tensors, values, strict=True)):
            shape = "×".join(map(str, value.shape)) or "()"
            lines.add_row(f"{kind} {i}", Text(tensor.name), tensor.type, shape, *_statistics(value))
    return lines


def _statistics(value: Array) -> list[str]:
    if not value.size or value.dtype.kind not in "fiub":
        return ["-"] * 5
    at = np.unravel_index(int(np.argmax(value)), value.shape)
    first = " ".join(_short(x) for x in value.reshape(-1)[:6]) + (" …" if value.size > 6 else "")
    mean = _short(value.mean(dtype=np.float64))
    return [_short(value.min()), _short(value.max()), mean, "[" + ", ".join(str(int(i)) for i in at) + "]", first]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(int(value))
