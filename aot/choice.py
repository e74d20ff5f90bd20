"""Which layers of compiled code have a body of their own, and which are compiled small: what ``optimize`` means.

A specialised body has its params as constants: fewer instructions, for some hundred bytes a layer. A shared instance
of a kernel reads them at run time, and is paid once. Nothing is measured here, so that the same plan gives the same
text everywhere; ``twinfer bench --target cortex-m4 --layers`` shows what each choice costs and saves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from twinfer.aot.layers import initialiser
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan import Plan, Step
from twinfer.runtime.target import Optimize, Target

#: Which steps, by position, call one shared instance of their kernel, which reads its params at run time.
Policy = Callable[[Plan], frozenset[int]]

#: Distinct specialised bodies of one kernel beyond which layers share one instance. Measured: mlp_vww_int8, 27 layers:
#: specialised 151 us, shared 206 us, for 0.7 KB of code and 0.04 s (clang: 0.15 s) of compile time a body.
MOST_BODIES = 64

#: Specialised bodies that take no more flash than a shared instance would: what does not apply folds away in them.
FEW_BODIES = 2

#: Share of the model's work from which a body is worth its flash on a small target.
WORTH_A_BODY: Mapping[Optimize, float] = {"speed": 0.01, "balanced": 0.05, "size": inf}

#: Share of the model's work that may be done in code compiled for size, all such layers together.
COLD: Mapping[Optimize, float] = {"speed": 0.001, "balanced": 0.005, "size": 0.03}

#: Work of an element that is read or written, in multiply-accumulates: loading, rescaling, clamping, storing.
WORK_AN_ELEMENT = 4


def specialise(plan: Plan) -> frozenset[int]:
    """Share nothing, but the bodies with the least work of a kernel that has more than ``MOST_BODIES``."""
    return frozenset(i for users in _bodies(plan).values() for steps in users[MOST_BODIES:] for i in steps)


def share_all(plan: Plan) -> frozenset[int]:
    """Every step shares, as in the interpreter."""
    return frozenset(range(len(plan.steps)))


def specialise_worthy(plan: Plan) -> frozenset[int]:
    """Share the layers that do less than ``WORTH_A_BODY`` of the work, where a kernel has more than a few of them."""
    parts, worth, shared = _parts(plan), WORTH_A_BODY[plan.target.optimize], set[int]()
    for users in _bodies(plan).values():
        small = [steps for steps in users if sum(parts[i] for i in steps) < worth]
        if len(small) > FEW_BODIES:
            shared.update(i for steps in small for i in steps)
    return frozenset(shared) | specialise(plan)


def default_policy(target: Target) -> Policy:
    """What suits a target best when nothing is asked for; where flash is not dear, all is specialised."""
    return specialise if target.wide and target.optimize != "size" else specialise_worthy


def cold(plan: Plan) -> frozenset[int]:
    """The steps with the least work, ``COLD`` of the whole together: better small than fast where flash is dear."""
    if plan.target.wide and plan.target.optimize != "size":
        return frozenset()
    parts, found, total = _parts(plan), set[int](), 0.0
    for i in sorted(range(len(parts)), key=parts.__getitem__):
        total += parts[i]
        if total > COLD[plan.target.optimize]:
            break
        found.add(i)
    return frozenset(found)


def _parts(plan: Plan) -> list[float]:
    """Every step's share of the model's work, as estimated."""
    works = [work(step) for step in plan.steps]
    return [each / max(sum(works), 1) for each in works]


def work(step: Step) -> int:
    """About how much a step does: its multiply-accumulates, and the elements that it reads and writes."""
    call = step.call
    return call.macs + WORK_AN_ELEMENT * (_elements(call.inputs) + _elements(call.outputs))


def _elements(arguments: Iterable[object]) -> int:
    return sum(arg.size for arg in arguments if isinstance(arg, Tensor) and arg.data is None)


def _bodies(plan: Plan) -> Mapping[str, Sequence[Sequence[int]]]:
    """Of every kernel the steps that could share a specialised body, most work first."""
    bodies: dict[str, dict[str, list[int]]] = {}
    for i, step in enumerate(plan.steps):
        bodies.setdefault(step.call.kernel, {}).setdefault(initialiser(step.call), []).append(i)
    return {
        kernel: sorted(users.values(), key=lambda steps: -sum(work(plan.steps[i]) for i in steps))
        for kernel, users in bodies.items()
    }
