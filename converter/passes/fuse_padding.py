"""PAD before a convolution or a maximum becomes the operator's own padding, where that is the same."""

from __future__ import annotations

from dataclasses import replace

from twinfer.converter.passes._clip import bounds, whole
from twinfer.converter.passes._rewrite import Change, View, rewrite, with_options, works
from twinfer.converter.table import parameters_of, row_of
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.op import Border
from twinfer.runtime.ops.core.activation import FLOAT_MAX
from twinfer.runtime.ops.core.window import window
from twinfer.runtime.passes.folding import border_of

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
    border = border_of(pad) if pad else None
    if pad is None or border is None or not _harmless(view, pad.input(0), border, node):
        return None
    same = replace(with_options(node, padding="SAME"), inputs=(pad.input(0), *node.inputs[1:]))
    return Change((pad, node), (same,)) if works(same) and _in_place(border, node, same) else None


def _harmless(view: View, x: Tensor, border: Border, node: Node) -> bool:
    """Whether the border around ``x`` is what the operator itself pads with."""
    if row_of(node).padding == "zero":
        return border.value == (x.zero if x.quant is not None and x.dtype.kind in "iu" else 0.0)
    least = -FLOAT_MAX if x.type == "FLOAT32" else whole(x)[0]
    return border.value <= max(least, bounds(view, x)[0])


def _in_place(border: Border, node: Node, same: Node) -> bool:
    """Whether every window of ``same`` starts where the padding puts that of ``node``, and sees some of the input."""
    for axis, name, (before, _) in ((1, "h", border.rows), (2, "w", border.columns)):
        stride, dilation = int(node.options[f"stride_{name}"]), int(node.options.get(f"dilation_{name}_factor", 1))
        out, start = window(same, same.input(0).shape[axis], _sizes(node)[axis - 1], stride, dilation, "SAME")
        if start != before or out != node.output.shape[axis]:
            return False
    return True


def _sizes(node: Node) -> tuple[int, int]:
    parameters = parameters_of(node)
    if parameters is None:
        return int(node.options["filter_height"]), int(node.options["filter_width"])
    shape = node.input(parameters.weights).shape
    return shape[1], shape[2]
