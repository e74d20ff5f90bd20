"""Exact placement by CP-SAT, for puzzles that are too hard for the search of our own."""

from __future__ import annotations

from typing import Any

from twinfer.runtime.errors import ToolError
from twinfer.runtime.plan.solve.core import Core, GaveUp
from twinfer.runtime.plan.solve.puzzle import Puzzle

#: Where CP-SAT gives up, in its own unit of work (a second or less). So what it answers does not depend on time.
MOST_WORK = 60.0


def decide(puzzle: Puzzle, height: int) -> list[int] | None:
    """Offsets that need at most ``height`` bytes; None if there are none. GaveUp beyond ``MOST_WORK``.

    ToolError if the package ortools is absent. Other versions of it may give other offsets.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise ToolError("exact placement needs the package ortools: pip install 'twinfer[exact]'") from error
    core = Core(puzzle, height)
    if any(core.highest[i] < 0 for i in core.near):
        return None
    model, solver = cp_model.CpModel(), cp_model.CpSolver()
    offsets = _offsets(model, core)
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = MOST_WORK
    status = solver.solve(model)
    if status == cp_model.UNKNOWN:
        raise GaveUp
    if status == cp_model.INFEASIBLE:
        return None
    return core.completed([solver.value(offsets.get(i, 0)) for i in range(len(puzzle.sizes))])


def _offsets(model: Any, core: Core) -> dict[int, Any]:
    """The offsets of the core's blocks as expressions; of every two that meet, the model puts one behind the other."""
    offsets = {}
    for i in core.near:
        alignment = core.puzzle.alignments[i]
        offsets[i] = alignment * model.new_int_var(0, core.highest[i] // alignment, "")
    for i, others in core.near.items():
        for j, behind, before in others:
            if i < j:
                upward = model.new_bool_var("")
                model.add(offsets[j] - offsets[i] >= behind).only_enforce_if(upward)
                model.add(offsets[i] - offsets[j] >= before).only_enforce_if(~upward)
    return offsets
