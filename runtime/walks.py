"""Walks through a program: its steps in order, the uses of tensors, and the same program with other steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twinfer.runtime.graph import Tensor
from twinfer.runtime.program import If, Part, Program, Same, Step, While


def steps_of(program: Program) -> Iterator[Step]:
    """Every step, in the order of positions."""
    for part in program:
        match part:
            case Step():
                yield part
            case If():
                yield from steps_of((*part.then, *part.orelse))
            case While():
                yield from steps_of((*part.test, *part.body))


def uses_of(program: Program) -> Iterator[tuple[int, Tensor]]:
    """Every use of a tensor in memory, with the position of the step; a condition counts with the step behind it."""
    for part in program:
        match part:
            case Step():
                yield from ((part.position, tensor) for tensor in part.touched)
            case If():
                inner = (*part.then, *part.orelse)
                yield from ((step.position, part.condition) for step in [*steps_of(inner)][:1])
                yield from uses_of(inner)
            case While():
                yield from uses_of(part.test)
                body = [step.position for step in steps_of(part.body)]
                behind = [step.position + 1 for step in steps_of(part.test)]
                yield from ((position, part.condition) for position in body[:1] or behind[-1:])
                yield from uses_of(part.body)


def with_steps(program: Program, change: Callable[[Step], Part | None]) -> Program:
    """The same control flow over other steps; a step that is changed to None is left out."""

    def changed(part: Part) -> Part | None:
        match part:
            case Step():
                return change(part)
            case If():
                return If(part.condition, with_steps(part.then, change), with_steps(part.orelse, change))
            case While():
                return While(part.condition, with_steps(part.test, change), with_steps(part.body, change))
            case Same():
                return part

    return tuple(part for part in map(changed, program) if part is not None)
