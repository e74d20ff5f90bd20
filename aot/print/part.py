"""A layer that computes some of its rows, as C: its params there, and which rows of its sources it needs.

``y`` is the first of the rows, ``end`` the one behind the last; ``low`` and ``high`` are the same of the first source's
rows that these need. In a function all four are variables or parameters of these names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from twinfer.aot.print.arguments import initialised, local_params, params_of, with_member
from twinfer.runtime.plan.by_rows.row_params import FIRST, PADDING, SEEN, Member, members_of
from twinfer.runtime.program import Layer

#: The variables of a part, in the order in which functions take them.
VARIABLES = ("y", "end", "low", "high")


def with_pointers(call: list[str], pointers: list[str]) -> list[str]:
    """The lines of a call with the arrays of its pointers: in front, or behind its params if these need none."""
    *params, last = call
    return [*pointers, *call] if any("in[" in line for line in params) else [*params, *pointers, last]


def used(text: str) -> list[str]:
    """The variables of a part that C code uses; members of structs may have the same names."""
    return [name for name in VARIABLES if re.search(rf"(?<![.\w]){name}\b", text)]


def declared(values: Mapping[str, str], lines: Sequence[str]) -> list[str]:
    """The definitions of the variables, name -> expression, that ``lines`` need, each behind those that it needs."""
    text, needed = "\n".join(lines), list[str]()
    for name, value in reversed([*values.items()]):
        if re.search(rf"(?<![.\w]){name}\b", text):
            needed.insert(0, f"{name} = {value}")
            text += value
    return needed


def with_params(layer: Layer, fields: str, invoke: str, section: str) -> list[str]:
    """The lines of a call for some rows of a layer, up to its scratch memory; ``invoke`` is the function called.

    ``fields`` are the layer's ``params``, ``section`` says where they lie if they are the same for all rows.
    """
    if layer.step.call.quant:
        return [*local_params(layer.step.call, fields), f"{invoke}(&params, in, out, "]
    storage = "const" if used(fields) else f"static {section} const"
    head = f"{storage} {layer.step.call.kernel}_params params = {{"
    return [head, *fields.split("\n"), "};", f"{invoke}(&params, in, out, "]


def params(layer: Layer) -> str:
    """The params of a layer for some of its rows, as designated initialisers."""
    values = params_of(layer.step.call)
    for member in members_of(layer):
        values = with_member(values, member.path, _expression(member, layer))
    return initialised(layer.step.call.kernel, values, "    ")


def _expression(member: Member, layer: Layer) -> str:
    """A member of the params, for some rows: a constant where it is the same for all of them."""
    by = layer.rows
    if member.each == SEEN:
        if not (by.pad == 0 and _within(layer)):
            return "high - low"
        return _rows(layer, by.stride, by.reach + 1 - by.stride)
    if member.each == PADDING:
        return f"tw_max(0, {member.low} - {linear('y', member.high)})" if member.low else "0"
    if member.each == FIRST:
        return linear("y", member.high)
    if (member.low, member.high) != (0, layer.height):
        among = f"tw_max(0, tw_min(end, {member.high}) - tw_max(y, {member.low}))"
        return among if member.each == 1 else f"{member.each} * {among}"
    return _rows(layer, member.each)


def _rows(layer: Layer, times: int, more: int = 0) -> str:
    """``times`` the number of rows, and ``more``."""
    if even(layer):
        return str(layer.band * times + more)
    return "end - y" if (times, more) == (1, 0) else linear("(end - y)", times, more)


def even(layer: Layer) -> bool:
    """Whether all parts of a layer have the same number of rows."""
    return layer.height % layer.band == 0


def linear(variable: str, factor: int, more: int = 0) -> str:
    """``factor * variable + more``."""
    product = variable if factor == 1 else f"{factor} * {variable}"
    return f"{product} + {more}" if more > 0 else f"{product} - {-more}" if more < 0 else product


def _within(layer: Layer) -> bool:
    """Whether no row needs what lies below the last row of the first source."""
    by, (_, _, height) = layer.rows, layer.sources[0]
    return (layer.height - 1) * by.stride - by.pad + by.reach < height


def variables(layer: Layer, y: str = "y", suffix: str = "") -> Iterator[tuple[str, str]]:
    """Name and expression of ``end``, ``low`` and ``high``, for the rows from ``y`` on; names end in ``suffix``."""
    by, (_, _, height) = layer.rows, layer.sources[0]
    end = f"end{suffix}"
    yield end, linear(y, 1, layer.band) if even(layer) else f"tw_min({y} + {layer.band}, {layer.height})"
    low = linear(y, by.stride, -by.pad)
    yield f"low{suffix}", f"tw_max(0, {low})" if by.pad else low
    more = by.reach + 1 - by.pad - by.stride
    high = linear(y, by.stride, layer.band * by.stride + more) if even(layer) else linear(end, by.stride, more)
    yield f"high{suffix}", high if _within(layer) else f"tw_min({height}, {high})"
