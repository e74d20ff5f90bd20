"""Makes integer operators of what lies between DEQUANTIZE and QUANTIZE, ``Graph -> Graph``.

1. ``_forward``: operators that only move elements run on the integers; DEQUANTIZE goes behind them.
2. ``_backward``: QUANTIZE goes in front of them, and of clamps, which it commutes with exactly.
3. ``_fused``: what computes from dequantised inputs to a quantised output computes in integers, by the scales given.
What has no integer form (no scales on one side, no such operator in TFLite) stays float between both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from twinfer.runtime.check import check
from twinfer.runtime.graph import EMPTY, Graph, Node, Quant, Tensor, consumers

#: Operators that move elements, and the data inputs that they move.
MOVES = frozenset(
    {
        "CONCATENATION", "DEPTH_TO_SPACE", "GATHER", "MAX_POOL_2D", "PAD", "PADV2", "RESHAPE",
        "RESIZE_NEAREST_NEIGHBOR", "SLICE", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "STRIDED_SLICE", "TILE", "TRANSPOSE",
    }
)  # fmt: skip
CLAMPS = frozenset({"RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"})

#: Operators with weights: where they read data, weights and bias, and the channels' dimension in the weights.
WEIGHTED = {
    "CONV_2D": (0, 1, 2, 0),
    "DEPTHWISE_CONV_2D": (0, 1, 2, 3),
    "FULLY_CONNECTED": (0, 1, 2, 0),
    "TRANSPOSE_CONV": (2, 1, 3, 0),
}

#: Operators that compute on int8 with any scales.
FREE = frozenset(
    {"ADD", "BATCH_MATMUL", "HARD_SWISH", "LEAKY_RELU", "MEAN", "MUL", "PRELU", "SUB", "SUM", *CLAMPS}
)  # fmt: skip

#: Operators whose result has the scale of their input, and those whose result has a scale of its own.
ALIKE = frozenset({"AVERAGE_POOL_2D", "MAXIMUM", "MINIMUM", "REDUCE_MAX", "REDUCE_MIN", "RESIZE_BILINEAR"})
FIXED = {"LOGISTIC": (1 / 256, -128), "SOFTMAX": (1 / 256, -128), "TANH": (1 / 128, 0), "LOG_SOFTMAX": (1 / 16, 127)}


def integer(graph: Graph) -> Graph:
    """The graph with integer operators where all scales are known. Inputs, outputs and their types stay."""
    for step in (_forward, _cancelled, _backward, _cancelled, _fused, _cancelled):
        graph = _without_dead(step(graph))
        check(graph)
    return graph


def _with_nodes(graph: Graph, nodes: Iterable[Node]) -> Graph:
    """The graph of these nodes, and of the tensors that they or the graph's ends name."""
    kept = tuple(replace(node, index=i) for i, node in enumerate(nodes))
    named = [t for node in kept for t in (*node.inputs, *node.outputs) if t is not None]
    tensors = dict.fromkeys((*graph.inputs, *named, *graph.outputs))
    return replace(graph, nodes=kept, tensors=tuple(tensors))


def _without_dead(graph: Graph) -> Graph:
    needed, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(t for t in node.inputs if t is not None)
    return _with_nodes(graph, reversed(kept))


def _leaves(node: Node) -> bool:
    """Whether the node turns int8 into what ONNX has in its place: floats, or the same numbers as uint8."""
    to_bytes = node.op == "QUANTIZE" and (node.input(0).type, node.output.type) == ("INT8", "UINT8")
    return node.op == "DEQUANTIZE" or (to_bytes and _same(node.input(0), node.output, 128))


def _enters(node: Node) -> bool:
    """Whether the node makes integers of floats, or int8 of the same numbers as uint8."""
    from_bytes = node.op == "QUANTIZE" and (node.input(0).type, node.output.type) == ("UINT8", "INT8")
    if node.op == "QUANTIZE" and node.input(0).type == "FLOAT32":
        return True
    return from_bytes and _same(node.input(0), node.output, -128)


