"""MediaPipe's custom operators become TFLite's own, which LiteRT and TFLM run, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.converter.passes._rewrite import Change, View, constant, new_node, rewrite, works
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.ops.conv import transpose_conv_bias
from twinfer.runtime.ops.core.activation import FLOAT_MAX
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.pool import max_pool_argmax, max_unpool
from twinfer.runtime.ops.pool.pool_2d import geometry

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (11,)


def custom_operators(graph: Graph) -> Graph:
    """Convolution2DTransposeBias becomes TRANSPOSE_CONV; MaxPoolingWithArgmax2D becomes MAX_POOL_2D and, for the
    numbers, ARG_MAX over the elements of the windows; MaxUnpooling2D over windows that do not overlap becomes a product
    for each element of a window and DEPTH_TO_SPACE. What has no such form stays as it is: twinfer has kernels for it.
    """
    return rewrite(graph, _expand)


def _expand(view: View, node: Node) -> Change | None:
    make = _MAKERS.get(node.op)
    if make is None or node.input(0).type != "FLOAT32":
        return None
    try:
        made = make(view, node)
    except TwinferError:  # planning says why it is wrong
        return None
    return Change((node,), tuple(made)) if made and all(map(works, made)) else None


def _transposed(view: View, node: Node) -> Sequence[Node]:
    return (transpose_conv_bias.as_transpose_conv(node),)


class _Nodes(list[Node]):
    """Nodes with names after a place."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    def add(
        self, op: str, inputs: Sequence[Any], shape: Sequence[int], type: str = "FLOAT32", **options: Any
    ) -> Tensor:
        """The output of a new node; arrays among the inputs become constants."""
        name = f"{self.place}/{op.lower()}_{len(self)}"
        given = [constant(x, f"{name}/{i}") if isinstance(x, np.ndarray) else x for i, x in enumerate(inputs)]
        self.append(new_node(op, given, Tensor(name, type, tuple(shape)), **options))
        return self[-1].output

    def end_in(self, output: Tensor) -> None:
        """Lets the last node write this tensor."""
        self[-1] = replace(self[-1], outputs=(output,))


def _pooled(view: View, node: Node) -> Sequence[Node]:
    pool = max_pool_argmax.as_max_pool(node)
    if node.outputs[1] not in view.public and not view.consumers.get(node.outputs[1]):
        return (pool,)
    g, nodes = geometry(pool), _Nodes(node.outputs[1].name)
    x = _padded(nodes, node.input(0), g)
    slices = [nodes.add("STRIDED_SLICE", [x, *_slice(g, ky, kx)], g.shape) for ky, kx in g.taps()]
    stacked = nodes.add("PACK", slices, (len(slices), *g.shape), values_count=len(slices), axis=0)
    axis = np.array(0, np.int32)
    number = nodes.add("ARG_MAX", [stacked, axis], g.shape, "INT32", output_type="INT32")
    number = nodes.add("CAST", [number], g.shape, in_data_type="INT32", out_data_type="FLOAT32")
    nodes.add("ADD", [number, np.array(0.1, np.float32)], g.shape)
    nodes.end_in(node.outputs[1])
    return (pool, *nodes)


def _padded(nodes: _Nodes, x: Tensor, g: Window) -> Tensor:
    """The images with what windows see around them."""
    sides = ((g.in_h, g.out_h, g.k_h, g.stride_h, g.pad_h), (g.in_w, g.out_w, g.k_w, g.stride_w, g.pad_w))
    behind = [max(0, (out - 1) * stride + k - pad - size) for size, out, k, stride, pad in sides]
    if not any((g.pad_h, g.pad_w, *behind)):
        return x
    around = np.array([[0, 0], [g.pad_h, behind[0]], [g.pad_w, behind[1]], [0, 0]], np.int32)
    shape = tuple(size + int(pads.sum()) for size, pads in zip(x.shape, around, strict=True))
    return nodes.add("PADV2", [x, around, np.array(-FLOAT_MAX, np.float32)], shape)


def _slice(g: Window, ky: int, kx: int) -> list[np.ndarray]:
    """Begin, end and strides of an element of every window."""
    end = (g.batches, ky + (g.out_h - 1) * g.stride_h + 1, kx + (g.out_w - 1) * g.stride_w + 1, g.in_c)
    return [np.array(each, np.int32) for each in ((0, ky, kx, 0), end, (1, g.stride_h, g.stride_w, 1))]


def _unpooled(view: View, node: Node) -> Sequence[Node]:
    """Of windows that are squares side by side: DEPTH_TO_SPACE over the values that stay at each of their elements."""
    x, g = node.input(0), max_unpool.geometry(node)
    if max_unpool.by_places(node) or not 1 < g.k_h == g.k_w == g.stride_h == g.stride_w:
        return ()
    nodes, kept = _Nodes(node.output.name), []
    numbers = nodes.add("CAST", [node.input(1)], x.shape, "INT32", in_data_type="FLOAT32", out_data_type="INT32")
    for number in range(g.k_h * g.k_w):
        here = nodes.add("EQUAL", [numbers, np.array(number, np.int32)], x.shape, "BOOL")
        kept.append(nodes.add("SELECT_V2", [here, x, np.array(0, np.float32)], x.shape))
    deep = nodes.add("CONCATENATION", kept, (*x.shape[:3], len(kept) * x.shape[3]), axis=3)
    nodes.add("DEPTH_TO_SPACE", [deep], node.output.shape, block_size=g.k_h)
    nodes.end_in(node.output)
    return nodes


_MAKERS = {
    transpose_conv_bias.NAME: _transposed,
    max_pool_argmax.NAME: _pooled,
    **dict.fromkeys(max_unpool.NAMES, _unpooled),
}
