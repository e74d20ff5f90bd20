"""Checks that a graph holds together, which every reader of a ``Graph`` relies on."""

from __future__ import annotations

from twinfer.runtime.errors import InvalidArgumentError, ModelError
from twinfer.runtime.graph import Graph, Node, Tensor


def need_graph(given: object) -> None:
    """InvalidArgumentError for anything but a Graph; the message says how to get one."""
    if not isinstance(given, Graph):
        raise InvalidArgumentError(f"a Graph is needed, no {type(given).__name__}: twinfer.read_file(path) gives one")


def check(graph: Graph, *, inputs_written: bool = False) -> None:
    """Raise ModelError unless every node reads only what exists by then and every tensor is written once.

    Passes run it after each step in tests; the reader runs it once on every subgraph. ``inputs_written``: a node may
    write an input of the graph, whose new value lasts until the caller sets it again. Whoever changes graphs does not
    reckon with that.
    """
    known, given = set(graph.tensors), set(graph.inputs)
    final = set[Tensor]() if inputs_written else given
    for tensor in given - known:
        raise ModelError(f"graph {graph.name!r}: input {tensor} is not in the graph")
    for tensor in graph.tensors:
        if tensor.variable and tensor.data is not None:
            raise ModelError(f"graph {graph.name!r}: {tensor} is a variable and a constant; it can be one of them")
    ready = {t for t in graph.tensors if t.data is not None or t.variable} | given
    written: set[Tensor] = set()
    for node in graph.nodes:
        for source in node.inputs:
            if source is not None and source not in known:
                raise ModelError(f"{node}: reads {source}, which is not in the graph")
            if source is not None and source not in ready:
                raise ModelError(f"{node}: reads {source} before any operator has written it; sort the operators")
        for tensor in node.outputs:
            if fault := _write_fault(node, tensor, known, final, written):
                raise ModelError(f"{node}: writes {tensor}, {fault}")
            written.add(tensor)
            ready.add(tensor)
    for tensor in graph.outputs:
        if tensor not in ready:
            raise ModelError(f"graph {graph.name!r}: output {tensor} is never written")


def _write_fault(node: Node, tensor: Tensor, known: set[Tensor], given: set[Tensor], written: set[Tensor]) -> str:
    """Why the node must not write the tensor; "" if it may."""
    if tensor not in known:
        return "which is not in the graph"
    if tensor in written:
        return "which another operator has written already"
    if tensor.data is not None and tensor.size:
        return "which is a constant"
    if tensor in given:
        return "which is an input of the graph; give the result a tensor of its own"
    if tensor in node.inputs:
        return "which it reads, too; give the result a tensor of its own"
    return ""
