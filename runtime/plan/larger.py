"""Faster calls whose constants take more flash (``Variant.larger``), where these are worth it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import inf

from twinfer.runtime.constant import Constant
from twinfer.runtime.options import Optimize, Options
from twinfer.runtime.plan.choice import WORTH
from twinfer.runtime.plan.lower import Lowered, step_of
from twinfer.runtime.plan.price import instructions, price_of
from twinfer.runtime.program import Call, Step
from twinfer.runtime.registry import attempts, operator, variants
from twinfer.runtime.target import Choice, Target
from twinfer.runtime.walks import with_steps

#: Bytes of constants and of scratch memory that one per cent of the instructions is worth: any, for the fewest of them.
_WORTH: Mapping[Optimize, float] = {**WORTH, "speed": inf}


def with_larger(lowered: Lowered, target: Target, options: Options) -> Lowered:
    """The same, where steps have got the fastest of the larger variants that are worth their bytes.

    None has where size or memory comes first (``ram``, banks, by rows alone, weights in pages) or weights are coded.
    In interpreted code they are for speed alone: a kernel more takes 4 KB there, for 10 % of digits' instructions.
    """
    first = (
        options.optimize == "size"
        or (options.mode == "interpreted" and options.optimize != "speed")
        or options.ram
        or target.banks
        or options.memory == "rows"
        or options.weights_as == "paged"
    )
    if not target.flash_is_dear or first or options.weights not in ("file", "plain"):
        return lowered
    worth = 100 * _WORTH[options.optimize] / max(instructions(lowered.steps, target), 1)
    by = partial(_faster, lowered, target, options, worth)
    return replace(lowered, program=with_steps(lowered.program, by))


def _faster(lowered: Lowered, target: Target, options: Options, worth: float, step: Step) -> Step:
    """The step of the fastest larger variant that is worth its bytes; ``worth`` are those of one instruction."""
    node, best, cost = step.node, step, instructions([step], target)
    if step.call.macs == 0 or not any(row.larger for row in variants(operator(node).name, target)):
        return step
    reach, least = inf, cost
    for variant, said in attempts(node, target):
        feature, *_ = variant.rank(node.op)
        if feature > reach:
            break  # those of lesser instructions are slower
        if variant.name == step.choice.variant and not variant.larger:
            reach = feature
        if not variant.larger or (variant.few and options.weights_as != "linked") or not isinstance(said, Call):
            continue
        other = step_of(node, step.position, said, Choice(variant.name, step.choice.declined), lowered.pool)
        own, more = instructions([other], target), _bytes(other, target, options) - _bytes(step, target, options)
        if own < least and more <= worth * (cost - own):
            best, least = other, own
    return best


def _bytes(step: Step, target: Target, options: Options) -> float:
    """What a step takes of its own: constants, code, and memory while it runs."""
    constants = sum(each.nbytes for each in step.call.read if isinstance(each, Constant))
    return constants + price_of(step.call, target).flash(options.optimize)[0] + step.call.scratch
