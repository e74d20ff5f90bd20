"""Turns the operators between DEQUANTIZE and QUANTIZE into integer operators, ``Graph -> Graph``.

1. ``_forward``: operators that only move elements run on the integers; DEQUANTIZE goes behind them.
2. ``_backward``: QUANTIZE goes in front of them, and of clamps, which it commutes with exactly.
3. ``arithmetic``: operators from dequantised inputs to a quantised output compute in integers, by the scales given.
What has no integer form (no scales on one side, no such operator in TFLite) stays float between both.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from twinfer.converter.facts import Parameters
from twinfer.converter.passes._rewrite import Change, View, rewrite
from twinfer.converter.passes.dead_code import dead_code
from twinfer.converter.table import row_of
from twinfer.runtime.check import check
from twinfer.runtime.errors import ModelError, ModelWarning, UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, EMPTY, LIMITS, Graph, Node, Quant, Tensor
from twinfer.runtime.registry import operators


def leaves(node: Node) -> bool:
    """Whether the node turns int8 into what ONNX has in its place: floats, or the same numbers as uint8."""
    to_bytes = node.op == "QUANTIZE" and (node.input(0).type, node.output.type) == ("INT8", "UINT8")
    return node.op == "DEQUANTIZE" or (to_bytes and alike(node.input(0), node.output, 128))


def enters(node: Node) -> bool:
    """Whether the node turns floats into integers, or uint8 into the same numbers as int8."""
    if node.op != "QUANTIZE":
        return False
    from_bytes = (node.input(0).type, node.output.type) == ("UINT8", "INT8")
    return node.input(0).type == "FLOAT32" or (from_bytes and alike(node.input(0), node.output, -128))


def only_entry(view: View, node: Node) -> Node | None:
    """The entering node that alone reads the node's only result; None if there is none."""
    if len(node.outputs) != 1 or node.output in view.public:
        return None
    readers = list(view.consumers.get(node.output, ()))
    return readers[0] if len(readers) == 1 and enters(readers[0]) else None


def alike(x: Tensor, y: Tensor, offset: int) -> bool:
    """Whether both have one scale, and zero points that differ by the offset."""
    if x.quant is None or y.quant is None or x.quant.per_channel or y.quant.per_channel:
        return False
    return x.scale == y.scale and y.zero - x.zero == offset


def stored(tensor: Tensor) -> Tensor | None:
    """The integers of a dequantised constant; None of others."""
    data = tensor.extra.get("stored")
    if data is None or tensor.quant is None:
        return None
    kind = {1: "INT8", 2: "INT16"}.get(data.dtype.itemsize, "INT32")
    return replace(tensor, type=kind, data=data, extra=EMPTY, name=f"{tensor.name}_quantized")


def arithmetic(view: View, node: Node) -> Change | None:
    """The operator on integers, with the output of the QUANTIZE that alone reads its floats."""
    row, entry = row_of(node), only_entry(view, node)
    if entry is None or entry.output.type not in row.types or not row.scales.imported or row.moves is not None:
        return None
    parameters = row.parameters
    nodes = _plain(view, node, entry.output) if parameters is None else _layer(view, node, parameters, entry.output)
    return Change((node, entry), nodes, first=True) if nodes and all(map(_runs, nodes)) else None


def _runs(node: Node) -> bool:
    """Whether kernels take its types and scales."""
    try:
        operators()[node.op].infer(node)
    except (ModelError, UnsupportedOperatorError):
        return False
    return True


def _plain(view: View, node: Node, y: Tensor) -> tuple[Node, ...] | None:
    """An operator without weights; None if a scale is missing, or if inputs differ that need the same one."""
    row = row_of(node)
    floats = {i: t for i, t in enumerate(node.inputs) if t is not None and t.type == "FLOAT32"}
    sources = {i: _integers(view, t) or stored(t) for i, t in floats.items()}
    if any(t is None or t.type != y.type or t.quant is None or t.quant.per_channel for t in sources.values()):
        return None
    inputs, fixed = tuple(sources.get(i, t) for i, t in enumerate(node.inputs)), row.scales.fixed(y.type)
    if "pot_scale_int16" in node.options:
        node = replace(node, options={**node.options, "pot_scale_int16": False})
    if fixed is not None:
        return _requantize(node, inputs, Quant.per_tensor(*fixed), y)
    if row.clamps or not row.scales.same:
        return (replace(node, inputs=inputs, outputs=(y,)),)
    first = next((t for t in sources.values() if t is not None), None)
    one_scale = first is not None and all(t is not None and alike(first, t, 0) for t in sources.values())
    return _requantize(node, inputs, first.quant, y) if first is not None and one_scale else None


def _integers(view: View, tensor: Tensor | None) -> Tensor | None:
    """The integers behind a tensor that DEQUANTIZE gives."""
    left = view.producer(tensor, "DEQUANTIZE")
    return None if left is None else left.input(0)


def _requantize(node: Node, inputs: tuple[Tensor | None, ...], quant: Quant | None, y: Tensor) -> tuple[Node, ...]:
    """The operator with the quantisation that it must have, and the result's after it."""
    if quant == y.quant:
        return (replace(node, inputs=inputs, outputs=(y,)),)
    between = replace(node.output, name=f"{node.output.name}_quantized", type=y.type, quant=quant)
    return replace(node, inputs=inputs, outputs=(between,)), Node("QUANTIZE", (between,), (y,))


