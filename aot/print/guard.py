"""Guard mode in emitted C: every layer is watched by ``kernels/run/guard.h``, over an arena with gaps between blocks.

``runtime/run/guard.py`` does the same on the host and says more: here a status tells which layer wrote memory that is
not its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from twinfer.aot.print.blocks import Memory, in_run
from twinfer.aot.print.literals import braced, wrapped
from twinfer.runtime.errors import GuardError
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.run.guard import held, where, written
from twinfer.runtime.run.poison import Span, span

HEADER = "run/guard.h"

#: What ``<name>_run`` returns if layer 0 writes memory that is not its own; layer i: i more.
STATUS = 16

#: A macro for the header.
MACRO = ("GUARD_STATUS", f"{STATUS} /* and above: layer status - {STATUS} wrote outside its blocks */")


def tables(plan: Plan, name: str) -> str:
    """The ranges of every step in every block of memory as C tables; ``plan`` has been spread."""
    return "\n".join(_table(plan, name, region) for region in Memory(plan).blocks if plan.steps)


def _table(plan: Plan, name: str, region: Region) -> str:
    ranges, rows, what = list[Span](), list[str](), f"{name}_{region.value}"
    for step in plan.steps:
        values = _within(plan, region, (span(plan, tensor) for tensor in held(plan, step.position)))
        own = _within(plan, region, (block for _, block in written(plan, step)))
        at = len(ranges)
        rows.append(f"{{{what}_ranges + {at}, {what}_ranges + {at + len(values)}, {len(values)}, {len(own)}}}")
        ranges += [*values, *own]
    listed = wrapped([f"{{{begin}, {end}}}" for begin, end in ranges] or ["{0, 0}"])
    return f"""/* Of every layer what holds a value in the {region.value} before it, then what it may write there. */
static const tw_range {what}_ranges[] = {{
{listed},
}};
static const tw_guard {what}_guards[] = {{
{wrapped(rows)},
}};
"""


def _within(plan: Plan, region: Region, spans: Iterable[Span]) -> list[Span]:
    """The spans in a region, counted from its first byte."""
    first, end = plan.regions[region].offset, plan.regions[region].end
    return merged((begin - first, last - first) for begin, last in spans if first <= begin and last <= end)


def watched(plan: Plan, name: str, call: str, i: str) -> list[str]:
    """The lines that make a layer's call under guard; ``i`` is its number in C."""
    up, regions = name.upper(), Memory(plan).blocks
    watch = {r: f"(&{name}_{r.value}_guards[{i}], {in_run(r)}, {up}_{r.name}_BYTES)" for r in regions}
    changed = " || ".join(f"tw_guard_hash{watch[r]} != {r.value}_before" for r in regions)
    lines = [f"const uint32_t {r.value}_before = tw_guard_enter{watch[r]};" for r in regions]
    return braced([*lines, call, f"if ({changed}) return {up}_GUARD_STATUS + {i};"])


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
