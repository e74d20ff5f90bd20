"""Graphs and plans as HTML, for notebooks. Names come from models, so every cell is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.printable import in_html
from twinfer.runtime.program import Step

#: The most rows of a table; a last line says how many more there are.
ROWS = 40


def graph_html(graph: Graph) -> str:
    """The graph's name, its inputs and outputs, and the operators of the main subgraph in the order of execution."""
    nodes = f"{len(graph.nodes)} operators"
    nodes += f", {len(graph.subgraphs)} more subgraphs" if graph.subgraphs else ""
    ends = [("input", t) for t in graph.inputs] + [("output", t) for t in graph.outputs]
    rows = [(str(node.index), node.op, *_of(node)) for node in graph.nodes[:ROWS]]
    return "".join(
        (
            _headline("Graph", graph.name, nodes),
            _table(("", "name", "shape", "type"), [(kind, t.name, *_form(t)) for kind, t in ends[:ROWS]], len(ends)),
            _table(("#", "operator", "output", "type"), rows, len(graph.nodes)),
        )
    )


def plan_html(plan: Plan) -> str:
    """The plan's target and bytes, and its steps: operator, kernel, variant, multiply-accumulates."""
    sizes = {"arena": plan.arena_bytes, "lower bound": plan.lower_bound_bytes, "state": plan.state_bytes}
    sizes |= {"constants": plan.constant_bytes}
    about = ", ".join(f"{name} {value:,} bytes" for name, value in sizes.items())
    return "".join(
        (
            _headline("Plan", plan.graph.name, f"for {plan.target.name}: {about}, {plan.macs:,} MACs"),
            _table(("#", "operator", "kernel", "variant", "MACs"), map(_step, plan.steps[:ROWS]), len(plan.steps)),
        )
    )


def _step(step: Step) -> tuple[str, ...]:
    macs = f"{step.call.macs:,}" if step.call.macs else "-"
    return str(step.node.index), step.node.op, step.call.kernel, step.choice.variant, macs


def _of(node: Node) -> tuple[str, str]:
    """Shape and type of a node's first output; some operators have none."""
    return _form(node.outputs[0]) if node.outputs else ("-", "-")


def _form(tensor: Tensor) -> tuple[str, str]:
    """1×8×8×16 and INT8; an open dimension is ?, a scalar ()."""
    shape = tensor.shape_signature or tensor.shape
    return "×".join("?" if d == -1 else str(d) for d in shape) or "()", tensor.type


def _headline(kind: str, name: str, about: str) -> str:
    return f"<p><b>{kind} {in_html(name)}</b>: {in_html(about)}</p>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], count: int) -> str:
    """A table of ``rows``, of which there are ``count`` in all."""
    head = "".join(f"<th>{in_html(cell)}</th>" for cell in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{in_html(cell)}</td>' for cell in row)}</tr>" for row in rows)
    more = f'<tr><td colspan="{len(heads)}">and {count - ROWS} more</td></tr>' if count > ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}{more}</tbody></table>"
