"""Divisors that are not 0 as floats but round to 0 as integers. No runtime defines what DIV gives then."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from twinfer.converter.quantize.observed import Calibration
from twinfer.converter.rows import row_of
from twinfer.runtime.errors import ModelWarning
from twinfer.runtime.graph import Graph, Node, Tensor


def warn_of_divisions(graph: Graph, seen: Calibration) -> None:
    """A ModelWarning for every DIV of a quantised graph whose divisor came within a step of 0 in calibration."""
    lows = {t.name: max(o.low, -o.high, 0.0) for t, o in seen.items() if o.count}
    for node, tensor in _rounded(graph, lows):
        where = f"{tensor} rounds to 0, as it does below {tensor.scale:.3g} (calibration saw {lows[tensor.name]:.3g})"
        finer = "" if tensor.type == "INT16" else "quantise to int16x8, "
        advice = f"{finer}keep both layers float by a recipe, or export LayerNormalization as one operator"
        undefined = "LiteRT aborts then, other runtimes give an undefined result"
        gives = "it gives infinity or NaN then" if node.output.type == "FLOAT32" else undefined
        what = f"{node} divides by 0 where {where}; {gives}"
        warnings.warn(f"{what}: {advice}", ModelWarning, stacklevel=5)


def _rounded(graph: Graph, lows: dict[str, float]) -> Iterator[tuple[Node, Tensor]]:
    """Divisions whose divisor may round to 0, each with the nearest tensor before it that may."""
    makers = {t: node for node in graph.nodes for t in node.outputs}
    for node in graph.nodes:
        tensor: Tensor | None = node.input(1) if node.op == "DIV" else None
        while tensor is not None:
            if tensor.quant is not None and tensor.name in lows and lows[tensor.name] < tensor.scale:
                yield node, tensor
                break
            maker = makers.get(tensor)
            tensor = maker.input(0) if maker is not None and row_of(maker).zero_stays else None
