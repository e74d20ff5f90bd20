"""What a model with control flow and variables means in numpy: the operators' references, subgraph by subgraph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.bench.known.model import Model, over
from twinfer.runtime.graph import Array, Graph, Node, Tensor, walk
from twinfer.runtime.passes.unsigned import signed
from twinfer.runtime.plan.first_values import first_value
from twinfer.runtime.registry import operators

#: The most turns of a loop.
MOST_TURNS = 1_000


class Meaning:
    """A model in numpy. Resource variables keep their values from run to run; others have their first values."""

    def __init__(self, graph: Graph) -> None:
        self._graphs = [signed(each) for each in walk(graph)]
        self._variables: dict[tuple[str, str], Array] = {}
        self._initialised = False

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs of the next run."""
        known, graph = self.values(inputs), self._graphs[0]
        return [known[t] if t.data is None else t.data for t in graph.outputs]

    def values(self, inputs: Sequence[Array]) -> dict[Tensor, Any]:
        """Every value of the main subgraph in the next run."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._values(0, list(inputs))

    def _call(self, index: int, inputs: Sequence[Any]) -> list[Any]:
        known = self._values(index, inputs)
        return [known[t] if t.data is None else t.data for t in self._graphs[index].outputs]

    def _values(self, index: int, inputs: Sequence[Any]) -> dict[Tensor, Any]:
        graph = self._graphs[index]
        known: dict[Tensor, Any] = dict(zip(graph.inputs, inputs, strict=True))
        known |= {t: first_array(t) for t in graph.tensors if t.variable}
        for node in graph.nodes:
            values = [None if t is None else t.data if t.data is not None else known[t] for t in node.inputs]
            known.update(zip(node.outputs, self._node(node, values), strict=True))
        return known

    def _node(self, node: Node, values: list[Any]) -> Sequence[Any]:
        options = node.options
        match node.op:
            case "IF":
                side = "then_subgraph_index" if values[0].reshape(-1)[0] else "else_subgraph_index"
                return self._call(options[side], values[1:])
            case "STABLEHLO_COMPOSITE":
                return self._call(options["decomposition_subgraph_index"], values)
            case "WHILE":
                return self._loop(options["cond_subgraph_index"], options["body_subgraph_index"], values)
            case "CALL_ONCE":
                if not self._initialised:
                    self._initialised = True
                    self._call(options["init_subgraph_index"], [])
                return []
            case "VAR_HANDLE":
                return [(options["container"], options["shared_name"])]
            case "READ_VARIABLE":
                return [self._variables.get(values[0], first_array(node.output))]
            case "ASSIGN_VARIABLE":
                self._variables[values[0]] = values[1].copy()
                return []
        return operators()[node.op].reference(node, values)

    def _loop(self, test: int, body: int, values: list[Any]) -> list[Any]:
        for _ in range(MOST_TURNS):
            if not self._call(test, values)[0].reshape(-1)[0]:
                return values
            values = self._call(body, values)
        raise RuntimeError(f"a loop of more than {MOST_TURNS} turns")


def first_array(variable: Tensor) -> Array:
    """The value of a variable before the first run."""
    return np.full(variable.nbytes, first_value(variable), np.uint8).view(variable.dtype).reshape(variable.shape)


class _Witness(Meaning):
    """Keeps every node that runs, with the values that come in as constants."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.seen: list[Node] = []

    def _node(self, node: Node, values: list[Any]) -> Sequence[Any]:
        pairs = [(t, v) for t, v in zip(node.inputs, values, strict=True) if t is not None and t.data is None]
        held = {t: replace(t, data=v) for t, v in pairs if isinstance(v, np.ndarray) and not t.variable}
        self.seen.append(over(node, held))
        return super()._node(node, values)


def witnessed(model: Model) -> list[Node]:
    """Every node that runs, once for each time, with what it reads as constants; as it is where numpy fails."""
    witness = _Witness(model.graph)
    try:
        for inputs in model.runs:
            witness.run(inputs)
    except Exception:
        return [node for graph in walk(model.graph) for node in graph.nodes]
    return witness.seen
