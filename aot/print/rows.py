"""Streams as C: for every layer a function that computes some of its rows, and tables that ``run/stream.h`` runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinfer.aot.print.arguments import Arguments
from twinfer.aot.print.initialiser import initialised
from twinfer.aot.print.memory import Memory
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.rows import Member, Padding, Seen, goals, members_of
from twinfer.runtime.program import Layer, Stream

#: The header that compiled code needs.
HEADER = "run/stream.h"


@dataclass(frozen=True)
class Streams:
    """Prints the streams of one plan. ``number`` is that of the stream's first layer, ``functions`` are its layers'."""

    plan: Plan
    name: str
    arguments: Arguments

    def function_lines(self, layer: Layer, invoke: str) -> list[str]:
        """The body of the function of a layer; ``invoke`` is the call's beginning up to its params."""
        call = layer.step.call
        fields = initialised(call.kernel, _in_part(layer), "    ")
        rows = {place: f"part->x[{k}]" for k, (place, _, _) in enumerate(layer.sources)}
        pointers = [rows.get(place) or self.arguments.pointer(argument) for place, argument in enumerate(call.inputs)]
        scratch = "NULL" if layer.step.scratch is None else f"part->{Memory(self.plan).address(layer.step.scratch)}"
        return [
            "(void)context;",
            f"const {call.kernel}_params params = {{",
            *fields.split("\n"),
            "};",
            f"const void *const in[] = {{{', '.join(pointers)}}};",
            "void *const out[] = {part->y};",
            f"{invoke}(&params, in, out, {scratch});",
        ]

    def table(self, stream: Stream, number: int, functions: Sequence[str]) -> str:
        """The definition of ``symbol(number)``, the tw_stream."""
        symbol = self.symbol(number)
        layers = ",\n".join(
            self._layer(layer, stream, run) for layer, run in zip(stream.layers, functions, strict=True)
        )
        whole = goals(stream)
        return f"""static const tw_rows_layer {symbol}_layers[] = {{
{layers},
}};
static const int32_t {symbol}_goals[] = {{{", ".join(map(str, whole))}}};
static const tw_stream {symbol} = {{{symbol}_layers, {symbol}_goals, {len(stream.layers)}, {len(whole)}}};"""

    def symbol(self, number: int) -> str:
        return f"{self.name}_{number}_stream"

    def _layer(self, layer: Layer, stream: Stream, run: str) -> str:
        ring = stream.rings.get(layer.out)
        numbers = {each.out: i for i, each in enumerate(stream.layers)}
        by = layer.rows
        capacity = ring.capacity if ring else layer.height
        how = (layer.height, layer.band, by.stride, by.pad, by.reach, capacity, len(layer.sources))
        sources = (
            f"{{{numbers.get(tensor, -1)}, {height}, {self._image(tensor, height, stream)}}}"
            for _, tensor, height in layer.sources
        )
        image = self._image(layer.out, layer.height, stream)
        return f"    {{{run}, NULL, {', '.join(map(str, how))}, {image}, {{{', '.join(sources)}}}}}"

    def _image(self, tensor: Tensor, height: int, stream: Stream) -> str:
        ring = stream.rings.get(tensor)
        return f"{{{self.plan.offsets[ring.memory if ring else tensor]}, {tensor.nbytes // height}}}"

    def lines(self, stream: Stream) -> Iterator[str]:
        """What the stream keeps, for a comment."""
        for layer in stream.layers:
            ring = stream.rings.get(layer.out)
            if ring is not None:
                yield f"  {ring.capacity} of {layer.height} rows: {Memory(self.plan).span(ring.memory)}"


def _in_part(layer: Layer) -> dict[str, Any]:
    """The params of a layer, with C expressions for what differs from part to part."""
    params = _copied(layer.step.call.params)
    for member in members_of(layer):
        *path, last = member.path
        inner: Any = params
        for name in path:
            inner = inner[name]
        inner[last] = _expression(member, layer)
    return params


def _copied(params: Mapping[str, Any]) -> dict[str, Any]:
    copies = {str: str, int: int, float: float}
    return {
        name: _copied(value)
        if isinstance(value, Mapping)
        else value
        if type(value) in copies
        else list(value)
        for name, value in params.items()
    }  # fmt: skip


def _expression(member: Member | Seen | Padding, layer: Layer) -> str:
    match member:
        case Seen():
            return "part->high - part->low"
        case Padding():
            return f"tw_max(0, {member.pad} - part->first * {member.stride})" if member.pad else "0"
        case Member():
            every = (member.low, member.high) == (0, layer.height)
            rows = "1" if layer.band == 1 else "(part->end - part->first)"
            rows = rows if every else f"tw_stream_among(part, {member.low}, {member.high})"
            return f"{member.each} * {rows}" if rows != "1" else str(member.each)
