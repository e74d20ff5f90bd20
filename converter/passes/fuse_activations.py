"""Clips behind convolutions, dense layers, arithmetic and pooling become part of them."""

from __future__ import annotations

from dataclasses import replace

from twinfer.converter.passes._clip import activation_range, both, clipped, named
from twinfer.converter.passes._rewrite import Change, View, rewrite, with_options, works
from twinfer.runtime.graph import Graph, Node

#: Operators with a fused activation. CONCATENATION has the option, too, but no kernel that heeds it.
FUSING = (
    "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "ADD", "SUB", "MUL", "DIV",
    "AVERAGE_POOL_2D", "MAX_POOL_2D",
)  # fmt: skip

#: What the format can say of them.
FUSED = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")

_OPTION = "fused_activation_function"


def fuse_activations(graph: Graph) -> Graph:
    """RELU, RELU6, RELU_N1_TO_1, and MINIMUM and MAXIMUM with numbers that mean one of them, become the fused
    activation of the operator before them. int8 only where the clip does not requantise."""
    return rewrite(graph, _fuse)


def _fuse(view: View, node: Node) -> Change | None:
    clip = clipped(node)
    before = view.feeds(clip[0], *FUSING) if clip else None
    if clip is None or before is None:
        return None
    own = activation_range(str(before.options.get(_OPTION, "NONE")), before.output)
    name = named(both(own, clip[1]), node.output, FUSED) if own else None
    if name is None:
        return None
    fused = replace(with_options(before, **{_OPTION: name}), outputs=node.outputs)
    return Change((before, node), (fused,)) if works(fused) else None
