"""Chains of RESHAPE, SQUEEZE and EXPAND_DIMS become one RESHAPE or none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.converter.facts import Moves
from twinfer.converter.passes._rewrite import Change, View, bypass, constant, new_node, rewrite, touches_state, works
from twinfer.converter.passes.constant_folding import BEGINS
from twinfer.converter.table import row_of
from twinfer.runtime.graph import DTYPES, Graph, Node, Tensor
from twinfer.runtime.shapes import is_open

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (40, 80)


def reshapes(graph: Graph) -> Graph:
    """Only the last of several reshapes in a row stays. A reshape to the same shape goes, and so does one that only
    flattens in front of FULLY_CONNECTED, which flattens itself. Element-wise operators move in front of reshapes, where
    they may fuse. Open dimensions are left alone."""
    return rewrite(graph, _merge)


def reshaped(x: Tensor, y: Tensor) -> Node:
    return new_node("RESHAPE", [x, constant(np.array(y.shape, np.int32), f"{y.name}/shape")], y, new_shape=y.shape)


def _only_reshapes(node: Node) -> bool:
    return row_of(node).moves is Moves.RESHAPES


def _merge(view: View, node: Node) -> Change | None:
    if node.op == "FULLY_CONNECTED":
        source = None if node.options.get("keep_num_dims") else _behind(view, node.input(0))
        if source is None or touches_state(node):
            return None
        now = replace(node, inputs=(source, *node.inputs[1:]))
        return Change((node,), (now,)) if works(now) else None
    if row_of(node).elementwise:
        return _behind_elements(view, node)
    if not _only_reshapes(node) or BEGINS in node.extra or _open(node) or node.input(0).type != node.output.type:
        return None
    x, y = node.input(0), node.output
    if x.quant == y.quant and x.shape == y.shape and (change := bypass(view, node, x, y)):
        return change
    first = _behind(view, x)
    return Change((node,), (reshaped(first, y),)) if first is not None and not touches_state(node) else None


def _behind(view: View, x: Tensor) -> Tensor | None:
    before = view.producer(x)
    if before is None or not _only_reshapes(before) or _open(before) or touches_state(before) or BEGINS in before.extra:
        return None
    return before.input(0) if before.input(0).quant == x.quant else None


def _behind_elements(view: View, node: Node) -> Change | None:
    """f(RESHAPE(x)) becomes RESHAPE(f(x)) where f's other operands are single numbers, or run along a last dimension
    that stays."""
    values = [t for t in node.inputs if t is not None and t.data is None]
    before = view.feeds(values[0]) if len(values) == 1 and not touches_state(node) else None
    if before is None or not _only_reshapes(before) or _open(node) or _open(before):
        return None
    x, y, middle = before.input(0), node.output, values[0]
    inputs = [x if t is middle else _operand(t, x, y) for t in node.inputs]
    if (x.quant, x.type, y.shape) != (middle.quant, middle.type, middle.shape) or None in inputs or per_channel(x, y):
        return None
    first = replace(y, name=f"{y.name}/flat", shape=x.shape)
    return Change((before, node), (replace(node, inputs=tuple(inputs), outputs=(first,)), reshaped(first, y)))


def _operand(tensor: Tensor | None, x: Tensor, y: Tensor) -> Tensor | None:
    """A constant in a shape that broadcasts to both x and y; None if there is none."""
    if tensor is None or tensor.data is None or per_channel(tensor) or tensor.type not in DTYPES:
        return None
    along_last = bool(x.shape and y.shape and tensor.shape) and x.shape[-1] == y.shape[-1] == tensor.shape[-1]
    if tensor.size != 1 and not (along_last and tensor.size == tensor.shape[-1]):
        return None
    shape = () if tensor.size == 1 else (tensor.size,)
    return replace(tensor, shape=shape, data=tensor.data.reshape(shape)) if len(tensor.shape) > 1 else tensor


def per_channel(*tensors: Tensor) -> bool:
    return any(t.quant is not None and t.quant.per_channel for t in tensors)


def _open(node: Node) -> bool:
    """Whether a shape is open, or computed at run time."""
    run_time = _only_reshapes(node) and any(t is not None and t.data is None for t in node.inputs[1:])
    return run_time or any(t is not None and is_open(t) for t in (*node.inputs, *node.outputs))
