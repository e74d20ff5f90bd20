"""What ``twinfer inspect --memory`` shows: how many bytes a plan takes, why, and what would change that."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer.bench.measure.report import table
from twinfer.bench.memory.certificate import Certificate, chain_name
from twinfer.command_line.show.arena_map import ArenaMap
from twinfer.runtime.program import Chain


def memory_tables(name: str, certificate: Certificate, width: int) -> Iterator[RenderableType]:
    """The text, piece by piece, for lines of ``width`` characters."""
    plan = certificate.plan
    least = "split of these tensors costs" if plan.target.banks else "placement of these tensors needs"
    said = f"proven: no {least} less" if plan.proven else "not proven to be the least"
    state = f", state {plan.state_bytes:,} bytes" if plan.state_bytes else ""
    yield Text.assemble(
        (name, "bold"),
        f" on {plan.target.name}: arena {plan.arena_bytes:,} bytes{state}; ",
        f"lower bound {plan.lower_bound_bytes:,}, {said}",
    )
    for part in plan.program:
        if isinstance(part, Chain):
            yield Text(f"{chain_name(part)}: one row after the other{', from the last one on' * part.backwards}")
    yield _forced(certificate)
    yield _hints(certificate)
    if plan.arena_bytes:
        yield from ArenaMap(plan).render(width)


def _forced(certificate: Certificate) -> Table:
    forced = certificate.forced_by
    lines = table(f"What forces {forced.nbytes:,} bytes: {forced.layer}", "<live there", "bytes")
    for name, size in forced.tensors:
        lines.add_row(Text(name, overflow="ellipsis", no_wrap=True), f"{size:,}")
    return lines


def _hints(certificate: Certificate) -> RenderableType:
    if not certificate.hints:
        return Text("No change that was planned needs less RAM.")
    lines = table("What would need less RAM, each planned", "<change", "RAM", "saved")
    for hint in certificate.hints:
        lines.add_row(Text(hint.text), f"{hint.ram_bytes:,}", f"{-100 * hint.ram_change:.0f} %")
    return lines
