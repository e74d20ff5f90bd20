"""A convolution between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND, as old exporters write it, becomes a dilated one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.converter.passes._rewrite import Change, View, rewrite, with_options, works
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.ops.core.window import window

#: Where the pipeline runs the pass (``passes/__init__.py``): before what goes on behind the convolution.
PLACES = (35,)


def dilations(graph: Graph) -> Graph:
    """SPACE_TO_BATCH_ND, a convolution of stride 1 and BATCH_TO_SPACE_ND become one convolution with the blocks as its
    dilation, where padding SAME or VALID puts every window at the same place. Integers keep their bits."""
    return rewrite(graph, _join)


def _join(view: View, node: Node) -> Change | None:
    if node.op != "BATCH_TO_SPACE_ND":
        return None
    layer = view.feeds(node.input(0), "CONV_2D", "DEPTHWISE_CONV_2D")
    split = None if layer is None else view.producer(layer.input(0), "SPACE_TO_BATCH_ND")
    if layer is None or split is None or not _alike(split, node):
        return None
    if not int(layer.options["stride_h"]) == 1 == int(layer.options["stride_w"]):
        return None
    blocks = zip("hw", np.asarray(node.input(1).data), strict=True)
    factors = {f"dilation_{name}_factor": int(block) * _dilation(layer, name) for name, block in blocks}
    for padding in ("SAME", "VALID"):
        dilated = with_options(layer, padding=padding, **factors)
        joined = replace(dilated, inputs=(split.input(0), *layer.inputs[1:]), outputs=node.outputs)
        if works(joined) and all(_in_place(split, layer, node, joined, axis) for axis in (1, 2)):
            return Change((layer, node), (joined,))
    return None


def _alike(split: Node, merge: Node) -> bool:
    """Whether both have the same constant blocks along height and width, and none of them changes the scale."""
    numbers = [t.data for t in (*split.inputs[1:], *merge.inputs[1:]) if t is not None]
    if len(numbers) != 4 or any(n is None for n in numbers) or len(split.input(0).shape) != 4:
        return False
    same = [t.input(0).quant == t.output.quant for t in (split, merge)]
    return all(same) and np.array_equal(np.asarray(numbers[0]), np.asarray(numbers[2]))


def _dilation(layer: Node, name: str) -> int:
    return int(layer.options.get(f"dilation_{name}_factor", 1))


def _in_place(split: Node, layer: Node, merge: Node, joined: Node, axis: int) -> bool:
    """Whether the first window of ``joined`` starts where it does now: behind paddings, before crops.

    Outside of the input there are zeros in either case, so that all windows see the same values.
    """
    size = layer.input(1).shape[axis]
    block, before, cropped = (
        int(np.asarray(t.data).reshape(2, -1)[axis - 1, 0]) for t in (split.input(1), split.input(2), merge.input(2))
    )
    name, options = "hw"[axis - 1], layer.options
    inner = window(layer, layer.input(0).shape[axis], size, 1, _dilation(layer, name), options["padding"])[1]
    extent, padding = split.input(0).shape[axis], joined.options["padding"]
    start = window(joined, extent, size, 1, _dilation(joined, name), padding)[1]
    return start == before - cropped + inner * block
