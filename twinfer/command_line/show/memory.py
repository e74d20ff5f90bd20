"""How many bytes a plan takes, why, and what would change that; and a picture of its arena, a line per operator."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.measure.grid import Grid
from twinfer.bench.measure.report import table
from twinfer.bench.memory.certificate import Certificate, chain_name
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.unsigned import is_added
from twinfer.runtime.plan.pages import fetches_of
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.regions.traffic import costs
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
    for end in certificate.ends:
        yield Text(f"{end.layer} does not run by rows: {end.why}; {end.nbytes:,} bytes lie whole")
    if plan.options.weights_as == "paged":
        sizes = [fetch.nbytes for fetch in fetches_of(plan.program)]
        yield Text(f"pages: {len(sizes)} fetches, {sum(sizes):,} bytes, {max(sizes, default=0):,} at a time at most")
    forced = certificate.forced_by
    live = table(f"What forces {forced.nbytes:,} bytes: {forced.layer}", "<live there", "bytes")
    for tensor, size in forced.tensors:
        live.add_row(Text(tensor, overflow="ellipsis", no_wrap=True), f"{size:,}")
    yield live
    changes = table("What would need less RAM, each planned", "<change", "RAM", "saved")
    for hint in certificate.hints:
        changes.add_row(Text(hint.text), f"{hint.ram_bytes:,}", f"{-100 * hint.ram_change:.0f} %")
    yield changes if certificate.hints else Text("No change that was planned needs less RAM.")
    if plan.arena_bytes:
        yield from ArenaMap(plan).render(width)


#: What a piece of the arena is to an operator, the most important first.
KINDS = {"written": "█", "read": "▓", "scratch": "▒", "held": "░"}

COLOURS = ("green", "cyan", "yellow", "magenta", "blue", "red", "bright_green", "bright_cyan", "bright_magenta")

Piece = tuple[int, int, str, str]  # first byte, byte after the last, kind, colour


class ArenaMap:
    """What lies where and when; an operator's number is its position among the planned ones, dropped copies included.

    ``peak`` is the operator at which most bytes are live.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.offsets = {t: plan.offsets[t] for t, place in plan.places.items() if place.region.kind == "arena"}
        self.width = max(plan.regions[region].end for region in plan.arenas)
        self.steps = {step.position: step for step in plan.steps}
        self.peak = max(range(len(plan.nodes)), key=self.live_bytes, default=0)

    def pieces(self, position: int) -> list[Piece]:
        """What lies where while an operator runs, the most important last."""
        node, step = self.plan.nodes[position], self.steps.get(position)
        read, written = (step.call.read, step.call.written) if step else (node.inputs[:1], node.outputs)
        pieces: list[Piece] = []
        for i, (tensor, (first, last)) in enumerate(self.plan.lives.items()):
            if first <= position <= last and tensor in self.offsets:
                at = self.offsets[tensor]
                scratch = step is not None and tensor is step.scratch
                free = "scratch" if scratch else "held"
                kind = "written" if tensor in written else "read" if tensor in read else free
                pieces.append((at, at + tensor.nbytes, kind, "bright_black" if scratch else COLOURS[i % len(COLOURS)]))
        return sorted(pieces, key=lambda piece: -list(KINDS).index(piece[2]))

    def live_bytes(self, position: int) -> int:
        """Bytes of the arena in use while an operator runs; shared ones count once."""
        total = end = 0
        for start, stop, _, _ in sorted(self.pieces(position)):
            total += max(0, stop - max(start, end))
            end = max(end, stop)
        return total

    def bar(self, position: int, width: int) -> Text:
        """The arena while an operator runs, in ``width`` characters; a character shows what holds its middle byte."""
        cells: list[tuple[str, str]] = [("·", "bright_black")] * width
        for start, stop, kind, colour in self.pieces(position):
            first = round(start * width / self.width)
            last = max(first + 1, round(stop * width / self.width))
            cells[first:last] = [(KINDS[kind], colour)] * (min(last, width) - min(first, width))
        return Text.assemble(*cells[:width])

    def render(self, width: int) -> Iterator[RenderableType]:
        """Title, legend, and one line per operator, in ``width`` characters if that is enough for a picture."""
        plan, nodes = self.plan, self.plan.nodes
        bound = plan.lower_bound_bytes
        over = f"{100 * (plan.arena_bytes / bound - 1):.1f} % above" if bound and plan.arena_bytes > bound else "at"
        yield Text.assemble(("Arena", "bold"), f": {plan.arena_bytes:,} bytes, {over} the lower bound of {bound:,}")
        for region, cost in costs(plan).items():
            first, last = plan.regions[region].offset, plan.regions[region].end
            yield Text(f"{region.value}: {last - first:,} bytes [{first:,}, {last:,}), traffic of a run costs {cost:,}")
        if plan.state_bytes:
            yield Text.assemble(("State", "bold"), f": {plan.state_bytes:,} bytes that last from run to run")
        if nodes:
            where = f"operator {number(nodes[self.peak])} {title(nodes[self.peak])}".replace("  ", " ")
            yield Text(
                f"peak: {self.live_bytes(self.peak):,} bytes live at {where}, scratch at most {plan.scratch_bytes:,}"
            )
        yield Text("  ".join(f"{glyph} {kind}" for kind, glyph in KINDS.items()), style="bright_black")
        names = max((len(title(node)) for node in nodes), default=0) + len(f"{plan.arena_bytes:,}")
        bar = max(16, min(64, width - names - 16))
        table = Grid.grid(padding=(0, 1))
        for justify in ("right", "left", "right", "left", "left"):
            table.add_column(justify=justify, no_wrap=True)
        for i, node in enumerate(nodes):
            mark = "◀ peak" if i == self.peak else ""
            table.add_row(number(node), title(node), f"{self.live_bytes(i):,}", self.bar(i, bar), mark)
        yield table


def number(node: Node) -> str:
    """The number of an operator in its file; none if planning added it."""
    return "" if is_added(node) else str(node.index)


def title(node: Node) -> str:
    """An operator's name, + before one that planning added."""
    return f"+ {node.op}" if is_added(node) else node.op
