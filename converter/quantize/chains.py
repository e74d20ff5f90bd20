"""Chains of arithmetic that lose more in int8 than a layer does, as layer normalisation: they may have 16 bits inside.

Between two layers, a normalisation rounds a mean, a difference, its square, a variance and a root before it gives a
value, and what it divides by makes the error larger. Its operators are few beside the products of the layers: 16 bits
for all of them cost little.
"""

from __future__ import annotations

from twinfer.converter.quantize.forms import precision_of
from twinfer.converter.quantize.lost import is_layer
from twinfer.converter.quantize.observed import Calibration
from twinfer.converter.quantize.recipe import Choice, Recipe
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Graph, Node


def chains(graph: Graph, seen: Calibration, recipe: Recipe) -> list[Node]:
    """The nodes of all chains: those without weights that are connected, if small differences count for one of them,
    such as RSQRT. Only nodes that would have 8 bits and may have 16."""
    inner = [node for node in graph.nodes if _is_inner(node, seen, recipe)]
    of: dict[Node, set[Node]] = {node: {node} for node in inner}
    makers = {t: node for node in inner for t in node.outputs}
    for node in inner:
        for before in [makers[t] for t in node.inputs if t in makers]:
            if of[before] is not of[node]:
                small, large = sorted((of[before], of[node]), key=len)
                large |= small
                of |= dict.fromkeys(small, large)
    return [node for node in inner if any(map(_magnifies, of[node]))]


def _is_inner(node: Node, seen: Calibration, recipe: Recipe) -> bool:
    choice = recipe.of_node(node)
    free = choice.type == "INT8" and not is_layer(node) and not recipe.sets_precision(node)
    free = free and all("INT8" not in seen[t].lost for t in node.outputs if t in seen)
    return free and precision_of(node, Choice("int16x8")).precision == "int16x8"


def _magnifies(node: Node) -> bool:
    at = row_of(node).magnifies
    return at is not None and node.input(at).data is None
