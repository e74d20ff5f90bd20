"""Paged constants: they lie in memory without addresses, and a layer works on a copy of its own in the arena, its page.

A page is fetched while the layer before it computes. A layer whose constants exceed a page is computed in slices of its
channels where its kernel allows that: two pages take turns. The copies are tensors, which the planner places like any
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

import numpy as np

from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.graph import Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.decoding import part_of_layer
from twinfer.runtime.plan.lifetimes import Lifetimes
from twinfer.runtime.plan.lower import Lowered
from twinfer.runtime.plan.solve.puzzle import aligned
from twinfer.runtime.plan.weights import PackedWeights
from twinfer.runtime.program import (
    COPY,
    Argument,
    Call,
    Chain,
    Fetch,
    If,
    Instruction,
    Loop,
    Part,
    Program,
    Slice,
    Step,
    Wait,
    While,
    part_of,
)
from twinfer.runtime.target import Target
from twinfer.runtime.walks import steps_of, unroll, with_calls

WAIT = Wait()

#: The least alignment of a constant in a page.
LEAST = 8


class Paged(NamedTuple):
    """A step or chain that works on pages. ``records`` has all that is fetched, ``nbytes`` at a time, to places in
    ``page``.

    ``parts`` are the calls of a step in slices, in order, each with how often it runs: it takes the next record every
    time. The last record may be shorter: it has ``last`` bytes. Without parts there is one record.
    """

    part: Step | Chain
    records: Constant
    page: Tensor
    nbytes: int
    last: int
    parts: tuple[tuple[Call, int], ...] = ()

    @property
    def total(self) -> int:
        """How many records there are."""
        return sum(times for _, times in self.parts) or 1

    def fetch(self, i: int, iterations: bool = False) -> Fetch:
        """The call that fetches record ``i``; in a loop the records from ``i`` on, which is odd."""
        size = self.last if i == self.total - 1 and not iterations else self.nbytes
        at, to = self.nbytes * i, self.nbytes * (i % 2)
        source, place = Slice(self.records, at), Slice(self.page, to)
        if iterations:
            source, place = Slice(self.records, at, self.nbytes), Slice(self.page, to, -self.nbytes, 2)
        return Fetch(COPY, {"size": size}, (source,), (place,))


def paged(lowered: Lowered, lives: Lifetimes, target: Target, options: Options) -> Lowered:
    """The same program over pages, whose tensors live as ``lives`` says without them. What runs before the first run
    keeps its constants."""
    live = [0] * (max((step.position for step in lowered.steps), default=-1) + 4)
    blocks: dict[Tensor, list[Tensor]] = {}
    for tensor, owner in lives.owners.items():
        blocks.setdefault(owner, []).append(tensor)
    for tensors in blocks.values():
        size = max(tensor.nbytes for tensor in tensors)
        live[1 + min(lives.lives[t][0] for t in tensors)] += size
        live[2 + max(lives.lives[t][1] for t in tensors)] -= size
    used = [*accumulate(live)][1:]
    return replace(lowered, program=_program(lowered.program, used, target, options))


def fetches_of(program: Program) -> Iterator[Fetch]:
    """The fetches of a program that does every step once, as they are made."""
    for part in program:
        if isinstance(part, Step | Chain):
            calls = unroll(part.body if isinstance(part, Step) else part.before)
            yield from (call for call, _ in calls if isinstance(call, Fetch))
        elif isinstance(part, If):
            yield from fetches_of((*part.then, *part.orelse))
        elif isinstance(part, While):
            yield from fetches_of((*part.test, *part.body))


def _program(program: Program, used: Sequence[int], target: Target, options: Options) -> Program:
    """A program over pages; ``used`` are the bytes that live at every position without them."""
    parts: list[Part] = []
    for straight, group in groupby(program, lambda part: isinstance(part, Step | Chain)):
        if straight:
            parts += _train([part for part in group if isinstance(part, Step | Chain)], used, target, options)
            continue
        for part in group:
            if isinstance(part, If):
                inner = (_program(each, used, target, options) for each in (part.then, part.orelse))
                parts.append(If(part.condition, *inner))
            elif isinstance(part, While):
                inner = (_program(each, used, target, options) for each in (part.test, part.body))
                parts.append(While(part.condition, *inner))
            else:
                parts.append(part)
    return tuple(parts)


def _train(parts: Sequence[Step | Chain], used: Sequence[int], target: Target, options: Options) -> list[Step | Chain]:
    """Parts that run one after the other, each of which fetches the page of the next one."""
    layers = [_paged(part, target, options.page_bytes) for part in parts]
    numbers = [i for i, layer in enumerate(layers) if layer]
    live = [max((used[step.position] for step in steps_of([part])), default=0) for part in parts]
    early = _early(layers, live, 2 * options.page_bytes)
    made = [*parts]
    for i, after in zip(numbers, [*numbers[1:], None], strict=False):
        layer, following = layers[i], layers[after] if after is not None and after in early else None
        if layer:
            made[i] = _part(layer, following, fetched=i in early)
    return made


def _early(layers: Sequence[Paged | None], used: Sequence[int], small: int) -> set[int]:
    """The layers whose pages are fetched while another one computes: small ones, and others as far as that raises no
    peak. A page that comes late delays its layer, one that comes early is memory."""
    own = [live + (layer.page.nbytes if layer else 0) for live, layer in zip(used, layers, strict=True)]
    numbers = [i for i, layer in enumerate(layers) if layer]
    early = set[int]()
    for only_small in (True, False):
        for before, i in pairwise(numbers):
            layer = layers[i]
            size, most = layer.page.nbytes if layer else 0, max(own)
            fits = size <= small if only_small else all(each + size <= most for each in own[before:i])
            if fits and i not in early:
                early.add(i)
                own[before:i] = [each + size for each in own[before:i]]
    return early


def _paged(part: Step | Chain, target: Target, page_bytes: int) -> Paged | None:
    """A part of a program over pages; None for one without constants."""
    steps, alignment = [*steps_of([part])], max(LEAST, target.block_alignment)
    read = dict.fromkeys(value for step in steps for value in step.read)
    constants = [value for value in read if isinstance(value, Constant) and value.array.size]
    if not constants:
        return None
    whole = sum(aligned(constant.nbytes, alignment) for constant in constants)
    if isinstance(part, Step) and whole > page_bytes and (cut := _cut(part, alignment, page_bytes)):
        return cut
    content, places = bytearray(), dict[Constant, int]()
    for constant in constants:
        places[constant] = len(content)
        content += _padded(np.ascontiguousarray(constant.array).tobytes(), alignment)
    page = _tensor(steps[0], len(content))

    def moved(argument: Argument) -> Argument:
        place = part_of(argument) if argument is not None else None
        if place is None or place.value not in places:
            return argument
        return place._replace(value=page, offset=places[place.value] + place.offset)

    def over_page(step: Step) -> Step:
        new = {call: replace(call, inputs=tuple(map(moved, call.inputs))) for call in step.calls}
        return replace(step, call=new[step.call], body=with_calls(step.body, new.__getitem__))

    own = over_page(part) if isinstance(part, Step) else _chain(part, over_page)
    return Paged(own, _records(steps[0], content), page, len(content), len(content))


def _chain(chain: Chain, over_page: Callable[[Step], Step]) -> Chain:
    return replace(chain, layers=tuple(replace(layer, step=over_page(layer.step)) for layer in chain.layers))


def _cut(step: Step, alignment: int, page_bytes: int) -> Paged | None:
    """The step in slices of its channels; None if it cannot be cut, or no slice would be smaller than all."""
    call, layout = step.call, step.call.weights
    weights = call.inputs[1] if layout else None
    if layout is None or not layout.unit or not isinstance(weights, Constant) or step.body != (call,):
        return None
    layer = PackedWeights(step, weights, layout)
    shared = [value for value in call.read if isinstance(value, Constant) and not _is_cut(value)]
    room = page_bytes - sum(aligned(value.nbytes, alignment) for value in shared)
    each = sum(value.nbytes for value in call.read if isinstance(value, Constant) and _is_cut(value)) / layer.shares
    channels = layer.channels(int(room / max(each, 1)) if room > 0 else 1)
    if not channels:
        return None
    count, unit = layer.out // channels, layout.unit
    content, places = bytearray(), dict[int, int]()
    for i in range(count):
        record, places = _record(layer, channels * i, channels, alignment)
        content += record
    size = last = len(content) // count
    page = _tensor(step, 2 * size)
    first = _on_page(part_of_layer(layer, call, channels, stride=channels), page, places, (size, 2))
    parts = [(first, count)]
    if layer.out % unit:
        at = layer.out // unit * unit
        record, places = _record(layer, at, unit, alignment)
        output = layer.out - unit if layout.overlap else at
        rest = part_of_layer(layer, call, unit if layout.overlap else layer.out - at, at, output)
        where = {place: offset + size * (count % 2) for place, offset in places.items()}
        parts.append((_on_page(rest, page, where, (0, 0)), 1))
        last = len(record)
        content += record
    own = replace(step, call=first)
    return Paged(own, _records(step, content), page, size, last, tuple(parts))


def _is_cut(constant: Constant) -> bool:
    """Whether a slice of channels needs a part of a constant alone."""
    return constant.array.size > 1 and constant.role is not Role.QUANT


def _record(layer: PackedWeights, first: int, channels: int, alignment: int) -> tuple[bytes, dict[int, int]]:
    """What a slice of so many channels needs; and where the call's inputs lie in it, by their numbers."""
    content, places = bytearray(), dict[int, int]()
    units = -(-layer.out // layer.layout.unit) * layer.layout.unit
    for i, value in enumerate(layer.call.inputs):
        if not isinstance(value, Constant) or not value.array.size:
            continue
        places[i], data = len(content), np.ascontiguousarray(value.array).tobytes()
        if _is_cut(value):
            shares = layer.shares if i == 1 else units
            share = len(data) // shares
            at = min(first, shares - channels) if i == 1 else first
            data = data[share * at : share * (at + channels)]
        content += _padded(data, alignment)
    return bytes(content), places


def _on_page(call: Call, page: Tensor, places: dict[int, int], moves: tuple[int, int]) -> Call:
    """The call over a page; in a loop two places take turns."""
    inputs = (Slice(page, places[i], *moves) if i in places else value for i, value in enumerate(call.inputs))
    return replace(call, inputs=tuple(inputs))


def _part(layer: Paged, following: Paged | None, *, fetched: bool) -> Step | Chain:
    """The part over its pages, which also fetches the first page of the one that follows."""
    more = (following.fetch(0),) if following else ()
    before: tuple[Fetch | Wait, ...] = () if fetched else (layer.fetch(0),)
    if isinstance(layer.part, Chain):
        return replace(layer.part, before=(*before, WAIT, *more))
    if not layer.parts:
        return replace(layer.part, body=(*before, WAIT, *more, *layer.part.body))
    body, at = list[Instruction](before), 0
    for call, times in layer.parts:
        looped, at = times - 1, at + times
        if looped:
            body.append(Loop(looped, (WAIT, layer.fetch(at - looped, iterations=True), call)))
        body += [WAIT, *(more if at == layer.total else [layer.fetch(at)]), _at(call, looped)]
    return replace(layer.part, body=tuple(body))


def _at(call: Call, iteration: int) -> Call:
    """The call of one iteration of a loop by itself."""

    def at(part: Slice) -> Slice:
        return Slice(part.value, part.at(iteration))

    inputs = (at(value) if isinstance(value, Slice) else value for value in call.inputs)
    outputs = (at(value) if isinstance(value, Slice) else value for value in call.outputs)
    return replace(call, inputs=tuple(inputs), outputs=tuple(outputs))


def _padded(data: bytes, alignment: int) -> bytes:
    return data.ljust(aligned(len(data), alignment), b"\0")


def _records(step: Step, content: bytes | bytearray) -> Constant:
    name = f"constants of operator {step.node.index} {step.node.op}"
    return Constant(np.frombuffer(bytes(content), np.uint8), Role.PAGE, name=name)


def _tensor(step: Step, nbytes: int) -> Tensor:
    """A page; its type gives its alignment."""
    return Tensor(f"page of operator {step.node.index}", "INT64", (nbytes // 8,))
