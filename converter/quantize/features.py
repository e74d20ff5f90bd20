"""A scale of its own for every feature of an input, where one scale for all would lose most of them.

Raw features have their own units: 0.13 to 0.66 beside 278 to 1680. TFLite gives a tensor one scale, so most of them
would round to one step, and so would the weights, which are as different. So each feature is brought to -1 to 1 by
float constants, and the first layer's weights and bias make up for it. The input and these few operations stay float.
A normalisation that the passes have put into the weights comes apart again that way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.facts import Parameters
from twinfer.converter.passes._rewrite import constant, new_node, rebuild, with_tensors
from twinfer.converter.passes.batch_norm import absorbed, unpadded
from twinfer.converter.passes.elementwise_constants import Affine
from twinfer.converter.quantize.affine import LIMITS, activation
from twinfer.converter.quantize.forms import precision_of
from twinfer.converter.quantize.recipe import Recipe
from twinfer.converter.quantize.samples import Sample
from twinfer.converter.quantize.weights import Layer, integers, weight_quant
from twinfer.converter.table import parameters_of, row_of
from twinfer.runtime.affine import dequantize, quantize
from twinfer.runtime.graph import Array, Graph, Node, Tensor, consumers
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

#: A layer gets features of one range if its error is a larger share of its output than POOR (25 dB), and becomes less
#: than GAIN of itself (6 dB).
POOR, GAIN = 10**-2.5, 0.25

#: A feature is moved to the middle only if that lies further out than this times half its range.
FAR = 4.0

#: A feature that reaches no further than this is always 0.
LEAST = 1e-30

Floats = NDArray[np.float64]


def scale_features(graph: Graph, samples: Sequence[Sample], recipe: Recipe) -> Graph:
    """The graph with constants for each feature in front of the layers that read inputs (by way of moves, if at all),
    where that gains on the samples; the graph itself if it gains nowhere."""
    values = _moved(graph, samples)
    before: dict[Node, list[Node]] = {}
    instead: dict[Node, Node] = {}
    for tensor, value in values.items():
        layers = [node for node in consumers(graph).get(tensor, ()) if _fits(node, tensor, recipe)]
        form = _form(tensor, value, layers) if layers else None
        if form is None:
            continue
        nodes = _scaled(form)
        for node in layers:
            other = _over(node, nodes[-1].output, form)
            if other is not None and _gains(node, other, value, form, recipe.of_node(node).type):
                before[node] = [] if any(n in instead for n in layers) else nodes
                instead[node] = other
    if not instead:
        return graph
    return rebuild(graph, [n for node in graph.nodes for n in (*before.get(node, ()), instead.get(node, node))])


def _moved(graph: Graph, samples: Sequence[Sample]) -> dict[Tensor, Array]:
    """The float inputs and what is moved of them alone, [samples, *shape]."""
    nodes: list[Node] = []
    known = {t for t in graph.inputs if t.type == "FLOAT32" and t.size and t.data is None}
    for node in graph.nodes:
        if row_of(node).moves and all(t in known for t in node.inputs if t is not None and t.data is None):
            nodes.append(node)
            known |= set(node.outputs)
    outputs = tuple(t for t in (*graph.inputs, *(t for n in nodes for t in n.outputs)) if t in known)
    inputs = tuple(t for t in graph.inputs if t in known)
    if not samples or not outputs:
        return {}
    constants = [t for n in nodes for t in n.inputs if t is not None and t.data is not None]
    part = Graph("moves", (*outputs, *dict.fromkeys(constants)), tuple(nodes), inputs, outputs)
    session = Session(make_plan(part, options=Options(preserve_all=True)))
    rows: dict[Tensor, list[Array]] = {t: [] for t in outputs}
    for sample in samples:
        for t in inputs:
            session.view(t)[...] = sample[t]
        session.run()
        for t in outputs:
            rows[t].append(session.view(t).copy())
    return {t: np.stack(each) for t, each in rows.items()}


def _fits(node: Node, tensor: Tensor, recipe: Recipe) -> bool:
    at, row = parameters_of(node), row_of(node)
    if at is None or at.summed is None or row.state is not None or node.input(row.first) is not tensor:
        return False
    return precision_of(node, recipe.of_node(node)).precision != "float"


def _form(tensor: Tensor, value: Array, layers: Sequence[Node]) -> Affine | None:
    """What brings every feature to -1 to 1, as scale and offset in a shape that broadcasts; None if there is only one.

    A feature is an element of the last axis, or of the whole tensor for a layer that reads it as one row."""
    depths = {tensor.shape[-1] if row_of(node).image else node.input(1).shape[-1] for node in layers}
    depth = depths.pop()
    if depths or depth < 2 or depth not in (tensor.shape[-1], tensor.size):
        return None
    rows = value.reshape(-1, depth).astype(np.float64)
    low, high = rows.min(0), rows.max(0)
    middle = (low + high) / 2
    far = (np.abs(middle) > FAR * (high - middle)) & all(map(unpadded, layers))
    offset = np.where(far, middle, 0.0).astype(np.float32).astype(np.float64)
    reach = np.maximum(np.abs(low - offset), np.abs(high - offset))
    scale = (1 / np.where(reach > LEAST, reach, 1.0)).astype(np.float32).astype(np.float64)
    shape = scale.shape if depth == tensor.shape[-1] else tensor.shape
    return Affine(tensor, scale.reshape(shape), offset.reshape(shape))


def _scaled(form: Affine) -> list[Node]:
    """The nodes of (x - offset) * scale."""
    now, nodes = form.x, []
    for op, values, name in (("SUB", form.offset, "centred"), ("MUL", form.scale, "scaled")):
        if op == "MUL" or values.any():
            out = replace(form.x, name=f"{form.x.name}/{name}")
            nodes.append(new_node(op, (now, constant(values.astype(np.float32), f"{out.name}/{op.lower()}")), out))
            now = out
    return nodes


def _over(node: Node, scaled: Tensor, form: Affine) -> Node | None:
    """The layer over scaled features; None where weights and bias cannot make up for that."""
    at = parameters_of(node)
    now = None if at is None else absorbed(node, at, Affine(form.x, 1 / form.scale, form.offset))
    return None if now is None else replace(now, inputs=(scaled, *now.inputs[1:]))


def _gains(node: Node, scaled: Node, value: Array, form: Affine, type: str) -> bool:
    """Whether integers spoil the layer's result, and much less over scaled features."""
    wanted = _results(node, value)
    before = _share(_results(_coarse(node), _held(value, type)), wanted)
    if before <= POOR:
        return False
    features = ((value - form.offset) * form.scale).astype(np.float32)
    return _share(_results(_coarse(scaled), _held(features, type)), wanted) < GAIN * before


