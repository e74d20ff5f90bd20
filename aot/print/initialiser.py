"""Params of calls as designated initialisers of C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from twinfer.aot.print.literals import scalar, wrapped
from twinfer.runtime.params import members, struct_of
from twinfer.runtime.program import Call

#: Every call's params as they were printed: several parts of the emitter ask.
_PRINTED: WeakKeyDictionary[Call, str] = WeakKeyDictionary()


def initialiser(call: Call) -> str:
    """The call's params as designated initialisers, every field, in the struct's order (C++20 asks for that)."""
    if call not in _PRINTED:
        _PRINTED[call] = wrapped(_initialisers(struct_of(call.kernel), call.params))
    return _PRINTED[call]


def _initialisers(struct: Any, values: Mapping[str, Any]) -> list[str]:
    """What stands between the braces of a struct, in pieces between which a line may end."""
    items = list[str]()
    for field, type in members(struct):
        if type.kind == "struct":
            first, *others = _initialisers(type, values[field])
            nested = [f".{field} = {{{first}", *others]
            items += [*nested[:-1], f"{nested[-1]}}}"]
        elif type.kind == "array":
            items.append(f".{field} = {{{', '.join(_array(values[field], type.item.cname))}}}")
        else:
            items.append(f".{field} = {scalar(_number(values[field]), type.cname)}")
    return items


def _number(value: int | float) -> float:
    return value if isinstance(value, int) else float(value)


def _array(values: Sequence[int | float], type: str) -> list[str]:
    return [scalar(value, type) for value in values] or [scalar(0, type)]
