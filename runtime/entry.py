"""A model seen from another of its subgraphs, or one of its signatures alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from twinfer.runtime.control import CALLEES, reachable
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Node, Signature, walk
from twinfer.runtime.metadata import without_plan


def with_main(graph: Graph, index: int) -> Graph:
    """The model whose main subgraph is number ``index``, and that one's number the main one's; 0: the model itself."""
    if index == 0:
        return graph
    graphs = [*walk(graph)]
    graphs[0], graphs[index] = graphs[index], replace(graphs[0], subgraphs=())
    swap = {0: index, index: 0}
    main, *others = (numbered(each, swap) for each in graphs)
    signatures = tuple(replace(s, subgraph=swap.get(s.subgraph, s.subgraph)) for s in graph.signatures)
    return replace(
        main, signatures=signatures, subgraphs=tuple(others), metadata=graph.metadata, description=graph.description
    )


def alone(graph: Graph, key: str) -> Graph:
    """The model of one signature: it, its subgraph as the main one, and those that this one calls.

    InvalidArgumentError if there is none of that name.
    """
    main = with_main(graph, named(graph.signatures, key).subgraph)
    graphs = [*walk(main)]
    kept = [0, *sorted(reachable(graphs))]
    numbers = {old: new for new, old in enumerate(kept)}
    first, *others = (numbered(graphs[old], numbers) for old in kept)
    return replace(without_plan(first), subgraphs=tuple(others), signatures=(named(main.signatures, key),))


def named(signatures: Iterable[Signature], key: object) -> Signature:
    """The signature of that name; InvalidArgumentError if there is none."""
    by_key = {signature.key: signature for signature in signatures}
    if isinstance(key, str) and key in by_key:
        return by_key[key]
    known = ", ".join(by_key) or "none"
    raise InvalidArgumentError(f"signature {key!r} is not in this model; it has: {known}")


def numbered(graph: Graph, numbers: Mapping[int, int]) -> Graph:
    """The subgraph whose nodes call subgraphs by other numbers; those that ``numbers`` lacks stay."""

    def called(node: Node) -> Node:
        calls = {key: node.options.get(key) for key in CALLEES.get(node.op, ())}
        options = {key: numbers[value] for key, value in calls.items() if isinstance(value, int) and value in numbers}
        return replace(node, options={**node.options, **options}) if options else node

    return replace(graph, nodes=tuple(map(called, graph.nodes)))
