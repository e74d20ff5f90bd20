"""Clips behind convolutions, dense layers, arithmetic and pooling become part of them."""

from __future__ import annotations

from dataclasses import replace

from twinfer.converter.passes._clip import activation_range, both, clip_of, named
from twinfer.converter.passes._rewrite import Change, View, rewrite, with_options, works
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Graph, Node

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (60, 130)

#: The fused activations that the format has.
FUSED = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")

_OPTION = "fused_activation_function"


def fuse_activations(graph: Graph) -> Graph:
    """RELU, RELU6, RELU_N1_TO_1, and MINIMUM and MAXIMUM with the numbers of one of them, become the fused
    activation of the operator before them. In int8 only where the clip does not requantise."""
    return rewrite(graph, _fuse)


def _fuse(view: View, node: Node) -> Change | None:
    clip = clip_of(node)
    before = view.feeds(clip[0]) if clip else None
    if clip is None or before is None or not row_of(before).fuses:
        return None
    own = activation_range(str(before.options.get(_OPTION, "NONE")), before.output)
    name = named(both(own, clip[1]), node.output, FUSED) if own else None
    if name is None:
        return None
    fused = replace(with_options(before, **{_OPTION: name}), outputs=node.outputs)
    return Change((before, node), (fused,)) if works(fused) else None
