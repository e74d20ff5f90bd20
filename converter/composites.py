"""Composites of a .tflite file become the operators that they stand for, so that passes and quantisation see these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from twinfer.runtime.control import MOST_CALLS, callees, reachable
from twinfer.runtime.entry import numbered
from twinfer.runtime.graph import Graph, Node, Tensor, walk

COMPOSITE = "STABLEHLO_COMPOSITE"

#: The most nodes that composites may become: those that call others can double them with each.
MOST_NODES = 100_000


def without_composites(graph: Graph) -> Graph:
    """The graph with the nodes of a composite's decomposition in the place of each call of one in the main subgraph.

    Calls with other shapes than the decomposition's stay, and so do those whose outputs no node of it writes; planning
    serves these. Subgraphs that nothing calls any more are left out, unless a signature names them.
    """
    if all(node.op != COMPOSITE for node in graph.nodes):
        return graph
    graphs = [*walk(graph)]
    nodes: list[Node] = []
    for node in _expanded(graph.nodes, graphs, 0):
        nodes.append(replace(node, index=len(nodes)))
        if len(nodes) > MOST_NODES:
            return graph
    new = dict.fromkeys(t for node in nodes for t in (*node.inputs, *node.outputs) if t is not None)
    main = replace(graph, nodes=tuple(nodes), tensors=tuple({**dict.fromkeys(graph.tensors), **new}))
    graphs[0] = main
    entries = [signature.subgraph for signature in graph.signatures]
    kept = sorted({0, *reachable(graphs), *entries, *(i for at in entries for i in reachable(graphs, at))})
    numbers = {old: at for at, old in enumerate(kept)}
    first, *others = (numbered(graphs[at], numbers) for at in kept)
    signatures = tuple(replace(signature, subgraph=numbers[signature.subgraph]) for signature in graph.signatures)
    return replace(first, subgraphs=tuple(others), signatures=signatures)


def _expanded(nodes: Sequence[Node], graphs: Sequence[Graph], depth: int) -> Iterator[Node]:
    for node in nodes:
        inside = _inside(node, graphs) if node.op == COMPOSITE and depth < MOST_CALLS else None
        if inside is None:
            yield node
        else:
            yield from _expanded(inside, graphs, depth + 1)


def _inside(node: Node, graphs: Sequence[Graph]) -> list[Node] | None:
    """The nodes of a composite's decomposition over the tensors of its call; None where the call has to stay."""
    called = [at for at in callees(node) if 0 < at < len(graphs)]
    if len(called) != 1 or None in node.inputs:
        return None
    body = graphs[called[0]]
    given = [t for t in node.inputs if t is not None]
    written = {t for inner in body.nodes for t in inner.outputs}
    pairs = [*zip(body.inputs, given, strict=False), *zip(body.outputs, node.outputs, strict=False)]
    alike = len(given) == len(body.inputs) and len(node.outputs) == len(body.outputs)
    alike = alike and all((t.shape, t.type) == (other.shape, other.type) for t, other in pairs)
    plain = len({*body.outputs}) == len(body.outputs) and written.issuperset(body.outputs)
    if not alike or not plain or written.intersection(body.inputs) or any(t.variable for t in body.tensors):
        return None
    swap = dict(pairs)
    for t in body.tensors:
        swap.setdefault(t, t if t.data is not None else replace(t, name=f"{node.output.name}/{t.name}"))
    return [_over(inner, swap) for inner in body.nodes]


def _over(node: Node, swap: Mapping[Tensor, Tensor]) -> Node:
    inputs = tuple(None if t is None else swap[t] for t in node.inputs)
    return replace(node, inputs=inputs, outputs=tuple(swap[t] for t in node.outputs))
