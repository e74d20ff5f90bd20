"""The memory of a program: layer by layer or, where that needs less, row by row, as the options ask for it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from twinfer.runtime.errors import InvalidArgumentError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.lifetimes import Lifetimes, lifetimes
from twinfer.runtime.plan.lower import Lowered
from twinfer.runtime.plan.order import reorder
from twinfer.runtime.plan.placement import Problem, Solution, problem, solve
from twinfer.runtime.plan.plan import Region
from twinfer.runtime.program import Chain, Part, Program, Step
from twinfer.runtime.target import Target

if TYPE_CHECKING:
    from twinfer.runtime.plan.by_rows.chains import Partitions
    from twinfer.runtime.plan.by_rows.ring_sizes import Over

#: The most that rows may cost by themselves, as a share of the instructions of a plan layer by layer.
SHARE = 0.05

#: How many times as large as a placed plan its peak may be: the most that is tried.
MARGIN = 2


class Memory(NamedTuple):
    """A program, when its tensors live, and where they lie.

    ``over`` says which rows may lie over others, ``extra`` about how many more instructions rows take than layers.
    """

    lowered: Lowered
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


def place(lowered: Lowered, target: Target, options: Options) -> Memory:
    """The memory of a program, by layers or by rows.

    UnsupportedOperatorError if nothing fits into ``options.ram`` or the target's banks, InvalidArgumentError if the
    options want the input by rows and it has none, or in place and it cannot be.
    """
    if options.input_in_place:
        lowered = replace(lowered, borrowed=_borrowed(lowered))
    planners = [_Planner(each, lives, target, options) for each, lives in _orders(lowered, options)]
    planner = min(planners, key=lambda each: max(each.memory.nbytes, options.ram))
    memory = _with_directions(_in_banks(planner, target) if target.banks else planner.memory)
    if options.ram and memory.nbytes > options.ram:
        raise UnsupportedOperatorError(_too_large(memory, options))
    return memory


def _borrowed(lowered: Lowered) -> Tensor:
    """The input that is read where the caller has it. InvalidArgumentError says why there is none."""
    graph = lowered.flow.graph
    inputs = [tensor for tensor in graph.inputs if tensor.data is None]
    if len(inputs) != 1:
        raise InvalidArgumentError(f"{graph.name!r} has {len(inputs)} inputs: one alone can be read in place")
    (source,) = inputs
    why = ""
    if not source.nbytes:
        why = "it has no bytes"
    elif source in graph.outputs:
        why = "it is an output, too"
    elif source.variable or any(source in step.written for step in lowered.steps):
        why = "the model writes it"
    if why:
        raise InvalidArgumentError(f"{source} cannot be read in place: {why}")
    return source


def _orders(lowered: Lowered, options: Options) -> list[tuple[Lowered, Lifetimes]]:
    """The program in the file's order and, if that has a lower peak, in another one; and when its tensors live."""
    lives = lifetimes(lowered, options)
    orders = [(lowered, lives)]
    if not (options.preserve_all or options.guard or "placement" in options.without):
        again = reorder(lowered, lives)
        orders += [(again, lifetimes(again, options))] if again else []
    if options.input_rows:
        fed = [_fed(each) for each, _ in orders]
        orders = [(each, lifetimes(each, options)) for each in fed]
    return orders


def _fed(lowered: Lowered) -> Lowered:
    """The same program behind rows of the input, which the caller gives."""
    from twinfer.runtime.plan.by_rows.chains import progress_of
    from twinfer.runtime.plan.by_rows.schedule import feed_of

    whole = Chain((), {}, feed=feed_of(lowered.flow.graph, lowered.program), progress=progress_of(1))
    return replace(lowered, program=(whole, *lowered.program))


def _in_banks(planner: _Planner, target: Target) -> Memory:
    """The first of the planner's that fits into the target's banks, split over them; else the error about the first."""
    from twinfer.runtime.plan.regions import banks

    refused: list[UnsupportedOperatorError] = []
    for memory in planner.every():
        try:
            solution = banks.solve(memory.task, memory.lowered, memory.solution, target.banks)
            return memory._replace(solution=solution)
        except UnsupportedOperatorError as error:
            refused.append(error)
    raise refused[0]


