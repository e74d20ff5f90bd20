"""What planning, converting and printing do to a model, stage by stage.

TWINFER_DEBUG=1..4 shows it on stderr: 1 what each stage has changed, 2 also which variant every operator got and why
better ones declined, 3 also where every tensor lies, 4 also the C. TWINFER_VIZ=FILE.html writes a page at the end of
the process, with the model after every stage; ``inspect --trace`` makes the same page of one model.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from twinfer.converter.text import node_line, text
from twinfer.runtime import stages
from twinfer.runtime.constant import Constant
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph, Node, Tensor, walk
from twinfer.runtime.plan.flow import Block, Branch, Copy, Flow, Repeat, nodes_of
from twinfer.runtime.plan.lower import Lowered
from twinfer.runtime.plan.memory import Memory
from twinfer.runtime.plan.plan import Place, Plan
from twinfer.runtime.printable import in_html, printable
from twinfer.runtime.program import Chain, Step
from twinfer.runtime.walks import steps_of

#: The environment variables.
DEBUG, VIZ = "TWINFER_DEBUG", "TWINFER_VIZ"

#: The most sections of a page: a search plans many models.
MOST_SECTIONS = 400


def start() -> None:
    """Watch as the environment says; what it says wrongly is told on stderr."""
    level, path = os.environ.get(DEBUG, ""), os.environ.get(VIZ, "")
    if level in ("1", "2", "3", "4"):
        stages.WATCHERS.append(Listing(int(level)))
    elif level not in ("", "0"):
        sys.stderr.write(f"twinfer: {DEBUG} may be 1, 2, 3 or 4, not {printable(level)}\n")
    if path:
        import multiprocessing

        if multiprocessing.parent_process() is None:  # else many would write the same page
            page = Page()
            stages.WATCHERS.append(page)
            atexit.register(page.save, path)


class Listing:
    """A watcher that writes to stderr what it sees, as far as its level asks for it."""

    def __init__(self, level: int) -> None:
        self.level = level
        self._last: Any = None

    def __call__(self, name: str, about: str, before: Any, after: Any) -> None:
        shown = [f"{name}: {changes(before, after)}"]
        if before is not self._last and isinstance(before, Graph):
            told = ", ".join(f"{value:,} {what}" for what, value in figures(before).items())
            shown = [f"{before.name!r}: {told}", *shown]
        self._last = after
        if self.level >= 2 and isinstance(after, Lowered) and not isinstance(before, Lowered):
            shown += [f"  {line}" for step in after.steps for line in variant_lines(step)]
        if self.level >= 3 and isinstance(after, Plan):
            shown += [f"  {line}" for line in place_lines(after)]
        if isinstance(before, Plan):
            shown = [f"{name}: {len(after.code)} files"]
            shown += _code(after).splitlines() if self.level >= 4 else []
        sys.stderr.write("".join(f"twinfer: {printable(line)}\n" for line in shown))


class Page:
    """A watcher that keeps what it sees for a page."""

    def __init__(self) -> None:
        self.sections: list[tuple[str, str, str]] = []
        self._last: Any = None

    def __call__(self, name: str, about: str, before: Any, after: Any) -> None:
        if len(self.sections) >= MOST_SECTIONS:
            if len(self.sections) == MOST_SECTIONS:
                self._add("More", f"Only the first {MOST_SECTIONS} sections are shown.", "")
            return
        if before is not self._last and isinstance(before, Graph):
            self._add(printable(before.name) or "Model", f"{len(before.nodes)} operators.", _listing(lines(before)))
        self._last = after
        if type(before) is type(after):
            shown = _marked(lines(before), lines(after))
        elif isinstance(after, Plan):
            about = f"{len(after.steps)} layers in an arena of {after.arena_bytes:,} bytes. {about}"
            shown = _listing(lines(after))
        else:
            shown = _listing(lines(after))
        self._add(name, about, shown)

    def _add(self, title: str, about: str, body: str) -> None:
        self.sections.append((title, about, body))

    def html(self, title: str) -> str:
        """The page."""
        from twinfer.bench.page.page import Section, page

        return page(title, [Section(name, (f"<p>{in_html(about)}</p>\n", body)) for name, about, body in self.sections])

    def save(self, path: str) -> None:
        """Write the page, if there is something to show; what is wrong with the path is told on stderr."""
        if not self.sections:
            return
        from twinfer.runtime.read.files import write_text

        try:
            write_text(path, self.html("twinfer, stage by stage"))
        except TwinferError as error:
            sys.stderr.write(f"twinfer: {VIZ}: {error}\n")


def trace(title: str, graph: Graph, target: Any) -> str:
    """The page of one model on its way to C. TwinferError if it has no plan for the target."""
    from twinfer.aot.print.emit import emit
    from twinfer.aot.print.literals import identifier
    from twinfer.runtime.plan.make import make_plan

    page = Page()
    stages.WATCHERS.append(page)
    try:
        emit(make_plan(graph, target), identifier(title))
    finally:
        stages.WATCHERS.remove(page)
    return page.html(f"{title}, stage by stage, for {target.name}")


# -- figures -----------------------------------------------------------------------------------------------------------


def changes(before: Any, after: Any) -> str:
    """The figures that a stage has changed: ``31 -> 30 operators, 9,024 bytes of arena``."""
    if before is after:
        return "nothing to do"
    old, new = figures(before), figures(after)
    told = [f"{old[k]:,} -> {v:,} {k}" if k in old else f"{v:,} {k}" for k, v in new.items() if old.get(k) != v]
    return ", ".join(told) or "changed, of the same sizes"


def figures(value: Any) -> Mapping[str, int]:
    """How large a model is on its way from graph to plan."""
    match value:
        case Graph():
            nodes = [node for each in walk(value) for node in each.nodes]
            used = {t for node in nodes for t in (*node.inputs, *node.outputs) if t is not None}
            held = [t.data.nbytes for t in used if t.data is not None]
            return {"operators": len(nodes), "tensors": len(used) - len(held), "bytes of constants": sum(held)}
        case Flow():
            return {"operators": len([*nodes_of(value.start), *nodes_of(value.main)])}
        case Lowered():
            steps = (*value.start, *value.steps)
            constants = dict.fromkeys(each for step in steps for each in step.read if isinstance(each, Constant))
            tensors = {tensor for step in steps for tensor in step.touched}
            nbytes = sum(each.nbytes for each in constants)
            return {"steps": len(steps), "tensors": len(tensors), "bytes of constants": nbytes}
        case Memory():
            return {**figures(value.lowered), "bytes of arena": value.arena_bytes}
        case Plan():
            sizes = {"bytes of constants": value.constant_bytes, "bytes of arena": value.arena_bytes}
            sizes["bytes of state"] = value.state_bytes
            return {"steps": len(value.start) + len(value.steps), **sizes}
    flat, graph = getattr(value, "flat", None), getattr(value, "graph", None)  # a Conversion
    return figures(flat if graph is getattr(value, "source", None) else graph) if isinstance(graph, Graph) else {}


# -- lines -------------------------------------------------------------------------------------------------------------


def lines(value: Any) -> list[str]:
    """A model on its way, as text."""
    match value:
        case Graph():
            own = text(value).splitlines()
            others = enumerate(value.subgraphs, 1)
            return own + [f"subgraph {i}: {line}" for i, each in others for line in text(each).splitlines()]
        case Flow():
            return [*(f"once: {line}" for line in _flow_lines(value.start)), *_flow_lines(value.main)]
        case Lowered():
            return [*_program_lines(value, {})]
        case Memory():
            return [*_program_lines(value.lowered, value.solution.places)]
        case Plan():
            return [*_program_lines(value, value.places)]
    if isinstance(graph := getattr(value, "graph", None), Graph):  # a Conversion
        return lines(value.flat if graph is value.source else graph)
    return _code(value).splitlines()


def _flow_lines(block: Block, indent: str = "") -> Iterator[str]:
    for part in block:
        match part:
            case Node():
                yield indent + node_line(part)
            case Copy():
                yield f"{indent}{part.to.name} = {part.source.name}, by {part.node}"
            case Branch():
                yield f"{indent}if {part.condition.name}:"
                yield from _flow_lines(part.then, f"{indent}    ")
                yield f"{indent}else:"
                yield from _flow_lines(part.orelse, f"{indent}    ")
            case Repeat():
                yield f"{indent}loop:"
                yield from _flow_lines(part.test, f"{indent}    ")
                yield f"{indent}    while {part.condition.name}:"
                yield from _flow_lines(part.body, f"{indent}    ")


def variant_lines(step: Step) -> Iterator[str]:
    """The operator's number in the file, the kernels and the variant of a step, and why better variants declined."""
    yield f"{step.node.index} {step.node.op}: {', '.join(step.kernels)}, {step.choice.variant}"
    yield from (f"    not {variant}: {reason}" for variant, reason in step.choice.declined)


