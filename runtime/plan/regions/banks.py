"""The arena split over the memories of a target, by traffic: each block in one of them, each memory within its size.

Blocks with the dearest traffic belong into the cheapest memory. ``solve/split.py`` decides; the solver of one arena
says whether blocks fit into a memory. What a chain works on stays together: its rows are counted from one address.
"""

from __future__ import annotations

from collections.abc import Sequence

from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.plan import arena, placement
from twinfer.runtime.plan.lower import Lowered
from twinfer.runtime.plan.placement import Problem, Solution
from twinfer.runtime.plan.plan import Region
from twinfer.runtime.plan.regions.traffic import Traffic, traffic
from twinfer.runtime.plan.solve.split import Split, split
from twinfer.runtime.program import Chain, Program
from twinfer.runtime.target import Bank
from twinfer.runtime.walks import uses_of


def solve(task: Problem, lowered: Lowered, one_arena: Solution, banks: Sequence[Bank]) -> Solution:
    """The cheapest solution that was found for these memories; ``one_arena`` is that for a single one.

    ``proven`` says that no split costs less, of all whose parts the solver of one arena can place. The state is in none
    of the memories. UnsupportedOperatorError, which names what forces it, if nothing fits.
    """
    graph = lowered.flow.graph
    units = _units(task, lowered.program)
    moved = traffic(lowered.program, graph, one_arena.places)
    sums = [sum((moved[t] for i in unit for t in task.members[i]), Traffic()) for unit in units]
    sizes = [sum(task.blocks[i].size for i in unit) for unit in units]

    def fits(bank: int, chosen: frozenset[int]) -> bool:
        part = task.among([i for unit in sorted(chosen) for i in units[unit]])
        return arena.fits(part.blocks, part.overlaps, banks[bank].nbytes)

    answer = split([[each.cost(bank) for bank in banks] for each in sums], sizes, fits)
    if answer is None:
        raise UnsupportedOperatorError(_too_large(task, lowered, banks))
    solution = placement.solve(task, graph.name, _homes(answer, units, sizes, banks))
    return Solution(solution.places, solution.regions, answer.proven)


def _units(task: Problem, program: Program) -> list[list[int]]:
    """The numbers of the blocks that must lie in one memory, unit by unit."""
    number = {tensor: i for i, group in enumerate(task.members) for tensor in group}
    leader = list(range(len(task.blocks)))
    for part in program:
        if isinstance(part, Chain):
            joined = {leader[number[tensor]] for _, tensor in uses_of((part,)) if tensor in number}
            leader = [min(joined) if each in joined else each for each in leader]
    return [[i for i, each in enumerate(leader) if each == unit] for unit in sorted(set(leader))]


def _homes(
    answer: Split, units: Sequence[Sequence[int]], sizes: Sequence[int], banks: Sequence[Bank]
) -> dict[Region, list[int]]:
    """The arenas that hold bytes, at least one, with their blocks; what has no bytes lies in the first."""
    used = sorted({b for b, size in zip(answer.bins, sizes, strict=True) if size}) or [0]
    homes: dict[Region, list[int]] = {Region("arena", banks[b].name): [] for b in used}
    for unit, b, size in zip(units, answer.bins, sizes, strict=True):
        homes[Region("arena", banks[b if size else used[0]].name)] += unit
    return homes


def _too_large(task: Problem, lowered: Lowered, banks: Sequence[Bank]) -> str:
    """The message about a model that does not fit, and what forces that."""
    at, room = task.forced_at, ", ".join(f"{bank.name} of {bank.nbytes:,} bytes" for bank in banks)
    names = {step.position: str(step.node) for step in lowered.steps}
    live = [i for i, block in enumerate(task.blocks) if block.first <= at <= block.last]
    most = max(live, key=lambda i: task.blocks[i].size)
    largest = max(banks, key=lambda bank: bank.nbytes)
    tensor = f"{max(task.members[most], key=lambda tensor: tensor.nbytes)} takes {task.blocks[most].size:,} bytes"
    more = f", more than {largest.name} has" if task.blocks[most].size > largest.nbytes else ""
    return (
        f"graph {lowered.flow.graph.name!r} does not fit into the memories {room}: {names.get(at, 'its input')} has "
        f"{task.lower_bound:,} bytes live, of which {tensor}{more}; "
        "take memory='rows', give its input by rows, or change it"
    )
