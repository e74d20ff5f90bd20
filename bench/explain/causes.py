"""Why a compiled model takes less than an interpreted one: the causes that a ledger tells apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: What a line is called that is no layer: the copies of inputs and outputs, checks, and the loop over the layers.
AROUND = "RUN"

#: The operator of a line that stands for layers which run by rows, and so not one after the other.
BY_ROWS = "CHAIN"


@dataclass(frozen=True)
class Cause:
    """``label`` heads a column, in lines of a few characters; ``about`` says what is counted, in a sentence.

    ``word`` stands in a sentence.
    """

    label: str
    about: str
    word: str


#: Key in the JSON -> cause, in the order in which tables show them.
CAUSES: Mapping[str, Cause] = {
    "dispatch_python": Cause(
        "dispatch\nPython", "one call per operator from a loop in Python instead of one in C", "dispatch from Python"
    ),
    "dispatch_c": Cause(
        "dispatch\nC", "a loop in C over a table of calls instead of one call after the other", "dispatch in C"
    ),
    "parameters": Cause(
        "params\nread",
        "shapes and parameters read at run time: addresses, bounds of loops, branches that remain",
        "constant parameters",
    ),
    "cache": Cause(
        "order,\ncache",
        "what constants gain beyond that in a whole run, where other layers have used the caches",
        "order and cache",
    ),
    "sharing": Cause(
        "shared\nbodies", "layers that share a kernel, which takes instructions and saves flash", "shared bodies"
    ),
    "unit": Cause(
        "own\nunit",
        "kernels compiled with this model's alone, not with all: what the compiler inlines, where code lies",
        "kernels compiled alone",
    ),
    "compiler_options": Cause(
        "compiler\noptions", "code for this very CPU instead of any with its instruction set", "the compiler's options"
    ),
    "not_explained": Cause("not ex-\nplained", "the same kernels from a loop in another library", "not explained"),
}


def ordered(causes: Iterable[str]) -> list[str]:
    """These causes in the order of tables."""
    there = set(causes)
    return [key for key in CAUSES if key in there]
