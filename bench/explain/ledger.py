"""What compiling is worth on one model and target, layer by layer and cause by cause: causes add up.

A ledger compares a row of programs. The first is the interpreter, the last what ``twinfer compile`` writes, and each
differs from the one before in one cause alone. So the causes of every line sum to what lies between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.explain.causes import AROUND, BY_ROWS, CAUSES, ordered
from twinfer.bench.measure.report import bits_in_words, in_terminal, number
from twinfer.bench.report import tables
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Chain, Step

#: Rises when a key of the JSON goes or changes its meaning. New keys do not count.
SCHEMA = 1


@dataclass(frozen=True)
class Line:
    """A layer, or several, or all: what it takes in both programs, and for every cause what compiling saves.

    ``steps`` are the numbers of its layers in the plan, ``position`` the first of them, None for what is no layer.
    ``operators`` are their numbers in the model's file, which readers see. Causes may be below 0.
    """

    position: int | None
    op: str
    name: str
    interpreted: float
    compiled: float
    causes: Mapping[str, float]
    steps: tuple[int, ...] = ()
    operators: tuple[int, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The line in the JSON."""
        return {
            "position": self.position,
            "op": self.op,
            "name": self.name,
            "steps": list(self.steps),
            "operators": list(self.operators),
            "interpreted": self.interpreted,
            "compiled": self.compiled,
            "causes": dict(self.causes),
        }


@dataclass(frozen=True)
class Place:
    """Where the figures of a line come from: the numbers of its layers in the plan, none for what is around them, and
    of their operators in the file."""

    steps: tuple[int, ...]
    op: str
    name: str
    operators: tuple[int, ...] = ()

    def line(self, values: Sequence[float], causes: Sequence[str]) -> Line:
        """The line of these ``values``, one per program; ``causes`` stand between them."""
        saved = dict(zip(causes, (before - after for before, after in pairwise(values)), strict=True))
        ends, at = (values[0], values[-1]), min(self.steps, default=None)
        return Line(at, self.op, self.name, *ends, saved, self.steps, self.operators)


def places(plan: Plan) -> list[Place]:
    """The lines of a plan in the order of its program; none if it branches or loops, as layers then run at will."""
    number = {step: i for i, step in enumerate(plan.steps)}
    lines = []
    for part in plan.program if plan.straight else ():
        if isinstance(part, Step):
            lines.append(Place((number[part],), part.node.op, part.node.output.name, (part.node.index,)))
        elif isinstance(part, Chain):
            steps = tuple(number[layer.step] for layer in part.layers)
            operators = tuple(layer.step.node.index for layer in part.layers)
            lines.append(Place(steps, *_named(part, operators), operators))
    return lines


def _named(chain: Chain, operators: Sequence[int]) -> tuple[str, str]:
    """The operator and the name in the line of a chain."""
    if len(operators) == 1:
        (layer,) = chain.layers
        return layer.step.node.op, f"{layer.step.node.output.name}, row by row"
    ends = f"operators {min(operators)} to {max(operators)}" if operators else ""
    return BY_ROWS, f"{ends}, row by row" if operators else "the rows of the input"


def lines_of(
    plan: Plan, causes: Sequence[str], layers: Sequence[Sequence[float]], whole: Sequence[float]
) -> list[Line]:
    """The lines of a plan, and one for what is around its layers.

    ``layers`` has per program what each step takes, ``whole`` what all of it does; the last line is the rest.
    """
    values = [[sum(program[i] for i in place.steps) for program in layers] for place in places(plan)]
    around = [taken - sum(line[k] for line in values) for k, taken in enumerate(whole)]
    every = zip([*places(plan), Place((), AROUND, "around the layers")], [*values, around], strict=True)
    return [place.line(taken, causes) for place, taken in every]


def total(lines: Iterable[Line]) -> Line:
    """The sum of all lines."""
    lines = list(lines)
    causes: dict[str, float] = dict.fromkeys((cause for line in lines for cause in line.causes), 0)
    for line in lines:
        for cause, saved in line.causes.items():
            causes[cause] += saved
    return Line(None, "", "total", sum(x.interpreted for x in lines), sum(x.compiled for x in lines), causes)


@dataclass(frozen=True)
class Start:
    """From a model to its first inference.

    ``interpreted`` and ``compiled`` give what happens in the order in which it does, in ``unit``; nothing if it is
    linked and runs. ``interpreter_bytes`` are those of code and tables that only the interpreter needs, beside kernels.
    """

    unit: str
    interpreted: Mapping[str, float]
    compiled: Mapping[str, float]
    interpreter_bytes: int


