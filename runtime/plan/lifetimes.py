"""From when to when every tensor keeps its value, and which tensors take over the memory of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.lower import Lowered
from twinfer.runtime.plan.sharing import Life, loops_of, owners
from twinfer.runtime.program import Chain
from twinfer.runtime.walks import uses_of


class Lifetimes(NamedTuple):
    """When tensors live, and whose memory they use.

    ``lives`` has all tensors that need memory. ``state`` are those that keep their value from run to run. ``owners``
    gives the tensor whose memory each uses: itself or another one. ``borrowed`` is the input that lies with the caller.
    """

    lives: Mapping[Tensor, Life]
    state: tuple[Tensor, ...]
    owners: Mapping[Tensor, Tensor]
    borrowed: Tensor | None = None


def lifetimes(lowered: Lowered, options: Options) -> Lifetimes:
    """Lives of everything that the steps read and write; if all are preserved each has memory of its own for ever.

    Without placement tensors live for ever, too, but for scratch memory; without memory in place each has its own.
    An output of the graph that nothing writes is in the arena, too. UnsupportedOperatorError for a tensor of 2 GiB.
    """
    graph = lowered.flow.graph
    state = tuple(dict.fromkeys([*_variables(graph, lowered), *_decoded(lowered)]))
    lives = _lives(graph, state, lowered)
    for tensor in lives:
        if tensor.too_large:
            raise UnsupportedOperatorError(f"graph {graph.name!r}: {tensor} takes 2 GiB or more; split it")
    alone = options.preserve_all or "in_place" in options.without
    ends = {*graph.inputs, *graph.outputs}
    shared = {t: t for t in lives} if alone else owners(lowered.program, lives, state, ends)
    if options.preserve_all or "placement" in options.without:
        scratch = {step.scratch for step in lowered.steps}
        always = (-1, _end(lowered))
        lives = {tensor: life if tensor in scratch else always for tensor, life in lives.items()}
    return Lifetimes(lives, state, shared, lowered.borrowed)


def _end(lowered: Lowered) -> int:
    """The number of operators: the position behind all."""
    return max((step.position for step in lowered.steps), default=-1) + 1


def _lives(graph: Graph, state: tuple[Tensor, ...], lowered: Lowered) -> dict[Tensor, Life]:
    end = _end(lowered)
    rings = {tensor for part in lowered.program if isinstance(part, Chain) for tensor in part.rings}
    lives: dict[Tensor, Life] = {t: (-1, -1) for t in graph.inputs if t.data is None and t not in rings}
    lives.update((tensor, (-1, -1)) for step in lowered.start for tensor in step.written)
    for position, tensor in uses_of(lowered.program):
        first, last = lives.get(tensor, (position, position))
        lives[tensor] = (first, max(last, position))
    for begin, last in loops_of(lowered.program):
        through = [tensor for tensor, (first, latest) in lives.items() if first < begin <= latest]
        lives.update((tensor, (lives[tensor][0], max(lives[tensor][1], last))) for tensor in through)
    for tensor in graph.outputs:
        if tensor.data is None:
            lives[tensor] = (lives.get(tensor, (end, end))[0], end)
    lives.update((tensor, (-1, end)) for tensor in (*state, *([lowered.borrowed] if lowered.borrowed else [])))
    return lives


def _variables(graph: Graph, lowered: Lowered) -> Iterator[Tensor]:
    """The variables of the graph, inputs that a step writes, and those that operators keep for themselves."""
    yield from (tensor for tensor in graph.tensors if tensor.variable)
    written = {tensor for step in lowered.steps for tensor in step.written}
    yield from (tensor for tensor in graph.inputs if tensor in written)
    for step in (*lowered.start, *lowered.steps):
        yield from (tensor for tensor in step.touched if tensor.variable)


def _decoded(lowered: Lowered) -> Iterator[Tensor]:
    """The weights that are decoded once and read in every run; a decoder's table is not among them."""
    read = {value for step in lowered.steps for value in step.read}
    for step in lowered.start:
        yield from (tensor for tensor in step.written if tensor in read)
