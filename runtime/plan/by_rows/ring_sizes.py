"""What a chain keeps: how many rows of every tensor there must be room for, and how far outputs may lie over inputs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.by_rows.schedule import ChainRun, Link


class Over(NamedTuple):
    """Tensor ``over`` is computed row by row from ``under``, which dies: it may lie over it.

    It must begin at least ``distance`` bytes below or, if computed ``backwards``, end so far above.
    """

    over: Tensor
    under: Tensor
    distance: int
    backwards: bool = False

    @property
    def saved(self) -> int:
        """Bytes that both need less than side by side."""
        return self.over.nbytes + self.under.nbytes - max(self.under.nbytes + self.distance, self.over.nbytes)


class Room(NamedTuple):
    """For how many rows of a tensor there is room, how many of them stay when it is full, and how often it is full."""

    capacity: int
    kept: int
    moves: int


class Kept(NamedTuple):
    """What a chain must keep.

    ``rooms``: of every tensor between its layers. ``over``: every pair of an output and an input that dies. Of every
    link, ``calls`` says how many parts are computed, ``computed`` how many rows.
    """

    rooms: dict[Tensor, Room]
    over: tuple[Over, ...]
    calls: tuple[int, ...]
    computed: tuple[int, ...]


def kept(layers: Sequence[Link], ends: Collection[Tensor], dying: Collection[Tensor]) -> Kept:
    """What a chain of these layers keeps; ``ends`` are used outside, ``dying`` are inputs that nobody needs later."""
    run = ChainRun(layers, ends)
    spans: dict[Tensor, list[tuple[int, int, int]]] = {layer.out: [] for layer in layers if layer.out not in ends}
    whole = [layer.out for layer in layers if layer.out in ends]
    distance = {(under, over): 0 for under in dying for over in whole}
    height = {tensor: height for layer in layers for _, tensor, height in layer.sources}
    calls = [0] * len(layers)
    for part in run.parts():
        calls[part.link] += 1
        layer = layers[part.link]
        out = layer.out
        if out in spans:
            spans[out].append((min(run.low(out), part.first), part.first, part.end))
        for under in dying:
            if (under, out) in distance:
                written = out.nbytes if part.end == layer.height else part.end * layer.row_bytes
                read = min(run.low(under), height[under]) * (under.nbytes // height[under])
                distance[under, out] = max(distance[under, out], written - read)
    over = [Over(over, under, apart) for (under, over), apart in distance.items()]
    if len(layers) == 1:
        over += [_backwards(layers[0], under) for under in dying]
    rooms = {tensor: _room(of_parts) for tensor, of_parts in spans.items()}
    return Kept(rooms, tuple(over), tuple(calls), tuple(run.done))


def _room(spans: Sequence[tuple[int, int, int]]) -> Room:
    """The least room for a tensor, and the fewest rows that stay there.

    For every part of it ``spans`` say the first row still needed, the first one computed and the end of these.
    """
    capacity = max((end - low for low, _, end in spans), default=1)
    while True:
        for kept in range(capacity):
            moves = _moves(spans, capacity, kept)
            if moves is not None:
                return Room(capacity, kept, moves)
        capacity += 1


def _moves(spans: Sequence[tuple[int, int, int]], capacity: int, kept: int) -> int | None:
    """How often a room is full of which so many rows stay; None if that loses rows or leaves no room."""
    base, moves = 0, 0
    for low, first, end in spans:
        if end - base > capacity:
            if first - low > kept or end - first + kept > capacity:
                return None
            base, moves = first - kept, moves + 1
    return moves


def _backwards(layer: Link, under: Tensor) -> Over:
    """How far a layer's output must end above an input, if it is computed from the last row to the first."""
    out, distance = layer.out, 0
    height = next(height for _, tensor, height in layer.sources if tensor is under)
    for end in range(layer.height, 0, -layer.band):
        first = max(0, end - layer.band)
        written = (layer.height - first) * layer.row_bytes
        read = (height - layer.rows.needed(first, end, height)[1]) * (under.nbytes // height)
        distance = max(distance, written - read)
    return Over(out, under, distance, backwards=True)
