"""Whose memory every tensor uses: outputs that are computed in place, and copies that need not be made."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from twinfer.runtime.graph import Tensor
from twinfer.runtime.program import COPY, If, Program, Step, While
from twinfer.runtime.walks import steps_of, uses_of

#: First and last operator over which a tensor keeps its value.
Life = tuple[int, int]


def owners(
    program: Program, lives: Mapping[Tensor, Life], state: Collection[Tensor], ends: Collection[Tensor]
) -> dict[Tensor, Tensor]:
    """The tensor whose memory each tensor of ``lives`` uses: itself or another one.

    ``state`` lasts from run to run; ``ends`` are the graph's inputs and outputs, which have memory of their own. Three
    kinds of sharing, each only where no step can tell:

    - a copy of a variable is the variable itself, until that changes;
    - a value that is copied to a variable is computed there;
    - an output lies on an input that dies, if the kernel can work in place.
    """
    sharing = _Sharing(program, lives, state, ends)
    for step in sharing.steps:
        sharing.read_in_place(step)
    for step in sharing.steps:
        sharing.write_in_place(step)
    for step in sharing.steps:
        sharing.take_over(step)
    return sharing.owner


class _Group:
    """Tensors that use the same memory, and the positions between which one of them has a value."""

    def __init__(self, tensor: Tensor, first: int, last: int) -> None:
        self.members, self.first, self.last = [tensor], first, last


class _Sharing:
    def __init__(
        self, program: Program, lives: Mapping[Tensor, Life], state: Collection[Tensor], ends: Collection[Tensor]
    ) -> None:
        self.lives, self.state, self.ends = lives, frozenset(state), frozenset(ends)
        self.block: dict[Step, int] = dict(_blocks(program))
        self.steps = tuple(step for step in steps_of(program) if step in self.block)
        self.owner = {tensor: tensor for tensor in lives}
        self.groups = {tensor: _Group(tensor, *lives[tensor]) for tensor in lives}
        self.uses: dict[Tensor, list[int]] = {}
        self.writers: dict[Tensor, list[Step]] = {}
        self.loops = {last: begin for begin, last in reversed([*loops_of(program)])}  # the inner of two that end there
        for position, tensor in uses_of(program):
            self.uses.setdefault(tensor, []).append(position)
        for step in self.steps:
            for tensor in step.written:
                self.writers.setdefault(tensor, []).append(step)

    def join(self, tensor: Tensor, owner: Tensor) -> None:
        """``tensor``, and what uses its memory, uses that of ``owner``, which has its own."""
        group, moved = self.groups[owner], self.groups[tensor]
        group.members += moved.members
        group.first, group.last = min(group.first, moved.first), max(group.last, moved.last)
        self.owner.update(dict.fromkeys(moved.members, owner))

    def read_in_place(self, step: Step) -> None:
        """The copy of a variable shares its memory if the variable keeps its value as long as the copy is read."""
        pair = _copy(step)
        if pair is None:
            return
        source, to = pair
        if source not in self.state or to in self.state or to in self.ends or len(self.writers[to]) != 1:
            return
        last = self.lives[to][1]
        changes = [w for w in self.writers.get(source, ()) if step.position < w.position <= last]
        if all(_copy(writer) == (to, source) for writer in changes):
            self.join(to, source)

    def write_in_place(self, step: Step) -> None:
        """A value that is copied to a variable, or to another tensor that has a value before, is computed there."""
        pair = _copy(step)
        if pair is None:
            return
        source, to = pair
        before = self.lives[to][0] < step.position
        own = self.owner[source] is source and source not in self.state and source not in self.ends
        writers = self.writers.get(source, [])
        if not before or not own or len(writers) != 1:
            return
        writer = writers[0]
        beside = self.block[writer] == self.block[step] and writer.position < step.position
        if beside and self._gone(to, writer, step) and self._unchanged(source, to, step):
            self.join(source, self.owner[to])

    def _gone(self, to: Tensor, writer: Step, step: Step) -> bool:
        """Whether nothing reads the old value of ``to`` from ``writer`` on: not before the copy, nor what shares it."""
        for member in self.groups[self.owner[to]].members:
            if any(writer.position < use < step.position for use in self.uses.get(member, ())):
                return False
            if writer.position in self.uses.get(member, ()) and not _works_on(writer, member, to):
                return False
        return True

    def _unchanged(self, source: Tensor, to: Tensor, step: Step) -> bool:
        """Whether the variable keeps its new value as long as ``source`` is read."""
        last = self.lives[source][1]
        return not any(step.position < writer.position <= last for writer in self.writers[to])

    def take_over(self, step: Step) -> None:
        """Output 0 lies on an input that dies in the step, if its kernel can work in place on that."""
        out = next(iter(step.call.written), None)
        if out is None or out in self.state or self.owner[out] is not out or self.lives[out][0] != step.position:
            return
        for source in _inplace(step):
            if self._dies(self.groups[self.owner[source]], step) and source.nbytes == out.nbytes:
                self.join(out, self.owner[source])
                return

    def _dies(self, group: _Group, step: Step) -> bool:
        """Whether a group's last value is not needed behind the step, nor by the next iteration of a loop around it.

        The state never dies, nor do outputs of the graph.
        """
        begin = self.loops.get(step.position, -1)
        return group.last == step.position and group.first >= begin


def loops_of(program: Program) -> Iterator[tuple[int, int]]:
    """First and last position of every loop, inner ones first: a value that comes into a loop lasts until its end."""
    for part in program:
        match part:
            case If():
                yield from loops_of((*part.then, *part.orelse))
            case While():
                inner = (*part.test, *part.body)
                yield from loops_of(inner)
                positions = [step.position for step in steps_of(inner)]
                yield from [(min(positions), max(positions))] if positions else []


def _blocks(program: Program) -> Iterator[tuple[Step, int]]:
    """Every step with a number of its own for each sequence of steps that always run together."""
    for part in program:
        match part:
            case Step():
                yield part, id(program)
            case If():
                yield from (*_blocks(part.then), *_blocks(part.orelse))
            case While():
                yield from (*_blocks(part.test), *_blocks(part.body))


def _copy(step: Step) -> tuple[Tensor, Tensor] | None:
    """Source and destination of a step that only copies one tensor in memory to another of its size."""
    if step.call.kernel != COPY or len(step.body) != 1:
        return None
    source, to = step.call.inputs[0], step.call.outputs[0]
    if not isinstance(source, Tensor) or not isinstance(to, Tensor) or source.nbytes != to.nbytes:
        return None
    return source, to


def _inplace(step: Step) -> Iterator[Tensor]:
    """The inputs that a step can work on in place, and reads only once."""
    for position in step.call.inplace:
        source = step.call.inputs[position]
        if isinstance(source, Tensor) and sum(argument is source for argument in step.call.inputs) == 1:
            yield source


def _works_on(step: Step, member: Tensor, to: Tensor) -> bool:
    """Whether a step may write over ``member``, which it reads, with an output that is as large as ``to``."""
    return member in _inplace(step) and len(step.body) == 1 and member.nbytes == to.nbytes
