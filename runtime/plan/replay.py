"""Proves that memory is shared rightly: goes through a plan's program and follows which tensors still hold their value.

It shares no code with what decided about memory. A write takes the value of every tensor that has a byte in common with
it; a step must read no tensor whose value was taken, and work in place only where its kernel can.
"""

from __future__ import annotations

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import If, Program, Same, Step, While

#: Tensors that hold their value.
Held = frozenset[Tensor]


def fault(plan: Plan) -> str | None:
    """What is wrong with the places of a plan, in a sentence; None if nothing is."""
    return next(iter(_Replay(plan).faults), None)


class _Replay:
    """One walk through a plan; ``faults`` are what it meets, ``taken`` says who took the value of a tensor."""

    def __init__(self, plan: Plan) -> None:
        self.spans = {t: (at, at + t.nbytes) for t, at in plan.offsets.items() if t.nbytes}
        self.number = {step: i for i, step in enumerate(plan.steps)}
        self.taken: dict[Tensor, str] = {}
        self.faults: list[str] = []
        lasting, touched = plan.lasting, {tensor for step in plan.steps for tensor in step.touched}
        held = self.program(plan.program, frozenset([*plan.graph.inputs, *lasting]) & self.spans.keys())
        for tensor in lasting:
            self.read(held, tensor, "the next run")
        for value in plan.outputs:
            if isinstance(value, Tensor) and value in touched:
                self.read(held, value, "the caller")

    def program(self, program: Program, held: Held) -> Held:
        """What holds its value behind the program."""
        for part in program:
            match part:
                case Step():
                    self.check(part, held)
                    held = self.written(part, held)
                case Same():
                    self.check_same(part, held)
                    held |= frozenset([part.to]) & self.spans.keys()
                case If():
                    self.read(held, part.condition, "a branch")
                    held = self.program(part.then, held) & self.program(part.orelse, held)
                case While():
                    held = self.loop(part, held)
        return held

    def loop(self, loop: While, held: Held) -> Held:
        """The body runs until no more values are lost: what a later iteration reads must be there."""
        while True:
            tested = self.program(loop.test, held)
            self.read(tested, loop.condition, "a loop")
            after = self.program(loop.body, tested)
            if held <= after:
                return tested
            held &= after

    def check(self, step: Step, held: Held) -> None:
        """A step must find what it reads, and write on nothing that it still reads or writes elsewhere."""
        who = f"step {self.number[step]} ({step.node}, {step.call.kernel})"
        written = step.written
        read = [v for v in dict.fromkeys(step.read) if isinstance(v, Tensor) and v not in written]
        for value in read:
            self.read(held, value, who)
        for i, tensor in enumerate(written):
            over = [other for other in written[:i] if self.meet(tensor, other)]
            over += [value for value in read if self.meet(tensor, value) and not self.in_place(step, value, tensor)]
            self.faults += [f"{who} writes {tensor} over {other}, which it needs" for other in over]

    def in_place(self, step: Step, source: Tensor, out: Tensor) -> bool:
        """Whether a step may write ``out`` over an input: output 0 on one that its kernel can work in place on."""
        may = any(step.call.inputs[i] is source for i in step.call.inplace)
        once = [value for value in step.call.read if value is source]
        return may and len(once) == 1 and out is next(step.call.written) and self.spans[out] == self.spans[source]

    def read(self, held: Held, tensor: Tensor, who: str) -> None:
        if tensor in self.spans and tensor not in held:
            self.faults.append(f"{who} reads {tensor}, which holds no value then{self.taken.get(tensor, '')}")

    def check_same(self, same: Same, held: Held) -> None:
        self.read(held, same.source, f"the copy to {same.to}")
        if self.spans.get(same.source) != self.spans.get(same.to):
            self.faults.append(f"{same.to} is to be the same as {same.source}, but lies elsewhere")

    def written(self, step: Step, held: Held) -> Held:
        """What holds its value behind a step; its own outputs do, its scratch does not."""
        written = step.written
        lost = {other for other in held for tensor in written if self.meet(tensor, other)}
        who = f": step {self.number[step]} ({step.node}) has written there"
        self.taken.update((tensor, who) for tensor in lost)
        return (held - lost) | (frozenset(written) - {step.scratch}) & self.spans.keys()

    def meet(self, a: Tensor, b: Tensor) -> bool:
        if a not in self.spans or b not in self.spans:
            return False
        (begin, end), (other, last) = self.spans[a], self.spans[b]
        return begin < last and other < end
