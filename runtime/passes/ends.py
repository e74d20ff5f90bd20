"""Integers at the ends of a model whose inputs and outputs are float: a pass ``Graph -> Graph`` before planning.

A model that was quantised with float inputs and outputs begins with QUANTIZE and ends with DEQUANTIZE. Without
these the caller gives and gets the integers themselves, in a quarter of the memory; their tensors have scale and zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, get_args

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Node, Tensor, consumers
from twinfer.runtime.metadata import without_plan

#: What a float input or output becomes: float leaves it alone.
Io = Literal["float", "int8", "int16"]

#: Those that change a model.
INTEGERS: tuple[Io, ...] = ("int8", "int16")


def with_io(graph: Graph, io: Io) -> Graph:
    """The graph whose float inputs that a QUANTIZE alone reads are the integers of type ``io`` behind it, and whose
    float outputs that a DEQUANTIZE writes are those before it; itself if ``io`` is float or no input and output is.

    Other float inputs and outputs stay. InvalidArgumentError names the tensor and its operator where all would stay.
    """
    if io not in get_args(Io):
        raise InvalidArgumentError(f"io {io!r} does not exist, only {', '.join(get_args(Io))}")
    floats = [tensor for tensor in (*graph.inputs, *graph.outputs) if tensor.type == "FLOAT32"]
    if io == "float" or not floats:
        return graph
    begins = {node.input(0): node for node in _quantized(graph, io.upper())}
    ends = {node.output: node for node in _dequantized(graph, io.upper(), [node.output for node in begins.values()])}
    if not begins and not ends:
        raise InvalidArgumentError(_refusal(graph, floats[0], io))
    new = {tensor: node.output for tensor, node in begins.items()} | {t: node.input(0) for t, node in ends.items()}
    gone = {*begins.values(), *ends.values()}
    swapped = replace(
        graph,
        tensors=tuple(tensor for tensor in graph.tensors if tensor not in new),
        nodes=tuple(node for node in graph.nodes if node not in gone),
        inputs=tuple(new.get(tensor, tensor) for tensor in graph.inputs),
        outputs=tuple(new.get(tensor, tensor) for tensor in graph.outputs),
        signatures=tuple(each if each.subgraph else each.over(lambda t: new.get(t, t)) for each in graph.signatures),
    )
    return without_plan(swapped)


def _quantized(graph: Graph, type: str) -> Iterator[Node]:
    """The QUANTIZE of every float input that nothing else reads."""
    readers = consumers(graph)
    for tensor in graph.inputs:
        node = readers[tensor][0] if len(readers.get(tensor, ())) == 1 else None
        if node is None or node.op != "QUANTIZE" or tensor.type != "FLOAT32" or tensor in graph.outputs:
            continue
        if node.output.type == type and node.output not in graph.outputs:
            yield node


def _dequantized(graph: Graph, type: str, inputs: list[Tensor]) -> Iterator[Node]:
    """The DEQUANTIZE of every float output that nothing reads; ``inputs`` will be inputs of the graph."""
    readers, taken = consumers(graph), {*graph.inputs, *graph.outputs, *inputs}
    for node in graph.nodes:
        if node.op != "DEQUANTIZE" or graph.outputs.count(node.output) != 1 or node.output in readers:
            continue
        source = node.input(0)
        if source.type == type and source.data is None and not source.variable and source not in taken:
            taken.add(source)
            yield node


def _refusal(graph: Graph, tensor: Tensor, io: Io) -> str:
    """Why a float input or output, the first, cannot be integers."""
    if tensor in graph.inputs:
        readers = ", ".join(map(str, consumers(graph).get(tensor, ()))) or "no operator"
        return f"no input can be {io}: {tensor} is read by {readers}, not by one QUANTIZE to {io.upper()} alone"
    writer = next((str(node) for node in graph.nodes if tensor in node.outputs), "no operator")
    return f"no output can be {io}: {tensor} is written by {writer}, not by a DEQUANTIZE of {io.upper()}"
