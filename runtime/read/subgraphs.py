"""Which subgraphs of a file call which: every called one must exist, and none may call itself."""

from __future__ import annotations

from collections.abc import Sequence

from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.read.flatbuffer import Damage


def called(node: Node) -> tuple[int, ...]:
    """The indices of the subgraphs that a node calls."""
    values = [value for key, value in node.options.items() if "subgraph" in key]
    return tuple(index for value in values for index in (value if isinstance(value, tuple) else (value,)))


def _calls(graphs: Sequence[Graph]) -> list[set[int]]:
    """Which subgraphs each subgraph calls; Damage if there is no such subgraph."""
    calls: list[set[int]] = [set() for _ in graphs]
    for i, graph in enumerate(graphs):
        for node, index in [(caller, index) for caller in graph.nodes for index in called(caller)]:
            if not 0 <= index < len(graphs):
                reason = f"subgraph {index} does not exist, there are {len(graphs)}"
                raise Damage(reason, f"subgraph {i}", str(node))
            calls[i].add(index)
    return calls


def check_calls(graphs: Sequence[Graph]) -> None:
    """Damage unless every called subgraph exists and none calls itself, directly or through others."""
    calls = _calls(graphs)
    callers: list[list[int]] = [[] for _ in graphs]
    for i, indices in enumerate(calls):
        for index in indices:
            callers[index].append(i)
    waiting = list(map(len, calls))
    done = [i for i, count in enumerate(waiting) if not count]
    for i in done:  # grows meanwhile: a subgraph is done when all that it calls are
        for caller in callers[i]:
            waiting[caller] -= 1
            if not waiting[caller]:
                done.append(caller)
    if len(done) < len(graphs):
        raise Damage(f"subgraph {min(set(range(len(graphs))) - set(done))} calls itself, directly or through others")
