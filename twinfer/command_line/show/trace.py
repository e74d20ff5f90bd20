"""``inspect --trace``: a model after every stage on its way to C, as a page. What a stage has changed is marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from twinfer.aot.print.emit import emit
from twinfer.aot.print.literals import identifier
from twinfer.bench.page.page import Part, Section, page
from twinfer.converter.text import text
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import USUAL
from twinfer.runtime.plan.make import GRAPH_STAGES, make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.printable import in_html
from twinfer.runtime.shapes import infer_shapes
from twinfer.runtime.target import Target

#: The stages that make a graph from a graph: name, what it does, function.
STAGES = (("Shapes", "Shapes that the file leaves open are inferred.", infer_shapes), *GRAPH_STAGES)


def trace(name: str, graph: Graph, target: Target) -> str:
    """The page as HTML. TwinferError if the model has no plan for the target."""
    before = [*_lines(graph)]
    sections = [Section("File", (_about(f"{len(graph.nodes)} operators, as the file has them."), _listing(before)))]
    for title, about, stage in STAGES:
        graph = stage(graph)
        after = [*_lines(graph)]
        sections.append(Section(title, (_about(about), *_changes(before, after))))
        before = after
    plan = make_plan(graph, target, USUAL)
    count = f"{len(plan.steps)} layers in an arena of {plan.arena_bytes:,} bytes."
    sections.append(Section("Plan", (_about(f"{count} {_PLAN}"), _listing([*_layers(plan)]))))
    symbol = identifier(name)
    code = emit(plan, symbol).code[f"{symbol}.c"]
    sections.append(Section("C", (_about("What the compiler prints."), _listing(code.splitlines()))))
    return page(f"{name}, stage by stage, for {target.name}", sections)


_PLAN = "Of each: its kernel, its variant and why better ones declined, what it reads and writes, and where that lies."


def _lines(graph: Graph) -> Iterator[str]:
    """The graph, then the subgraphs that it may call."""
    yield from text(graph).splitlines()
    for i, each in enumerate(graph.subgraphs, 1):
        yield from (f"subgraph {i}: {line}" for line in text(each).splitlines())


def _layers(plan: Plan) -> Iterator[str]:
    for i, step in enumerate(plan.steps):
        rows = ", row by row" * (step in plan.chains)
        yield f"{i} {step.node.op}: {', '.join(step.kernels)}, {step.choice.variant}{rows}"
        yield from (f"    not {variant}: {reason}" for variant, reason in step.choice.declined)
        yield from (f"    in  {_placed(plan, tensor)}" for tensor in step.read if isinstance(tensor, Tensor))
        yield from (f"    out {_placed(plan, tensor)}" for tensor in step.written if tensor is not step.scratch)
        if step.scratch is not None:
            yield f"    scratch {_place(plan, step.scratch)}"


def _placed(plan: Plan, tensor: Tensor) -> str:
    return f"{tensor.name} {tensor.type} {list(tensor.shape)} {_place(plan, tensor)}"


def _place(plan: Plan, tensor: Tensor) -> str:
    place = plan.places.get(tensor)
    return "row by row" if place is None else f"{place.region.value} {place.offset}..{place.offset + tensor.nbytes}"


def _about(about: str) -> str:
    return f"<p>{in_html(about)}</p>\n"


def _listing(lines: Sequence[str]) -> Part:
    return f"<pre>{chr(10).join(map(in_html, lines))}</pre>\n"


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[Part]:
    """The lines that a stage has left out and put in, among three others on either side."""
    if before == after:
        yield "<p>Nothing to do.</p>\n"
        return
    lines = list[str]()
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes():
        lines += ["…"] if group[0][1] else []
        for kind, i, j, k, end in group:
            if kind == "equal":
                lines += map(in_html, before[i:j])
                continue
            lines += [f"<del>{in_html(line)}</del>" for line in before[i:j]]
            lines += [f"<ins>{in_html(line)}</ins>" for line in after[k:end]]
    yield f"<pre>{chr(10).join(lines)}</pre>\n"
