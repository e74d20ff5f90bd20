"""The params of a layer in a part of its rows, as C: what differs from part to part is an expression of the part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twinfer.runtime.plan.by_rows.row_params import FIRST, PADDING, SEEN, Member, members_of
from twinfer.runtime.program import Layer


def in_part(layer: Layer) -> Any:
    """The params of a layer, with C expressions for what differs from part to part."""
    params: Any = layer.step.call.params
    for member in members_of(layer):
        params = _with(params, member.path, _expression(member, layer))
    return params


def _with(value: Any, path: Sequence[str | int], member: str) -> Any:
    """A copy of params, or of a member of them, in which the member at ``path`` is another one."""
    if not path:
        return member
    first, *rest = path
    items: Any = dict(value) if isinstance(value, Mapping) else list(value)
    items[first] = _with(items[first], rest, member)
    return items


def _expression(member: Member, layer: Layer) -> str:
    """What a member is in a part, in C: a constant where it is the same in all parts, which the compiler folds."""
    by, alike = layer.rows, layer.height % layer.band == 0
    if member.each == SEEN:
        if not _inside(layer):
            return "part->high - part->low"
        more = by.reach + 1 - by.stride
        seen = _times(by.stride) + (f" + {more}" if more else "")
        return str(layer.band * by.stride + more) if alike else seen
    if member.each == PADDING:
        first = f"part->first * {member.high}" if member.high > 1 else "part->first"
        return f"tw_max(0, {member.low} - {first})" if member.low else "0"
    if member.each == FIRST:
        return f"part->first * {member.high}"
    if (member.low, member.high) != (0, layer.height):
        return f"{member.each} * tw_chain_among(part, {member.low}, {member.high})"
    return str(member.each * layer.band) if alike else _times(member.each)


def _times(number: int) -> str:
    """A part's rows, so many times."""
    rows = "part->end - part->first"
    return rows if number == 1 else f"{number} * ({rows})"


def _inside(layer: Layer) -> bool:
    """Whether no window of a layer leaves its first source."""
    by, (_, _, height) = layer.rows, layer.sources[0]
    return by.pad == 0 and (layer.height - 1) * by.stride + by.reach < height
