"""Operators that planning resolves: they call subgraphs or name variables, and have no kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinfer.runtime.graph import Graph, Node

#: TFLite's name -> what the plan makes of it.
CONTROL = {
    "IF": "a branch of the program",
    "WHILE": "a loop of the program",
    "CALL_ONCE": "what a reset does",
    "STABLEHLO_COMPOSITE": "the operators of its decomposition",
    "VAR_HANDLE": "a tensor of the state",
    "READ_VARIABLE": "a copy of the variable, or the variable itself",
    "ASSIGN_VARIABLE": "a copy to the variable, or computed there",
}

#: How many inputs and outputs they have; the others have as many as their subgraphs.
ARITY = {"CALL_ONCE": (0, 0), "VAR_HANDLE": (0, 1), "READ_VARIABLE": (1, 1), "ASSIGN_VARIABLE": (2, 0)}

#: The options that name the subgraphs that a node calls.
CALLEES = {
    "IF": ("then_subgraph_index", "else_subgraph_index"),
    "WHILE": ("cond_subgraph_index", "body_subgraph_index"),
    "CALL_ONCE": ("init_subgraph_index",),
    "STABLEHLO_COMPOSITE": ("decomposition_subgraph_index",),
}

#: How deep calls may be nested.
MOST_CALLS = 32


def callees(node: Node) -> Iterator[int]:
    """The subgraphs that a node calls, where its options are sound."""
    values = [node.options.get(key) for key in CALLEES.get(node.op, ())]
    yield from (value for value in values if isinstance(value, int))


def reachable(graphs: Sequence[Graph], start: int = 0) -> list[int]:
    """The subgraphs that one of ``graphs``, by default the main one, calls directly or through others."""
    seen = dict.fromkeys([start])
    waiting = [start]
    for index in waiting:  # grows meanwhile
        called = [i for node in graphs[index].nodes for i in callees(node) if 0 < i < len(graphs)]
        waiting += [i for i in dict.fromkeys(called) if i not in seen]
        seen.update(dict.fromkeys(called))
    return waiting[1:]
