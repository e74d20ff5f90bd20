"""Where TFLM should put each tensor: our solver over TFLM's lives, and without what only our own kernels may do.

TFLM counts the moments at which it needs the memory of each tensor through the subgraphs that nodes call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from twinfer.converter.facts import Moves
from twinfer.converter.table import row_of
from twinfer.runtime.control import MOST_CALLS, callees
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, Graph, Tensor, walk
from twinfer.runtime.plan.arena import Block, height, place
from twinfer.runtime.plan.inline import MOST_NODES
from twinfer.runtime.plan.solve.greedy import lowest_fit
from twinfer.runtime.plan.solve.puzzle import Puzzle, aligned

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


#: TFLM aligns tensors to so many bytes, and rounds their sizes up to it.
ALIGNMENT = 16

#: Offsets in the plan are int32.
MOST_BYTES = 1 << 31

#: How many pairs of blocks are compared for the sake of scratch memory: a second or so.
_MOST_PAIRS = 10_000_000


def places_in_tflm(graph: Graph) -> dict[Tensor, int]:
    """Offsets in bytes, multiples of ALIGNMENT, of all tensors that a plan may place.

    Tensors that are in use at the same time share no byte, except that an operator which only changes the shape leaves
    its output where its input was. Tensors that no run touches lie at 0: TFLM reserves memory for them all the same.
    UnsupportedOperatorError for subgraphs that are called too often or too deep, and for 2 GiB.
    """
    lives = {tensor: life for tensor, life in lives_in_tflm(graph).items() if needs_place(tensor)}
    owners, spans = _shared(graph, lives)
    blocks = [Block(aligned(owner.nbytes, ALIGNMENT), *span, ALIGNMENT) for owner, span in spans.items()]
    chosen = _with_room(blocks)
    if height(blocks, chosen) >= MOST_BYTES:
        raise UnsupportedOperatorError(f"graph {graph.name!r}: its tensors need an arena of 2 GiB or more")
    offsets = dict(zip(spans, chosen, strict=True))
    placed = (tensor for each in walk(graph) for tensor in each.tensors if needs_place(tensor))
    return {tensor: offsets[owners[tensor]] if tensor in owners else 0 for tensor in placed}


def bytes_in_tflm(places: Mapping[Tensor, int]) -> int:
    """Bytes of TFLM's arena that placed tensors take; TFLM adds the scratch of kernels, and its own data."""
    return max((at + aligned(tensor.nbytes, ALIGNMENT) for tensor, at in places.items()), default=0)


def _shared(graph: Graph, lives: Mapping[Tensor, Life]) -> tuple[dict[Tensor, Tensor], dict[Tensor, Life]]:
    """The tensor whose memory each one uses, itself or another, and the life of every memory.

    TFLM has no word for kernels that work in place, and those of its ports differ. Operators that only change the shape
    are safe in all of them: RESHAPE asks for it, the others copy every byte onto itself.
    """
    owners, spans = {tensor: tensor for tensor in lives}, dict(lives)
    for node in (node for each in walk(graph) for node in each.nodes):
        if row_of(node).moves is not Moves.RESHAPES or not node.outputs:
            continue
        owner, out = owners.get(node.input(0)), node.output
        if owner is None or out not in lives or owners[out] is not out or out.nbytes != owner.nbytes:
            continue
        if spans[owner][1] == lives[out][0]:
            owners[out] = owner
            spans[owner] = (spans[owner][0], spans.pop(out)[1])
    return owners, spans


def _with_room(blocks: Sequence[Block]) -> list[int]:
    """Offsets of the least height that the solver finds, and of those the ones that leave the most room above.

    Kernels ask TFLM for scratch memory of a size that only they know; it goes to the first gap, or on top of what is in
    use. So every block in turn moves to the front of the order, where that lowers the sum of the tops.
    """
    sizes, spans = [block.size for block in blocks], [(block.first, block.last) for block in blocks]
    fit, start = lowest_fit(Puzzle(sizes, [ALIGNMENT] * len(blocks), spans, {})), place(blocks).offsets
    order = sorted(range(len(blocks)), key=lambda i: (start[i], i))
    best = fit(order)
    least = _cost(blocks, best)
    for i in order[: _MOST_PAIRS // max(1, len(blocks)) ** 2]:
        moved = [i, *(other for other in order if other != i)]
        offsets = fit(moved)
        if (cost := _cost(blocks, offsets)) < least:
            best, least, order = offsets, cost, moved
    return best


def _cost(blocks: Sequence[Block], offsets: Sequence[int]) -> tuple[int, int]:
    """The height, and the sum of the highest bytes in use over all moments at which a kernel runs."""
    tops = np.zeros(max((block.last for block in blocks), default=0) + 1, np.int64)
    for block, at in zip(blocks, offsets, strict=True):
        life = slice(max(block.first, INPUTS), block.last + 1)
        np.maximum(tops[life], at + block.size, out=tops[life])
    return height(blocks, offsets), int(tops[INPUTS + 1 :].sum())
