"""Integers divided by 0: our bits agree, but no reference says what is right. LiteRT aborts, TFLM forbids it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from twinfer.bench.models.observe import Values
from twinfer.runtime.errors import ModelWarning
from twinfer.runtime.graph import Array, Graph, Node, Tensor, walk
from twinfer.runtime.options import Options
from twinfer.runtime.program import Step
from twinfer.runtime.run.interpreter import Interpreter


def zero_divisions(graph: Graph, samples: Sequence[Sequence[Array]]) -> Counter[Tensor]:
    """How many elements of a DIV's integer output were divided by 0, over all samples, each from fresh state.

    In loops every turn counts. The interpreter runs them only if the graph has such a DIV. The samples have the graph's
    shapes.
    """
    counts: Counter[Tensor] = Counter()
    if has_integer_division(graph):
        interpreter = Interpreter.from_graph(graph, Options(without=frozenset({"fusion", "in_place"})))
        interpreter.allocate_tensors()

        def look(position: int, step: Step) -> None:
            if _divides_integers(step.node):
                divisor = step.node.input(1)
                values = interpreter.session.view(divisor) if divisor.data is None else divisor.data
                counts.update(_zeros(step.node, values))

        interpreter.on_call = look
        for sample in samples:
            interpreter.reset_all_variables()
            interpreter.session.feed(sample)
            interpreter.invoke()
    return counts


def has_integer_division(graph: Graph) -> bool:
    """Whether the graph, or a subgraph, has a DIV of integers."""
    return any(_divides_integers(node) for each in walk(graph) for node in each.nodes)


def divided_by_zero(graph: Graph, values: Values) -> Mapping[Tensor, int]:
    """How many elements of a DIV's integer output one run divided by 0; ``values`` holds every tensor of that run."""
    counts: dict[Tensor, int] = {}
    for node in filter(_divides_integers, graph.nodes):
        divisor = node.input(1)
        counts |= _zeros(node, values[divisor] if divisor.data is None else divisor.data)
    return counts


def _zeros(node: Node, values: Array) -> Mapping[Tensor, int]:
    """How many elements of the output of a DIV these values of its divisor divide by 0; nothing for none."""
    divisor = node.input(1)
    is_zero = values == (0 if divisor.quant is None else divisor.zero)
    count = int(np.broadcast_to(is_zero, node.output.shape).sum())
    return {node.output: count} if count else {}


def descriptions(counts: Mapping[Tensor, int], samples: str) -> Iterator[str]:
    """One line per tensor; ``samples`` says, in words, what the elements were counted on."""
    for tensor, count in counts.items():
        yield f"{tensor} is divided by 0 in {count} of its elements on {samples}: no engine defines that, LiteRT aborts"


def warn_of_zero_divisions(graph: Graph, inputs: Sequence[Array], samples: str, model: str = "") -> None:
    """Warns of every tensor that a run on ``inputs`` divides by 0, and names the model if one is given."""
    for line in descriptions(zero_divisions(graph, [inputs]), samples):
        warnings.warn(f"{model}: {line}" if model else line, ModelWarning, stacklevel=3)


def _divides_integers(node: Node) -> bool:
    return node.op == "DIV" and node.output.type != "FLOAT32"
