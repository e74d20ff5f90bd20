"""The memory of a program: layer by layer or, where that needs less, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan.chains import chained
from twinfer.runtime.plan.coding import Stored
from twinfer.runtime.plan.lifetimes import Lifetimes, lifetimes
from twinfer.runtime.plan.placement import Problem, Solution, problem, solved
from twinfer.runtime.plan.plan import Region
from twinfer.runtime.plan.rows import Over
from twinfer.runtime.program import Chain
from twinfer.runtime.target import Target


@dataclass(frozen=True)
class Memory:
    """A program, when its tensors live, and where they lie."""

    stored: Stored
    lives: Lifetimes
    task: Problem
    solution: Solution

    @property
    def arena_bytes(self) -> int:
        return self.solution.regions[Region.ARENA].nbytes


def placed(graph: Graph, stored: Stored, target: Target, options: Options) -> Memory:
    """The memory of a program, whose layers run by rows where ``options`` ask for that and it needs less."""
    lives = lifetimes(graph, stored, keep=options.preserve_all)
    whole = _solved(graph, stored, lives, target)
    if options.memory == "layers" or options.preserve_all or options.guard:
        return whole
    rows = chained(stored.program, lives, graph.outputs)
    stored = replace(stored, program=rows.program)
    by_rows = _solved(graph, stored, lifetimes(graph, stored, keep=False), target, rows.over)
    return whole if whole.arena_bytes <= by_rows.arena_bytes else _turned(by_rows, rows.over)


def _turned(memory: Memory, over: Sequence[Over]) -> Memory:
    """The same where layers go backwards whose outputs lie so that they must."""
    at = {tensor: place.offset for tensor, place in memory.solution.places.items()}

    def must(each: Over) -> bool:
        over, under = at[each.over], at[each.under]
        apart = over >= under + each.under.nbytes or under >= over + each.over.nbytes
        return not each.backwards and not apart and over > under - each.distance

    back = {each.over for each in over if must(each)}
    program = tuple(
        replace(part, backwards=True) if isinstance(part, Chain) and part.layers[-1].out in back else part
        for part in memory.stored.program
    )
    return replace(memory, stored=replace(memory.stored, program=program))


def _solved(graph: Graph, stored: Stored, lives: Lifetimes, target: Target, over: Sequence[Over] = ()) -> Memory:
    task = problem(lives, target.alignment, over)
    return Memory(stored, lives, task, solved(task, graph.name))
