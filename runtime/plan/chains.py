"""Which layers run by rows: the partition of a program into chains and single steps with the lowest peak.

Every run of consecutive layers is a candidate; what it takes is known from a run through its rows (``rows.py``). The
partition whose most expensive part is cheapest is found by dynamic programming; of all such partitions it is the one
with the fewest layers in chains.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.lifetimes import Lifetimes
from twinfer.runtime.plan.rows import Kept, Over, kept, layer_of
from twinfer.runtime.program import Chain, Layer, Program, Ring, Step

#: The most layers of a chain.
LONGEST = 24

#: Numbers of rows at once that are tried, the best first.
WIDE = (64, 32, 16, 12, 8, 6, 4, 3, 2)


@dataclass(frozen=True)
class Candidate:
    """Consecutive steps as a chain (``layers`` and what they keep), or one by itself; ``cost``: its peak in bytes.

    ``over`` are an output and the input that it may lie over, once for each direction.
    """

    first: int
    end: int
    cost: int
    layers: tuple[Layer, ...] = ()
    kept: Kept | None = None
    over: tuple[Over, ...] = ()


class Candidates:
    """All candidates of a program of steps without control flow. ``ends`` are the graph's outputs."""

    def __init__(self, steps: Sequence[Step], lifetimes: Lifetimes, ends: Collection[Tensor]) -> None:
        self._steps, self._ends = steps, ends
        self._lives = {t: life for t, life in lifetimes.lives.items() if t not in lifetimes.state}
        self._layers = [layer_of(step) for step in steps]
        for i, step in enumerate(steps):
            if any(tensor not in self._lives for tensor in step.touched):
                self._layers[i] = None  # it works on the state

    def whole(self, i: int) -> Candidate:
        """Step ``i`` as it is."""
        step = self._steps[i]
        return Candidate(i, i + 1, self._live(i, i) - self._in_place(step))

    def _live(self, i: int, j: int, without: Collection[Tensor] = ()) -> int:
        """Bytes of the tensors that hold a value at steps ``i`` to ``j``, but for some."""
        low, high = self._steps[i].position, self._steps[j].position
        live = (t for t, (first, last) in self._lives.items() if first <= high and last >= low)
        return sum(tensor.nbytes for tensor in live if tensor not in without)

    def _in_place(self, step: Step) -> int:
        """Bytes saved because output 0 lies on an input that dies."""
        out = next(step.call.written, None)
        inputs = [step.call.inputs[place] for place in step.call.inplace]
        fit = [t for t in inputs if isinstance(t, Tensor) and self._lives.get(t, (0, -1))[1] == step.position]
        return max((t.nbytes for t in fit if out is not None and t.nbytes == out.nbytes), default=0)

    def chain(self, i: int, j: int, band: int = 1) -> Candidate | None:
        """Steps ``i`` to ``j`` as a chain, about ``band`` rows at once; None if they cannot run so."""
        every = [layer for layer in self._layers[i : j + 1] if layer is not None]
        if len(every) != j + 1 - i:
            return None
        layers = tuple(replace(layer, band=_multiple(layer, band)) for layer in every)
        high = self._steps[j].position
        outs = [layer.out for layer in layers]
        used = [tensor for tensor in outs if self._lives[tensor][1] > high or tensor in self._ends]
        sources = {tensor for layer in layers for _, tensor, _ in layer.sources} - set(outs)
        dying = [tensor for tensor in sources if self._lives[tensor][1] <= high]
        keeps = kept(layers, used, dying)
        rings = sum(capacity * _row(layer) for layer in layers if (capacity := keeps.capacity.get(layer.out)))
        scratch = [layer.step.scratch for layer in layers if layer.step.scratch is not None]
        plain = self._live(i, j, {*keeps.capacity, *scratch}) + rings + max((t.nbytes for t in scratch), default=0)
        best = max(keeps.over, key=lambda over: over.saved, default=None)
        if best is None or best.saved <= 0:
            return Candidate(i, j + 1, plain, layers, keeps)
        over = tuple(each for each in keeps.over if (each.over, each.under) == (best.over, best.under))
        return Candidate(i, j + 1, plain - best.saved, layers, keeps, over)

    def widened(self, part: Candidate, peak: int) -> Candidate:
        """The part with as many rows at once as the peak allows: that makes fewer calls."""
        for band in WIDE if part.layers else ():
            wide = self.chain(part.first, part.end - 1, band)
            if wide is not None and wide.cost <= peak:
                return wide
        return part


