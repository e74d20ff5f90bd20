"""Whether a model fits a card's memory; messages name what takes most."""

from __future__ import annotations

from collections.abc import Sequence

from twinfer.aot.build.targets import Card
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.emit import Project
from twinfer.runtime.errors import ToolError
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import Step


def check_fits(project: Project, card: Card) -> None:
    """ToolError if the arena and the stack need more RAM, or the constants alone more flash, than the machine has."""
    name, plan, constants, vectors = project.name, project.plan, project.constants.nbytes, vectors_in_flash(card)
    what = " and ".join([*(["arena"] if not plan.target.banks else []), *(["state"] if plan.state_bytes else [])])
    memory = Memory(plan)
    if memory.in_ram + card.stack_bytes > card.ram_bytes:
        raise ToolError(
            f"{name} needs {memory.in_ram:,} B of {what}, {card.name} has {card.ram_bytes:,} B of RAM, "
            f"of them {card.stack_bytes:,} B for the stack; {largest_step(plan)}; "
            "twinfer inspect --memory says what would need less"
        )
    room = {each.region: each.bank.nbytes for each in card.banks}
    for region in plan.arenas if plan.target.banks else ():
        if memory.nbytes(region) > room.get(region, 0):
            raise ToolError(
                f"{name} needs {memory.nbytes(region):,} B of {region.bank}, {card.name} has "
                f"{room.get(region, 0):,} B: plan it for the target of this card"
            )
    if constants + vectors > card.flash_bytes:
        raise ToolError(
            f"{name} needs at least {constants:,} B of flash for weights and other constants, {card.name} has "
            f"{card.flash_bytes:,} B, of them {vectors} B for the vectors"
        )


def check_fit_together(projects: Sequence[Project], card: Card) -> None:
    """ToolError if models need more than the machine has.

    RAM for the largest arena, all states and the stack; flash for the constants of all.
    """
    arena = max(Memory(project.plan).nbytes(Region.ARENA) for project in projects)
    states = sum(Memory(project.plan).nbytes(Region.STATE) for project in projects)
    constants, vectors = sum(project.constants.nbytes for project in projects), vectors_in_flash(card)
    names = ", ".join(project.name for project in projects)
    if arena + states + card.stack_bytes > card.ram_bytes:
        raise ToolError(
            f"{names} need {arena:,} B of arena and {states:,} B of state, "
            f"{card.name} has {card.ram_bytes:,} B of RAM, of them {card.stack_bytes:,} B for the stack"
        )
    if constants + vectors > card.flash_bytes:
        raise ToolError(
            f"{names} need at least {constants:,} B of flash for weights and other constants, {card.name} has "
            f"{card.flash_bytes:,} B, of them {vectors} B for the vectors"
        )


def check_flash(project: Project, card: Card, needed: int) -> None:
    """ToolError if the ``needed`` bytes of the model, linked alone, are more flash than the machine has."""
    vectors = vectors_in_flash(card)
    if needed + vectors > card.flash_bytes:
        raise ToolError(
            f"{project.name} needs {needed:,} B of flash for code, weights and other constants, {card.name} has "
            f"{card.flash_bytes:,} B, of them {vectors} B for the vectors; --optimize size takes less"
        )


def vectors_in_flash(card: Card) -> int:
    """Bytes of flash before the program."""
    return card.architecture.vector_bytes if card.vectors is None else 0


def largest_step(plan: Plan) -> str:
    """Which step has the most live bytes, in words."""
    if not plan.steps:
        return "it has no steps"
    live = [live_bytes(plan, step) for step in plan.steps]
    i = live.index(max(live))
    step = plan.steps[i]
    of_it = f", {step.call.scratch:,} B of them scratch" if step.call.scratch else ""
    return f"the largest step is {i}, {step.node.op.lower()}: {live[i]:,} B are live{of_it}"


def live_bytes(plan: Plan, step: Step) -> int:
    """Bytes of the arena that hold a value while ``step`` runs, its scratch included; shared bytes count once."""
    at = step.position
    alive = [t for t, (first, last) in plan.lives.items() if first <= at <= last]
    spans = {(plan.offsets[t], t.nbytes) for t in alive if plan.places[t].region != Region.STATE}
    end = total = 0
    for offset, size in sorted(spans):
        total += max(0, offset + size - max(end, offset))
        end = max(end, offset + size)
    return total


def overflow(error: ToolError, projects: Sequence[Project], card: Card) -> ToolError:
    """The linker's error; for too little memory, one that says what takes it."""
    told = card.toolchain.overflow(error)
    if told is None:
        return error
    region, missing = told
    banks = {each.label: (each.bank.nbytes, each.bank.name) for each in card.banks}
    total, what = {"RAM": (card.ram_bytes, "RAM"), **banks}.get(region, (card.flash_bytes, "flash"))
    names = ", ".join(p.name for p in projects)
    constants = sum(p.constants.nbytes for p in projects)
    arena = max(Memory(p.plan).in_ram for p in projects)
    return ToolError(
        f"{names}: needs {total + missing:,} B of {what}, {card.name} has {total:,} B; weights and other constants "
        f"take {constants:,} B, the arena {arena:,} B, the stack {card.stack_bytes:,} B"
    )
