"""The end of reading: outputs of their own, tensors called as in the ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from twinfer.converter.onnx.emitter import Emitter
from twinfer.runtime.graph import EMPTY, Graph, Signature, Tensor, check

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
    return _signed(_renamed(graph, {**{t: name for name, t in reversed(list(values.items()))}, **taken}))


def _renamed(graph: Graph, names: Mapping[Tensor, str]) -> Graph:
    """Tensors by their ONNX names where they have one, others as they are; float constants without quantisation."""
    used = {names[t] for t in graph.tensors if t in names}
    new: dict[Tensor | None, Tensor | None] = {None: None}
    for tensor in graph.tensors:
        name = names.get(tensor) or _unused(tensor.name, used)
        plain = {"quant": None, "extra": EMPTY} if tensor.type == "FLOAT32" else {}
        new[tensor] = replace(tensor, name=name, **plain)  # type: ignore[arg-type]
    every = tuple(t for t in new.values() if t)
    nodes = tuple(
        replace(n, inputs=tuple(new[t] for t in n.inputs), outputs=tuple(t for o in n.outputs if (t := new[o])))
        for n in graph.nodes
    )
    inputs, outputs = (tuple(t for i in tensors if (t := new[i])) for tensors in (graph.inputs, graph.outputs))
    result = replace(graph, tensors=every, nodes=nodes, inputs=inputs, outputs=outputs)
    check(result)
    return result


def _unused(name: str, used: set[str]) -> str:
    while name in used:
        name += "_"
    used.add(name)
    return name


def _signed(graph: Graph) -> Graph:
    arguments, results = ({t.name: t for t in tensors} for tensors in (graph.inputs, graph.outputs))
    return replace(graph, signatures=(Signature(SIGNATURE, arguments, results),))
