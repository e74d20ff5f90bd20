"""Params of kernels as plain values, nested like the C struct ``<kernel>_params``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from twinfer import kernels_c

#: A number, the elements of an array, or the members of a struct by name.
Param = int | float | Sequence[int] | Sequence[float] | Mapping[str, Any]


@cache
def members(struct: Any) -> Sequence[tuple[str, Any]]:
    """Name and type of every member of a C struct, in order."""
    return tuple((name, member.type) for name, member in struct.fields or ())


def struct_of(kernel: str) -> Any:
    """The type of a kernel's params, as cffi describes it; RuntimeError if no header defines the kernel."""
    try:
        return kernels_c.params_type(kernel)
    except KeyError:
        why = f"no header defines the kernel {kernel}, or the C extension is older than that header: make build"
        raise RuntimeError(why) from None


def check_params(kernel: str, params: Mapping[str, Param]) -> None:
    """RuntimeError, which names the members, if ``params`` lacks some of the kernel's struct or has others."""
    _check(kernel, struct_of(kernel), params)


def _check(place: str, struct: Any, values: Mapping[str, Any]) -> None:
    wanted, structs = _names(struct)
    if values.keys() != wanted:
        missing, unknown = sorted(wanted - values.keys()), sorted(values.keys() - wanted)
        raise RuntimeError(f"params of {place}: missing {missing}, unknown {unknown}")
    for name, type in structs:
        _check(f"{place}.{name}", type, values[name])


@cache
def _names(struct: Any) -> tuple[frozenset[str], Sequence[tuple[str, Any]]]:
    """The names of all members of a C struct, and those that are structs with their types."""
    inner = tuple((name, type) for name, type in members(struct) if type.kind == "struct")
    return frozenset(name for name, _ in members(struct)), inner
