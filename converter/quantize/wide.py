"""Operators without integer kernels of 16 bits, by others that have them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from twinfer.converter.passes._rewrite import Change, View, constant, new_node, rewrite
from twinfer.converter.passes.reshapes import reshaped
from twinfer.converter.quantize.recipe import Recipe
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.shapes import is_open


def for_16_bits(graph: Graph, recipe: Recipe) -> Graph:
    """The graph with SPACE_TO_DEPTH and DEPTH_TO_SPACE spelled out where the recipe wants int16 activations: a move in
    floats between integers costs 35 times as much. Arithmetic stays one operator in floats, such as HARD_SWISH: a
    Cortex-M4 computes that in 168,000 instructions, its three integer operators in 283,000 (4,096 elements)."""
    return rewrite(graph, partial(_rule, recipe))


def _rule(recipe: Recipe, view: View, node: Node) -> Change | None:
    moves = node.op in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE") and recipe.of_node(node).precision == "int16x8"
    if not moves or node.output.type != "FLOAT32" or is_open(node.output) or node.input(0).data is not None:
        return None
    return Change((node,), _blocks(node))


def _blocks(node: Node) -> tuple[Node, ...]:
    """Rows and columns of blocks change places, between two reshapes."""
    x, y, block = node.input(0), node.output, int(node.options["block_size"])
    image = x if node.op == "SPACE_TO_DEPTH" else y
    n, h, w, c = image.shape
    split = (n * h // block, block, w // block, block * c)
    turned = (split[0], split[2], split[1], split[3])
    first, second = (split, turned) if image is x else (turned, split)
    before, behind = (
        replace(y, name=f"{y.name}/{name}", shape=shape, shape_signature=())
        for name, shape in (("split", first), ("turned", second))
    )
    order = constant(np.array((0, 2, 1, 3), np.int32), f"{y.name}/order")
    return (reshaped(x, before), new_node("TRANSPOSE", [before, order], behind), reshaped(behind, y))
