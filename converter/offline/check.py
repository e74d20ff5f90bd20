"""Whether a memory plan for TFLM is sound. Shares no code with what makes one, except for the lives."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from twinfer.converter.facts import Moves
from twinfer.converter.offline.place import ALIGNMENT, MOST_BYTES, NEVER, lives_in_tflm
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Graph, Node, Tensor, walk


@dataclass(frozen=True)
class _Use:
    """The bytes of a tensor from ``begin`` to ``end``, in use from half moment ``first`` to ``last``."""

    tensor: Tensor
    begin: int
    end: int
    first: float
    last: float


def fault(graph: Graph, places: Mapping[Tensor, int]) -> str:
    """What is wrong with these offsets of tensors in TFLM's arena, "" if nothing is.

    Sound is a plan whose offsets are multiples of ALIGNMENT inside of 2 GiB, where no two tensors share a byte while
    both hold a value. A variable, if it is placed, holds one for ever; a tensor that nobody writes holds none.
    UnsupportedOperatorError for subgraphs that are called too often or too deep.
    """
    for tensor, at in places.items():
        if at < 0 or at + tensor.nbytes > MOST_BYTES:
            return f"{tensor} lies at byte {at}, outside of any arena"
        if at % ALIGNMENT:
            return f"{tensor} lies at byte {at}, which is no multiple of {ALIGNMENT}"
    pair = _clash(_uses(graph, places))
    if pair is None:
        return ""
    return " and ".join(f"{use.tensor} in bytes {use.begin} to {use.end - 1}" for use in pair) + " are in use at once"


def _uses(graph: Graph, places: Mapping[Tensor, int]) -> list[_Use]:
    """What is in use when. A moment has two halves: an operator reads in the first and writes in the second, if it may
    work in place; another one does both in both."""
    lives = lives_in_tflm(graph)
    firsts, lasts = ({t: 2 * life[0] for t, life in lives.items()}, {t: 2 * life[1] + 1 for t, life in lives.items()})
    for node in (node for each in walk(graph) for node in each.nodes if _in_place(node, places)):
        if node.output not in lives:  # of a subgraph that nothing calls
            continue
        now = lives[node.output][0]
        lasts.update((t, 2 * now) for t in node.inputs if t in lives and lives[t][0] < now == lives[t][1])
        firsts.update((t, 2 * now + 1) for t in node.outputs if lives[t][0] == now)
    written = [t for t in places if t.variable or lives.get(t, (NEVER,))[0] != NEVER]
    ends = {t: (-inf, inf) if t.variable else (firsts[t], lasts[t]) for t in written}
    return [_Use(t, places[t], places[t] + t.nbytes, *ends[t]) for t in written]


def _in_place(node: Node, places: Mapping[Tensor, int]) -> bool:
    """Whether a node's outputs may lie on inputs that it reads last: a custom operator's maker knows, and what moves
    nothing may do so at the same offset."""
    if not node.outputs or not node.inputs:
        return False
    source = node.inputs[0]
    same = source is not None and places.get(source, -1) == places.get(node.output, -2)
    return node.op.startswith("CUSTOM:") or (row_of(node).moves is Moves.RESHAPES and same)


def _clash(uses: list[_Use]) -> tuple[_Use, _Use] | None:
    """The first two that share a byte at a time. Those in use at the moment share none, so that only the neighbours of
    a new one can meet it."""
    events = [(use.first, 1, i) for i, use in enumerate(uses)] + [(use.last, 2, i) for i, use in enumerate(uses)]
    now: list[tuple[int, int]] = []
    for _, kind, i in sorted(events):
        at = bisect_left(now, (uses[i].begin, i))
        if kind == 2:
            del now[at]
            continue
        for _, j in now[max(at - 1, 0) : at + 1]:
            if uses[j].begin < uses[i].end and uses[i].begin < uses[j].end:
                return uses[j], uses[i]
        now.insert(at, (uses[i].begin, i))
    return None