def _program_lines(made: Lowered | Plan, places: Mapping[Tensor, Place]) -> Iterator[str]:
    """Every step with what it reads and writes, and where that lies; tensors without a place live row by row."""
    chained = {layer.step for part in made.program if isinstance(part, Chain) for layer in part.layers}

    def told(tensor: Tensor) -> str:
        about = f"{tensor.name} {tensor.type} {list(tensor.shape)}"
        return f"{about} {_place(tensor, places)}" if places else about

    for step in steps_of(made.program):
        head, *declined = variant_lines(step)
        yield head + ", row by row" * (step in chained)
        yield from declined
        yield from (f"    in  {told(tensor)}" for tensor in step.read if isinstance(tensor, Tensor))
        yield from (f"    out {told(tensor)}" for tensor in step.written if tensor is not step.scratch)
        if step.scratch is not None:
            yield f"    scratch {_place(step.scratch, places) if places else f'{step.scratch.nbytes} bytes'}"


def _place(tensor: Tensor, places: Mapping[Tensor, Place]) -> str:
    place = places.get(tensor)
    return "row by row" if place is None else f"{place.region.value} {place.offset}..{place.offset + tensor.nbytes}"


def place_lines(plan: Plan) -> Iterator[str]:
    """Every tensor in memory: its bytes, from where to where, and the operators between which it keeps its value."""
    for tensor in sorted(plan.places, key=lambda t: (plan.places[t].region.value, plan.places[t].offset)):
        first, last = plan.lives[tensor]
        begin, end = (plan.nodes[at].index if 0 <= at < len(plan.nodes) else None for at in (first, last))
        start = "the start" if begin is None else f"operator {begin}"
        live = f"live from {start} to {'the end' if end is None else f'operator {end}'}"
        yield f"{_place(tensor, plan.places)} ({tensor.nbytes:,} bytes), {live}: {tensor.name}"


def _code(project: Any) -> str:
    return str(project.code[f"{project.name}.c"])


# -- HTML --------------------------------------------------------------------------------------------------------------


def _listing(shown: Iterable[str]) -> str:
    return f"<pre>{chr(10).join(map(in_html, shown))}</pre>\n"


def _marked(before: Sequence[str], after: Sequence[str]) -> str:
    """The lines that a stage has left out and put in, among three others on either side."""
    if before == after:
        return "<p>Nothing to do.</p>\n"
    shown = list[str]()
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes():
        shown += ["…"] if group[0][1] else []
        for kind, i, j, k, end in group:
            if kind == "equal":
                shown += map(in_html, before[i:j])
                continue
            shown += [f"<del>{in_html(line)}</del>" for line in before[i:j]]
            shown += [f"<ins>{in_html(line)}</ins>" for line in after[k:end]]
    return f"<pre>{chr(10).join(shown)}</pre>\n"
