"""What ``twinfer stream`` shows: the window model beside the streaming one, and the operators that need all rows."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.measure.report import table
from twinfer.converter.stream import convert
from twinfer.converter.stream.convert import Proof, Streaming
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.target import GENERIC


def tables(graph: Graph, streaming: Streaming, proof: Proof, path: str) -> Iterator[RenderableType]:
    """Everything, from the headline to the verdict."""
    rows = f"{streaming.rows} rows a window, {streaming.hop} new in a step"
    yield Text.assemble((graph.name, "bold"), f": {rows}, a first full window after {streaming.steps} steps")
    window, step = make_plan(graph, GENERIC), make_plan(streaming.graph, GENERIC)
    lines = table("What a step costs, on a 32-bit microcontroller", "<", "MACs", "arena", "state", "constants")
    for name, plan in (("window", window), ("step", step)):
        cells = (plan.macs, plan.arena_bytes, plan.state_bytes, plan.constant_bytes)
        lines.add_row(name, *(f"{cell:,}" for cell in cells))
    if step.macs:
        lines.add_row("ratio", f"{window.macs / step.macs:.1f}", "", "", "")
    yield lines
    if streaming.whole:
        lines = table("Operators that run over all rows in every step", "#", "<operator", "<because")
        for node, why in streaming.whole.items():
            lines.add_row(str(node.index), node.op, Text(why))
        yield lines
    if step.macs >= window.macs:
        least = convert.stream(graph, axis=streaming.axis).hop  # what helps where new rows do not fit strides
        remedy = f"; --hop must be a multiple of {least}, the strides' product, not {streaming.hop}"
        told = "Nothing is gained: a step costs as much as a window"
        yield Text(told + (remedy if streaming.hop % least else ""), style="yellow")
    if proof.different:
        yield Text(f"{proof.different} of {proof.windows} windows differ: nothing was written", style="red")
    else:
        yield Text(
            f"{path}: the same bits as the window model in {proof.windows} windows of random rows", style="green"
        )
