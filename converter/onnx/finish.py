"""The end of reading: outputs of their own, tensors called as in the ONNX model, integers where scales are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from twinfer.converter.emit.emitter import SMALL, Emitter
from twinfer.converter.onnx.integer import MOVES, integer
from twinfer.runtime.graph import EMPTY, Graph, Quant, Signature, Tensor, check

#: The key of the signature that names inputs and outputs.
SIGNATURE = "serving_default"


def finished(g: Emitter, values: Mapping[str, Tensor], outputs: Sequence[str]) -> Graph:
    """The graph of what was emitted. An output that is an input, a constant or another output gets a copy."""
    taken: dict[Tensor, str] = {}
    for name in outputs:
        tensor, g.place = values[name], name
        if tensor in taken or tensor in g.builder.inputs or tensor.data is not None:
            tensor = g.copy(tensor)
        taken[tensor] = name
    graph = g.builder.graph(list(taken))
    names = {**{t: name for name, t in reversed(list(values.items()))}, **taken}
    graph = _rebuilt(integer(_rebuilt(graph, _named(graph, names, _spread(graph, g.quants)))), _plain)
    arguments, results = ({t.name: t for t in tensors} for tensors in (graph.inputs, graph.outputs))
    return replace(graph, signatures=(Signature(SIGNATURE, arguments, results),))


def _spread(graph: Graph, quants: Mapping[Tensor, Quant]) -> dict[Tensor, Quant]:
    """Quantisations of integer tensors, told through the operators that only move their elements."""
    known = {**{t: t.quant for t in graph.tensors if t.quant is not None}, **quants}
    for nodes in (graph.nodes, graph.nodes[::-1]):
        for node in nodes:
            if node.op in MOVES:
                ends = [t for t in (*node.inputs, *node.outputs) if t is not None and t.type in SMALL]
                quant = next((known[t] for t in ends if t in known), None)
                known.update({t: quant for t in ends if quant is not None and t not in known})
    return known


def _named(graph: Graph, names: Mapping[Tensor, str], quants: Mapping[Tensor, Quant]) -> Callable[[Tensor], Tensor]:
    """Tensors by their ONNX names where they have one, others as they are, each name once."""
    used = {names[t] for t in graph.tensors if t in names}

    def named(tensor: Tensor) -> Tensor:
        return replace(tensor, name=names.get(tensor) or _unused(tensor.name, used), quant=quants.get(tensor))

    return named


def _plain(tensor: Tensor) -> Tensor:
    """Float constants without the integers that they were made of."""
    return replace(tensor, quant=None, extra=EMPTY) if tensor.type == "FLOAT32" and tensor.quant is not None else tensor


def _unused(name: str, used: set[str]) -> str:
    while name in used:
        name += "_"
    used.add(name)
    return name


def _rebuilt(graph: Graph, change: Callable[[Tensor], Tensor]) -> Graph:
    """The graph with every tensor changed."""
    new = {tensor: change(tensor) for tensor in graph.tensors}
    nodes = tuple(
        replace(
            node,
            inputs=tuple(None if t is None else new[t] for t in node.inputs),
            outputs=tuple(new[t] for t in node.outputs),
        )
        for node in graph.nodes
    )
    inputs, outputs = (tuple(new[t] for t in tensors) for tensors in (graph.inputs, graph.outputs))
    result = replace(graph, tensors=tuple(new.values()), nodes=nodes, inputs=inputs, outputs=outputs)
    check(result)
    return result
