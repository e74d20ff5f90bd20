"""When TFLM needs the memory of each tensor, by TFLM's own count, which goes through the subgraphs that nodes call."""

from __future__ import annotations

from collections.abc import Iterable

from twinfer.runtime.control import MOST_CALLS, callees
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, Graph, Tensor, walk
from twinfer.runtime.plan.inline import MOST_NODES

#: First and last moment at which a tensor's memory is in use, both included.
Life = tuple[int, int]

#: The moment at which the caller writes the inputs.
INPUTS = 0

#: The first moment of a tensor that is read, but written by nobody.
NEVER = -1


def takes_memory(tensor: Tensor) -> bool:
    """Whether TFLM needs memory for a tensor, and how much is known: not for constants, handles and packed types."""
    return tensor.data is None and tensor.type in DTYPES and tensor.size > 0


def needs_place(tensor: Tensor) -> bool:
    """Whether a plan should say where TFLM puts a tensor. Variables have memory apart, for TFLM would use their bytes
    for other tensors between two runs."""
    return takes_memory(tensor) and not tensor.variable


def lives_in_tflm(graph: Graph) -> dict[Tensor, Life]:
    """The lives of all tensors that a run of TFLM touches, those of called subgraphs among them.

    Every operator is a moment, and so are begin and end of every call of a subgraph, where values are copied. A tensor
    of a subgraph that is called several times lives from the first call to the last. UnsupportedOperatorError if calls
    are nested too deep, or are too many.
    """
    clock = _Clock(graph)
    clock.run(clock.graphs[0], 0)
    return clock.lives


class _Clock:
    def __init__(self, graph: Graph) -> None:
        self.graphs = list(walk(graph))
        self.lives: dict[Tensor, Life] = {}
        self.now = INPUTS

    def run(self, graph: Graph, depth: int) -> None:
        """Note the lives over one call of a subgraph."""
        self.touch(graph.inputs)
        for node in graph.nodes:
            self.now += 1
            self.touch(node.outputs)
            for index in callees(node):
                self.call(index, depth + 1)
            self.touch((tensor for tensor in node.inputs if tensor is not None), NEVER)
            self.touch(node.outputs)
        self.now += 1
        self.touch(graph.outputs)

    def call(self, index: int, depth: int) -> None:
        self.now += 1
        if depth > MOST_CALLS or self.now > MOST_NODES:
            raise UnsupportedOperatorError(
                f"graph {self.graphs[0].name!r}: no memory plan for TFLM: calls of subgraphs are nested more than "
                f"{MOST_CALLS} deep, or come to more than {MOST_NODES} operators; call subgraphs less often"
            )
        if 0 < index < len(self.graphs):
            self.run(self.graphs[index], depth)

    def touch(self, tensors: Iterable[Tensor], first: int | None = None) -> None:
        """The tensors are in use now; those that were not yet live from ``first`` on (None: from now on)."""
        for tensor in tensors:
            begun = self.now if first is None else first
            self.lives[tensor] = (self.lives.get(tensor, (begun, begun))[0], self.now)
