"""Multiplications and additions around convolutions and dense layers go into their weights and bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.facts import Parameters
from twinfer.converter.passes._rewrite import Change, View, constant, rewrite, touches_state, with_options
from twinfer.converter.passes.elementwise_constants import Affine, affine, scalar_is
from twinfer.converter.table import parameters_of, row_of
from twinfer.runtime.graph import Graph, Node, Tensor

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (120,)

Floats = NDArray[np.float64]


def batch_norm(graph: Graph) -> Graph:
    """MUL, ADD, SUB and DIV by constants, one per output channel or one for all, behind float CONV_2D,
    DEPTHWISE_CONV_2D, TRANSPOSE_CONV and FULLY_CONNECTED become part of weights and bias. The same goes in front of
    CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED, for additions only where no window sees padding.

    Weights that several operators share stay. Additions behind int8 weights of float values go into the bias, too.
    """
    return rewrite(rewrite(graph, _behind), _before)


def _foldable(view: View, node: Node | None, only_add: bool = False) -> Parameters | None:
    """Where the node's weights and bias are, if they are float constants of its own. For an addition any will do."""
    at = None if node is None else parameters_of(node)
    if node is None or at is None or at.bias is None or touches_state(node):
        return None
    weights, bias = node.input(at.weights), node.optional(at.bias)
    if node.output.type != "FLOAT32" or not (only_add or (weights.type == "FLOAT32" and view.only_here(weights))):
        return None
    return at if bias is None or bias.data is not None else None


def _behind(view: View, node: Node) -> Change | None:
    form = affine(node)
    before = view.feeds(form.x) if form else None
    only_add = form is not None and scalar_is(form.scale, 1)
    at = _foldable(view, before, only_add)
    if form is None or before is None or at is None or before.options["fused_activation_function"] != "NONE":
        return None
    weights, channels = before.input(at.weights), at.channels(before)
    scale, offset = _per_channel(form.scale, channels), _per_channel(form.offset, channels)
    if scale is None or offset is None:
        return None
    shape = [-1 if i == at.axis else 1 for i in range(len(weights.shape))]
    folded = None if only_add else np.asarray(weights.data, np.float64) * scale.reshape(shape)
    now = _with(before, at, folded, _bias(before, at) * scale + offset)
    if now is None:
        return None
    active = with_options(now, fused_activation_function=node.options["fused_activation_function"])
    return Change((before, node), (replace(active, outputs=node.outputs),))


def _per_channel(values: Floats, channels: int) -> Floats | None:
    """The constant as one number per channel; None if it varies along other axes."""
    if values.size != 1 and (values.size != channels or values.shape[-1] != channels):
        return None
    return np.broadcast_to(values.reshape(-1), (channels,))


def _bias(node: Node, at: Parameters) -> Floats:
    bias = None if at.bias is None else node.optional(at.bias)
    return np.zeros(at.channels(node)) if bias is None else np.asarray(bias.data, np.float64).reshape(-1)


def _with(node: Node, at: Parameters, weights: Floats | None, bias: Floats) -> Node | None:
    """The node with other weights, if any, and another bias; None if it can have no bias, or if the new values leave
    float32's range."""
    new = [values for values in (weights, bias) if values is not None]
    if at.bias is None or not all(bool((np.abs(v) <= np.finfo(np.float32).max).all()) for v in new):
        return None
    old, old_bias = node.input(at.weights), node.optional(at.bias)
    name = old_bias.name if old_bias is not None else f"{node.output.name}/bias"
    inputs = [*node.inputs, *[None] * (at.bias + 1 - len(node.inputs))]
    if weights is not None:
        inputs[at.weights] = constant(weights.astype(np.float32), old.name)
    inputs[at.bias] = constant(bias.astype(np.float32), name)
    count = len(node.inputs) if old_bias is None and not bias.any() else len(inputs)
    return replace(node, inputs=tuple(inputs[:count]))


def _before(view: View, node: Node) -> Change | None:
    at = _foldable(view, node)
    inner = view.feeds(node.input(row_of(node).first)) if at is not None and at.summed is not None else None
    form = affine(inner)
    if at is None or inner is None or form is None or inner.options["fused_activation_function"] != "NONE":
        return None
    if form.offset.any() and not unpadded(node):
        return None
    now = absorbed(node, at, form)
    return Change((inner, node), (replace(now, inputs=(form.x, *now.inputs[1:])),)) if now else None


def absorbed(node: Node, at: Parameters, form: Affine) -> Node | None:
    """The node over ``form.x``; None where the constants are not one per channel of the input."""
    weights = node.input(at.weights)
    depth = form.x.shape[-1] if row_of(node).image else weights.shape[-1]
    scale, offset = (_seen(v, form.x, depth) for v in (form.scale, form.offset))
    if scale is None or offset is None:
        return None
    values = np.asarray(weights.data, np.float64)
    by_weight, add = (_spread(at, values.shape, v) for v in (scale, offset))
    axes = tuple(i for i in range(values.ndim) if i != at.axis)
    bias = _bias(node, at) + (values * add).sum(axes)
    return _with(node, at, values * by_weight, bias)


def _seen(values: Floats, x: Tensor, depth: int) -> Floats | None:
    """The constant along the last ``depth`` elements of x; None if it differs from row to row, or if x has no such
    elements."""
    if values.size == 1:
        return np.broadcast_to(values.reshape(-1), (depth,))
    if not x.size:
        return None
    rows = np.broadcast_to(values, x.shape).reshape(-1, depth)
    return np.array(rows[0]) if bool((rows == rows[0]).all()) else None


def _spread(at: Parameters, shape: tuple[int, ...], channels: Floats) -> Floats:
    """One number per input channel -> the weights' shape."""
    if at.depthwise:
        return np.broadcast_to(channels.repeat(shape[3] // channels.size), shape)
    groups = channels.size // shape[-1]
    per_output = channels.reshape(groups, -1).repeat(shape[0] // groups, axis=0)
    return np.broadcast_to(per_output.reshape(shape[0], *[1] * (len(shape) - 2), shape[-1]), shape)


def unpadded(node: Node) -> bool:
    """Whether no window reaches into padding."""
    if not row_of(node).image or node.options["padding"] == "VALID":
        return True
    for extent, out, size, d in zip(
        node.input(0).shape[1:3], node.output.shape[1:3], node.input(1).shape[1:3], "hw", strict=True
    ):
        reach = (size - 1) * int(node.options[f"dilation_{d}_factor"]) + 1
        if (out - 1) * int(node.options[f"stride_{d}"]) + reach > extent:
            return False
    return True
