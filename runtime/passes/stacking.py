"""Operators over one value of 8 bits as one table: a pass ``Graph -> Graph`` of planning.

If every element of a tensor depends on the element at the same place of one int8 or uint8 tensor alone, it has one of
256 values. They are computed here, by the operators' own ``reference``, and all operators between both tensors become
one look-up: LOGISTIC behind QUANTIZE; x * LOGISTIC(x); DEQUANTIZE, some functions of float32, QUANTIZE. Operators say
whether they are such functions (``pointwise`` of runtime/op.py); their other inputs must be constants of one element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array, Graph, Node, Tensor, consumers
from twinfer.runtime.op import need
from twinfer.runtime.ops.core.unsigned import STACKED
from twinfer.runtime.registry import find, operator
from twinfer.runtime.shapes import guarded, infer_node

#: Tensor -> the nodes that compute another one from it alone, in execution order.
Sources = Mapping[Tensor, tuple[Node, ...]]

#: Most nodes of a table, so that long chains take no time.
LONGEST = 32

#: By how much of its value, and by how much beside, a kernel's float32 may differ from the reference's where these are
#: only near.
_SHARE, _BESIDE = np.float32(2.0**-20), np.float32(2.0**-22)


def stack(graph: Graph) -> Graph:
    """The graph with a table wherever that saves an operator. Tensors stay, also those that no node writes any longer.

    Values that others read, and outputs of the graph, are computed as before.
    """
    sources = _sources(graph)
    stack = _Stack(graph)
    for node in reversed(graph.nodes) if sources else ():
        if node not in stack.gone and len(node.outputs) == 1 and _is_byte(node.output):
            stack.take(node, sources.get(node.output, {}))
    new = stack.new
    return replace(graph, nodes=tuple(new.get(n, n) for n in graph.nodes if n not in stack.gone)) if new else graph


class _Stack:
    """What becomes of nodes: ``new`` has the tables, ``gone`` the nodes that nobody needs any longer."""

    def __init__(self, graph: Graph) -> None:
        self.new: dict[Node, Node] = {}
        self.gone: set[Node] = set()
        self._readers = consumers(graph)
        self._kept = set(graph.outputs)

    def take(self, node: Node, sources: Sources) -> None:
        """Make the node a table of the source that saves most operators, the nearest of several, if there is one."""
        dead = {source: self._dead(nodes) for source, nodes in sources.items()}
        for source in sorted(dead, key=lambda t: (-len(dead[t]), len(sources[t]))):
            table = _table(source, sources[source]) if len(dead[source]) > 1 else None
            if table is not None:
                from twinfer.runtime.ops.functions._table import Stacked  # of no use to most models

                gone = dead[source] - {node}
                value = Stacked(table, tuple(sorted({each.index for each in gone})))
                self.new[node] = replace(node, inputs=(source,), options={**node.options, STACKED: value})
                self.gone |= gone
                self._kept.add(source)
                return

    def _dead(self, nodes: Sequence[Node]) -> set[Node]:
        """Those of the nodes that nobody needs once the last one is a table; it is one of them."""
        *others, last = nodes
        dead = {last}
        for node in reversed(others):
            readers = self._readers.get(node.output, ())
            if node.output not in self._kept and all(r in dead or r in self.gone or r in self.new for r in readers):
                dead.add(node)
        return dead


def _sources(graph: Graph) -> dict[Tensor, Sources]:
    """For each tensor the tensors of 8 bits that it is a function of, element by element."""
    written = [*graph.inputs, *(tensor for node in graph.nodes for tensor in node.outputs)]
    if len(set(written)) < len(written):  # a tensor has several values
        return {}
    sources: dict[Tensor, Sources] = {}
    for node in filter(_is_pointwise, graph.nodes):
        of = [{**sources.get(t, {}), **({t: ()} if _is_byte(t) else {})} for t in _values(node)]
        shared = (t for t in of[0] if all(t in each for each in of))
        all_of = {t: (*dict.fromkeys(n for each in of for n in each[t]), node) for t in shared}
        sources[node.output] = {t: nodes for t, nodes in all_of.items() if len(nodes) <= LONGEST}
    return sources


def _values(node: Node) -> list[Tensor]:
    """The inputs that are no constants, each once."""
    return list(dict.fromkeys(t for t in node.inputs if t is not None and t.data is None))


def _is_byte(tensor: Tensor) -> bool:
    return tensor.type in ("INT8", "UINT8")


def _is_pointwise(node: Node) -> bool:
    """Whether elements of the output depend on those at the same place of values alone, all with one scale."""
    known = find(node.op)
    if known is None or not known.pointwise or len(node.outputs) != 1 or None in node.inputs or not _values(node):
        return False
    if node.op == "DIV" and node.output.type != "FLOAT32":  # verify and bench say what it divides by 0
        return False
    tensors = [tensor for tensor in (*node.inputs, *node.outputs) if tensor is not None]
    alike = all(t.size == 1 if t.data is not None else t.shape == node.output.shape for t in tensors)
    return alike and not any(t.variable or (t.quant is not None and t.quant.per_channel) for t in tensors)


def _table(source: Tensor, nodes: Sequence[Node]) -> Array | None:
    """The last node's output, uint8 [256], for all bytes of ``source``.

    None if a node does not hold together, or if a float32 that kernels may compute otherwise decides a rounding.
    """
    with np.errstate(all="ignore"):
        try:
            nudges = (0, -1, 1) if any(map(_is_near, nodes)) else (0,)
            tables = [_computed(source, nodes, nudge) for nudge in nudges]
        except TwinferError:
            return None
    return tables[0] if all(np.array_equal(tables[0], other) for other in tables) else None


def _is_near(node: Node) -> bool:
    known = find(node.op)
    return known is not None and known.pointwise == "near" and node.output.type == "FLOAT32"


def _computed(source: Tensor, nodes: Sequence[Node], nudge: int) -> Array:
    """The last node's output with all that may be off being so by ``nudge``; TwinferError if a node is damaged."""
    shape = (*(1,) * (len(source.shape) - 1), 256)
    values = {source: np.arange(256, dtype=np.uint8).view(source.dtype).reshape(shape)}
    for node in nodes:
        inputs = [t for t in node.inputs if t is not None]
        over = tuple(t if t.data is not None else replace(t, shape=shape) for t in inputs)
        row = replace(node, inputs=over, outputs=(replace(node.output, shape=shape),))
        need(infer_node(row) == [shape], node, "its output has another shape than its input")
        given = [values[t] if t.data is None else t.data for t in inputs]
        value = _result(row, given)
        values[node.output] = value + nudge * (np.abs(value) * _SHARE + _BESIDE) if _is_near(node) else value
    return np.ascontiguousarray(values[nodes[-1].output]).reshape(-1).view(np.uint8)


def _result(node: Node, inputs: list[Array]) -> Array:
    return guarded(node, lambda: operator(node).reference(node, inputs)[0])
