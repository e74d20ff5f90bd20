"""Proves that every page is complete before it is read: goes through the fetches of a program and follows their bytes.

It knows nothing of how pages were planned. A fetch may write its bytes at any time until the next wait; until then
nothing may read or write them, and nothing else may be fetched. A step must read its records in order, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from twinfer.runtime.graph import Tensor
from twinfer.runtime.program import Argument, Call, Chain, Fetch, Step, Wait, part_of
from twinfer.runtime.walks import unroll_all


class Record(NamedTuple):
    """Bytes of a page, from ``begin`` on, and the constant that they are from, from byte ``source`` on. ``number``
    counts the fetches."""

    page: Tensor
    begin: int
    end: int
    constant: object
    source: int
    number: int


class PageReplay:
    """What pages hold; ``faults`` takes what is wrong. ``spans`` are the bytes of every tensor."""

    def __init__(self, spans: Mapping[Tensor, tuple[int, int]], fault: Callable[[str], object]) -> None:
        self.spans, self.fault = spans, fault
        self.coming: Record | None = None
        self.count = 0
        self.there: dict[Tensor, list[Record]] = {}

    def step(self, step: Step, who: str) -> None:
        """Goes through the calls of a step, each iteration by itself."""
        self.calls([*unroll_all(step.body)], who)
        if step.scratch is not None:
            self.clear(step.scratch, who)

    def calls(self, calls: Sequence[tuple[Call | Wait, int]], who: str) -> None:
        """Goes through calls, each with its iteration. Those that read the same record do so one after the other."""
        last: dict[object, tuple[int, int]] = {}
        fetched = {call.written[0] for call, _ in calls if isinstance(call, Fetch)}
        for each, i in calls:
            match each:
                case Wait():
                    self.wait()
                case Fetch():
                    self.begin(each, i, who)
                case Call():
                    self.untouched(each.arguments, fetched, i, who)
                    for record in {*self.read(each, fetched, i, who)}:
                        before, behind = last.get(record.constant, (-1, 0))
                        if record.number != before and record.source != behind:
                            self.fault(f"{who} reads the records of {record.page} in another order")
                        last[record.constant] = record.number, record.source + record.end - record.begin

    def begin(self, call: Fetch, iteration: int, who: str) -> None:
        """A fetch begins."""
        source, to = part_of(call.inputs[0] or call.outputs[0]), part_of(call.outputs[0])
        if self.coming is not None:
            self.fault(f"{who} fetches before it has waited for {self.coming.page}")
        if isinstance(to.value, Tensor):
            begin, end = to.at(iteration), to.at(iteration) + call.nbytes
            if not 0 <= begin <= end <= to.value.nbytes:
                self.fault(f"{who} fetches bytes {begin} to {end} of {to.value}, which has {to.value.nbytes}")
            self.coming = Record(to.value, begin, end, source.value, source.at(iteration), self.count)
            self.count += 1

    def wait(self) -> None:
        """What was fetched is there."""
        if self.coming is not None:
            page, begin, end = self.coming[:3]
            held = [each for each in self.there.get(page, ()) if each.end <= begin or end <= each.begin]
            self.there[page] = [*held, self.coming]
        self.coming = None

    def read(self, call: Call, fetched: Collection[Tensor], iteration: int, who: str) -> Iterator[Record]:
        """The records that a call reads; a fault if one is not there."""
        for argument in call.inputs:
            part = part_of(argument) if argument is not None else None
            if part is None or not isinstance(part.value, Tensor):
                continue
            page, at = part.value, part.at(iteration)
            if page not in fetched and page not in self.there:
                continue
            record = next((each for each in self.there.get(page, ()) if each.begin <= at < each.end), None)
            if record is None:
                self.fault(f"{who} reads byte {at} of {page}, which is not there")
            else:
                yield record

    def untouched(self, arguments: tuple[Argument, ...], fetched: Collection[Tensor], iteration: int, who: str) -> None:
        """Nothing may touch what is coming: of the page itself other bytes, of other tensors none."""
        for argument in arguments:
            part = part_of(argument) if argument is not None else None
            if self.coming is None or part is None or not isinstance(part.value, Tensor):
                continue
            if part.value is not self.coming.page:
                self.clear(part.value, who)
            elif self.coming.begin <= part.at(iteration) < self.coming.end:
                self.fault(f"{who} uses {part.value} while it is fetched")

    def clear(self, tensor: Tensor, who: str) -> None:
        """A fault if a tensor lies where something is coming."""
        if self.coming is None or tensor not in self.spans:
            return
        (begin, end), first = self.spans[tensor], self.spans[self.coming.page][0]
        if begin < first + self.coming.end and first + self.coming.begin < end:
            self.fault(f"{who} uses {tensor} where {self.coming.page} is fetched")

    def chain(self, chain: Chain, who: str) -> None:
        """A chain uses the memory of all its layers, after its fetches."""
        calls = [layer.step.call for layer in chain.layers]
        self.calls([*((each, 0) for each in chain.before), *((call, 0) for call in calls)], who)
        for layer in chain.layers:
            for tensor in layer.step.touched:
                ring = chain.rings.get(tensor)
                if self.coming is None or tensor is not self.coming.page:
                    self.clear(ring.memory if ring else tensor, who)

    def lost(self, tensor: Tensor) -> None:
        """Something else has written on a page."""
        self.there.pop(tensor, None)

    def control(self, who: str) -> None:
        """The flow branches, joins or ends: nothing may be coming, and no page lasts."""
        if self.coming is not None:
            self.fault(f"nobody waits for {self.coming.page} before {who}")
        self.coming = None
        self.there.clear()
