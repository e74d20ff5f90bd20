"""A model seen from another of its subgraphs: that one is the main one, as a signature asks for it."""

from __future__ import annotations

from dataclasses import replace

from twinfer.runtime.control import CALLEES
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Node, walk


def with_main(graph: Graph, index: int) -> Graph:
    """The model whose main subgraph is number ``index``, and that one's number the main one's; 0: the model itself."""
    if index == 0:
        return graph
    graphs = [*walk(graph)]
    graphs[0], graphs[index] = graphs[index], replace(graphs[0], subgraphs=())
    main, *others = (replace(each, nodes=tuple(_exchanged(node, index) for node in each.nodes)) for each in graphs)
    swap = {0: index, index: 0}
    signatures = tuple(replace(s, subgraph=swap.get(s.subgraph, s.subgraph)) for s in graph.signatures)
    return replace(
        main,
        signatures=signatures,
        subgraphs=tuple(others),
        metadata=graph.metadata,
        description=graph.description,
    )


def of_signature(graph: Graph, key: str) -> Graph:
    """The model whose main subgraph is that of a signature; InvalidArgumentError if there is none of that name."""
    for signature in graph.signatures:
        if signature.key == key:
            return with_main(graph, signature.subgraph)
    known = ", ".join(signature.key for signature in graph.signatures) or "none"
    raise InvalidArgumentError(f"signature {key!r} is not in this model; it has: {known}")


def _exchanged(node: Node, index: int) -> Node:
    """The node with the numbers 0 and ``index`` of subgraphs exchanged."""
    swap = {0: index, index: 0}
    options = {key: swap[node.options[key]] for key in CALLEES.get(node.op, ()) if node.options.get(key) in swap}
    return replace(node, options={**node.options, **options}) if options else node
