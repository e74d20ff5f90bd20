"""Layers that quantise their values at run time, as ONNX Runtime's ``quantize_dynamic`` spells them, as one node each.

It writes DynamicQuantizeLinear, MatMulInteger or ConvInteger, Cast, and Mul by the scales of values and weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx

from twinfer.converter.onnx.bodies import inner_graphs, outer_names

#: An operator on integers -> the one node that takes floats, weights, their scale and zero point in its place.
FLOAT_FORMS = {
    "ConvInteger": ("twinfer", "DynamicQuantizeConv"),
    "MatMulInteger": ("com.microsoft", "DynamicQuantizeMatMul"),
}

#: Operators whose inputs 0 are quantised values -> where scale and zero point of these are; importers take floats, too.
TAKE_FLOATS = {"MatMulIntegerToFloat": (2, 4), "QAttention": (3, 6)}

Nodes = Mapping[str, onnx.NodeProto]


def merged(nodes: Sequence[onnx.NodeProto], public: Iterable[str]) -> Sequence[onnx.NodeProto]:
    """The nodes of a graph with one node in the place of each such layer; those that nothing reads any more are left
    out. ``public``: the graph's outputs."""
    if not any(node.op_type in ("DynamicQuantizeLinear", *FLOAT_FORMS) for node in nodes):
        return nodes
    made = {name: node for node in nodes for name in node.output}
    layers = [(_with_floats(node, made) or _layer(node, made), node) for node in nodes]
    gone = {name for new, old in layers if new for name in _behind(old, made)}
    kept, read = [], set(public)
    for node in reversed([each for new, old in layers for each in new or [old]]):
        if read.isdisjoint(node.output) and not gone.isdisjoint(node.output):
            continue
        kept.append(node)
        read.update(node.input, *(outer_names(graph) for graph in inner_graphs(node)))
    return kept[::-1]


def _with_floats(node: onnx.NodeProto, made: Nodes) -> Sequence[onnx.NodeProto]:
    """An operator of ``TAKE_FLOATS`` with the floats that its input 0 was quantised from; nothing if there are none."""
    places = TAKE_FLOATS.get(node.op_type, ())
    source = _quantised(node, 0, made) if places else None
    if source is None or [node.input[i] for i in places if i < len(node.input)] != [*source.output[1:]]:
        return ()
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[0] = source.input[0]
    return (copy,)


def _layer(node: onnx.NodeProto, made: Nodes) -> Sequence[onnx.NodeProto]:
    """The nodes that compute what this Mul gives; nothing if it is not the end of such a layer."""
    factors = _factors(node, made) if node.op_type == "Mul" else []
    casts = [made[name] for name in factors if name in made and made[name].op_type == "Cast"]
    scales = [name for name in factors if [name] != [each.output[0] for each in casts]]
    if len(casts) != 1 or len(scales) != 2:
        return ()
    product, bias = _with_bias(made.get(casts[0].input[0]), scales, made)
    if product is None:
        return ()
    zeros = [*product.input[2:], "", ""][:2]
    sides = [_quantised(product, i, made) for i in (0, 1)]
    for side, zero in zip(sides, zeros, strict=True):
        if side is not None and (side.output[1] not in scales or side.output[2] != zero):
            return ()
    if sides[0] is not None:
        values, first, before = sides[0].input[0], sides[0].output[1], []
    else:  # quantised ahead of time, as the rows of an embedding are
        values, first = f"{product.output[0]}/floats", _scale_of(product.input[0], scales, made)
        before = [onnx.helper.make_node("DequantizeLinear", [product.input[0], first, zeros[0]], [values])]
    scales.remove(first)
    if sides[1] is not None and product.op_type == "MatMulInteger" and not bias:  # both factors are values
        inputs = [values, sides[1].input[0]]
        return (*before, onnx.helper.make_node("MatMul", inputs, node.output, product.name))
    domain, op = FLOAT_FORMS[product.op_type]
    inputs = [values, product.input[1], *scales, zeros[1], bias]
    layer = onnx.helper.make_node(op, inputs, node.output, product.name, domain=domain)
    layer.attribute.extend(product.attribute)
    return (*before, layer)


def _with_bias(node: onnx.NodeProto | None, scales: Sequence[str], made: Nodes) -> tuple[onnx.NodeProto | None, str]:
    """The product of integers, and the floats of the bias that is added to it; "" without one. Before onnxruntime 1.6
    a bias was Div, Floor, Cast and Reshape of floats."""
    if node is None or node.op_type in FLOAT_FORMS:
        return node, ""
    sides = [made.get(name) for name in node.input] if node.op_type == "Add" else []
    product = next((side for side in sides if side is not None and side.op_type in FLOAT_FORMS), None)
    other = next((side for side in sides if side is not product), None)
    while other is not None and other.op_type in ("Cast", "Floor", "Reshape"):
        other = made.get(other.input[0])
    if product is None or other is None or other.op_type != "Div" or other.input[1] not in made:
        return None, ""
    same = sorted(_factors(made[other.input[1]], made)) == sorted(scales)
    return (product, other.input[0]) if same else (None, "")


def _scale_of(values: str, scales: Sequence[str], made: Nodes) -> str:
    """Which of two scales is that of quantised values: the one that they are dequantised by, else the first."""
    known = (node.input[1] for node in made.values() if node.op_type == "DequantizeLinear" and node.input[0] == values)
    return next((name for name in known if name in scales), scales[0])


def _quantised(node: onnx.NodeProto, i: int, made: Nodes) -> onnx.NodeProto | None:
    """The DynamicQuantizeLinear that makes input ``i``."""
    source = made.get(node.input[i])
    fits = source is not None and source.op_type == "DynamicQuantizeLinear" and source.output[0] == node.input[i]
    return source if fits else None


def _factors(node: onnx.NodeProto, made: Nodes, depth: int = 2) -> list[str]:
    """What a Mul multiplies, Muls of it taken apart."""
    factors: list[str] = []
    for name in node.input:
        inner = made.get(name)
        apart = inner is not None and inner.op_type == "Mul" and depth > 0
        factors += _factors(inner, made, depth - 1) if inner is not None and apart else [name]
    return factors


def _behind(node: onnx.NodeProto, made: Nodes) -> set[str]:
    """The values that a layer was made of, which nothing else may read."""
    names, rest = set[str](), [*node.input]
    while rest:
        inner = made.get(rest.pop())
        parts = ("Add", "Cast", "Div", "DynamicQuantizeLinear", "Floor", "Mul", "Reshape", *FLOAT_FORMS)
        if inner is not None and inner.op_type in parts and names.isdisjoint(inner.output):
            names.update(inner.output)
            rest += [] if inner.op_type == "DynamicQuantizeLinear" else inner.input
    return names
