"""Which layers run by rows: the partition of a program into streams and single steps with the lowest peak.

Every run of consecutive layers is a candidate; what it takes is known from a walk through its rows (``rows.py``). The
partition whose most expensive part is cheapest is found by dynamic programming; of all such partitions it is the one
with the fewest layers in streams.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.lifetimes import Lifetimes
from twinfer.runtime.plan.rows import Kept, Over, kept, layer_of
from twinfer.runtime.program import Layer, Program, Ring, Step, Stream

#: The most layers of a stream.
LONGEST = 24


@dataclass(frozen=True)
class Chain:
    """Consecutive steps as a stream (``layers`` and what they keep), or one by itself; ``cost``: its peak in bytes."""

    first: int
    end: int
    cost: int
    layers: tuple[Layer, ...] = ()
    kept: Kept | None = None
    over: tuple[Over, ...] = ()


class Chains:
    """All candidates of a program of steps without control flow. ``ends`` are the graph's outputs."""

    def __init__(self, steps: Sequence[Step], lifetimes: Lifetimes, ends: Collection[Tensor]) -> None:
        self._steps, self._ends = steps, ends
        self._lives = {t: life for t, life in lifetimes.lives.items() if t not in lifetimes.state}
        self._layers = [layer_of(step) for step in steps]
        for i, step in enumerate(steps):
            if any(tensor not in self._lives for tensor in step.touched):
                self._layers[i] = None  # it works on the state

    def whole(self, i: int) -> Chain:
        """Step ``i`` as it is."""
        step = self._steps[i]
        return Chain(i, i + 1, self._live(i, i) - self._in_place(step))

    def _live(self, i: int, j: int) -> int:
        """Bytes of the tensors that hold a value at steps ``i`` to ``j``."""
        low, high = self._steps[i].position, self._steps[j].position
        return sum(t.nbytes for t, (first, last) in self._lives.items() if first <= high and last >= low)

    def _in_place(self, step: Step) -> int:
        """Bytes saved because output 0 lies on an input that dies."""
        out = next(step.call.written, None)
        inputs = [step.call.inputs[place] for place in step.call.inplace]
        fit = [t for t in inputs if isinstance(t, Tensor) and self._lives.get(t, (0, -1))[1] == step.position]
        return max((t.nbytes for t in fit if out is not None and t.nbytes == out.nbytes), default=0)

    def stream(self, i: int, j: int) -> Chain | None:
        """Steps ``i`` to ``j`` as a stream; None if they cannot run so."""
        layers = tuple(layer for layer in self._layers[i : j + 1] if layer is not None)
        if len(layers) != j + 1 - i:
            return None
        low, high = self._steps[i].position, self._steps[j].position
        outs = [layer.out for layer in layers]
        used = [tensor for tensor in outs if self._lives[tensor][1] > high or tensor in self._ends]
        sources = {tensor for layer in layers for _, tensor, _ in layer.sources} - set(outs)
        dying = [tensor for tensor in sources if self._lives[tensor][1] <= high]
        keeps = kept(layers, used, dying)
        rings = sum(capacity * _row(layer) for layer in layers if (capacity := keeps.capacity.get(layer.out)))
        scratch = [layer.step.scratch for layer in layers if layer.step.scratch is not None]
        inner = {*keeps.capacity, *scratch}
        whole = sum(
            t.nbytes for t, (first, last) in self._lives.items() if first <= high and last >= low and t not in inner
        )
        plain = whole + rings + max((t.nbytes for t in scratch), default=0)
        over = tuple(each for each in keeps.over if each.saved > 0)
        saved = max((each.saved for each in over), default=0)
        return Chain(i, j + 1, plain - saved, layers, keeps, over)


def _row(layer: Layer) -> int:
    """Bytes of a row of a layer's output."""
    return layer.out.nbytes // layer.height


def best_partition(chains: Chains, count: int) -> list[Chain]:
    """The parts, in order, whose greatest cost is least, and of those the ones with the fewest layers in streams."""
    every = [[chains.whole(i)] for i in range(count)]
    for i in range(count):
        for j in range(i, min(i + LONGEST, count)):
            chain = chains.stream(i, j)
            if chain is None:
                break
            every[i].append(chain)
    peak = _least_peak(every, count)
    return _fewest_rows(every, count, peak)


def _least_peak(every: Sequence[Sequence[Chain]], count: int) -> int:
    best = [0] + [1 << 62] * count
    for i in range(count):
        for chain in every[i]:
            best[chain.end] = min(best[chain.end], max(best[i], chain.cost))
    return best[count]


def _fewest_rows(every: Sequence[Sequence[Chain]], count: int, peak: int) -> list[Chain]:
    best: list[tuple[int, list[Chain]] | None] = [(0, [])] + [None] * count
    for i in range(count):
        before = best[i]
        if before is None:
            continue
        for chain in every[i]:
            if chain.cost > peak:
                continue
            rows = before[0] + len(chain.layers)
            seen = best[chain.end]
            if seen is None or rows < seen[0]:
                best[chain.end] = (rows, [*before[1], chain])
    last = best[count]
    return [] if last is None else last[1]


@dataclass(frozen=True)
class Streamed:
    """A program with its streams, and which of their outputs may lie over an input."""

    program: Program
    over: tuple[Over, ...] = ()


def streamed(program: Program, lifetimes: Lifetimes, ends: Collection[Tensor]) -> Streamed:
    """The program whose layers run by rows where that lowers the peak; ``ends`` are the graph's outputs.

    A program with control flow stays as it is.
    """
    steps = tuple(part for part in program if isinstance(part, Step))
    if len(steps) != len(program):
        return Streamed(program)
    chains = Chains(steps, lifetimes, ends)
    parts = best_partition(chains, len(steps))
    over = tuple(over for chain in parts for over in chain.over)
    return Streamed(tuple(_part(chain, steps) for chain in parts), over)


def _part(chain: Chain, steps: Sequence[Step]) -> Step | Stream:
    """A chain as a part of a program; the layers of a stream share their scratch memory."""
    if chain.kept is None:
        return steps[chain.first]
    scratches = [layer.step.scratch for layer in chain.layers if layer.step.scratch is not None]
    most = max(scratches, key=lambda tensor: tensor.nbytes, default=None)
    layers = tuple(_sharing(layer, most) for layer in chain.layers)
    heights = {layer.out: layer.height for layer in layers}
    rings = {
        tensor: Ring(Tensor(f"rows of {tensor.name}", "INT8", (rows * (tensor.nbytes // heights[tensor]),)), rows)
        for tensor, rows in chain.kept.capacity.items()
    }
    return Stream(layers, rings)


def _sharing(layer: Layer, scratch: Tensor | None) -> Layer:
    return layer if layer.step.scratch is None else replace(layer, step=replace(layer.step, scratch=scratch))
