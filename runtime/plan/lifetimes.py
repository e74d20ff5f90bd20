"""From when to when every tensor keeps its value, and which tensors take over the memory of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.plan.coding import Stored
from twinfer.runtime.program import Step

#: First and last operator over which a tensor keeps its value.
Life = tuple[int, int]


@dataclass(frozen=True)
class Lifetimes:
    """When tensors live, and whose memory they use.

    ``lives`` has all tensors that need memory. ``state`` are those that keep their value from run to run. ``owners``
    gives the tensor whose memory each uses: itself, or an input that dies in the same call.
    """

    lives: Mapping[Tensor, Life]
    state: tuple[Tensor, ...]
    owners: Mapping[Tensor, Tensor]


def lifetimes(graph: Graph, stored: Stored, *, keep: bool) -> Lifetimes:
    """Lives of everything that the steps read and write; with ``keep`` every tensor has memory of its own for ever.

    An output of the graph that nothing writes is in the arena, too. UnsupportedOperatorError for a tensor of 2 GiB.
    """
    state = tuple(dict.fromkeys([*_variables(graph, stored), *_decoded(stored)]))
    lives = _lives(graph, state, stored)
    for tensor in lives:
        if tensor.too_large:
            raise UnsupportedOperatorError(f"graph {graph.name!r}: {tensor} takes 2 GiB or more; split it")
    if keep:
        scratch = {step.scratch for step in stored.steps}
        end = len(stored.steps)
        lives = {tensor: life if tensor in scratch else (-1, end) for tensor, life in lives.items()}
    owners = {t: t for t in lives} if keep else _owners(graph, stored.steps, lives, state)
    return Lifetimes(lives, state, owners)


def _lives(graph: Graph, state: Sequence[Tensor], stored: Stored) -> dict[Tensor, Life]:
    end = len(stored.steps)
    lives: dict[Tensor, Life] = {t: (-1, -1) for t in graph.inputs if t.data is None}
    lives.update((tensor, (-1, -1)) for step in stored.start for tensor in step.written)
    for step in stored.steps:
        for tensor in _touched(step):
            first, _ = lives.get(tensor, (step.position, step.position))
            lives[tensor] = (first, step.position)
    for tensor in graph.outputs:
        if tensor.data is None:
            lives[tensor] = (lives.get(tensor, (end, end))[0], end)
    lives.update((tensor, (-1, end)) for tensor in state)
    return lives


def _touched(step: Step) -> Iterator[Tensor]:
    """The tensors in memory that a step reads or writes."""
    for call in step.calls:
        yield from (value for value in call.read if isinstance(value, Tensor))
        yield from call.written
    if step.scratch is not None:
        yield step.scratch


def _variables(graph: Graph, stored: Stored) -> Iterator[Tensor]:
    """The variables of the graph, and those that operators keep for themselves."""
    yield from (tensor for tensor in graph.tensors if tensor.variable)
    for step in stored.steps:
        yield from (tensor for tensor in _touched(step) if tensor.variable)


def _decoded(stored: Stored) -> Iterator[Tensor]:
    """The weights that are decoded once and read in every run; a decoder's table is not among them."""
    read = {value for step in stored.steps for value in step.read}
    for step in stored.start:
        yield from (tensor for tensor in step.written if tensor in read)


def _owners(
    graph: Graph, steps: Sequence[Step], lives: Mapping[Tensor, Life], state: Sequence[Tensor]
) -> dict[Tensor, Tensor]:
    """Whose memory every tensor uses."""
    owners = {t: t for t in lives}
    kept = {*state, *graph.outputs}
    for step in steps:
        out = next(step.call.written, None)
        if out is None or out in state:
            continue
        for source in _free(step, lives):
            if source not in kept and source.nbytes == out.nbytes:
                owners[out] = owners[source]
                break
    return owners


def _free(step: Step, lives: Mapping[Tensor, Life]) -> Iterator[Tensor]:
    """The inputs that a step may overwrite: it can work in place on them, they die in it, and it reads them once."""
    for position in step.call.inplace:
        source = step.call.inputs[position]
        once = sum(argument is source for argument in step.call.inputs) == 1
        if once and isinstance(source, Tensor) and lives[source][1] == step.position:
            yield source
