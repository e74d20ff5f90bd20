"""Attention masks: values so far below a row's greatest that SOFTMAX gives them no weight.

A mask is -infinity, -1e9 or -1e4, chosen in place of scores or added to them. A range that reached it would leave the
scores no steps. Any other value will do that is as good as -infinity to SOFTMAX, so ranges end there. To MAX_POOL_2D
the least of its other values is as good as the -infinity that images are padded with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from twinfer.converter.quantize.affine import EMPTY, Range, data_range
from twinfer.converter.quantize.observed import Observed
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Array, Graph, Node, Tensor

#: Values beyond this are masks, no scores, if only SOFTMAX reads them: models write -1e4 and beyond.
FAR = 5000.0

#: A row's masks together weigh less than half a step of SOFTMAX's output, and by exp(MARGIN) less than that, for rows
#: whose greatest value lies below those that calibration saw.
MARGIN = 1.0

#: A range that is less than this many times as wide as SOFTMAX needs it stays as it is.
WORTH = 2.0

#: Steps from 0 to the greatest value of a tensor without negative ones.
STEPS = {"INT8": 255, "INT16": 32767}

#: Tensor -> the range beyond which no reader can tell its values apart.
Spans = Mapping[Tensor, Range]

#: What MAX_POOL_2D reads below this is padding of -infinity, or the maximum of nothing else, which is the lowest float.
_LEAST = -1e38

ENDLESS: Range = (-math.inf, math.inf)

#: Tensor -> least and greatest value; None if that is not known.
Limits = Callable[[Tensor], Range | None]


def spans(graph: Graph, limits: Limits, floor: Callable[[Node, int], float], type: str = "INT16") -> Spans:
    """The spans of tensors that only SOFTMAX or MAX_POOL_2D read, by way of operators that move, choose, add or scale.

    ``floor`` gives the value below which a SOFTMAX node whose output has 2**bits steps, or a MAX_POOL_2D node, sees
    nothing; -infinity: none.
    Clipping commutes with moves and choices. A sum is beyond an end if one value is beyond it by more than the other
    can make up.
    """
    needs: dict[Tensor, Range] = dict.fromkeys((*graph.outputs, *named_outputs(graph)), ENDLESS)
    for node in reversed(graph.nodes):
        out = _union([needs.get(t, ENDLESS) for t in node.outputs] or [ENDLESS])
        for i, tensor in enumerate(node.inputs):
            if tensor is not None and tensor.type == "FLOAT32":
                need = _need(node, i, out, limits, floor, type)
                needs[tensor] = _union((needs.get(tensor, need), need))
    return {t: span for t, span in needs.items() if span != ENDLESS}


def named_outputs(graph: Graph) -> list[Tensor]:
    return [t for s in graph.signatures if s.subgraph == 0 for t in s.outputs.values()]


def _union(ranges: Iterable[Range]) -> Range:
    lows, highs = zip(*ranges, strict=True)
    return min(lows), max(highs)


def _need(node: Node, i: int, out: Range, limits: Limits, floor: Callable[[Node, int], float], type: str) -> Range:
    """The span that the node needs of its input ``i``, if ``out`` is the span of its outputs."""
    row, (low, high) = row_of(node), out
    if node.op == "SOFTMAX":
        return floor(node, 8 if type == "INT8" else 16), math.inf
    if node.op == "MAX_POOL_2D":
        return max(low, floor(node, 8)), high
    if out == ENDLESS or i not in row.scaled(node):
        return ENDLESS
    if row.scales.same and (row.moves is not None or (row.elementwise and len(row.values or ()) == 2)):
        return out
    other = limits(node.input(1 - i)) if node.op in ("ADD", "SUB", "MUL") else None
    if other is None:
        return ENDLESS
    least, most = other
    if node.op == "ADD":
        return low - most, high - least
    if node.op == "SUB":
        return (low + least, high + most) if i == 0 else (least - high, most - low)
    return _factor(node, i, out, other, type)


def _factor(node: Node, i: int, out: Range, other: Range, type: str) -> Range:
    """The span of a factor. A constant that makes masks of truth values is cut to what the least step of these makes a
    mask; what another constant scales has the span of the product, scaled."""
    (least, most), own = other, node.input(i).data
    if own is not None and least >= 0 and np.abs(np.asarray(own)).max(initial=0) > FAR:
        step = (most or EMPTY) / STEPS[type]
        return out[0] / step, out[1] / step
    if node.input(1 - i).data is not None and least == most and 0 < abs(least) <= FAR:
        ends = out[0] / least, out[1] / least
        return min(ends), max(ends)
    return ENDLESS


def maskable(graph: Graph) -> Spans:
    """The tensors whose far values may be masks; an infinite end says that none are at that end."""

    def limits(tensor: Tensor) -> Range:
        known = (0.0, 0.0) if tensor.data is None else data_range(tensor)
        return known if all(map(math.isfinite, known)) else (0.0, 0.0)

    return spans(graph, limits, lambda node, bits: 0.0 if node.op == "SOFTMAX" else _LEAST)


def far(value: Array, span: Range) -> tuple[np.ndarray, np.ndarray]:
    """Which values are masks, below and above."""
    below = value < min(span[0], -FAR) if span[0] > -math.inf else np.zeros(value.shape, bool)
    above = value > FAR if span[1] < math.inf else np.zeros(value.shape, bool)
    return below, above


def observe(seen: Observed, value: Array, span: Range) -> None:
    """Adds one sample's value of which only SOFTMAX needs what is in ``span``: masks count as 0.

    A row that is equal throughout, as one that is masked whole, has no peak that counts: SOFTMAX makes the same of it
    whatever its range is.
    """
    below, above = far(value, span)
    seen.far = seen.far[0] or bool(below.any()), seen.far[1] or bool(above.any())
    peaks, lows = value.max(-1), value.min(-1)
    seen.peak = min(seen.peak, float(peaks[(peaks > lows) & (peaks > -FAR)].min(initial=math.inf)))
    seen.add(np.where(below | above, np.float32(0), value))


def depth(node: Node, bits: int) -> float:
    """How far below a row's greatest value SOFTMAX sees nothing."""
    columns = node.output.shape[-1] if node.output.shape else 1
    beta = float(node.options.get("beta", 1.0))
    return (math.log(columns * 2.0 ** (bits + 1)) + MARGIN) / beta if beta > 0 else math.inf
