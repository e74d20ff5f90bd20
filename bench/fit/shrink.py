"""What a model would have to lose so that it fits a board: estimates, by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twinfer.aot.build.matching import Match
from twinfer.converter.table import parameters_of
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.price import instructions
from twinfer.runtime.program import Step

#: The least share that the change of one layer is told for.
LEAST = 0.01


@dataclass(frozen=True)
class Change:
    """A change of the model, in words, and whether it is enough, as estimated."""

    words: str
    enough: bool


def changes(graph: Graph, match: Match, lacks: Mapping[str, float], max_ms: float | None) -> Iterator[Change]:
    """The change that saves most of what is short: half the channels of one layer, or fewer channels everywhere.

    ``lacks``: RAM, flash or time -> by which share of what the graph needs it is short on the board of ``match``.
    """
    plan, need, fit = make_plan(graph, match.board.target, Options(memory="layers")), match.need, match.fit
    limits = {"RAM": need.ram - fit.ram_short, "flash": need.flash - fit.flash_short}
    for what, share in lacks.items():
        savings = {"RAM": _ram, "flash": _flash, "time": _time}[what](plan)
        if not savings:
            continue
        index, saved = max(savings.items(), key=lambda item: item[1])
        layer = plan.steps[index].node
        if saved >= share:
            words = f"half the channels of layer {index}, {layer.output.name!r} {layer.op}: {_told(what, saved)}"
            yield Change(words, True)
            continue
        left = 1 - share
        power = 1.0 if what == "RAM" else 0.5  # weights and products grow with both sides' channels
        allowed = f"{limits[what]:,} B" if what in limits else f"{max_ms:g} ms"
        words = f"{what} has to shrink to {100 * left:.0f} % ({allowed}): about {left**power:.2f} times the channels "
        words += "everywhere, or a smaller input"
        if saved >= LEAST:
            words += f"; half the channels of layer {index}, {layer.output.name!r}, alone: {_told(what, saved)}"
        yield Change(words, False)


def _told(what: str, saved: float) -> str:
    return f"{100 * saved:.0f} % less {what} (estimated)"


def _flash(plan: Plan) -> dict[int, float]:
    """Position of a step -> the share of the constants that half its channels save: half its own, and of what its
    readers read of them."""
    sizes = [_weights(step) for step in plan.steps]
    total = max(plan.constant_bytes, 1)
    return {i: (sizes[i] + sum(sizes[j] for j in _readers(plan, i))) / 2 / total for i in _layers(plan)}


def _time(plan: Plan) -> dict[int, float]:
    each = [instructions([step], plan.target) for step in plan.steps]
    return {i: (each[i] + sum(each[j] for j in _readers(plan, i))) / 2 / max(sum(each), 1) for i in _layers(plan)}


def _ram(plan: Plan) -> dict[int, float]:
    """The same of the largest sum of tensors that are needed at once."""
    lives = _lives(plan)
    before = max(_sums(plan, lives, {}), default=1)
    halves = {i: dict.fromkeys(plan.steps[i].node.outputs, 0.5) for i in _layers(plan)}
    return {i: 1 - max(_sums(plan, lives, half)) / before for i, half in halves.items()}


def _layers(plan: Plan) -> list[int]:
    """Positions of the steps whose number of channels is a choice: those with weights, but the last one."""
    weighty = [i for i, s in enumerate(plan.steps) if (at := parameters_of(s.node)) is not None and not at.depthwise]
    outputs = set(plan.graph.outputs)
    return [i for i in weighty if not outputs & set(plan.steps[i].node.outputs)]


def _weights(step: Step) -> int:
    return sum(t.data.nbytes for t in step.node.inputs if t is not None and t.data is not None)


def _readers(plan: Plan, i: int) -> list[int]:
    made = set(plan.steps[i].node.outputs)
    return [j for j, step in enumerate(plan.steps) if made & {t for t in step.node.inputs if t is not None}]


def _lives(plan: Plan) -> dict[Tensor, tuple[int, int]]:
    """First and last step at which a tensor is needed."""
    lives: dict[Tensor, tuple[int, int]] = {}
    for i, step in enumerate(plan.steps):
        for t in (*step.node.inputs, *step.node.outputs):
            if t is not None and t.data is None:
                lives[t] = lives.get(t, (i, i))[0], i
    ends = {t: (0, lives.get(t, (0, 0))[1]) for t in plan.graph.inputs}
    return lives | ends


def _sums(plan: Plan, lives: dict[Tensor, tuple[int, int]], factors: dict[Tensor, float]) -> list[float]:
    sums = [0.0] * len(plan.steps)
    for t, (first, last) in lives.items():
        for i in range(first, last + 1):
            sums[i] += t.nbytes * factors.get(t, 1.0)
    return sums