def _layer(view: View, node: Node, at: Parameters, y: Tensor) -> tuple[Node, ...] | None:
    """An operator with weights and bias; None if a scale is missing, or if kernels do not take it."""
    first = row_of(node).first
    x, w = _integers(view, node.input(first)), stored(node.input(at.weights))
    if x is None or w is None or (x.type, w.type) != (y.type, "INT8") or w.quant is None:
        return None
    one = node.op == "FULLY_CONNECTED" and x.type == "INT8" and not w.quant.per_channel
    if w.quant.zero_point.any() and not one:
        return None
    if w.quant.per_channel and w.quant.axis != at.axis:
        return None
    inputs = [*node.inputs]
    inputs[first], inputs[at.weights] = x, w
    if at.bias is not None:
        inputs += [None] * (at.bias + 1 - len(inputs))
        if (bias := inputs[at.bias]) is not None:
            if bias.data is None:
                return None
            sums = Quant(np.float32(x.scale) * w.quant.scale, np.zeros(w.quant.scale.size, np.int64))
            inputs[at.bias] = _integer_bias(bias, sums, "INT32" if x.type == "INT8" else "INT64")
    return (replace(node, inputs=tuple(inputs), outputs=(y,)),)


def _integer_bias(bias: Tensor, sums: Quant, kind: str) -> Tensor:
    """The bias in steps of the sums: its own integers if they are in these steps, but for the rounding of the product
    of two scales; else rounded."""
    own = stored(bias)
    if own is not None and own.type == "INT32" and own.quant is not None and not own.quant.zero_point.any():
        alike = own.quant.scale.size in (1, sums.scale.size)
        if alike and np.allclose(own.quant.scale, sums.scale, rtol=1e-5, atol=0):
            return replace(own, type=kind, data=np.asarray(own.data, DTYPES[kind]), quant=sums)
    steps = np.rint(np.asarray(bias.data, np.float64) / sums.scale.astype(np.float64))
    data = steps.clip(*LIMITS["INT32"]).astype(DTYPES[kind])
    return replace(bias, name=f"{bias.name}_quantized", type=kind, quant=sums, data=data, extra=EMPTY)


def integer(graph: Graph) -> Graph:
    """The graph with integer operators where all scales are known. Inputs, outputs and their types stay."""
    for rule in (_forward, _cancel, _backward, _cancel, arithmetic, _cancel):
        graph = rewrite(dead_code(graph), rule)
        check(graph)
    _warn_of_floats(graph)
    used = [t for node in graph.nodes for t in (*node.inputs, *node.outputs) if t is not None]
    return replace(graph, tensors=tuple(dict.fromkeys((*graph.inputs, *used, *graph.outputs))))


def _warn_of_floats(graph: Graph) -> None:
    """A ModelWarning for layers of integers with weights that TFLite's kernels lack: with zero points, or of 16
    bits."""
    view, names = View(graph), []
    for node in graph.nodes:
        parameters = row_of(node).parameters
        if parameters is not None and _integers(view, node.input(row_of(node).first)) is not None:
            w = stored(node.input(parameters.weights))
            if w is not None and (w.type != "INT8" or (w.quant is not None and w.quant.zero_point.any())):
                names.append(node.output.name)
    if names:
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        what = "TFLite has no integer kernels for weights with a zero point or of 16 bits, so these layers compute in "
        help = "floats; quantise with weight_type=QuantType.QInt8, which has neither"
        warnings.warn(f"{', '.join(names[:8])}{more}: {what}{help}", ModelWarning, stacklevel=4)


# -- forward -----------------------------------------------------------------------------------------------------------
def _forward(view: View, node: Node) -> Change | None:
    """The node on integers, and behind it what its inputs left them by: DEQUANTIZE, or QUANTIZE to uint8.

    None if the inputs are not integers of one quantisation.
    """
    row = row_of(node)
    if row.moves is None:
        return None
    value = None if row.fill is None else node.input(row.fill).data
    maximum_follows = {row_of(reader).padding for reader in view.consumers.get(node.output, ())} == {"least"}
    if value is not None and np.isneginf(value).any() and not maximum_follows:  # for which the least integer will do
        return None
    sources: dict[int, Tensor] = {}
    kinds: set[str] = set()
    for i in row.carrying(node):
        left = view.producer(node.input(i))
        left = left if left is not None and leaves(left) else None
        source = stored(node.input(i)) if left is None else left.input(0)
        if source is None or source.type not in ("INT8", "INT16") or source.quant is None or source.quant.per_channel:
            return None
        sources[i] = source
        kinds.add("DEQUANTIZE" if left is None else left.op)
    first = next(iter(sources.values()))
    one_form = all(alike(first, other, 0) and first.type == other.type for other in sources.values())
    inputs = _moved_inputs(node, sources) if one_form and len(kinds) == 1 else None
    if inputs is None:
        return None
    (kind,) = kinds
    outputs = tuple(replace(t, name=f"{t.name}_quantized", type=first.type, quant=first.quant) for t in node.outputs)
    back = [Node(kind, (q,), (t,)) for q, t in zip(outputs, node.outputs, strict=True)]
    return Change((node,), (replace(node, inputs=inputs, outputs=outputs), *back))


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
def _cancel(view: View, node: Node) -> Change | None:
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
    like, sources = entry.output, dict[int, Tensor]()
    for i in row.carrying(node):
        name = f"{node.input(i).name}_quantized_{like.name}"
        sources[i] = replace(node.input(i), name=name, type=like.type, quant=like.quant, data=None, extra=EMPTY)
    inputs = _moved_inputs(node, sources)
    if inputs is None:
        return None
    before = [Node("QUANTIZE", (node.input(i),), (source,)) for i, source in sources.items()]
    moved = replace(node, inputs=inputs, outputs=(entry.output,))
    return Change((node, entry), (*before, moved), first=True)
