"""What a model costs on a target: bytes, and instructions by the price model."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.choice import code_bytes
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.price import instructions
from twinfer.runtime.target import Target

#: (graph, its file, target) -> cost.
Cost = Callable[[Graph, bytes, Target], int]


class Figures(NamedTuple):
    """Of compiled code: instructions of a run and bytes of flash, both estimated, and bytes of arena and state as
    planned. As weights: what one of each is worth."""

    instructions: float
    flash: float
    ram: float

    def times(self, weights: Figures) -> float:
        return sum(figure * weight for figure, weight in zip(self, weights, strict=True))


def figures(plan: Plan) -> Figures:
    flash = plan.constant_bytes + code_bytes(plan)
    return Figures(instructions(plan.steps, plan.target), flash, plan.memory_bytes)


#: Cost by name -> the shares that instructions, flash and RAM have in it, as ``mix`` weighs layers. A small share of
#: the others decides between what costs the same.
SHARES: dict[str, Figures] = {
    "balanced": Figures(1 / 3, 1 / 3, 1 / 3),
    "instructions": Figures(0.96, 0.02, 0.02),
    "flash": Figures(0.02, 0.96, 0.02),
    "constants": Figures(0.02, 0.96, 0.02),
    "arena": Figures(0.02, 0.02, 0.96),
}


def weights(cost: str, floats: Figures) -> Figures:
    """What an instruction and a byte are worth, if the float model is worth 1 altogether; a cost of the user's own
    counts as balanced."""
    shares = SHARES.get(cost, SHARES["balanced"])
    return Figures(*(share / max(whole, 1) for share, whole in zip(shares, floats, strict=True)))


def price(cost: str, plan: Plan, content: bytes, floats: Figures) -> int:
    """A cost by its name. "flash": bytes of the .tflite file, which an interpreter keeps: constants, scales, names,
    operators. "constants": bytes of the constants in the plan for the target, which compiled C keeps in flash beside
    its code. "arena" as planned, "instructions" as estimated. "balanced": thousandths of what the float model costs."""
    if cost == "balanced":
        return round(1000 * figures(plan).times(weights(cost, floats)))
    if cost == "instructions":
        return round(figures(plan).instructions)
    return {"flash": len(content), "constants": plan.constant_bytes, "arena": plan.arena_bytes}[cost]
