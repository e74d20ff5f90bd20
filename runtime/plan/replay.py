"""Proves that memory is shared rightly: goes through a plan's program and follows which tensors still hold their value.

It shares no code with what decided about memory. A write takes the value of every tensor that has a byte in common with
it; a step must read no tensor whose value was taken, and work in place only where its kernel can. ``replay_pages.py``
follows what is fetched.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.regions import proof
from twinfer.runtime.plan.replay_pages import PageReplay
from twinfer.runtime.program import COPY, Alias, Chain, If, Layer, Program, Slice, Step, While, calls_of

if TYPE_CHECKING:
    from twinfer.runtime.plan.by_rows.replay_rows import Span


def fault(plan: Plan) -> str | None:
    """What is wrong with the places of a plan, in a sentence; None if nothing is."""
    return next(chain.from_iterable([_Replay(plan).faults, proof.faults(plan)]), None)


class _Held:
    """The tensors that hold their value. Their spans do not overlap, unless they are equal."""

    def __init__(self, tensors: Iterable[tuple[Tensor, Span]] = ()) -> None:
        self.span: dict[Tensor, Span] = {}
        self.begins: list[int] = []
        self.there: dict[int, list[Tensor]] = {}
        for tensor, span in tensors:
            self.put(tensor, span)

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor in self.span

    def put(self, tensor: Tensor, span: Span) -> None:
        """A tensor has a value now; its bytes are free, or hold the value already."""
        if tensor in self.span:
            return
        self.span[tensor] = span
        if span[0] not in self.there:
            self.begins.insert(bisect_left(self.begins, span[0]), span[0])
        self.there.setdefault(span[0], []).append(tensor)

    def take(self, span: Span) -> Iterator[Tensor]:
        """Forgets all tensors that have a byte in ``span``; which they are."""
        first, last = bisect_right(self.begins, span[0]) - 1, bisect_left(self.begins, span[1])
        for begin in self.begins[max(first, 0) : last]:
            if self.span[self.there[begin][0]][1] <= span[0]:
                continue
            self.begins.remove(begin)
            for tensor in self.there.pop(begin):
                del self.span[tensor]
                yield tensor

    def copy(self) -> _Held:
        return _Held(self.span.items())

    def common(self, other: _Held) -> _Held:
        return _Held((tensor, span) for tensor, span in self.span.items() if tensor in other)


class _Replay:
    """One walk through a plan; ``faults`` are what it meets, ``taken`` says who took the value of a tensor."""

    def __init__(self, plan: Plan) -> None:
        self.spans = {t: (at, at + t.nbytes) for t, at in plan.offsets.items() if t.nbytes}
        self.number = {step: f"step {i}" for i, step in enumerate(plan.steps)}
        self.number |= {step: f"step {i} of the reset" for i, step in enumerate(plan.start)}
        self.taken: dict[Tensor, str] = {}
        self.lost: dict[While, set[Tensor]] = {}
        self.faults: list[str] = []
        self.pages = PageReplay(self.spans, self.faults.append)
        self.replay(plan.start, plan.variables, plan.lasting, "the first run")
        results = [value for value in plan.outputs if isinstance(value, Tensor)]
        self.replay(
            plan.program, [*plan.lasting, *plan.graph.inputs], [*plan.lasting, *results], "what follows the run"
        )

    def replay(self, program: Program, given: Collection[Tensor], kept: Iterable[Tensor], who: str) -> None:
        """The caller gives values, in any order; behind the program ``who`` reads those that must be ``kept``."""
        held = _Held()
        self.write(given, "the caller", held)
        over = [tensor for tensor in given if tensor in self.spans and tensor not in held]
        held = self.program(program, held)
        self.pages.control(who)
        for tensor in kept:
            self.read(tensor, who, held)
        self.faults += [f"the caller writes {tensor}, and over it another of its values" for tensor in over]

    def program(self, program: Program, held: _Held) -> _Held:
        """What holds its value behind the program; ``held`` is changed."""
        for part in program:
            match part:
                case Step():
                    self.step(part, held)
                case Alias():
                    self.same(part, held)
                case Chain():
                    self.chain(part, held)
                case If():
                    self.pages.control("a branch")
                    self.read(part.condition, "a branch", held)
                    then = self.program(part.then, held.copy())
                    self.pages.control("the other branch")
                    held = then.common(self.program(part.orelse, held))
                    self.pages.control("what follows a branch")
                case While():
                    held = self.loop(part, held)
        return held

    def loop(self, loop: While, held: _Held) -> _Held:
        """The body runs until no more values are lost: what a later iteration reads must be there.

        What a loop has lost once, it loses whenever it runs again in a loop around it, where no more values are there.
        """
        lost = self.lost.setdefault(loop, set())
        while True:
            held = _Held((tensor, span) for tensor, span in held.span.items() if tensor not in lost)
            self.pages.control("a loop")
            tested = self.program(loop.test, held.copy())
            self.pages.control("a loop's body")
            self.read(loop.condition, "a loop", tested)
            after = self.program(loop.body, tested.copy())
            gone = [tensor for tensor in held.span if tensor not in after]
            if not gone:
                return tested
            lost.update(gone)

    def step(self, step: Step, held: _Held) -> None:
        """A step must find what it reads, and write on nothing that it still reads or writes elsewhere."""
        who = f"{self.number[step]} ({step.node}, {step.call.kernel})"
        written, read = step.written, [*dict.fromkeys(_needs(step))]
        for value in read:
            self.read(value, who, held)
        for i, tensor in enumerate(written):
            over = [other for other in written[:i] if self.meet(tensor, other)]
            others = [value for value in read if value is not tensor and self.meet(tensor, value)]
            over += [v for v in others if not self.in_place(step, v, tensor) and not self.by_planes(step, v, tensor)]
            self.faults += [f"{who} writes {tensor} over {other}, which it needs" for other in over]
        self.pages.step(step, who)
        self.write(written, who, held)

    def chain(self, chain: Chain, held: _Held) -> None:
        """Row by row; behind it the tensors hold a value that still do, and those that it has computed."""
        who = f"the chain from {self.number[chain.layers[0].step]} on" if chain.layers else "the input by rows"
        inner = {link.out for link in chain.links}
        for layer in chain.layers:
            for _, tensor, _ in layer.sources:
                if tensor not in inner:
                    self.read(tensor, who, held)
        from twinfer.runtime.plan.by_rows.replay_rows import RowReplay

        self.fetched(chain, who, held)
        rows = RowReplay(chain, self.spans, held.span, who)
        self.faults += rows.faults
        for tensor in rows.lost:
            self.lose(tensor, who, held)
        self.faults += [f"{who} writes rows over {tensor}" for tensor in rows.lost if tensor in self._constants(chain)]
        for tensor in inner - chain.rings.keys():
            held.put(tensor, self.spans[tensor])

    def fetched(self, chain: Chain, who: str, held: _Held) -> None:
        """What a chain fetches, for itself and for what follows, is in memory."""
        self.pages.chain(chain, who)
        self.write([tensor for call in calls_of(chain.before) for tensor in call.written], who, held)
        for tensor in self._constants(chain):
            self.read(tensor, who, held)

    @staticmethod
    def _constants(chain: Chain) -> set[Tensor]:
        """The pages that the layers of a chain read."""
        slices = (value for layer in chain.layers for value in layer.step.call.inputs if isinstance(value, Slice))
        return {each.value for each in slices if isinstance(each.value, Tensor)}

    def in_place(self, step: Step, source: Tensor, out: Tensor) -> bool:
        """Whether a step may write ``out`` over an input: output 0 on one that its kernel can work in place on."""
        may = any(step.call.inputs[i] is source for i in step.call.inplace)
        once = [value for value in step.call.read if value is source]
        return may and len(once) == 1 and out is step.call.written[0] and self.spans[out] == self.spans[source]

    def by_planes(self, step: Step, source: Tensor, out: Tensor) -> bool:
        """Whether a step may write ``out`` over input 0, channel by channel: then it may if it may row by row."""
        rows, inputs = step.call.rows, [value for value in step.call.inputs if isinstance(value, Tensor)]
        if rows is None or not rows.planes or inputs != [source] or out is not step.call.written[0]:
            return False
        if (self.spans[source][0] - self.spans[out][0]) % rows.planes:
            return False
        layer = Layer(step, rows, out.shape[1], 1, ((0, source, source.shape[1]),))
        from twinfer.runtime.plan.by_rows.replay_rows import RowReplay

        return not RowReplay(Chain((layer,), {}), self.spans, {source: self.spans[source]}, self.number[step]).faults

    def read(self, tensor: Tensor, who: str, held: _Held) -> None:
        if tensor in self.spans and tensor not in held:
            self.faults.append(f"{who} reads {tensor}, which holds no value then{self.taken.get(tensor, '')}")

    def same(self, same: Alias, held: _Held) -> None:
        self.read(same.source, f"the copy to {same.to}", held)
        if self.spans.get(same.source) != self.spans.get(same.to):
            self.faults.append(f"{same.to} is to be the same as {same.source}, but lies elsewhere")
        elif same.to in self.spans:
            held.put(same.to, self.spans[same.to])

    def write(self, tensors: Iterable[Tensor], who: str, held: _Held) -> None:
        """Tensors get values; what lay on their bytes loses its own."""
        for tensor in tensors:
            if tensor in self.spans:
                self.lose(tensor, who, held)
                held.put(tensor, self.spans[tensor])

    def lose(self, tensor: Tensor, who: str, held: _Held) -> None:
        for lost in held.take(self.spans[tensor]):
            self.taken[lost] = f": {who} has written there"
            if lost is not tensor:
                self.pages.lost(lost)

    def meet(self, a: Tensor, b: Tensor) -> bool:
        if a not in self.spans or b not in self.spans:
            return False
        (begin, end), (other, last) = self.spans[a], self.spans[b]
        return begin < last and other < end


def _needs(step: Step) -> Iterator[Tensor]:
    """The tensors whose values a step needs: what its calls read before they write it, and an operator's own state."""
    written = set[Tensor]()
    for call in step.calls:
        yield from (value for value in call.read if isinstance(value, Tensor) and value not in written)
        written.update(call.written)
    if step.call.kernel != COPY:
        yield from (tensor for tensor in step.written if tensor.variable)
