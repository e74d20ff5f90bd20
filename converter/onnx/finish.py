"""The graph of what was emitted: names, scales of integers, and operators in integers where all scales are known."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

from twinfer.converter.emit.emitter import SMALL, Emitter
from twinfer.converter.emit.finish import change_tensors, renamer, sign, with_outputs
from twinfer.converter.onnx.integer import integer
from twinfer.converter.quantize.hybrid import hybrid
from twinfer.converter.table import row_of
from twinfer.runtime.errors import ModelWarning
from twinfer.runtime.graph import EMPTY, Graph, Quant, Tensor


def finish(g: Emitter, values: Mapping[str, Tensor], outputs: Sequence[str]) -> Graph:
    """The graph of what was emitted. An output that is an input, a constant or another output gets a copy."""
    graph, taken = with_outputs(g, [(name, values[name]) for name in outputs])
    name = renamer(graph, {**{t: name for name, t in reversed(list(values.items()))}, **taken})
    if g.in_blocks:
        more = f" and {len(g.in_blocks) - 8} more" if len(g.in_blocks) > 8 else ""
        what = f"{', '.join([*g.in_blocks][:8])}{more}: weights of few bits with a scale per block are floats here, "
        why = f"where they had {sum(g.in_blocks.values()):,} bytes; TFLite has a scale per row: make blocks of a row"
        warnings.warn(what + why, ModelWarning, stacklevel=4)
    quants = _spread(graph, g.quants)
    graph = change_tensors(graph, lambda t: replace(t, name=name(t), quant=quants.get(t)))
    return sign(change_tensors(hybrid(integer(graph)), _plain))


def _spread(graph: Graph, quants: Mapping[Tensor, Quant]) -> dict[Tensor, Quant]:
    """Quantisations of integer tensors, passed on through the operators that only move their elements."""
    known = {**{t: t.quant for t in graph.tensors if t.quant is not None}, **quants}
    for nodes in (graph.nodes, graph.nodes[::-1]):
        for node in nodes:
            if row_of(node).moves is not None:
                ends = [t for t in (*node.inputs, *node.outputs) if t is not None and t.type in SMALL]
                quant = next((known[t] for t in ends if t in known), None)
                known.update({t: quant for t in ends if quant is not None and t not in known})
    return known


def _plain(tensor: Tensor) -> Tensor:
    """Constants without the integers that they were dequantised from, and without the type that they had in ONNX."""
    if tensor.type == "FLOAT32" and tensor.quant is not None:
        return replace(tensor, quant=None, extra=EMPTY)
    return replace(tensor, extra=EMPTY) if "narrow" in tensor.extra else tensor
