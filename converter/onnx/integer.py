"""Turns the operators between DEQUANTIZE and QUANTIZE into integer operators, ``Graph -> Graph``.

1. ``_forward``: operators that only move elements run on the integers; DEQUANTIZE goes behind them.
2. ``_backward``: QUANTIZE goes in front of them, and of clamps, which it commutes with exactly.
3. ``arithmetic``: operators from dequantised inputs to a quantised output compute in integers, by the scales given.
What has no integer form (no scales on one side, no such operator in TFLite) stays float between both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from twinfer.converter.onnx.integer_arithmetic import arithmetic
from twinfer.converter.onnx.integer_ends import alike, enters, leaves, only_entry, stored
from twinfer.converter.passes._rewrite import Change, View, rewrite
from twinfer.converter.passes.dead_code import dead_code
from twinfer.converter.table import row_of
from twinfer.runtime.check import check
from twinfer.runtime.graph import EMPTY, Graph, Node, Tensor


def integer(graph: Graph) -> Graph:
    """The graph with integer operators where all scales are known. Inputs, outputs and their types stay."""
    for rule in (_forward, _cancelled, _backward, _cancelled, arithmetic, _cancelled):
        graph = rewrite(dead_code(graph), rule)
        check(graph)
    used = [t for node in graph.nodes for t in (*node.inputs, *node.outputs) if t is not None]
    return replace(graph, tensors=tuple(dict.fromkeys((*graph.inputs, *used, *graph.outputs))))


# -- forward -----------------------------------------------------------------------------------------------------------


def _forward(view: View, node: Node) -> Change | None:
    """The node on integers, and behind it what its inputs left them by: DEQUANTIZE, or QUANTIZE to uint8.

    None if the inputs are not integers of one quantisation.
    """
    if row_of(node).moves is None or _needs_infinity(view, node):
        return None
    sources: dict[int, Tensor] = {}
    kinds: set[str] = set()
    for i in row_of(node).carrying(node):
        left = view.producer(node.input(i))
        left = left if left is not None and leaves(left) else None
        source = stored(node.input(i)) if left is None else left.input(0)
        if source is None or source.type not in ("INT8", "INT16") or source.quant is None or source.quant.per_channel:
            return None
        sources[i] = source
        kinds.add("DEQUANTIZE" if left is None else left.op)
    return _on_integers(node, sources, kinds)


def _on_integers(node: Node, sources: Mapping[int, Tensor], kinds: set[str]) -> Change | None:
    """The node over integers; operators of ``kinds`` turned these into what the node reads."""
    first = next(iter(sources.values()))
    one_form = all(alike(first, other, 0) and first.type == other.type for other in sources.values())
    inputs = _moved_inputs(node, sources) if one_form and len(kinds) == 1 else None
    if inputs is None:
        return None
    (kind,) = kinds
    outputs = tuple(replace(t, name=f"{t.name}_quantized", type=first.type, quant=first.quant) for t in node.outputs)
    back = [Node(kind, (q,), (t,)) for q, t in zip(outputs, node.outputs, strict=True)]
    return Change((node,), (replace(node, inputs=inputs, outputs=outputs), *back))


def _needs_infinity(view: View, node: Node) -> bool:
    """Whether minus infinity is put among the values. The least integer may stand for it only if a maximum follows."""
    fill = row_of(node).fill
    value = None if fill is None else node.input(fill).data
    if value is None or not bool(np.isneginf(value).any()):
        return False
    return {row_of(reader).padding for reader in view.consumers.get(node.output, ())} != {"least"}


def _moved_inputs(node: Node, sources: Mapping[int, Tensor]) -> tuple[Tensor | None, ...] | None:
    """The node's inputs with integers for what it moves; None if its fill has no integer."""
    inputs = [sources.get(i, t) for i, t in enumerate(node.inputs)]
    fill = row_of(node).fill
    if fill is not None:
        inputs[fill] = _filled(node.input(fill), next(iter(sources.values())))
        if inputs[fill] is None:
            return None
    return tuple(inputs)


def _filled(value: Tensor, among: Tensor) -> Tensor | None:
    """The number that is put among integers, as one of their type; None if their quantisation has none for it."""
    number = float(value.data.reshape(-1)[0]) if value.data is not None else np.nan
    if value.type == "UINT8":
        return replace(value, type="INT8", data=np.array(int(number) - 128, np.int8), quant=among.quant)
    if among.quant is None:
        return None
    limits = np.iinfo(among.dtype)
    q = limits.min if number == -np.inf else number / float(among.quant.scale[0]) + int(among.quant.zero_point[0])
    if not (limits.min <= q <= limits.max and abs(q - round(q)) < 1e-3):
        return None
    return replace(value, type=among.type, data=np.array(round(q), among.dtype).reshape(value.shape), quant=among.quant)


# -- together ----------------------------------------------------------------------------------------------------------


def _cancelled(view: View, node: Node) -> Change | None:
    """An operator that leaves integers and one that enters them, in a row.

    They become nothing if the scales are the same, else one requantisation.
    """
    left = view.producer(node.input(0)) if enters(node) else None
    if left is None or not leaves(left):
        return None
    source, target = left.input(0), node.output
    if source.type != target.type or source.type not in ("INT8", "INT16"):
        return None
    if source.quant == target.quant and target not in view.public:
        return Change((node,), (), {target: source})
    return Change((node,), (replace(node, inputs=(source,)),))


# -- backward ----------------------------------------------------------------------------------------------------------


def _backward(view: View, node: Node) -> Change | None:
    """QUANTIZE of the node's inputs, and the node on integers; None if its fill has no integer."""
    row = row_of(node)
    entry = only_entry(view, node) if row.moves is not None or row.clamps else None
    if entry is None or node.input(row.first).type != entry.input(0).type:
        return None
    left = view.producer(node.input(0))
    if row.clamps and left is not None and leaves(left):  # it requantises, too: see arithmetic
        return None
    sources = {i: _entered(node.input(i), entry.output) for i in row.carrying(node)}
    inputs = _moved_inputs(node, sources)
    if inputs is None:
        return None
    before = [Node("QUANTIZE", (node.input(i),), (source,)) for i, source in sources.items()]
    moved = replace(node, inputs=inputs, outputs=(entry.output,))
    return Change((node, entry), (*before, moved), first=True)


def _entered(tensor: Tensor, like: Tensor) -> Tensor:
    """The tensor as integers of the other's type and quantisation."""
    name = f"{tensor.name}_quantized_{like.name}"
    return replace(tensor, name=name, type=like.type, quant=like.quant, data=None, extra=EMPTY)
