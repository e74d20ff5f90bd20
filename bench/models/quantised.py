"""Post-training quantisation of the built-in models: a float32 graph and the ranges of its activations -> int8."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from twinfer.bench.models.topologies import Range
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

#: Operators whose int8 output has the input's scale, because they only move or average values.
_KEEP_SCALE = ("AVERAGE_POOL_2D", "RESHAPE")


def ranges(graph: Graph, inputs: Iterable[Array]) -> dict[Node, Range]:
    """Least and greatest value of every node's output over these inputs and 0, a tenth wider and rounded."""
    session = Session(make_plan(graph, options=Options(preserve_all=True)))
    seen = dict.fromkeys(graph.nodes, (0.0, 0.0))
    for value in inputs:
        session.view(graph.inputs[0])[...] = value
        session.run()
        for node, (low, high) in seen.items():
            out = session.view(node.output)
            seen[node] = (min(low, float(out.min())), max(high, float(out.max())))
    return {node: (_widen(low), _widen(high)) for node, (low, high) in seen.items()}


def _widen(value: float) -> float:
    """Room for inputs that were not seen. Two digits, so that rounding on this machine does not show."""
    return float(f"{1.1 * value:.2g}")


def quantized(graph: Graph, seen: Mapping[Node, Range], limits: Range) -> Graph:
    """The int8 twin of a float32 graph whose nodes' outputs lie within ``seen`` and whose input lies within ``limits``.

    Weights are symmetric, per output channel (FULLY_CONNECTED: per tensor, as TFLite's converter does); softmax has
    TFLite's fixed scale 1/256.
    """
    source = graph.inputs[0]
    builder = Builder(graph.name)
    quantised = {source: builder.input(source.name, "INT8", source.shape, *_affine(limits))}
    for node in graph.nodes:
        x = quantised[node.input(0)]
        inputs = [x, *(quantised[t] for t in node.inputs[1:] if t in quantised)]
        if node.op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            inputs += _parameters(builder, node, x.scale)
        elif node.op == "RESHAPE":
            inputs.append(builder.constant(node.constant(1)))
        scale, zero = (1 / 256, -128) if node.op == "SOFTMAX" else _affine(seen[node])
        if node.op in _KEEP_SCALE:
            scale, zero = x.scale, x.zero
        out = node.output.shape
        quantised[node.output] = builder.op(node.op, inputs, out, scale=scale, zero=zero, **node.options)
    return builder.graph([quantised[t] for t in graph.outputs])


def _affine(limits: Range) -> tuple[float, int]:
    """Scale and zero point that spread the range over int8's 255 steps."""
    low, high = limits
    scale = float(np.float32((high - low) / 255))
    return scale, round(-128 - low / scale)


def _parameters(builder: Builder, node: Node, in_scale: float) -> tuple[Tensor, Tensor]:
    """Weights in int8 and bias in int32, as constants."""
    weights, bias = node.constant(1), node.constant(2)
    axis = 3 if node.op == "DEPTHWISE_CONV_2D" else 0
    others = tuple(a for a in range(weights.ndim) if a != axis)
    peak = abs(weights).max(axis=others if node.op != "FULLY_CONNECTED" else None, keepdims=True)
    scale = (np.maximum(peak, 1e-6) / 127).astype(np.float32)
    w = np.clip(np.round(weights / scale), -127, 127).astype(np.int8)
    bias_scale = (in_scale * scale.reshape(-1).astype(np.float64)).astype(np.float32)
    b = np.round(bias / bias_scale.astype(np.float64)).astype(np.int32)
    return builder.constant(w, scale.reshape(-1), axis=axis), builder.constant(b, bias_scale)
