"""Small subgraphs to put together rightly or wrongly, and models that are damaged at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from flows import Sub

from twinfer.runtime.graph import Array, Graph, Node


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def function(name: str, *ops: str, shape: tuple[int, ...] = (1,), type: str = "FLOAT32") -> Graph:
    """A subgraph of one input that applies operators to it in turn; without any it hands the input through."""
    sub = Sub(name)
    x = sub.input(shape, type)
    for op in ops:
        x = sub.op(op, [x, x] if op == "ADD" else [x], **({"fused_activation_function": "NONE"} if op == "ADD" else {}))
    return sub.graph([x])


def below(limit: float) -> Graph:
    sub = Sub("below")
    return sub.graph([sub.less(sub.input(), floats(limit))])


def branching(then: Graph, orelse: Graph) -> Graph:
    """IF over two subgraphs with one input and one output; the condition and the argument come from outside."""
    main = Sub("main")
    c, x = main.input(type="BOOL"), main.input()
    return main.graph(main.branch(c, 1, 2, [x], [x]), then, orelse)


def chain(depth: int) -> Graph:
    """IF in IF in IF: so many calls in one another, the innermost adds; the other sides hand through."""
    graphs = []
    for i in range(depth + 2):
        sub = Sub(f"s{i}")
        c, x = sub.input(type="BOOL"), sub.input((2,))
        if i < depth:
            graphs.append(sub.graph(sub.branch(c, i + 1, depth + 1, [c, x], [x])))
        else:
            graphs.append(sub.graph([sub.add(x, x) if i == depth else x]))
    return replace(graphs[0], subgraphs=tuple(graphs[1:]))


class Damage:
    """Changes a few things of a model at random."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def done(self, graph: Graph) -> Graph:
        graphs = [replace(graph, subgraphs=()), *graph.subgraphs]
        for _ in range(self.rng.integers(1, 4)):
            i = int(self.rng.integers(len(graphs)))
            change = [self._index, self._tensor, self._inputs, self._outputs, self._ends][self.rng.integers(5)]
            graphs[i] = change(graphs[i], len(graphs))
        return replace(graphs[0], subgraphs=tuple(graphs[1:]))

    def _one(self, values: Any) -> int:
        return int(self.rng.integers(len(values)))

    def _node(self, graph: Graph, change: Callable[[Node], Node]) -> Graph:
        if not graph.nodes:
            return graph
        nodes = list(graph.nodes)
        i = self._one(nodes)
        nodes[i] = change(nodes[i])
        return replace(graph, nodes=tuple(nodes))

    def _index(self, graph: Graph, count: int) -> Graph:
        """Another subgraph is called, or none."""
        calling = [node for node in graph.nodes if any("subgraph" in key for key in node.options)]
        if not calling:
            return graph
        node = calling[self._one(calling)]
        key = [key for key in node.options if "subgraph" in key][-1]
        other = replace(node, options={**node.options, key: int(self.rng.integers(-1, count + 1))})
        return replace(graph, nodes=tuple(other if each is node else each for each in graph.nodes))

    def _tensor(self, graph: Graph, count: int) -> Graph:
        """A tensor is of another type or shape, wherever it is used."""
        old = graph.tensors[self._one(graph.tensors)]
        changes = [{"type": "BOOL"}, {"type": "RESOURCE"}, {"shape": (3,)}, {"shape": ()}, {"shape": (0,)}]
        new = replace(old, data=None, **changes[self._one(changes)])

        def swap(tensors: Any) -> Any:
            return tuple(new if tensor is old else tensor for tensor in tensors)

        nodes = tuple(replace(node, inputs=swap(node.inputs), outputs=swap(node.outputs)) for node in graph.nodes)
        tensors, inputs, outputs = map(swap, (graph.tensors, graph.inputs, graph.outputs))
        return replace(graph, nodes=nodes, tensors=tensors, inputs=inputs, outputs=outputs)

    def _inputs(self, graph: Graph, count: int) -> Graph:
        """A node reads more, less or something else."""
        return self._node(graph, lambda node: replace(node, inputs=self._changed(node.inputs, graph.tensors)))

    def _outputs(self, graph: Graph, count: int) -> Graph:
        return self._node(graph, lambda node: replace(node, outputs=self._changed(node.outputs, graph.tensors)))

    def _ends(self, graph: Graph, count: int) -> Graph:
        """The subgraph takes or gives other tensors."""
        end = ("inputs", "outputs")[self.rng.integers(2)]
        return replace(graph, **{end: self._changed(getattr(graph, end), graph.tensors)})

    def _changed(self, given: Any, tensors: Any) -> Any:
        other, at = tensors[self._one(tensors)], int(self.rng.integers(len(given) + 1))
        return [given[:-1], (*given[:at], other, *given[at:]), (*given[:at], other, *given[at + 1 :])][
            self.rng.integers(3)
        ]
