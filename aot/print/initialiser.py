"""Params of calls as designated initialisers of C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any
from weakref import WeakKeyDictionary

from twinfer.aot.print.literals import WIDTH, scalar, wrapped
from twinfer.runtime.params import members, struct_of
from twinfer.runtime.program import Call

_INDENT = "    "

#: Call -> its params as C. Several parts of the emitter ask for them.
_PRINTED: WeakKeyDictionary[Call, str] = WeakKeyDictionary()


def initialiser(call: Call) -> str:
    """The call's params as designated initialisers, every field, in the struct's order (C++20 asks for that)."""
    if call not in _PRINTED:
        _PRINTED[call] = _lines(struct_of(call.kernel), call.params, _INDENT)
    return _PRINTED[call]


def initialised(kernel: str, params: Mapping[str, Any], indent: str) -> str:
    """The same of params whose members may be expressions in C, as text."""
    return _lines(struct_of(kernel), params, indent)


def _lines(struct: Any, values: Mapping[str, Any], indent: str) -> str:
    """The fields of a struct, in indented lines; one that takes several lines shares none of them."""
    fields = [_field(name, type, values[name], indent) for name, type in members(struct)]
    blocks = list[str]()
    for several, group in groupby(fields, key=lambda field: "\n" in field):
        run = list(group)
        blocks += [indent + field for field in run] if several else [wrapped(run, indent)]
    return ",\n".join(blocks)


def _field(name: str, type: Any, value: Any, indent: str) -> str:
    """A field and its value, on one line if that fits."""
    if isinstance(value, str):
        return f".{name} = {value}"
    if type.kind == "array":
        return f".{name} = {{{', '.join(_array(value, type.item.cname))}}}"
    if type.kind != "struct":
        return f".{name} = {scalar(_number(value), type.cname)}"
    inside = _lines(type, value, indent + _INDENT)
    short = f".{name} = {{{inside.strip()}}}"
    fits = "\n" not in short and len(indent) + len(short) < WIDTH
    return short if fits else f".{name} = {{\n{inside},\n{indent}}}"


def _number(value: int | float) -> float:
    return value if isinstance(value, int) else float(value)


def _array(values: Sequence[int | float | str], type: str) -> list[str]:
    return [value if isinstance(value, str) else scalar(value, type) for value in values] or [scalar(0, type)]
