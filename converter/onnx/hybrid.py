"""Layers of float values and integer weights: TFLite's hybrid operators, which quantise their values at run time."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from twinfer.converter.table import row_of
from twinfer.runtime.errors import ModelError, ModelWarning, UnsupportedOperatorError
from twinfer.runtime.graph import EMPTY, Array, Graph, Node, Quant, Tensor
from twinfer.runtime.registry import operators

#: Where a float constant keeps the int8 that a hybrid operator takes in its place. Its quantisation is beside it.
BYTES = "bytes"


def remembering(w: Tensor, scale: Array, zero: Array | None, axis: int) -> Tensor:
    """Integers with one scale and zero point, or one per element of an axis, as floats that remember int8: with a zero
    point of 0 where the range allows it. LiteRT's kernels take -127 to 127, so one of 256 steps loses its last one."""
    axis %= len(w.shape)
    zeros = np.zeros(1, np.int64) if zero is None else zero.reshape(-1).astype(np.int64)
    count = max(scale.size, zeros.size)
    scales, zeros = (np.broadcast_to(each.reshape(-1), (count,)) for each in (scale.astype(np.float32), zeros))
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ModelError(f"{w} has a scale that is not finite and above zero")
    shape = [count if d == axis else 1 for d in range(len(w.shape))]
    steps = np.asarray(w.data, np.int64) - zeros.reshape(shape)
    others = tuple(d for d in range(len(w.shape)) if d != axis or count == 1)
    low, high = steps.min(others, initial=0), steps.max(others, initial=0)
    shift = np.where(high > 128, high - 127, np.where(low < -128, low + 127, 0)).reshape(-1)
    kept = (steps - shift.reshape(shape)).clip(-127, 127).astype(np.int8)
    extra = MappingProxyType({BYTES: kept})
    real = np.asarray((kept + shift.reshape(shape)) * scales.reshape(shape), np.float32)
    return Tensor(w.name, "FLOAT32", w.shape, Quant(scales.copy(), -shift, axis), real, extra=extra)


def symmetric(w: Tensor) -> tuple[Tensor, Array | None]:
    """Such weights with a zero point of 0, and what must be added to all of each channel, [1] or [channels]. None:
    nothing."""
    quant = w.quant
    if quant is None or not quant.zero_point.any():
        return w, None
    shift = np.asarray(-quant.zero_point * quant.scale, np.float32)
    shape = [quant.scale.size if d == quant.axis else 1 for d in range(len(w.shape))]
    real = np.asarray(w.extra[BYTES] * quant.scale.reshape(shape), np.float32)
    return replace(w, data=real, quant=replace(quant, zero_point=np.zeros_like(quant.zero_point))), shift


def hybrid(graph: Graph) -> Graph:
    """The graph with int8 weights in the layers whose weights remember them. A ModelWarning names those that have no
    such form, whose weights are float."""
    known: dict[Tensor, Tensor] = {}
    nodes = [_layer(node, known) for node in graph.nodes]
    if names := [node.output.name for node in nodes if any(map(_remembers, node.inputs))]:
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        what = "TFLite has no operator for int8 weights and float values there, so these are float and take more bytes"
        warnings.warn(f"{', '.join(names[:8])}{more}: {what}", ModelWarning, stacklevel=4)
    if not known:
        return graph
    unused = {t for t in known if not any(t in node.inputs for node in nodes)}
    return replace(graph, nodes=tuple(nodes), tensors=(*(t for t in graph.tensors if t not in unused), *known.values()))


def _layer(node: Node, known: dict[Tensor, Tensor]) -> Node:
    positions = [i for i in row_of(node).hybrid if node.optional(i) is not None]
    weights = [node.input(i) for i in positions]
    if not weights or not all(_remembers(t) and t.quant is not None and not t.quant.zero_point.any() for t in weights):
        return node
    inputs = list(node.inputs)
    for i in positions:
        inputs[i] = known.get(node.input(i)) or _small(node.input(i), node.op == "DEPTHWISE_CONV_2D")
    asymmetric = {key: True for key in node.options if key == "asymmetric_quantize_inputs"}
    options = {**node.options, **asymmetric}
    candidate = replace(node, inputs=tuple(inputs), options=options)
    try:
        operators()[node.op].infer(candidate)
    except (ModelError, UnsupportedOperatorError):
        return node
    known.update(zip(weights, (candidate.input(i) for i in positions), strict=True))
    return candidate


def _remembers(tensor: Tensor | None) -> bool:
    return tensor is not None and BYTES in tensor.extra and tensor.quant is not None


def _small(tensor: Tensor, depthwise: bool) -> Tensor:
    """The int8 in the place of a float constant; LiteRT's depthwise kernel asks for a scale per channel."""
    quant = tensor.quant
    if depthwise and quant is not None and not quant.per_channel:
        size = tensor.shape[-1]
        quant = Quant(quant.scale.repeat(size), quant.zero_point.repeat(size), len(tensor.shape) - 1)
    return replace(tensor, name=f"{tensor.name}_int8", type="INT8", quant=quant, data=tensor.extra[BYTES], extra=EMPTY)
