"""The memory of a program: layer by layer or, where that needs less, row by row, as the options ask for it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from twinfer.runtime.errors import InvalidArgumentError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.lifetimes import Lifetimes, lifetimes
from twinfer.runtime.plan.lower import Lowered
from twinfer.runtime.plan.order import reordered
from twinfer.runtime.plan.placement import Problem, Solution, problem, solved
from twinfer.runtime.plan.plan import Region
from twinfer.runtime.program import Chain, Part, Step
from twinfer.runtime.target import Target

if TYPE_CHECKING:
    from twinfer.runtime.plan.by_rows.chains import Partitions
    from twinfer.runtime.plan.by_rows.kept import Over

#: The most that rows may cost by themselves, as a share of the instructions of a plan layer by layer.
SHARE = 0.05

#: How many times as large as a placed plan its peak may be: the most that is tried.
MARGIN = 2


class Memory(NamedTuple):
    """A program, when its tensors live, and where they lie.

    ``over`` says which rows may lie over others, ``extra`` about how many more instructions rows take than layers.
    """

    stored: Lowered
    lives: Lifetimes
    task: Problem
    solution: Solution
    over: Sequence[Over] = ()
    extra: float = 0.0

    @property
    def arena_bytes(self) -> int:
        return sum(extent.nbytes for region, extent in self.solution.regions.items() if region.kind == "arena")

    @property
    def nbytes(self) -> int:
        """Bytes of arena and state."""
        return max(extent.end for region, extent in self.solution.regions.items() if region != Region.INPUT)


def placed(graph: Graph, stored: Lowered, target: Target, options: Options) -> Memory:
    """The memory of a program, by layers or by rows.

    UnsupportedOperatorError if nothing fits into ``options.ram`` or the target's banks, InvalidArgumentError if the
    options want the input by rows and it has none, or in place and it cannot be.
    """
    if options.input_in_place:
        stored = replace(stored, borrowed=_borrowed(graph, stored))
    orders = [_Planner(graph, each, lives, target, options) for each, lives in _orders(graph, stored, options)]
    planner = min(orders, key=lambda order: max(order.memory.nbytes, options.ram))
    memory = _turned(_in_banks(planner.ways(), graph, target) if target.banks else planner.memory)
    if options.ram and memory.nbytes > options.ram:
        raise UnsupportedOperatorError(_too_large(graph, memory, options))
    return memory


def _borrowed(graph: Graph, stored: Lowered) -> Tensor:
    """The input that is read where the caller has it. InvalidArgumentError says why there is none."""
    inputs = [tensor for tensor in graph.inputs if tensor.data is None]
    if len(inputs) != 1:
        raise InvalidArgumentError(f"{graph.name!r} has {len(inputs)} inputs: one alone can be read in place")
    (source,) = inputs
    changed = source.variable or any(source in step.written for step in stored.steps)
    why = {"it has no bytes": not source.nbytes, "it is an output, too": source in graph.outputs}
    for reason in (reason for reason, true in {**why, "the model writes it": changed}.items() if true):
        raise InvalidArgumentError(f"{source} cannot be read in place: {reason}")
    return source


def _orders(graph: Graph, stored: Lowered, options: Options) -> Iterator[tuple[Lowered, Lifetimes]]:
    """The program in the file's order and, if that has a lower peak, in another one; and when its tensors live."""
    every = [(stored, lifetimes(graph, stored, options))]
    if not (options.preserve_all or options.guard or "placement" in options.without):
        again = reordered(*every[0], graph.outputs)
        every += [(again, lifetimes(graph, again, options))] if again else []
    if options.input_rows:
        fed = [_fed(graph, each) for each, _ in every]
        every = [(each, lifetimes(graph, each, options)) for each in fed]
    return iter(every)


def _in_banks(ways: Iterable[Memory], graph: Graph, target: Target) -> Memory:
    """The first of these that fits into the target's banks, split over them; the error about the first if none does."""
    from twinfer.runtime.plan.regions import banks

    refused: list[UnsupportedOperatorError] = []
    for memory in ways:
        try:
            solution = banks.solved(memory.task, memory.stored, graph, memory.solution, target.banks)
        except UnsupportedOperatorError as error:
            refused.append(error)
        else:
            return memory._replace(solution=solution)
    raise refused[0]


def _fed(graph: Graph, stored: Lowered) -> Lowered:
    """The same program behind rows of the input, which the caller gives."""
    from twinfer.runtime.plan.by_rows.chains import progress_of
    from twinfer.runtime.plan.by_rows.rows import feed_of

    whole = Chain((), {}, feed=feed_of(graph, stored.program), progress=progress_of(1))
    return replace(stored, program=(whole, *stored.program))