def _same(x: Tensor, y: Tensor, offset: int) -> bool:
    """Whether both have one scale, and zero points that differ by the offset."""
    if x.quant is None or y.quant is None or x.quant.per_channel or y.quant.per_channel:
        return False
    return x.scale == y.scale and y.zero - x.zero == offset


def _stored(tensor: Tensor) -> Tensor | None:
    """The integers of a dequantised constant; None of others."""
    data = tensor.extra.get("stored")
    if data is None or tensor.quant is None:
        return None
    kind = {1: "INT8", 2: "INT16"}.get(data.dtype.itemsize, "INT32")
    return replace(tensor, type=kind, data=data, extra=EMPTY, name=f"{tensor.name}_quantized")


def _data(node: Node) -> list[int]:
    """Positions of the inputs that are moved: not shapes and indices, and not the value of PADV2."""
    if node.op == "CONCATENATION":
        return list(range(len(node.inputs)))
    return [1 if node.op == "SPLIT" else 0]


def _fill(node: Node, quant: Quant) -> Tensor | None:
    """PADV2's value as an integer; None if it is none of the quantisation."""
    value = node.input(2)
    number = float(value.data.reshape(-1)[0]) if value.data is not None else np.nan
    if value.type == "UINT8":
        return replace(value, type="INT8", data=np.array(int(number) - 128, np.int8), quant=quant)
    q = -128.0 if number == -np.inf else number / float(quant.scale[0]) + int(quant.zero_point[0])
    if not (-128 <= q <= 127 and abs(q - round(q)) < 1e-3):
        return None
    return replace(value, type="INT8", data=np.array(round(q), np.int8).reshape(value.shape), quant=quant)


def _endless(node: Node) -> bool:
    """Whether PADV2 fills with minus infinity."""
    return node.input(2).data is not None and bool(np.isneginf(node.constant(2)).any())


def _moved_inputs(node: Node, sources: Mapping[int, Tensor]) -> tuple[Tensor | None, ...] | None:
    """The node's inputs with integers for what it moves; None if its fill has no integer."""
    inputs = [sources.get(i, t) for i, t in enumerate(node.inputs)]
    if node.op == "PADV2":
        quant = next(iter(sources.values())).quant
        inputs[2] = _fill(node, quant) if quant is not None else None
        if inputs[2] is None:
            return None
    return tuple(inputs)


def _forward(graph: Graph) -> Graph:
    nodes: list[Node] = []
    left: dict[Tensor, Node] = {}  # what a leaving node made
    readers = consumers(graph)
    for node in graph.nodes:
        # -128 stands for the least number only until a maximum is taken
        ends = node.op == "PADV2" and {reader.op for reader in readers.get(node.output, [])} != {"MAX_POOL_2D"}
        made = _moved_forward(node, left) if node.op in MOVES and not (ends and _endless(node)) else None
        for new in made or [node]:
            nodes.append(new)
            if _leaves(new):
                left[new.output] = new
    return _with_nodes(graph, nodes)


def _moved_forward(node: Node, left: Mapping[Tensor, Node]) -> list[Node] | None:
    """The node on integers, and what turns its outputs back; None if its inputs are not all of one quantisation."""
    sources: dict[int, Tensor] = {}
    kinds = set()
    for i in _data(node):
        tensor = node.input(i)
        source = left[tensor].input(0) if tensor in left else _stored(tensor)
        if source is None or source.type not in ("INT8", "INT16") or source.quant is None or source.quant.per_channel:
            return None
        sources[i] = source
        kinds.add(left[tensor].op if tensor in left else "DEQUANTIZE")
    first = next(iter(sources.values()))
    alike = all(_same(first, other, 0) and first.type == other.type for other in sources.values())
    inputs = _moved_inputs(node, sources) if alike and len(kinds) == 1 else None
    if inputs is None:
        return None
    outputs = tuple(replace(t, name=f"{t.name}_quantized", type=first.type, quant=first.quant) for t in node.outputs)
    back = [Node(kinds.copy().pop(), (q,), (t,)) for q, t in zip(outputs, node.outputs, strict=True)]
    return [replace(node, inputs=inputs, outputs=outputs), *back]


