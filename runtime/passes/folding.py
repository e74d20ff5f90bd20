"""Borders folded into the windows behind them: a pass ``Graph -> Graph`` of planning, without a padded image in memory.

PAD before a convolution copies the image into a larger one. The convolution's kernel can take the border for padding of
its own, if that gives the same bits. Operators say what they know of this (``border`` and ``beyond`` of
runtime/op.py); the node gets numbers in its option ``padding`` (runtime/ops/core/window.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph, Node, consumers
from twinfer.runtime.op import Border
from twinfer.runtime.registry import find
from twinfer.runtime.shapes import infer_node

#: The option of a node that tells the index of the node whose border was folded into it.
FOLDED = "folded"


def fold(graph: Graph) -> Graph:
    """The graph without borders that only windows read, where these give the same bits over the image without them.

    Tensors stay, also those that no node writes any longer. A node that does not hold together stays as it is.
    """
    readers, new, gone = consumers(graph), dict[Node, Node](), set[Node]()
    for node in graph.nodes:
        behind = _behind(node, readers.get(node.outputs[0], ())) if len(node.outputs) == 1 else {}
        if behind and node.output not in graph.outputs:
            new.update(behind)
            gone.add(node)
    return (
        replace(graph, nodes=tuple(new.get(node, node) for node in graph.nodes if node not in gone)) if gone else graph
    )


def border_of(node: Node) -> Border | None:
    """The border that a node puts around its input 0, None if it does something else or does not hold together."""
    known = find(node.op)
    return known.border(node) if known and known.border and _sound(node) else None


def _behind(node: Node, readers: Sequence[Node]) -> dict[Node, Node]:
    """The readers of a border's output, each with what it becomes; none if one of them cannot do without the border."""
    border = border_of(node)
    new = {reader: _over(reader, node, border) for reader in readers} if border else {}
    return {reader: over for reader, over in new.items() if over} if all(new.values()) else {}


def _over(reader: Node, node: Node, border: Border) -> Node | None:
    """The reader over the image without the border that ``node`` puts around it, None if that is not the same."""
    padded = node.output
    valid = replace(reader, options={**reader.options, "padding": "VALID"})
    known = find(reader.op)
    if known is None or known.beyond is None or [i for i, t in enumerate(reader.inputs) if t is padded] != [0]:
        return None
    if not (_sound(reader) and _sound(valid)) or known.beyond(reader) != border.value:
        return None
    options = {**reader.options, "padding": (border.rows, border.columns), FOLDED: node.index}
    over = replace(reader, inputs=(node.input(0), *reader.inputs[1:]), options=options)
    return over if _sound(over) else None


def _sound(node: Node) -> bool:
    """Whether the operator takes the node, with the shapes that its outputs have."""
    try:
        return infer_node(node) == [tensor.shape for tensor in node.outputs]
    except TwinferError:
        return False