def _multiple(layer: Layer, band: int) -> int:
    """The most rows up to ``band``, or its own, for which a layer's kernel computes no more lost pixels than usual."""
    return min(layer.band * max(1, band // layer.band), layer.height)


def _row(layer: Layer) -> int:
    """Bytes of a row of a layer's output."""
    return layer.out.nbytes // layer.height


def best_partition(candidates: Candidates, count: int) -> list[Candidate]:
    """The parts, in order, whose greatest cost is least, and of those the ones with the fewest layers in chains."""
    every = [[candidates.whole(i)] for i in range(count)]
    for i in range(count):
        for j in range(i, min(i + LONGEST, count)):
            candidate = candidates.chain(i, j)
            if candidate is None:
                break
            every[i].append(candidate)
    peak = _least_peak(every, count)
    return [candidates.widened(part, peak) for part in _fewest_rows(every, count, peak)]


def _least_peak(every: Sequence[Sequence[Candidate]], count: int) -> int:
    best = [0] + [1 << 62] * count
    for i in range(count):
        for candidate in every[i]:
            best[candidate.end] = min(best[candidate.end], max(best[i], candidate.cost))
    return best[count]


def _fewest_rows(every: Sequence[Sequence[Candidate]], count: int, peak: int) -> list[Candidate]:
    best: list[tuple[int, list[Candidate]] | None] = [(0, [])] + [None] * count
    for i in range(count):
        before = best[i]
        if before is None:
            continue
        for candidate in every[i]:
            if candidate.cost > peak:
                continue
            rows = before[0] + len(candidate.layers)
            seen = best[candidate.end]
            if seen is None or rows < seen[0]:
                best[candidate.end] = (rows, [*before[1], candidate])
    last = best[count]
    return [] if last is None else last[1]


@dataclass(frozen=True)
class Chained:
    """A program with its chains, and which of their outputs may lie over an input."""

    program: Program
    over: tuple[Over, ...] = ()


def chained(program: Program, lifetimes: Lifetimes, ends: Collection[Tensor]) -> Chained:
    """The program whose layers run by rows where that lowers the peak; ``ends`` are the graph's outputs.

    A program with control flow stays as it is.
    """
    steps = tuple(part for part in program if isinstance(part, Step))
    if len(steps) != len(program):
        return Chained(program)
    candidates = Candidates(steps, lifetimes, ends)
    parts = best_partition(candidates, len(steps))
    over = tuple(over for candidate in parts for over in candidate.over)
    return Chained(tuple(_part(candidate, steps) for candidate in parts), over)


def _part(candidate: Candidate, steps: Sequence[Step]) -> Step | Chain:
    """A candidate as a part of a program; the layers of a chain share their scratch memory."""
    if candidate.kept is None:
        return steps[candidate.first]
    scratches = [layer.step.scratch for layer in candidate.layers if layer.step.scratch is not None]
    most = max(scratches, key=lambda tensor: tensor.nbytes, default=None)
    layers = tuple(_sharing(layer, most) for layer in candidate.layers)
    heights = {layer.out: layer.height for layer in layers}
    rings = {
        tensor: Ring(Tensor(f"rows of {tensor.name}", "INT8", (rows * (tensor.nbytes // heights[tensor]),)), rows)
        for tensor, rows in candidate.kept.capacity.items()
    }
    return Chain(layers, rings)


def _sharing(layer: Layer, scratch: Tensor | None) -> Layer:
    return layer if layer.step.scratch is None else replace(layer, step=replace(layer.step, scratch=scratch))
