"""What must hold in subgraphs as they are read: those called exist, none calls itself, each tensor is written once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twinfer.runtime.graph import Graph, Node, Tensor
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


def written_once(graph: Graph) -> Graph:
    """The graph in which every tensor is written once and no node writes what it reads, as all that follows expects.

    TFLM runs files that use a tensor again, and LiteRT some: each value but the last one gets a tensor of its own. An
    input of the graph whose last value is made of what the caller gave is copied back behind all nodes.
    """
    times = Counter(tensor for node in graph.nodes for tensor in node.outputs)
    again = {
        t for node in graph.nodes for t in node.outputs if times[t] > 1 or (t in node.inputs and t in graph.inputs)
    }
    again = {t for t in again if t.data is None and not t.variable}
    if not again or any(len({*node.outputs}) < len(node.outputs) for node in graph.nodes):
        return graph
    now, more, nodes = dict[Tensor, Tensor](), list[Tensor](), list[Node]()
    for node in graph.nodes:
        inputs = tuple(now.get(t, t) if t is not None else None for t in node.inputs)
        outputs = list(node.outputs)
        for i, tensor in enumerate(node.outputs):
            times[tensor] -= 1
            if tensor in again and (times[tensor] or tensor in inputs):
                outputs[i] = replace(tensor)
                more.append(outputs[i])
            now[tensor] = outputs[i]
        nodes.append(replace(node, inputs=inputs, outputs=tuple(outputs)))
    for tensor in graph.inputs:
        if (last := now.get(tensor, tensor)) is not tensor:
            shape = Tensor("shape", "INT32", (len(tensor.shape),), data=np.array(tensor.shape, np.int32))
            more.append(shape)
            nodes.append(Node("RESHAPE", (last, shape), (tensor,), index=len(nodes)))
    return replace(graph, tensors=(*graph.tensors, *more), nodes=tuple(nodes))