@dataclass(frozen=True)
class Ledger:
    """The lines of a model on a target, in ``unit``: instructions, which are exact, or µs.

    ``bytes`` are lines for flash and RAM where those are known; ``intervals`` give for each cause of the total the 95 %
    interval in which it lies, where it was timed. ``same_bits``: all programs gave the same outputs. On a
    microcontroller they are also this computer's, floats within the tolerance: C libraries differ in exp and tanh.
    """

    model: str
    target: str
    unit: str
    lines: tuple[Line, ...]
    start: Start
    same_bits: bool
    bytes: Mapping[str, Line] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def total(self) -> Line:
        return total(self.lines)

    @property
    def causes(self) -> tuple[str, ...]:
        """All causes, in the order of the programs."""
        return tuple(self.total.causes)

    @property
    def document(self) -> dict[str, Any]:
        """The ledger in the JSON, with what it means in words."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "target": self.target,
            "unit": self.unit,
            "same_bits": self.same_bits,
            "layers": [line.document for line in self.lines],
            "total": self.total.document,
            "bytes": {kind: line.document for kind, line in self.bytes.items()},
            "intervals": {cause: list(ends) for cause, ends in self.intervals.items()},
            "start": asdict(self.start),
            "words": list(words(self)),
        }

    def _repr_html_(self) -> str:
        """What a notebook shows: the lines, and flash and RAM."""
        return "".join(table.html for table in tables.ledger_tables(self.document))


def split(line: Line, cause: str, part: str, saved: float) -> Line:
    """The same line, of whose ``cause`` the amount ``saved`` has a cause of its own, ``part``, right behind it."""
    causes = dict[str, float]()
    for name, value in line.causes.items():
        causes |= {cause: value - saved, part: saved} if name == cause else {name: value}
    return replace(line, causes=causes)


# -- tables and words --------------------------------------------------------------------------------------------------


#: A saving below this share of what the interpreter takes is not worth a word.
WORTH_A_WORD = 0.002


def ledger_tables(ledger: Ledger) -> Iterator[RenderableType]:
    """The layers and their sum, flash and RAM, the start, and what it means in words."""
    causes = ordered(ledger.causes)
    title = f"{ledger.model} on {ledger.target}: {ledger.unit} of one inference, and what compiling saves by cause"
    lines, *others = tables.ledger_tables(ledger.document)
    shown = in_terminal(lines, title, 1)
    if ledger.intervals:
        for k, name in enumerate(("95 % from", "to")):
            shown.add_row("", name, "", "", "", *(number(ledger.intervals[cause][k]) for cause in causes))
    yield shown
    yield from (in_terminal(each, gap=1) for each in others)
    yield Text("\n".join(f"{_label(cause)}: {CAUSES[cause].about}." for cause in causes), "bright_black")
    yield Text(_started(ledger.start, ledger.target))
    yield Text("\n".join(words(ledger)))


def _figure(value: float, unit: str) -> str:
    return number(value) if unit == "µs" else f"{value:,.0f}"


def ratio(line: Line) -> str:
    """How many times as much the interpreter takes; a dash where that says nothing."""
    return f"{line.interpreted / line.compiled:.2f}" if min(line.interpreted, line.compiled) > 0 else "-"


def _label(cause: str) -> str:
    return CAUSES[cause].label.replace("-\n", "").replace("\n", " ")


def _started(start: Start, target: str) -> str:
    """What happens before the first inference, in words."""

    def in_words(parts: dict[str, float]) -> str:
        each = ", ".join(f"{what} {number(value)}" for what, value in parts.items())
        return f"{number(sum(parts.values()))} {start.unit} ({each})"

    own = f"only the interpreter needs {start.interpreter_bytes:,} bytes"
    if not start.interpreted:
        return f"Start on {target}: nothing on both sides, the plan is constants; {own} for its tables and loop."
    sides = f"interpreted {in_words(dict(start.interpreted))}, compiled {in_words(dict(start.compiled))}"
    return f"From the file to the first inference: {sides}; {own}, its extension with all kernels."


def words(ledger: Ledger) -> Iterator[str]:
    """What compiling is worth and why, a sentence a cause, the greatest first."""
    all_of = ledger.total
    saved, bits = all_of.interpreted - all_of.compiled, bits_in_words(ledger.same_bits)
    yield (
        f"Compiling {ledger.model} for {ledger.target} saves {_figure(saved, ledger.unit)} of "
        f"{_figure(all_of.interpreted, ledger.unit)} {ledger.unit}: {ratio(all_of)} ×, {bits}."
    )
    for cause in sorted(all_of.causes, key=lambda key: -abs(all_of.causes[key])):
        share = all_of.causes[cause] / max(all_of.interpreted, 1e-9)
        if abs(share) >= WORTH_A_WORD:
            yield f"{_label(cause)[0].upper()}{_label(cause)[1:]}: {100 * share:+.1f} %{_where(ledger, cause)}."


def _where(ledger: Ledger, cause: str) -> str:
    """The operators on which a cause weighs most, with what they would take without it."""
    kinds: dict[str, list[float]] = {}
    for line in ledger.lines:
        taken = kinds.setdefault(line.op, [0.0, 0.0])
        taken[0] += line.interpreted
        taken[1] += line.causes[cause]
    worth = {op: taken / (taken - saved) for op, (taken, saved) in kinds.items() if taken > max(saved, 0)}
    most = sorted((op for op in worth if kinds[op][1]), key=lambda op: -abs(kinds[op][1]))[:2]
    most_of = [f"{worth[op]:.2f} × on {op}" for op in most]
    return f" ({', '.join(most_of)})" if most_of else ""
