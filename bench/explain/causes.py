"""Why a compiled model takes less than an interpreted one: the causes that a ledger tells apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """``label`` heads a column, in lines of a few characters; ``about`` says what is counted, in a sentence."""

    label: str
    about: str


#: Key in the JSON -> cause, in the order in which tables show them.
CAUSES: Mapping[str, Cause] = {
    "dispatch_python": Cause("dispatch\nPython", "one call per operator from a loop in Python instead of one in C"),
    "dispatch_c": Cause("dispatch\nC", "a loop in C over a table of calls instead of one call after the other"),
    "parameters": Cause(
        "params\nread", "shapes and parameters read at run time: addresses, bounds of loops, branches that remain"
    ),
    "cache": Cause("order,\ncache", "what constants gain beyond that because of what the layers before left in caches"),
    "sharing": Cause("shared\nbodies", "layers that share a kernel, which takes instructions and saves flash"),
    "compiler_options": Cause("compiler\noptions", "code for this very processor instead of for its level"),
    "not_explained": Cause("not ex-\nplained", "the same kernels, loop and options in another library"),
}


def ordered(causes: Iterable[str]) -> list[str]:
    """These causes in the order of tables."""
    there = set(causes)
    return [key for key in CAUSES if key in there]
