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

#: The greatest magnitude: LiteRT's kernels take -127 to 127.
MOST = 127


def remembering(w: Tensor, scale: Array, zero: Array | None, axis: int, channels: bool = True) -> Tensor:
    """Integers with one scale and zero point, or one per element of an axis, as floats that remember int8.

    The zero point of int8 is 0. Where a range does not fit that, weights are rounded anew, with a scale for each of the
    ``channels`` along the axis: that is rarely coarser than the one scale of all, at most twice as coarse. Of a range
    of 256 steps the last one is lost: LiteRT's kernels take -127 to 127.
    """
    axis %= len(w.shape)
    zeros = np.zeros(1, np.int32) if zero is None else zero.reshape(-1).astype(np.int32)
    count = max(scale.size, zeros.size)
    scales, zeros = np.broadcast_to(scale.reshape(-1), (count,)).astype(np.float32), np.broadcast_to(zeros, (count,))
    if not (np.isfinite(scales) & (scales >= 0)).all():
        raise ModelError(f"{w} has a scale that is negative or infinite")
    shape = [count if d == axis else 1 for d in range(len(w.shape))]
    steps = np.asarray(w.data, np.int32) - zeros.reshape(shape)
    if steps.size and max(steps.max(), -steps.min()) > 128:
        real = steps * scales.astype(np.float64).reshape(shape)
        count = w.shape[axis] if channels or count > 1 else 1
        shape = [count if d == axis else 1 for d in range(len(w.shape))]
        others = tuple(d for d in range(len(w.shape)) if d != axis or count == 1)
        scales = (np.abs(real).max(others) / 127).reshape(-1).astype(np.float32)
        steps = np.rint(real / np.where(scales > 0, scales, 1).reshape(shape)).astype(np.int32)
    steps = np.where(scales.reshape(shape) > 0, steps.clip(-127, 127), 0).astype(np.int8)
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    data, quant = np.asarray(steps * scales.reshape(shape), np.float32), Quant(scales, np.zeros(count, np.int64), axis)
    return Tensor(w.name, "FLOAT32", w.shape, quant, data, extra=MappingProxyType({BYTES: steps}))


def hybrid(graph: Graph) -> Graph:
    """The graph with int8 weights in the layers whose weights remember them. A ModelWarning names those that have no
    such form, whose weights are float."""
    known: dict[Tensor, Tensor] = {}
    nodes = [_layer(node, known) or node for node in graph.nodes]
    if names := [node.output.name for node in nodes if any(map(_remembers, node.inputs))]:
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        what = "TFLite has no operator for int8 weights and float values there, so these are float and take more bytes"
        warnings.warn(f"{', '.join(names[:8])}{more}: {what}", ModelWarning, stacklevel=4)
    if not known:
        return graph
    unused = {t for t in known if not any(t in node.inputs for node in nodes)}
    return replace(graph, nodes=tuple(nodes), tensors=(*(t for t in graph.tensors if t not in unused), *known.values()))


def can_be_dynamic(node: Node) -> bool:
    """Whether a float node has a form of int8 weights and float values."""
    positions = _weights(node)
    weights = [node.input(i) for i in positions]
    if not weights or any(t.type != "FLOAT32" or t.data is None or not np.isfinite(t.data).all() for t in weights):
        return False
    zeros = {t: replace(t, data=np.zeros(t.shape, np.float32)) for t in weights}
    inputs = tuple(None if t is None else zeros.get(t, t) for t in node.inputs)
    return dynamic(replace(node, inputs=inputs), True, {}) is not None


def dynamic(node: Node, per_channel: bool, known: dict[Tensor, Tensor]) -> Node | None:
    """The node with int8 weights: one scale for each channel where its row knows channels, else one per tensor. None if
    it has no such form. ``known``: the int8 form of weights that others have, too."""
    parameters, inputs = row_of(node).parameters, list(node.inputs)
    for i in _weights(node):
        w = node.input(i)
        values, axis = np.asarray(w.data, np.float32), parameters.axis if parameters is not None else 0
        apart = per_channel and parameters is not None
        others = tuple(d for d in range(values.ndim) if d != axis or not apart)
        scale = np.abs(values).max(others, keepdims=True, initial=0.0) / MOST
        steps = np.rint(values / np.where(scale > 0, scale, 1)).astype(np.int8)
        inputs[i] = remembering(replace(w, data=steps), scale.reshape(-1), None, axis)
    made = _layer(replace(node, inputs=tuple(inputs)), {})
    if made is None:
        return None
    shared = {i: known.setdefault(node.input(i), made.input(i)) for i in _weights(node)}
    return replace(made, inputs=tuple(shared.get(i, t) for i, t in enumerate(made.inputs)))


def _weights(node: Node) -> list[int]:
    return [i for i in row_of(node).hybrid if node.optional(i) is not None]


def _layer(node: Node, known: dict[Tensor, Tensor]) -> Node | None:
    """The node with int8 in the place of weights that remember it; None if it has no such form."""
    positions = _weights(node)
    weights = [node.input(i) for i in positions]
    if not weights or not all(map(_remembers, weights)):
        return None
    inputs = list(node.inputs)
    for i in positions:
        inputs[i] = known.get(node.input(i)) or _small(node.input(i), node.op)
    asymmetric = {key: True for key in node.options if key == "asymmetric_quantize_inputs"}
    options = {**node.options, **asymmetric}
    candidate = replace(node, inputs=tuple(inputs), options=options)
    try:
        operators()[node.op].infer(candidate)
    except (ModelError, UnsupportedOperatorError):
        return None
    known.update(zip(weights, (candidate.input(i) for i in positions), strict=True))
    return candidate


def _remembers(tensor: Tensor | None) -> bool:
    return tensor is not None and BYTES in tensor.extra and tensor.quant is not None


def _small(tensor: Tensor, op: str) -> Tensor:
    """The int8 in the place of a float constant.

    LiteRT's DEPTHWISE_CONV_2D asks for a scale per channel. Its CONV_2D quantises values without a zero point, so half
    as finely behind RELU, if all channels have the same scale: the last one's is a little larger here.
    """
    quant, axis = tensor.quant, {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3}.get(op)
    if quant is not None and axis is not None and bool((quant.scale == quant.scale[0]).all()):
        scales = np.broadcast_to(quant.scale, (tensor.shape[axis],)).copy()
        scales[-1] = np.nextafter(scales[-1], np.float32(np.inf))
        quant = Quant(scales, np.zeros(scales.size, np.int64), axis)
    return replace(tensor, name=f"{tensor.name}_int8", type="INT8", quant=quant, data=tensor.extra[BYTES], extra=EMPTY)