def _share(got: Floats, wanted: Floats) -> float:
    """The energy of the error as a share of that of what varies, the mean over the layer's channels."""
    axes = tuple(range(wanted.ndim - 1))
    signal = np.square(wanted - wanted.mean(axes)).sum(axes)
    alive = signal > 0
    shares = np.square(got - wanted).sum(axes)[alive] / signal[alive]
    return float(np.minimum(shares, 1.0).mean()) if alive.any() else 0.0


def _held(value: Array, type: str) -> Array:
    """What an integer holds of the values."""
    quant = activation((float(value.min()), float(value.max())), type)
    return dequantize(quantize(value, quant, *LIMITS[type]), quant).astype(np.float32)


def _coarse(node: Node) -> Node:
    """The layer with the weights that integers hold."""
    at = parameters_of(node)
    layer = Layer(node, at or Parameters(1))
    quant = weight_quant(layer, 1.0)
    held = dequantize(integers(layer, quant), quant).astype(np.float32)
    return with_tensors(node, {layer.weights: constant(held, layer.weights.name)})


def _results(node: Node, value: Array) -> Floats:
    tensors = tuple(t for t in (*node.inputs, *node.outputs) if t is not None)
    session = Session(make_plan(Graph("layer", tensors, (node,), (node.input(0),), (node.output,))))
    results = []
    for each in value:
        session.view(node.input(0))[...] = each
        session.run()
        results.append(session.view(node.output).astype(np.float64))
    return np.stack(results)