def _cancelled(graph: Graph) -> Graph:
    """Integers that leave and enter at once: by the same scale they are the same, else requantised."""
    nodes: list[Node] = []
    left: dict[Tensor, Tensor] = {}
    same: dict[Tensor | None, Tensor] = {}
    for node in graph.nodes:
        node = replace(node, inputs=tuple(same.get(t, t) for t in node.inputs))
        source = left.get(node.input(0)) if node.op == "QUANTIZE" and _enters(node) else None
        if source is not None and source.type == node.output.type and source.type in ("INT8", "INT16"):
            if source.quant == node.output.quant and node.output not in graph.outputs:
                same[node.output] = source
                continue
            node = replace(node, inputs=(source,))
        if _leaves(node):
            left[node.output] = node.input(0)
        nodes.append(node)
    return _with_nodes(graph, nodes)


def _backward(graph: Graph) -> Graph:
    readers = consumers(graph)
    left = {node.output for node in graph.nodes if _leaves(node)}
    nodes: dict[Node, None] = {}  # from the last to the first
    for node in reversed(graph.nodes):
        clamps = node.op in CLAMPS and node.input(0) in left  # which requantises, too: see _fused
        entry = None if clamps else _only_entry(node, readers, graph)
        made = None if entry is None else _moved_back(node, entry)
        if entry is not None and made is not None:
            del nodes[entry]
        for new in reversed(made or [node]):
            nodes[new] = None
            for tensor in new.inputs:
                if tensor is not None:
                    kept = [reader for reader in readers.get(tensor, []) if reader is not node]
                    readers[tensor] = [*kept, new]
    return _with_nodes(graph, reversed(nodes))


def _only_entry(node: Node, readers: Mapping[Tensor, list[Node]], graph: Graph) -> Node | None:
    """The entering node that alone reads the result of an operator that it commutes with."""
    if node.op not in MOVES | CLAMPS or len(node.outputs) != 1 or node.output in graph.outputs:
        return None
    found = readers.get(node.output, [])
    one = len(found) == 1 and _enters(found[0])
    return found[0] if one and node.input(_data(node)[0]).type == found[0].input(0).type else None


def _moved_back(node: Node, entry: Node) -> list[Node] | None:
    """What makes integers of the node's inputs, and the node on them; None if its fill has no integer."""
    before: list[Node] = []
    sources: dict[int, Tensor] = {}
    y = entry.output
    for i in _data(node):
        tensor = node.input(i)
        sources[i] = replace(
            tensor, name=f"{tensor.name}_quantized_{y.name}", type=y.type, quant=y.quant, data=None, extra=EMPTY
        )
        before.append(Node("QUANTIZE", (tensor,), (sources[i],)))
    inputs = _moved_inputs(node, sources)
    return None if inputs is None else [*before, replace(node, inputs=inputs, outputs=(y,))]


def _fused(graph: Graph) -> Graph:
    readers = consumers(graph)
    nodes: list[Node] = []
    left: dict[Tensor, Tensor] = {}
    done: set[Node] = set()
    for node in graph.nodes:
        found = [] if len(node.outputs) != 1 or node.output in graph.outputs else readers.get(node.output, [])
        entry = found[0] if len(found) == 1 and _enters(found[0]) else None
        made = None if entry is None else _on_integers(node, entry.output, left)
        if entry is not None and made is not None:
            done.add(entry)
        nodes.extend(made or ([] if node in done else [node]))
        if node.op == "DEQUANTIZE":
            left[node.output] = node.input(0)
    return _with_nodes(graph, nodes)


