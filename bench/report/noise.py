"""Quantisation noise of a quantised model, layer by layer: the same layers in float32, of the same parameters.

Of every layer two ratios of signal to noise: ``own``, if its inputs are right and it alone rounds, and ``total``, after
the roundings of all layers before it. Only the file is needed: weights and biases are the real values of its integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from twinfer.bench.models.observe import Values, observe
from twinfer.converter.quantize.compare import Sums
from twinfer.runtime.affine import dequantize
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array, Graph, Node, Quant, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session

#: Types of quantised values, and of biases, whose scale is the product of input's and weights' where they have none.
QUANTISED, BIAS = ("INT8", "UINT8", "INT16", "INT4"), ("INT32", "INT64")

#: Operators that only change the type or scale of a value.
CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")

#: Random inputs that are judged.
SAMPLES = 4


#: What tells a layer from others whatever its tensors are called: number, operator and output of a node.
Layer = tuple[int, str, str]


def layer_of(node: Node) -> Layer:
    """The key of a node's layer."""
    return node.index, node.op, node.output.name


@dataclass(frozen=True)
class Noise:
    """Signal to noise of a layer's output in dB."""

    own: float
    total: float


def noise(graph: Graph, seed: int = 0) -> dict[Layer, Noise]:
    """Quantised layer -> its noise over random inputs.

    Layers are left out that have no float form, that keep a state, or that only change the type of a value; so are all
    of a graph that branches or loops.
    """
    interpreter = Interpreter.from_graph(graph, Options(preserve_all=True))
    interpreter.allocate_tensors()
    nodes = interpreter.plan.graph.nodes
    twins = dict(_twins(interpreter.plan.graph))
    sums = {node: (Sums(), Sums()) for node in twins}
    if not interpreter.plan.straight or not sums:
        return {}
    for i in range(SAMPLES):
        seen, floats = observe(interpreter, random_inputs(graph, seed + i)), dict[Tensor, Array]()
        for node in nodes:
            inputs = list(dict.fromkeys(t for t in node.inputs if t is not None and t.data is None))
            if node in twins:
                own, total = sums[node]
                near = _real(seen[node.output], node.output)
                own.add(_run(twins[node], [_real(seen[t], t) for t in inputs]), near)
                floats[node.output] = _run(twins[node], [_last(t, floats, seen) for t in inputs])
                total.add(floats[node.output], near)
            elif node.op in CONVERSIONS and inputs:
                floats[node.output] = _last(inputs[0], floats, seen)
    return {layer_of(node): Noise(own.snr_db, total.snr_db) for node, (own, total) in sums.items()}


def _last(tensor: Tensor, floats: Mapping[Tensor, Array], seen: Values) -> Array:
    """A value as the float layers have it so far; where they have none, as it was."""
    return floats[tensor] if tensor in floats else _real(seen[tensor], tensor)


def _run(session: Session, values: Sequence[Array]) -> Array:
    session.feed(
        [np.ascontiguousarray(value, t.dtype) for value, t in zip(values, session.plan.graph.inputs, strict=True)]
    )
    session.run()
    return session.outputs()[0]


def _twins(graph: Graph) -> Iterator[tuple[Node, Session]]:
    """The quantised nodes of a graph that have a float form, each with an engine for that."""
    for node in graph.nodes:
        if node.op in CONVERSIONS or len(node.outputs) != 1 or not _quantised(node.output):
            continue
        if any(t.variable for t in (*node.inputs, *node.outputs) if t is not None):
            continue
        twins = {t: _float(t, node) for t in (*node.inputs, *node.outputs) if t is not None}
        inputs = tuple(None if t is None else twins[t] for t in node.inputs)
        alone = replace(node, inputs=inputs, outputs=tuple(twins[t] for t in node.outputs))
        given = dict.fromkeys(t for t in inputs if t is not None and t.data is None)
        graph_of = Graph("one node", tuple(dict.fromkeys(twins.values())), (alone,), tuple(given), alone.outputs)
        with suppress(TwinferError):
            yield node, Session(make_plan(graph_of))


def _quantised(tensor: Tensor) -> bool:
    return tensor.type in QUANTISED and tensor.quant is not None


def _float(tensor: Tensor, node: Node) -> Tensor:
    """The tensor in float32 if its integers stand for real numbers, else as it is."""
    quant = tensor.quant
    if tensor.type in BIAS and tensor.data is not None and len(node.inputs) > 2 and tensor is node.inputs[2]:
        x, w = (t.quant if t else None for t in node.inputs[:2])  # without a scale of its own it counts in both's steps
        if quant is None and x is not None and w is not None:
            quant = Quant(x.scale[0] * w.scale, np.zeros(w.scale.size, np.int64), 0)
    elif not _quantised(tensor):
        quant = None
    if quant is None:
        return tensor
    data = None if tensor.data is None else dequantize(tensor.data, quant).astype(np.float32)
    return replace(tensor, type="FLOAT32", quant=None, data=data)


def _real(value: Array, tensor: Tensor) -> Array:
    """The real numbers that a value stands for."""
    return dequantize(value, tensor.quant).astype(np.float32) if _quantised(tensor) and tensor.quant else value
