"""PAD before a convolution or a maximum becomes the operator's own padding, where that is the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.converter.passes._clip import bounds, whole
from twinfer.converter.passes._rewrite import Change, View, rewrite, scalar, with_options, works
from twinfer.converter.rows import parameters_of, row_of
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.ops.core.activation import FLOAT_MAX
from twinfer.runtime.ops.core.window import window

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (110,)


def fuse_padding(graph: Graph) -> Graph:
    """PAD before a VALID convolution or MAX_POOL_2D becomes padding SAME where that puts every window at the same
    place. A convolution needs PAD with zero (int8: the zero point), MAX_POOL_2D PAD with a value that no
    other is below. AVERAGE_POOL_2D stays: it leaves padding out of its average."""
    return rewrite(graph, _fuse)


def _fuse(view: View, node: Node) -> Change | None:
    if row_of(node).padding is None or node.options["padding"] != "VALID":
        return None
    pad = view.feeds(node.input(0), "PAD", "PADV2")
    if pad is None or pad.input(0).quant != pad.output.quant or not _harmless(view, pad, node):
        return None
    same = replace(with_options(node, padding="SAME"), inputs=(pad.input(0), *node.inputs[1:]))
    return Change((pad, node), (same,)) if works(same) and _in_place(pad, node, same) else None


def _harmless(view: View, pad: Node, node: Node) -> bool:
    """Whether the padding is what the operator itself pads with."""
    x = pad.input(0)
    zero = float(x.zero) if x.type == "INT8" else 0.0
    value = zero if pad.op == "PAD" else scalar(pad.input(2))
    if value is None or row_of(node).padding == "zero":
        return value == zero
    least = -FLOAT_MAX if x.type == "FLOAT32" else whole(x)[0]
    return value <= max(least, bounds(view, x)[0])


def _in_place(pad: Node, node: Node, same: Node) -> bool:
    """Whether every window of ``same`` starts where the padding puts that of ``node``, and sees some of the input."""
    before = pad.input(1).data
    if before is None or before.shape != (4, 2) or before[[0, 3]].any():
        return False
    for axis, name in ((1, "h"), (2, "w")):
        stride, dilation = int(node.options[f"stride_{name}"]), int(node.options.get(f"dilation_{name}_factor", 1))
        out, start = window(same, same.input(0).shape[axis], _sizes(node)[axis - 1], stride, dilation, "SAME")
        if start != int(np.asarray(before)[axis, 0]) or out != node.output.shape[axis]:
            return False
    return True


def _sizes(node: Node) -> tuple[int, int]:
    """Height and width of the window."""
    parameters = parameters_of(node)
    if parameters is None:
        return int(node.options["filter_height"]), int(node.options["filter_width"])
    shape = node.input(parameters.weights).shape
    return shape[1], shape[2]
