"""The order of steps with the lowest peak: what runs when decides how many tensors hold a value at a time.

A search over sets of steps that have run, the lowest peak first (Dijkstra's algorithm with the maximum in place of the
sum): once in strides, which finds a good order soon, and once step by step for what is lower than that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.lifetimes import Lifetimes
from twinfer.runtime.plan.lower import Lowered
from twinfer.runtime.program import COPY, Step

#: The most steps of a program whose order is looked at.
MOST_STEPS = 400

#: The most steps that a search tries, over all sets of steps that it looks at: half a second.
MOST_TRIED = 25_000


class Order(NamedTuple):
    """Numbers of steps in the order in which they run; ``peak`` is the most bytes that are live at a time."""

    steps: tuple[int, ...]
    peak: int


def reorder(lowered: Lowered, lifetimes: Lifetimes) -> Lowered | None:
    """The same steps in the order with the lowest peak; None if that is no lower than in the file's order.

    Programs that branch or loop keep their order, and so do those of more than ``MOST_STEPS`` steps.
    """
    steps = [part for part in lowered.program if isinstance(part, Step)]
    if len(steps) != len(lowered.program) or len(steps) > MOST_STEPS:
        return None
    if all(not set(step.written).isdisjoint(behind.read) for step, behind in pairwise(steps)):
        return None  # each reads what the one before it writes: there is no other order
    best = lowest(Steps(steps, lifetimes, lowered.flow.graph.outputs))
    if best is None:
        return None
    positions = [step.position for step in steps]
    again = (replace(steps[i], position=position) for i, position in zip(best.steps, positions, strict=True))
    return replace(lowered, program=tuple(again))


class Steps:
    """Steps by number: which must run before which, and the bytes that they take and free.

    Sets of steps are integers with a bit for each. ``outputs`` are the graph's; ``tried`` counts the steps of a search.
    """

    tried = 0

    def __init__(self, steps: Sequence[Step], lifetimes: Lifetimes, outputs: Collection[Tensor]) -> None:
        self.count = len(steps)
        self._steps, outputs = steps, {*outputs}
        self._sizes = {t: t.nbytes for t in lifetimes.lives if t not in lifetimes.state}
        self._reads = [self._tensors(step.read) for step in steps]
        scratch = [{step.scratch} for step in steps]
        self._writes = [self._tensors(step.written) - own for step, own in zip(steps, scratch, strict=True)]
        readers = dict.fromkeys(self._sizes, 0)
        for i, read in enumerate(self._reads):
            for tensor in read:
                readers[tensor] |= 1 << i
        self._readers = {t: mask for t, mask in readers.items() if t not in outputs}  # of all that die
        self.before = self._before(lifetimes.state)
        self.after = [[j for j in range(self.count) if self.before[j] >> i & 1] for i in range(self.count)]
        written = {tensor for tensors in self._writes for tensor in tensors}
        self.live_at_start = sum(size for t, size in self._sizes.items() if readers[t] and t not in written)
        sizes = self._sizes
        self._new = [sum(sizes[t] for t in own if readers[t] or t in outputs) for own in self._writes]
        pairs = zip(self._writes, steps, strict=True)
        self._taken = [sum(sizes[t] for t in own) + _scratch(step) for own, step in pairs]
        self._freed = [self._dying(read) for read in self._reads]
        self._under = [self._dying(_under(step)) for step in steps]
        self._alive = [any(t in outputs for t in read) for read in self._reads]

    def _tensors(self, values: Collection[object] | Iterator[object]) -> set[Tensor]:
        return {value for value in values if isinstance(value, Tensor) and value in self._sizes}

    def _before(self, state: Collection[Tensor]) -> list[int]:
        """For every step the set of those that must have run before it.

        A value is read behind the step that writes it. Steps that work on the state, or on a tensor that several write,
        keep their order.
        """
        before = [0] * self.count
        uses: dict[Tensor, list[tuple[int, bool]]] = {}
        for i, step in enumerate(self._steps):
            written = {*step.written} - {step.scratch}
            for tensor in {value for value in step.touched if isinstance(value, Tensor)} - {step.scratch}:
                uses.setdefault(tensor, []).append((i, tensor in written))
        for tensor, users in uses.items():
            writers = [i for i, writes in users if writes]
            if tensor in state or len(writers) > 1 or (writers and writers[0] != users[0][0]):
                links = list(pairwise([i for i, _ in users]))
            else:
                links = [(writer, i) for writer in writers for i, _ in users if i != writer]
            for first, then in links:
                before[then] |= 1 << first
        return before

    @property
    def least(self) -> int:
        """Bytes that no order needs less than: those of some step's own inputs, outputs and scratch memory."""
        every = (1 << self.count) - 1
        own = (sum(self._sizes[t] for t in self._reads[i]) + self.taken(i, every) for i in range(self.count))
        return max((self.live_at_start, *own))

    def _dying(self, tensors: Iterable[Tensor]) -> list[tuple[int, int]]:
        """Of those tensors that die: who reads them, and their bytes."""
        return [(self._readers[t], self._sizes[t]) for t in tensors if t in self._readers]

    def taken(self, i: int, done: int) -> int:
        """Bytes that step ``i`` needs beside what is live before it: outputs, less one in place, and scratch."""
        left = ~(done | 1 << i)
        return self._taken[i] - max((size for readers, size in self._under[i] if not readers & left), default=0)

    def kept(self, i: int, done: int) -> int:
        """Bytes that are live behind step ``i`` and were not before it, less those that died."""
        left = ~(done | 1 << i)
        return self._new[i] - sum([size for readers, size in self._freed[i] if not readers & left])

    def frees_all(self, i: int, done: int) -> bool:
        """Whether nobody needs what step ``i`` reads any more when it has run."""
        left = ~(done | 1 << i)
        return not self._alive[i] and not any(readers & left for readers, _ in self._freed[i])


