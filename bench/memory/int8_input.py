"""The same model behind the QUANTIZE of its input, where there is one: the caller gives integers."""

from __future__ import annotations

from dataclasses import replace

from twinfer.runtime.graph import Graph, consumers


def without_quantize(graph: Graph) -> Graph | None:
    """The graph whose float inputs that are only quantised are the integers instead; None if there is no such input."""
    readers, new = consumers(graph), {}
    for tensor in graph.inputs:
        alone = readers.get(tensor, [])
        if len(alone) == 1 and alone[0].op == "QUANTIZE" and tensor.type == "FLOAT32" and tensor not in graph.outputs:
            new[tensor] = alone[0]
    if not new:
        return None
    return replace(
        graph,
        inputs=tuple(new[tensor].output if tensor in new else tensor for tensor in graph.inputs),
        nodes=tuple(node for node in graph.nodes if node not in new.values()),
        signatures=(),
    )
