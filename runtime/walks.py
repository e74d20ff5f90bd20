"""Walks through a program: its steps in order, the uses of tensors, and the same program with other steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from twinfer.runtime.graph import Tensor
from twinfer.runtime.program import (
    Alias,
    Call,
    Chain,
    If,
    Instruction,
    Loop,
    Part,
    Program,
    Step,
    Wait,
    While,
    calls_of,
)


def steps_of(program: Iterable[Part]) -> Iterator[Step]:
    """Every step, in the order of positions."""
    for part in program:
        match part:
            case Step():
                yield part
            case Chain():
                yield from (layer.step for layer in part.layers)
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
            case Chain():
                yield from _uses_of_chain(part)
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


def _uses_of_chain(chain: Chain) -> Iterator[tuple[int, Tensor]]:
    """Of whole tensors and rings, from the first layer's position to the last one's."""
    steps = [layer.step for layer in chain.layers]
    positions = -1 if chain.feed else steps[0].position, steps[-1].position if steps else -1
    fed = [] if chain.feed is None else [chain.feed.out]
    progress = [] if chain.progress is None else [chain.progress]
    fetched = [tensor for call in calls_of(chain.before) for tensor in call.written]
    for tensor in [*fed, *progress, *fetched, *(tensor for step in steps for tensor in step.touched)]:
        ring = chain.rings.get(tensor)
        yield from ((position, ring.memory if ring else tensor) for position in positions)


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
            case Alias() | Chain():
                return part

    return tuple(part for part in map(changed, program) if part is not None)


def with_calls(body: Iterable[Instruction], change: Callable[[Call], Call]) -> tuple[Instruction, ...]:
    """The same instructions over other calls."""

    def changed(instruction: Call | Wait) -> Call | Wait:
        return change(instruction) if isinstance(instruction, Call) else instruction

    return tuple(
        replace(each, body=tuple(map(changed, each.body))) if isinstance(each, Loop) else changed(each) for each in body
    )


def unroll(body: Iterable[Instruction]) -> Iterator[tuple[Call, int]]:
    """The calls as they are run, each with the number of its iteration (0 outside of loops)."""
    yield from ((each, i) for each, i in unroll_all(body) if isinstance(each, Call))


def unroll_all(body: Iterable[Instruction]) -> Iterator[tuple[Call | Wait, int]]:
    """The same with what waits for fetches."""
    for instruction in body:
        if isinstance(instruction, Loop):
            yield from ((each, i) for i in range(instruction.count) for each in instruction.body)
        else:
            yield instruction, 0
