"""Which layers of compiled code have a body of their own, and which are compiled small: what ``optimize`` means.

A specialised body has its params as constants: fewer instructions, for some hundred bytes each. A shared instance of a
kernel reads them at run time, and is paid once. What either costs was measured kernel by kernel (``prices.toml``);
nothing is measured here, so that the same plan gives the same text everywhere. ``twinfer bench --target cortex-m4
--layers`` shows what each choice really costs and saves.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from twinfer.aot.print.initialiser import initialiser
from twinfer.runtime.graph import Tensor
from twinfer.runtime.options import Optimize
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Step

#: Which steps, by position, call one shared instance of their kernel, which reads its params at run time.
Policy = Callable[[Plan], frozenset[int]]

#: Distinct specialised bodies of one kernel beyond which layers share one instance. Measured: mlp_vww_int8, 27 layers:
#: specialised 151 us, shared 206 us, for 0.7 KB of code and 0.04 s (clang: 0.15 s) of compile time a body.
MOST_BODIES = 64

#: Kernel -> what its bodies cost and save.
PRICES = Path(__file__).with_name("prices.toml")

#: Bytes of flash that are paid on a small target to save one per cent of the instructions.
WORTH: Mapping[Optimize, float] = {"speed": 1000, "balanced": 300, "size": 20}

#: Share of the model's instructions that may be done in code compiled for size, all such layers together.
COLD: Mapping[Optimize, float] = {"speed": 0.001, "balanced": 0.005, "size": 0.03}

#: Work of an element that is read or written, in multiply-accumulates: loading, rescaling, clamping, storing.
WORK_AN_ELEMENT = 4


def specialise(plan: Plan) -> frozenset[int]:
    """Share nothing, but the bodies with the least work of a kernel that has more than ``MOST_BODIES``."""
    return frozenset(i for users in bodies(plan).values() for steps in users[MOST_BODIES:] for i in steps)


def share_all(plan: Plan) -> frozenset[int]:
    """Every step shares, as in the interpreter."""
    return frozenset(range(len(plan.steps)))


@dataclass(frozen=True)
class Price:
    """Of one kernel: bytes of a specialised body and of the shared instance, instructions saved an output element.

    ``body`` is what it takes beyond a layer that calls the instance; ``pace`` are the instructions that a unit of work
    takes. A kernel that was not measured has the usual ones.
    """

    body: float = 400
    instance: float = 1000
    saved: float = 8
    pace: float = 1


def by_price(plan: Plan) -> frozenset[int]:
    """Share where that is cheapest: flash in bytes and instructions by what they are worth.

    Of every kernel the bodies with the smallest outputs share, for a body saves about as much an output; all numbers of
    them are tried.
    """
    total, worth = sum(map(instructions, plan.steps)), 100 * WORTH[plan.options.optimize]
    shared = set[int](specialise(plan))
    for kernel, users in bodies(plan).items():
        price = _price(kernel)
        losses = [worth * price.saved * _outputs(plan, steps) / max(total, 1) for steps in users]

        def cost(own: int, price: Price = price, losses: Sequence[float] = losses) -> float:
            return own * price.body + (price.instance if own < len(losses) else 0) + sum(losses[own:])

        own = min(range(len(users), -1, -1), key=cost)
        shared.update(i for steps in users[own:] for i in steps)
    return frozenset(shared)


def _price(kernel: str) -> Price:
    return _prices().get(kernel, Price())


@cache
def _prices() -> Mapping[str, Price]:
    kernels = tomllib.loads(PRICES.read_text(encoding="utf-8"))["kernels"]
    return {kernel: Price(*figures) for kernel, figures in kernels.items()}


def default_policy(plan: Plan) -> frozenset[int]:
    """What suits a plan's target best when nothing is asked for; where flash is not dear, all is specialised."""
    return by_price(plan) if _flash_is_dear(plan) else specialise(plan)


def _flash_is_dear(plan: Plan) -> bool:
    return plan.target.flash_is_dear or plan.options.optimize == "size"


def cold(plan: Plan) -> frozenset[int]:
    """The steps with the least to do, ``COLD`` of the whole together: better small than fast where flash is dear."""
    if not _flash_is_dear(plan):
        return frozenset()
    parts, steps, total = _parts(plan), set[int](), 0.0
    for i in sorted(range(len(parts)), key=parts.__getitem__):
        total += parts[i]
        if total > COLD[plan.options.optimize]:
            break
        steps.add(i)
    return frozenset(steps)


def _parts(plan: Plan) -> list[float]:
    """Every step's share of the model's instructions, as estimated."""
    counts = [instructions(step) for step in plan.steps]
    return [count / max(sum(counts), 1) for count in counts]


def instructions(step: Step) -> float:
    """About how many a step takes, with a body of its own."""
    return _price(step.call.kernel).pace * work(step)


def work(step: Step) -> int:
    """A measure of what a step does: multiply-accumulates, and the elements that it reads and writes; weights that are
    decoded are no more work to it than others."""
    read = [value for value in step.call.read if value in step.node.inputs]
    return step.call.macs + WORK_AN_ELEMENT * (_elements(read) + outputs_of(step))


def outputs_of(step: Step) -> int:
    """Elements that a step writes."""
    return _elements(step.call.written)


def with_rest(plan: Plan) -> frozenset[int]:
    """The steps that call their kernel with two sets of params, a rest of the channels: both should be to one body."""
    kernels = ((i, step.call.kernel, step.calls) for i, step in enumerate(plan.steps))
    return frozenset(i for i, kernel, calls in kernels if sum(call.kernel == kernel for call in calls) > 1)


def _outputs(plan: Plan, steps: Iterable[int]) -> int:
    return sum(outputs_of(plan.steps[i]) for i in steps)


def _elements(arguments: Iterable[object]) -> int:
    return sum(arg.size for arg in arguments if isinstance(arg, Tensor) and arg.data is None)


def bodies(plan: Plan) -> Mapping[str, Sequence[Sequence[int]]]:
    """Of every kernel the steps that could share a specialised body, by position; those that write most come first."""
    users: dict[str, dict[str, list[int]]] = {}
    for i, step in enumerate(plan.steps):
        users.setdefault(step.call.kernel, {}).setdefault(initialiser(step.call), []).append(i)
    return {kernel: sorted(alike.values(), key=lambda steps: -_outputs(plan, steps)) for kernel, alike in users.items()}
