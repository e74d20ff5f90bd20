"""Operators without integer kernels of 16 bits, by others that have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from twinfer.converter.passes._rewrite import Change, View, constant, new_node, rewrite
from twinfer.converter.passes.reshapes import reshaped
from twinfer.converter.quantize.recipe import Recipe
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.plan.price import soft_floats
from twinfer.runtime.shapes import is_open
from twinfer.runtime.target import Target


def for_16_bits(graph: Graph, recipe: Recipe, target: Target | None = None) -> Graph:
    """The graph with SPACE_TO_DEPTH and DEPTH_TO_SPACE spelled out where the recipe wants int16 activations: a move in
    floats between integers costs 35 times as much.

    Arithmetic stays one operator in floats, such as HARD_SWISH: a Cortex-M4 computes that in 168,000 instructions, its
    three integer operators in 283,000 (4,096 elements). It is spelled out for a ``target`` without instructions for
    floats: a Cortex-M3 needs a fifth then.
    """
    forms = {**_MOVES, **_ARITHMETIC} if target is not None and soft_floats(target) else _MOVES
    return rewrite(graph, partial(_rule, recipe, forms))


Forms = Mapping[str, Callable[[Node], tuple[Node, ...]]]


def _rule(recipe: Recipe, forms: Forms, view: View, node: Node) -> Change | None:
    spell = forms.get(node.op)
    if spell is None or node.output.type != "FLOAT32" or is_open(node.output) or node.input(0).data is not None:
        return None
    return Change((node,), spell(node)) if recipe.of_node(node).precision == "int16x8" else None


def _inner(y: Tensor, name: str, *shape: int) -> Tensor:
    return replace(y, name=f"{y.name}/{name}", shape=shape or y.shape, shape_signature=())


def _number(value: float, y: Tensor, name: str) -> Tensor:
    return constant(np.array(value, np.float32), f"{y.name}/{name}")


def _hard_swish(node: Node) -> tuple[Node, ...]:
    """x * min(max(x + 3, 0), 6) / 6."""
    x, y = node.input(0), node.output
    gate, product = _inner(y, "gate"), _inner(y, "product")
    return (
        new_node("ADD", [x, _number(3, y, "three")], gate, fused_activation_function="RELU6"),
        new_node("MUL", [x, gate], product),
        new_node("MUL", [product, _number(1 / 6, y, "sixth")], y),
    )


def _prelu(node: Node) -> tuple[Node, ...]:
    """max(x, 0) + alpha * min(x, 0)."""
    x, alpha, y = node.input(0), node.input(1), node.output
    above, below, part = (_inner(y, name) for name in ("above", "below", "part"))
    return (
        new_node("RELU", [x], above),
        new_node("MINIMUM", [x, _number(0, y, "zero")], below),
        new_node("MUL", [below, alpha], part),
        new_node("ADD", [above, part], y),
    )


def _l2(node: Node) -> tuple[Node, ...]:
    """x / sqrt(sum(x²))."""
    x, y = node.input(0), node.output
    squares, total, norm = _inner(y, "squares"), _inner(y, "sum", *y.shape[:-1], 1), _inner(y, "norm", *y.shape[:-1], 1)
    last = constant(np.array([len(y.shape) - 1], np.int32), f"{y.name}/axis")
    return (
        new_node("MUL", [x, x], squares),
        new_node("SUM", [squares, last], total, keep_dims=True),
        new_node("SQRT", [total], norm),
        new_node("DIV", [x, norm], y),
    )


def _blocks(node: Node) -> tuple[Node, ...]:
    """Rows and columns of blocks change places, between two reshapes."""
    x, y, block = node.input(0), node.output, int(node.options["block_size"])
    image = x if node.op == "SPACE_TO_DEPTH" else y
    n, h, w, c = image.shape
    split = (n * h // block, block, w // block, block * c)
    turned = (split[0], split[2], split[1], split[3])
    first, second = (split, turned) if image is x else (turned, split)
    before, behind = _inner(y, "split", *first), _inner(y, "turned", *second)
    order = constant(np.array((0, 2, 1, 3), np.int32), f"{y.name}/order")
    return (reshaped(x, before), new_node("TRANSPOSE", [before, order], behind), reshaped(behind, y))


_MOVES: Forms = {"DEPTH_TO_SPACE": _blocks, "SPACE_TO_DEPTH": _blocks}
_ARITHMETIC: Forms = {"HARD_SWISH": _hard_swish, "L2_NORMALIZATION": _l2, "PRELU": _prelu}
