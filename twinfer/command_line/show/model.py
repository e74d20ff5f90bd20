"""What ``twinfer inspect`` shows: a model as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer.bench.measure.report import kernel_suffix, table
from twinfer.command_line.show.description import called_nodes, constant_bytes, planned_nodes, targets, unsupported
from twinfer.command_line.show.memory import ArenaMap, number, title
from twinfer.converter.offline.stored import stored_plan
from twinfer.runtime.control import CONTROL
from twinfer.runtime.graph import Graph, Node, Tensor, walk
from twinfer.runtime.passes.folding import FOLDED
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.printable import printable
from twinfer.runtime.program import Call
from twinfer.runtime.registry import missing
from twinfer.runtime.target import GENERIC, HOST, NATIVE


def render(name: str, graph: Graph, plan: Plan | None, reason: str, width: int) -> Iterator[RenderableType]:
    """The text, piece by piece, for lines of ``width`` characters."""
    yield _headline(name, graph, plan)
    yield _ends(graph)
    for i, one in enumerate(walk(graph)):
        yield _operators(one, plan, i, f"Subgraph {i}" if graph.subgraphs else "Operators")
    yield from _facts(graph)
    if plan is None:
        yield Text(f"No plan: {reason}", style="red")
        return
    declines = table("Variants that declined", "#", "<operator", "<variant", "<reason", gap=1)
    for step in plan.steps:
        for variant, why in step.choice.declined:
            declines.add_row(number(step.node), title(step.node), variant, why)
    if declines.row_count:
        yield declines
    yield _sizes(plan)
    if plan.arena_bytes:
        yield from ArenaMap(plan).render(width)


def _headline(name: str, graph: Graph, plan: Plan | None) -> Text:
    parts = [
        f"{len(graph.nodes)} operators",
        f"{len(graph.tensors)} tensors",
        f"{constant_bytes(graph):,} constant bytes",
    ]
    if plan:
        parts += [f"{plan.macs:,} MACs", f"arena {plan.arena_bytes:,} bytes"]
        parts += [f"state {plan.state_bytes:,} bytes"] if plan.state_bytes else []
    about = f"\n{graph.description}" if graph.description else ""
    return Text.assemble((name, "bold"), ": " + ", ".join(parts) + about)


def _ends(graph: Graph) -> Table:
    lines = table("Inputs and outputs", "<", "<name", "<type", "<shape", "<quantisation")
    for kind, tensors in (("in", graph.inputs), ("out", graph.outputs)):
        for i, t in enumerate(tensors):
            lines.add_row(f"{kind} {i}", Text(t.name), t.type, dims(t.shape_signature or t.shape), quantisation(t))
    return lines


def dims(shape: Sequence[int]) -> str:
    """1×96×96×3; an open dimension is ?, a scalar ()."""
    return "×".join("?" if d == -1 else str(d) for d in shape) or "()"


def quantisation(tensor: Tensor, digits: int = 6) -> str:
    """Scale and zero point, or how many there are."""
    quant = tensor.quant
    if quant is None or not quant.scale.size:
        return "-"
    if quant.per_channel:
        return f"{quant.scale.size} scales, axis {quant.axis}"
    return f"{quant.scale[0]:.{digits}g}, {int(quant.zero_point[0])}"


def _operators(graph: Graph, plan: Plan | None, index: int, heading: str) -> Table:
    columns = ("<operator", "<inputs", "<output", "<type", "<scale, zero", "<kernel", "MACs", "constant\nbytes")
    lines = table(heading, "#", *columns, gap=1)
    if plan is not None and index:
        rows = list(called_nodes(graph, plan.graph.subgraphs[index - 1], plan.target))
    else:
        rows = [(node, step.call if step else None) for node, step in planned_nodes(graph, plan)]
    names = variables(node for node, _ in rows)
    for node, call in rows:
        lost = bool(missing([node]))
        out = node.outputs[0] if node.outputs else None
        constants = sum(t.data.nbytes for t in node.inputs if t is not None and t.data is not None)
        lines.add_row(
            number(node),
            Text(title(node), style="red" if lost else ""),
            ", ".join(names.get(t) or dims(t.shape) for t in node.inputs if t is not None and t.data is None) or "-",
            ", ".join(names.get(t) or dims(t.shape) for t in node.outputs) or "-",
            out.type if out else "-",
            quantisation(out, 4) if out else "-",
            Text("unsupported", style="red") if lost else _kernel(node, call, index == 0) if plan else "-",
            f"{call.macs:,}" if call and call.macs else "-",
            f"{constants:,}" if constants else "-",
        )
    return lines


def _kernel(node: Node, call: Call | None, main: bool) -> str:
    """What a plan makes of an operator; whether a variable is copied is known of the main subgraph alone."""
    if node.op in CONTROL and not (main and node.op in ("READ_VARIABLE", "ASSIGN_VARIABLE")):
        return CONTROL[node.op]
    if call is not None:
        return kernel_suffix(node.op, call.kernel)
    if FOLDED in node.options:
        return f"folded into {node.options[FOLDED]}"
    return "constant" if node.outputs and node.outputs[0].data is not None else "in place"


def _sizes(plan: Plan) -> Table:
    lines = table("Bytes by target", "<target", "arena", "state", "lower bound", "scratch", "constants")
    names = {HOST.name: "host, 16 lanes", NATIVE: "this computer", GENERIC.name: "32-bit microcontroller, plain C"}
    for row in targets(plan):
        target, *sizes = row.values()
        lines.add_row(names.get(target, target), *(f"{size:,}" for size in sizes))
    return lines


def _facts(graph: Graph) -> Iterator[RenderableType]:
    for s in graph.signatures:
        where = f" of subgraph {s.subgraph}" if s.subgraph else ""
        ends = " → ".join(printable(", ".join(names) or "-", keep="") for names in (s.inputs, s.outputs))
        yield Text(f"signature {s.key!r}{where}: {ends}")
    for name, value in graph.metadata.items():
        yield Text(f"metadata {name!r}: {len(value):,} bytes")
    if (stored := stored_plan(graph)) is not None:
        own = "" if stored.own_bytes is None else f"; twinfer's takes {stored.own_bytes:,} bytes"
        yield Text(f"{stored}{own}", style="red" if stored.fault else "")
    if lost := unsupported(graph):
        counts = ", ".join(f"{name} ×{count}" for name, count in lost.items())
        yield Text(f"operators without a kernel: {counts}", style="red")


def variables(nodes: Iterable[Node]) -> dict[Tensor, str]:
    """The names of the variables that tensors of these nodes are handles of."""
    handles = (node for node in nodes if node.op == "VAR_HANDLE" and node.outputs)
    return {node.output: str(node.options.get("shared_name") or node.options.get("container")) for node in handles}