class _Planner:
    """The plans of one program."""

    def __init__(self, graph: Graph, stored: Lowered, lives: Lifetimes, target: Target, options: Options) -> None:
        self._graph, self._stored, self._target, self._options = graph, stored, target, options
        self._lives = lives
        self._whole = self._solved(stored, self._lives)

    @cached_property
    def memory(self) -> Memory:
        """What the options ask for."""
        options = self._options
        if not self._may_stream:
            return self._whole
        if options.memory == "rows":
            return self._least()
        if options.ram:
            return self._fitting(options.ram)
        return self._by_rows(self._cheap()) if self._target.flash_is_dear else self._whole

    def ways(self) -> Iterator[Memory]:
        """What the options ask for; then, if they leave that open, what else could fit: by layers, all by rows."""
        yield self.memory
        if self._may_stream and self._options.memory == "auto":
            yield self._whole
            yield self._least()

    @property
    def _may_stream(self) -> bool:
        options = self._options
        by_layers = options.memory == "layers" or options.preserve_all or options.guard
        by_layers = by_layers or not options.without.isdisjoint(("in_place", "placement"))
        used = {*self._graph.outputs, *(value for step in self._stored.steps for value in step.read)}
        by_layers = by_layers or any(used.isdisjoint(step.call.written) for step in self._stored.steps)
        return not by_layers and all(isinstance(part, Step | Chain) for part in self._stored.program)

    @cached_property
    def _partitions(self) -> Partitions:
        from twinfer.runtime.plan.by_rows.chains import Partitions  # most plans of a computer need none

        return Partitions(self._stored.program, self._lives, self._graph.outputs, self._target)

    def _least(self) -> Memory:
        """The smallest one by rows: chains that are as narrow as they may be sometimes fit together better."""
        peak = self._partitions.peaks[0]
        return min((self._by_rows(peak, wide=wide) for wide in (True, False)), key=lambda memory: memory.arena_bytes)

    def _by_rows(self, peak: int, *, wide: bool = True) -> Memory:
        """By rows as far as the peak asks for it, if the arena gets smaller."""
        rows = self._partitions.within(peak, wide=wide)
        stored = replace(self._stored, program=rows.program)
        lives = lifetimes(self._graph, stored, self._options)
        memory = self._solved(stored, lives, rows.over)._replace(extra=rows.extra)
        return self._whole if self._whole.arena_bytes <= memory.arena_bytes else memory

    def _cheap(self) -> int:
        """The least peak at which rows cost no more than they may."""
        from twinfer.runtime.plan.by_rows.price import instructions

        most = SHARE * instructions(self._stored.steps, self._target)
        peaks = self._partitions.peaks
        enough = bisect_left(peaks, True, key=lambda peak: self._partitions.within(peak).extra <= most)
        return peaks[min(enough, len(peaks) - 1)]

    def _fitting(self, ram: int) -> Memory:
        """The cheapest plan that fits; the smallest if none does.

        A placed plan may be larger than its peak, or smaller, and a greater peak may cost more than a smaller one.
        """
        if self._whole.nbytes <= ram:
            return self._whole
        peaks = self._partitions.peaks
        plans = map(self._by_rows, peaks[: bisect_right(peaks, MARGIN * ram)])
        fit = [memory for memory in plans if memory.nbytes <= ram]
        return min(fit, key=lambda memory: memory.extra) if fit else self._least()

    def _solved(self, stored: Lowered, lives: Lifetimes, over: Sequence[Over] = ()) -> Memory:
        task = problem(lives, self._target, over)
        return Memory(stored, lives, task, solved(task, self._graph.name), over)


def _turned(memory: Memory) -> Memory:
    """The same where layers go backwards whose outputs lie so that they must, and lone ones are whole that may be."""
    regions, places = memory.solution.regions, memory.solution.places
    at = {tensor: regions[place.region].offset + place.offset for tensor, place in places.items()}

    def must(each: Over) -> bool:
        over, under = at[each.over], at[each.under]
        apart = over >= under + each.under.nbytes or under >= over + each.over.nbytes
        return not each.backwards and not apart and over > under - each.distance

    def whole(part: Chain) -> Step | Chain:
        """A lone layer as a step, where it may compute all rows at once over its input."""
        if len(part.links) != 1 or not part.layers:
            return part
        (layer,) = part.layers
        below = at[layer.sources[0][1]] - at[layer.out]
        return layer.step if layer.rows.planes and below % layer.rows.planes == 0 else part

    def turned(part: Part) -> Part:
        if not isinstance(part, Chain):
            return part
        return replace(part, backwards=True) if part.links[-1].out in back else whole(part)

    back = {each.over for each in memory.over if must(each)}
    program = tuple(map(turned, memory.stored.program))
    return memory._replace(stored=replace(memory.stored, program=program))


def _too_large(graph: Graph, memory: Memory, options: Options) -> str:
    """The message about a model that does not fit, and what forces that."""
    at = memory.task.forced_at
    names = {step.position: str(step.node) for step in memory.stored.steps}
    advice = "take memory='rows' or 'auto'" if options.memory == "layers" else "give its input by rows, or change it"
    return (
        f"graph {graph.name!r} needs {memory.nbytes:,} bytes of RAM, {memory.nbytes - options.ram:,} more than "
        f"ram={options.ram:,}; {names.get(at, 'its input')} forces that with {memory.task.lower_bound:,} bytes: "
        f"{advice}"
    )