def _scratch(step: Step) -> int:
    return 0 if step.scratch is None else step.scratch.nbytes


def _under(step: Step) -> list[Tensor]:
    """Inputs in whose memory the output may be computed."""
    out = next(iter(step.call.written), None)
    places = (0,) if step.call.kernel == COPY else step.call.inplace
    under = [step.call.inputs[place] for place in places]
    return [t for t in under if isinstance(t, Tensor) and out is not None and t.nbytes == out.nbytes]


class _State(NamedTuple):
    """Steps that have run, as a set: what is live behind them, was live at most, and which ones may run next."""

    done: int
    ready: tuple[int, ...]
    live: int
    peak: int
    earlier: _State | None = None
    step: int = -1

    def then(self, i: int, steps: Steps) -> _State:
        """The state behind one more step."""
        steps.tried += 1
        done, peak = self.done | 1 << i, max(self.peak, self.live + steps.taken(i, self.done))
        new = (j for j in steps.after[i] if not steps.before[j] & ~done)
        ready = tuple(sorted({*self.ready, *new} - {i}))
        return _State(done, ready, self.live + steps.kept(i, self.done), peak, self, i)

    @property
    def order(self) -> tuple[int, ...]:
        steps, state = list[int](), self
        while state.earlier is not None:
            steps.append(state.step)
            state = state.earlier
        return tuple(reversed(steps))


#: What leads from a state, by one of the steps that are ready, to a further one.
_Stride = Callable[[_State, int, Steps], _State]


def lowest(steps: Steps) -> Order | None:
    """The order with the lowest peak; None if that of the file is as good.

    It is the lowest of all unless a search would have to try more than ``MOST_TRIED`` steps: then it is the best one
    that is known.
    """
    ready = tuple(i for i in range(steps.count) if not steps.before[i])
    file = begin = _State(0, ready, steps.live_at_start, steps.live_at_start)
    for i in range(steps.count):
        file = file.then(i, steps)
    if file.peak == steps.least:
        return None
    quick = _merged(begin, steps)
    known = quick if quick.peak < file.peak else file
    for stride in (_stride, _State.then):
        steps.tried = 0
        known = _searched(begin, known, steps, stride)
    return Order(known.order, known.peak) if known.peak < file.peak else None


def _searched(begin: _State, known: _State, steps: Steps, stride: _Stride) -> _State:
    """The best last state that strides lead to, ``known`` if there is no better one, or none is found in time."""
    heap, number, seen = [(begin.peak, 0, 0, begin)], 0, set[int]()
    while heap and steps.tried < MOST_TRIED:
        state = heappop(heap)[-1]
        if not state.ready:
            return state
        if state.done in seen:
            continue
        seen.add(state.done)
        for i in state.ready:
            further = stride(state, i, steps)
            if further.done not in seen and further.peak < known.peak:
                number += 1
                heappush(heap, (further.peak, -further.done.bit_count(), number, further))
    return known


def _merged(begin: _State, steps: Steps) -> _State:
    """The last state of a quick order: of all segments the one first whose hill is highest above the valley behind it.

    It is the best one where branches do not touch one another (Liu, "An application of generalized tree pebbling to
    sparse matrix factorization", 1987).
    """
    state = _eased(begin, steps)
    while state.ready:
        every = [_segment(state._replace(peak=state.live), i, steps) for i in state.ready]
        best = max(every, key=lambda further: further.peak - further.live)
        state = _eased(best._replace(peak=max(best.peak, state.peak)), steps)
    return state


def _segment(state: _State, i: int, steps: Steps) -> _State:
    """The state behind step ``i`` and what only it leads to, up to the deepest valley behind the highest hill.

    Nothing is won by running other steps in between, if none of those needs what step ``i`` reads.
    """
    path = [state.then(i, steps)]
    while len(after := steps.after[path[-1].step]) == 1 and after[0] in path[-1].ready:
        path.append(path[-1].then(after[0], steps))
    hill = next(k for k, each in enumerate(path) if each.peak == path[-1].peak)
    return min(reversed(path[hill:]), key=lambda further: further.live)


def _stride(state: _State, i: int, steps: Steps) -> _State:
    """The state behind step ``i``, its segment and all that can only help behind it."""
    return _eased(_alone(state, i, steps), steps)


def _alone(state: _State, i: int, steps: Steps) -> _State:
    """The state behind step ``i``, and the rest of its segment if nobody else needs what it reads."""
    return _segment(state, i, steps) if steps.frees_all(i, state.done) else state.then(i, steps)


def _eased(state: _State, steps: Steps) -> _State:
    """The state behind all segments that need no more than the peak so far, and leave no more live than before."""
    eased = True
    while eased:
        eased = False
        for i in state.ready:
            further = _alone(state, i, steps)
            if further.peak == state.peak and further.live <= state.live:
                state, eased = further, True
                break
    return state
