"""Guard mode in emitted C: every layer is watched by ``kernels/run/guard.h``, over an arena with gaps between blocks.

``runtime/run/guard.py`` does the same on the host and says more: here a status tells which layer wrote memory that is
not its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from twinfer.aot.print.literals import wrapped
from twinfer.runtime.errors import GuardError
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.guard import held, where, written
from twinfer.runtime.run.poison import Span, span

HEADER = "run/guard.h"

#: What ``<name>_run`` returns if layer 0 writes memory that is not its own; layer i: i more.
STATUS = 16

#: A macro for the header.
MACRO = ("GUARD_STATUS", f"{STATUS} /* and above: layer status - {STATUS} wrote outside its blocks */")


def tables(plan: Plan, name: str) -> str:
    """The ranges of every step as C tables; ``plan`` has been spread."""
    ranges: list[Span] = []
    rows = []
    for step in plan.steps:
        values = merged(span(plan, tensor) for tensor in held(plan, step.position))
        own = merged(block for _, block in written(plan, step))
        at = len(ranges)
        rows.append(f"{{{name}_ranges + {at}, {name}_ranges + {at + len(values)}, {len(values)}, {len(own)}}}")
        ranges += [*values, *own]
    if not rows:
        return ""
    listed = wrapped([f"{{{begin}, {end}}}" for begin, end in ranges] or ["{0, 0}"])
    return f"""/* Of every layer what holds a value before it, then what it may write. */
static const tw_range {name}_ranges[] = {{
{listed},
}};
static const tw_guard {name}_guards[] = {{
{wrapped(rows)},
}};
"""


def watched(name: str, call: str, i: str) -> str:
    """The block that makes a layer's call under guard; ``i`` is its number in C."""
    arguments = f"&{name}_guards[{i}], base, {name.upper()}_ARENA_BYTES"
    return f"""{{
        const uint32_t before = tw_guard_enter({arguments});
        {call}
        if (tw_guard_hash({arguments}) != before) return {name.upper()}_GUARD_STATUS + {i};
    }}"""


def merged(spans: Iterable[Span]) -> list[Span]:
    """Spans of the same bytes that do not touch, in rising order."""
    apart: list[Span] = []
    for begin, end in sorted(s for s in spans if s[0] < s[1]):
        if apart and begin <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((begin, end))
    return apart


def check_status(plan: Plan, status: int) -> None:
    """GuardError if a run's status says that a layer wrote memory that is not its own."""
    if STATUS <= status < STATUS + len(plan.steps):
        i = status - STATUS
        blocks = ", ".join(f"{name} [{begin}, {end})" for name, (begin, end) in written(plan, plan.steps[i]))
        raise GuardError(f"{where(i, plan.steps[i])} wrote outside its blocks: {blocks}; run it on the host for more")