class _Planner:
    """The plans of one program."""

    def __init__(self, lowered: Lowered, lives: Lifetimes, target: Target, options: Options) -> None:
        self._lowered, self._lives, self._target, self._options = lowered, lives, target, options
        self._whole = self._solve(lowered, lives)

    @cached_property
    def memory(self) -> Memory:
        """What the options ask for."""
        options = self._options
        wanted = options.memory == "rows" or options.ram or self._target.flash_is_dear
        if not wanted or not self._may_stream:
            return self._whole
        if options.memory == "rows":
            return self._least()
        if options.ram:
            return self._fitting(options.ram)
        return self._by_rows(self._cheap())

    def every(self) -> Iterator[Memory]:
        """What the options ask for; then, if they leave that open, what else could fit: by layers, all by rows."""
        yield self.memory
        if self._may_stream and self._options.memory == "auto":
            yield self._whole
            yield self._least()

    @property
    def _may_stream(self) -> bool:
        options = self._options
        by_layers = options.memory == "layers" or options.preserve_all or options.guard
        by_layers = by_layers or (options.threads > 1 and options.memory == "auto")
        by_layers = by_layers or not options.without.isdisjoint(("in_place", "placement"))
        if by_layers or not all(isinstance(part, Step | Chain) for part in self._lowered.program):
            return False
        # A step whose outputs nobody reads has no row that anybody asks for. Of 424 models one has such steps.
        steps = self._lowered.steps
        used = {*self._lowered.flow.graph.outputs, *(value for step in steps for value in step.read)}
        return not any(used.isdisjoint(step.call.written) for step in steps)

    @cached_property
    def _partitions(self) -> Partitions:
        from twinfer.runtime.plan.by_rows.chains import Partitions  # most plans of a computer need none

        return Partitions(self._lowered.program, self._lives, self._lowered.flow.graph.outputs, self._target)

    def _least(self) -> Memory:
        """The smallest one by rows: chains that are as narrow as they may be sometimes fit together better."""
        peak = self._partitions.peaks[0]
        return min((self._by_rows(peak, wide=wide) for wide in (True, False)), key=lambda memory: memory.arena_bytes)

    def _by_rows(self, peak: int, *, wide: bool = True) -> Memory:
        """By rows as far as the peak asks for it, if the arena gets smaller."""
        rows = self._partitions.within(peak, wide=wide)
        lowered = replace(self._lowered, program=rows.program)
        if self._options.weights_as != "linked" and not _straight(rows.program):
            return self._whole  # the tables of such chains have addresses of constants
        memory = self._solve(lowered, lifetimes(lowered, self._options), rows.over)._replace(extra=rows.extra)
        return self._whole if self._whole.arena_bytes <= memory.arena_bytes else memory

    def _cheap(self) -> int:
        """The least peak at which rows cost no more than they may."""
        from twinfer.runtime.plan.price import instructions

        most = SHARE * instructions(self._lowered.steps, self._target)
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

    def _solve(self, lowered: Lowered, lives: Lifetimes, over: Sequence[Over] = ()) -> Memory:
        if self._options.weights_as == "paged":
            from twinfer.runtime.plan.pages import paged

            lowered = paged(lowered, lives, self._target, self._options)
            lives = lifetimes(lowered, self._options)
        task = problem(lives, self._target, over)
        return Memory(lowered, lives, task, solve(task, lowered.flow.graph.name), over)


def _straight(program: Program) -> bool:
    """Whether all chains are loops within loops."""
    from twinfer.runtime.plan.by_rows.schedule import straight

    return all(straight(part) for part in program if isinstance(part, Chain))


def _with_directions(memory: Memory) -> Memory:
    """The same where layers run backwards whose outputs lie so that they must, and layers alone in a chain are steps
    where they may compute all rows at once over their input."""
    if not any(isinstance(part, Chain) for part in memory.lowered.program):
        return memory
    regions, places = memory.solution.regions, memory.solution.places
    at = {tensor: regions[place.region].offset + place.offset for tensor, place in places.items()}
    backwards = set[Tensor]()
    for each in memory.over:
        over, under = at[each.over], at[each.under]
        apart = over >= under + each.under.nbytes or under >= over + each.over.nbytes
        if not each.backwards and not apart and over > under - each.distance:
            backwards.add(each.over)
    program = list[Part]()
    for part in memory.lowered.program:
        if isinstance(part, Chain) and part.links[-1].out in backwards:
            part = replace(part, backwards=True)
        elif isinstance(part, Chain) and len(part.links) == len(part.layers) == 1:
            (layer,) = part.layers
            below = at[layer.sources[0][1]] - at[layer.out]
            if layer.rows.planes and below % layer.rows.planes == 0:
                part = replace(layer.step, body=(*part.before, *layer.step.body))
        program.append(part)
    return memory._replace(lowered=replace(memory.lowered, program=tuple(program)))


def _too_large(memory: Memory, options: Options) -> str:
    """The message about a model that does not fit, and what forces that."""
    at = memory.task.forced_at
    names = {step.position: str(step.node) for step in memory.lowered.steps}
    advice = "take memory='rows' or 'auto'" if options.memory == "layers" else "give its input by rows, or change it"
    return (
        f"graph {memory.lowered.flow.graph.name!r} needs {memory.nbytes:,} bytes of RAM, "
        f"{memory.nbytes - options.ram:,} more than ram={options.ram:,}; {names.get(at, 'its input')} forces that "
        f"with {memory.task.lower_bound:,} bytes: {advice}"
    )