def _on_integers(node: Node, y: Tensor, left: Mapping[Tensor, Tensor]) -> list[Node] | None:
    """The operator on integers with the result ``y``; None if it has no integer form or a scale is missing."""
    if y.type != "INT8":
        return None
    if node.op in WEIGHTED:
        return _weighted(node, y, left)
    sources = {i: _source(t, left) for i, t in enumerate(node.inputs) if t is not None and t.type == "FLOAT32"}
    if any(t is None or t.type != "INT8" or t.quant is None or t.quant.per_channel for t in sources.values()):
        return None
    inputs = tuple(sources.get(i, t) for i, t in enumerate(node.inputs))
    first = next((t for t in sources.values() if t is not None), None)
    if node.op in FREE:
        return [replace(node, inputs=inputs, outputs=(y,))]
    if node.op in ALIKE and first is not None:
        alike = all(t is not None and _same(first, t, 0) for t in sources.values())
        return _requantized(node, inputs, first.quant, y) if alike else None
    if node.op in FIXED:
        return _requantized(node, inputs, Quant.per_tensor(*FIXED[node.op]), y)
    return None


def _source(tensor: Tensor | None, left: Mapping[Tensor, Tensor]) -> Tensor | None:
    """The integers that a float tensor was made of."""
    return None if tensor is None else left.get(tensor) or _stored(tensor)


def _requantized(node: Node, inputs: tuple[Tensor | None, ...], quant: Quant | None, y: Tensor) -> list[Node]:
    """The operator with the quantisation that it must have, and the result's after it."""
    if quant == y.quant:
        return [replace(node, inputs=inputs, outputs=(y,))]
    between = replace(node.output, name=f"{node.output.name}_quantized", type="INT8", quant=quant)
    return [replace(node, inputs=inputs, outputs=(between,)), Node("QUANTIZE", (between,), (y,))]


def _weighted(node: Node, y: Tensor, left: Mapping[Tensor, Tensor]) -> list[Node] | None:
    at, weights, bias, axis = WEIGHTED[node.op]
    x, w = left.get(node.input(at)), _stored(node.input(weights))
    if x is None or w is None or (x.type, w.type) != ("INT8", "INT8") or w.quant is None or w.quant.zero_point.any():
        return None
    if w.quant.per_channel and w.quant.axis != axis:
        return None
    sums = Quant(np.float32(x.scale) * w.quant.scale, np.zeros(w.quant.scale.size, np.int64))
    inputs = [*node.inputs, *[None] * (bias + 1 - len(node.inputs))]
    addend = _integer_bias(inputs[bias], sums)
    if inputs[bias] is not None and addend is None:
        return None
    inputs[at], inputs[weights], inputs[bias] = x, w, addend
    return [replace(node, inputs=tuple(inputs), outputs=(y,))]


def _alike(quant: Quant | None, sums: Quant) -> bool:
    """Whether the bias is in steps of the sums, but for the rounding of the product of two scales."""
    if quant is None or quant.zero_point.any() or quant.scale.size not in (1, sums.scale.size):
        return False
    return np.allclose(quant.scale, sums.scale, rtol=1e-5, atol=0)


def _integer_bias(bias: Tensor | None, sums: Quant) -> Tensor | None:
    """The bias in steps of the sums: its own integers where they are that, else rounded to them."""
    if bias is None or bias.data is None:
        return None
    stored = _stored(bias)
    if stored is not None and stored.type == "INT32" and _alike(stored.quant, sums):
        return replace(stored, quant=sums)
    steps = np.rint(bias.data.astype(np.float64) / sums.scale.astype(np.float64))
    limits = np.iinfo(np.int32)
    data = steps.clip(limits.min, limits.max).astype(np.int32)
    return replace(bias, name=f"{bias.name}_quantized", type="INT32", quant=sums, data=data, extra=EMPTY)
