"""What ``twinfer inspect`` shows of a model: as a dictionary for JSON, and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer.arena_map import ArenaMap
from twinfer.bench.measure.report import table, variant
from twinfer.bench.models.source import Source
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Node, Tensor, walk
from twinfer.runtime.op import Call
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.printable import printable
from twinfer.runtime.registry import missing
from twinfer.runtime.target import GENERIC, HOST, Target

#: Rises when a key of the JSON changes its meaning or goes.
SCHEMA = 1


def planned(source: Source, target: Target = HOST) -> tuple[Plan | None, str]:
    """The plan for a target, or the reason why there is none."""
    try:
        return make_plan(source.graph, target), ""
    except (UnsupportedOperatorError, ModelError) as error:
        return None, str(error)


def describe(name: str, graph: Graph, plan: Plan | None, reason: str) -> dict[str, Any]:
    """Everything that the text shows, for programs."""
    unsupported = [node.op for node in missing(graph)]
    return {
        "schema": SCHEMA,
        "model": name,
        "description": graph.description,
        "inputs": [_tensor(t) for t in graph.inputs],
        "outputs": [_tensor(t) for t in graph.outputs],
        "operators": [_operator(node, plan) for node in graph.nodes],
        "subgraphs": [[node.op for node in other.nodes] for other in graph.subgraphs],
        "signatures": {
            s.key: {"subgraph": s.subgraph, "inputs": sorted(s.inputs), "outputs": sorted(s.outputs)}
            for s in graph.signatures
        },
        "metadata": {name: len(value) for name, value in graph.metadata.items()},
        "constant_bytes": constant_bytes(graph),
        "unsupported": {op: unsupported.count(op) for op in dict.fromkeys(unsupported)},
        "problem": reason or None,
        "plan": _plan(plan) if plan else None,
        "targets": targets(plan) if plan else [],
    }


def constant_bytes(graph: Graph) -> int:
    """Bytes of all constant tensors of the file, those of other subgraphs included; equal ones share a buffer there."""
    values = [t.data.tobytes() for g in walk(graph) for t in g.tensors if t.data is not None]
    return sum(len(value) for value in set(values))


def _tensor(tensor: Tensor) -> dict[str, Any]:
    quant = tensor.quant
    return {
        "name": tensor.name,
        "type": tensor.type,
        "shape": list(tensor.shape),
        "scale": [float(s) for s in quant.scale] if quant else None,
        "zero_point": [int(z) for z in quant.zero_point] if quant else None,
    }


def _operator(node: Node, plan: Plan | None) -> dict[str, Any]:
    node, call = _planned_node(node, plan)
    return {
        "index": node.index,
        "op": node.op,
        "kernel": call.kernel if call else None,
        "inputs": [_tensor(t) for t in node.inputs if t is not None and t.data is None],
        "outputs": [_tensor(t) for t in node.outputs],
        "macs": call.macs if call else 0 if plan else None,
        "constant_bytes": sum(t.data.nbytes for t in node.inputs if t is not None and t.data is not None),
    }


def _planned_node(node: Node, plan: Plan | None) -> tuple[Node, Call | None]:
    """The node with its final shapes, and its kernel call: none where its value is in place or known beforehand."""
    if plan is None:
        return node, None
    call = next((step.call for step in plan.steps if step.node.index == node.index), None)
    return next((other for other in plan.graph.nodes if other.index == node.index), node), call


def _plan(plan: Plan) -> dict[str, Any]:
    arena, nodes = ArenaMap(plan), plan.graph.nodes
    named = plan.offsets.keys() - {step.scratch for step in plan.steps}
    peak = {"index": nodes[arena.peak].index, "bytes": arena.live_bytes(arena.peak)} if nodes else None
    return {
        "target": plan.target.name,
        "macs": plan.macs,
        "arena_bytes": plan.arena_bytes,
        "lower_bound_bytes": plan.lower_bound_bytes,
        "scratch_bytes": plan.scratch_bytes,
        "constant_bytes": plan.constant_bytes,
        "peak": peak,
        "tensors": [
            {"name": t.name, "offset": at, "bytes": t.nbytes, "first": plan.lives[t][0], "last": plan.lives[t][1]}
            for t, at in plan.offsets.items()
            if t in named
        ],
    }


def render(name: str, graph: Graph, plan: Plan | None, reason: str, width: int) -> Iterator[RenderableType]:
    """The text, piece by piece, for lines of ``width`` characters."""
    yield _headline(name, graph, plan)
    yield _ends(graph)
    for i, one in enumerate(walk(graph)):
        yield _operators(one, plan if i == 0 else None, f"Subgraph {i}" if graph.subgraphs else "Operators")
    yield from _facts(graph)
    if plan is None:
        yield Text(f"No plan: {reason}", style="red")
        return
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
    about = f"\n{graph.description}" if graph.description else ""
    return Text.assemble((name, "bold"), ": " + ", ".join(parts) + about)


def _ends(graph: Graph) -> Table:
    made = table("Inputs and outputs", "<", "<name", "<type", "<shape", "<quantisation")
    for kind, tensors in (("in", graph.inputs), ("out", graph.outputs)):
        for i, t in enumerate(tensors):
            made.add_row(f"{kind} {i}", Text(t.name), t.type, dims(t.shape_signature or t.shape), quantisation(t))
    return made


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


def _operators(graph: Graph, plan: Plan | None, title: str) -> Table:
    columns = ("<operator", "<inputs", "<output", "<type", "<scale, zero", "<kernel", "MACs", "constant\nbytes")
    made = table(title, "#", *columns, gap=1)
    unknown = set(missing(graph))
    for node in graph.nodes:
        lost = node in unknown
        node, call = _planned_node(node, plan)
        out = node.outputs[0] if node.outputs else None
        kernel = variant(node.op, call.kernel) if call else "in place" if plan else "-"
        constants = sum(t.data.nbytes for t in node.inputs if t is not None and t.data is not None)
        made.add_row(
            str(node.index),
            Text(node.op, style="red" if lost else ""),
            ", ".join(dims(t.shape) for t in node.inputs if t is not None and t.data is None) or "-",
            ", ".join(dims(t.shape) for t in node.outputs) or "-",
            out.type if out else "-",
            quantisation(out, 4) if out else "-",
            Text("unsupported", style="red") if lost else kernel,
            f"{call.macs:,}" if call and call.macs else "-",
            f"{constants:,}" if constants else "-",
        )
    return made


def targets(plan: Plan) -> list[dict[str, Any]]:
    """What a planned model takes, in bytes, on a SIMD host, on a 32-bit microcontroller in plain C, and as planned."""
    return [
        {
            "target": plan.target.name,
            "arena_bytes": plan.arena_bytes,
            "lower_bound_bytes": plan.lower_bound_bytes,
            "scratch_bytes": plan.scratch_bytes,
            "constant_bytes": plan.constant_bytes,
        }
        for plan in (
            plan if target == plan.target else make_plan(plan.graph, target)
            for target in dict.fromkeys((HOST, GENERIC, plan.target))
        )
    ]


def _sizes(plan: Plan) -> Table:
    made = table("Bytes by target", "<target", "arena", "lower bound", "scratch", "constants")
    names = {HOST.name: "host, 16 lanes", GENERIC.name: "32-bit microcontroller, plain C"}
    for row in targets(plan):
        target, *sizes = row.values()
        made.add_row(names.get(target, target), *(f"{size:,}" for size in sizes))
    return made


def _facts(graph: Graph) -> Iterator[RenderableType]:
    for s in graph.signatures:
        where = f" of subgraph {s.subgraph}" if s.subgraph else ""
        ends = " → ".join(printable(", ".join(names) or "-", keep="") for names in (s.inputs, s.outputs))
        yield Text(f"signature {s.key!r}{where}: {ends}")
    for name, value in graph.metadata.items():
        yield Text(f"metadata {name!r}: {len(value):,} bytes")
    if names := [node.op for one in walk(graph) for node in missing(one)]:
        counts = ", ".join(f"{name} ×{names.count(name)}" for name in dict.fromkeys(names))
        yield Text(f"operators without a kernel: {counts}", style="red")
