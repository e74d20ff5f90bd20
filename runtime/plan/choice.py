"""Which layers of compiled code have a specialised body, and which are compiled for size: what ``optimize`` means; and
about how many bytes of code that gives.

A specialised body has its params as constants: it takes fewer instructions and some hundred bytes. A shared instance of
a kernel reads its params at run time, and is there once. Both costs were measured for each kernel
(``runtime/plan/price.py``). Nothing is measured here, so that the same plan gives the same text everywhere.
``twinfer bench --target cortex-m4 --layers`` shows what each choice really costs and saves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from twinfer.runtime.options import Optimize
from twinfer.runtime.plan.apart import Path, quant_paths
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.price import form_of, instructions, outputs_of, price_of
from twinfer.runtime.program import Call, Fetch, Step

#: Which steps, by position, call one shared instance of their kernel, which reads its params at run time.
Policy = Callable[[Plan], frozenset[int]]

#: The most specialised bodies of one kernel; further layers share the instance. Measured on mlp_vww_int8, 27 layers:
#: specialised 151 us, shared 206 us, for 0.7 KB of code and 0.04 s (clang: 0.15 s) of compile time per body.
MOST_BODIES = 64

#: Bytes of flash that one per cent of the instructions is worth on a small target.
WORTH: Mapping[Optimize, float] = {"speed": 1000, "balanced": 300, "size": 20}

#: The share of the model's instructions that all layers compiled for size may have together.
COLD: Mapping[Optimize, float] = {"speed": 0.001, "balanced": 0.005, "size": 0.03}

#: Bytes of code of a step beside its body: its function, params and place in the run; and of each kernel once.
STEP_BYTES, KERNEL_BYTES = 145, 275

#: What kernels of floats take of the libraries: floats that the core does not compute (as on Cortex-M0 and M3); expf
#: and the like on a core that computes floats, and what they take more on one that does not; their data, newlib's.
SOFT_BYTES, MATH_BYTES, SOFT_MATH_BYTES, MATH_DATA_BYTES = 2000, 900, 800, 1080
_MATH = re.compile(r"tw_(?!.*_s(8|16)).*(softmax|tanh|logistic|exp|log|sin|cos|pow|elu|gelu|lstm|rnn)")


def specialise(plan: Plan) -> frozenset[int]:
    """Share nothing, unless a kernel has more than ``MOST_BODIES``: then the layers with the smallest outputs share."""
    return frozenset(i for users in bodies(plan).values() for steps in users[MOST_BODIES:] for i in steps)


def share_all(plan: Plan) -> frozenset[int]:
    """Every step shares, as in the interpreter."""
    return frozenset(range(len(plan.steps)))


def by_price(plan: Plan) -> frozenset[int]:
    """Share where that is cheapest, by bytes of flash and what instructions are worth in bytes.

    Layers share whose body costs more than the instructions that it saves, if they pay for the instance together.
    """
    total, worth = instructions(plan.steps, plan.target), 100 * WORTH[plan.options.optimize]
    shared = set[int](specialise(plan))
    for users in bodies(plan).values():
        gains, instance = dict[int, float](), 0.0
        for user, steps in enumerate(users):
            price = price_of(plan.steps[steps[0]].call, plan.target)
            body, instance = price.flash(plan.options.optimize)
            gains[user] = body - worth * price.saved * _outputs(plan, steps) / max(total, 1)
        sharing = [user for user, gain in gains.items() if gain > 0]
        if sum(gains[user] for user in sharing) > instance:
            shared.update(i for user in sharing for i in users[user])
    return frozenset(shared)


def default_policy(plan: Plan) -> frozenset[int]:
    """The usual policy: by price where flash is dear, else everything is specialised."""
    return by_price(plan) if _flash_is_dear(plan) else specialise(plan)


def _flash_is_dear(plan: Plan) -> bool:
    return plan.target.flash_is_dear or plan.options.optimize == "size"


def cold(plan: Plan) -> frozenset[int]:
    """The steps to compile for size where flash is dear: those with the least work, ``COLD`` of it all together."""
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
    """Every step's estimated share of the model's instructions."""
    counts = [instructions([step], plan.target) for step in plan.steps]
    return [count / max(sum(counts), 1) for count in counts]


def with_rest(plan: Plan) -> frozenset[int]:
    """The steps with a second call of their kernel, for the remaining channels: both calls share the instance."""

    def forms(step: Step) -> set[Hashable]:
        calls = (call for call in step.calls if not isinstance(call, Fetch))
        return {_form(call) for call in calls if call.kernel == step.call.kernel}

    return frozenset(i for i, step in enumerate(plan.steps) if len(forms(step)) > 1)


def _outputs(plan: Plan, steps: Iterable[int]) -> int:
    return sum(outputs_of(plan.steps[i]) for i in steps)


def bodies(plan: Plan) -> Mapping[str, Sequence[Sequence[int]]]:
    """Kernel -> groups of steps, by position, that could share a specialised body; those that write most come first."""
    users: dict[str, dict[Hashable, list[int]]] = {}
    for i, step in enumerate(plan.steps):
        users.setdefault(step.call.kernel, {}).setdefault(_form(step.call), []).append(i)
    return {kernel: sorted(alike.values(), key=lambda steps: -_outputs(plan, steps)) for kernel, alike in users.items()}


def _form(call: Call) -> Hashable:
    """What is equal for calls that could share a body: params, but for those that are an input."""
    return _frozen(call.params, frozenset(quant_paths(call)) if call.quant else frozenset())


def _frozen(params: Any, without: frozenset[Path], path: Path = ()) -> Hashable:
    """Params that can be compared, but for some."""
    if path in without:
        return None
    if isinstance(params, Mapping):
        return tuple((name, _frozen(value, without, (*path, name))) for name, value in params.items())
    if isinstance(params, Sequence):
        return tuple(_frozen(value, without, (*path, i)) for i, value in enumerate(params))
    return params  # type: ignore[no-any-return]


def code_bytes(plan: Plan) -> int:
    """About the bytes of compiled code, its params and what it takes of libraries, as ``plan.options`` say.

    Together with the constants this is within 5 % of the flash that is linked of kws, vww, ic and ad01 in int8, on
    every core and for every ``optimize``; within 15 % of float ones.
    """
    shared = default_policy(plan)
    prices = [price_of(step.call, plan.target).flash(plan.options.optimize) for step in plan.steps]
    own = [prices[steps[0]][0] for users in bodies(plan).values() for steps in users if steps[0] not in shared]
    instances = {plan.steps[i].call.kernel: prices[i][1] for i in shared}
    kernels = {step.call.kernel for step in plan.steps}
    calls = STEP_BYTES * len(plan.steps) + KERNEL_BYTES * len(kernels) + plan.decoding_bytes
    return round(sum(own) + sum(instances.values()) + calls) + _library_bytes(plan)


def data_bytes(plan: Plan) -> int:
    """About the bytes that libraries keep both in flash and RAM."""
    return MATH_DATA_BYTES if _calls_math(plan) else 0


def _library_bytes(plan: Plan) -> int:
    soft = any("-soft" in form_of(step.call, plan.target) for step in plan.steps)
    math = MATH_BYTES + SOFT_MATH_BYTES * soft if _calls_math(plan) else 0
    return SOFT_BYTES * soft + math


def _calls_math(plan: Plan) -> bool:
    """Whether a kernel of floats calls expf, logf or the like."""
    return any(_MATH.match(step.call.kernel) for step in plan.steps)
