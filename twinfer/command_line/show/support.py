"""What ``twinfer ops`` shows: operators by type and target, and those of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.measure.report import table
from twinfer.runtime.control import CONTROL
from twinfer.runtime.support import PLAIN, Audit, Form
from twinfer.runtime.target import FEATURES, Target

#: The version of the JSON: it rises when a key changes its meaning or goes.
SCHEMA = 1

#: What the targets are, in few words.
HEADINGS = {feature.target.name: feature.machines for feature in FEATURES.values() if feature.target}

#: So many words may stand in a cell of types as they are.
MOST_TYPES = 12

Row = tuple[str, list[str], Mapping[str, Sequence[str]]]


def rows(forms: Sequence[Form]) -> list[Row]:
    """Operator, types and variants by target; types with the same variants share a row."""
    merged: list[Row] = []
    for form in forms:
        same = next((row for row in merged if row[0] == form.op and row[2] == form.variants), None)
        if same is None:
            merged.append((form.op, [form.types], form.variants))
        else:
            same[1].append(form.types)
    return merged


def join(types: Sequence[str]) -> str:
    """The types in one cell; if many are all pairs of some inputs and some outputs, these two lists."""
    pairs = {(word.partition("→")[0], word.partition("→")[2] or word) for word in types}
    sides = [list(dict.fromkeys(side)) for side in zip(*sorted(pairs), strict=True)]
    if len(types) <= MOST_TYPES or pairs != set(product(*sides)):
        return ", ".join(types)
    return " → ".join(", ".join(sorted(side)) for side in sides)


def tables(forms: Sequence[Form], targets: Sequence[Target]) -> Iterator[RenderableType]:
    """The table of all operators, and those of control."""
    shown = table("Operators", "<operator", "<types", *(f"<{_heading(target)}" for target in targets), gap=1)
    before = ""
    for op, types, variants in rows(forms):
        cells = (", ".join(variants.get(target.name, ())) or "-" for target in targets)
        shown.add_row("" if op == before else op, join(types), *cells)
        before = op
    yield shown
    control = table("Operators without a kernel of their own", "<operator", "<what planning makes of it", gap=1)
    for op, meaning in sorted(CONTROL.items()):
        control.add_row(op, meaning)
    yield control


def _heading(target: Target) -> str:
    return HEADINGS.get(target.name, target.name)


def describe(forms: Sequence[Form]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "schema": SCHEMA,
        "operators": [
            {"op": form.op, "types": form.types, "variants": {name: [*of] for name, of in form.variants.items()}}
            for form in forms
        ],
        "control": dict(sorted(CONTROL.items())),
    }


_INTRODUCTION = """# Operators

All operators that twinfer has, by type. `make operators` writes this page anew, from the test cases of the operators.
`twinfer ops MODEL` lists the operators of a model, and those that are missing.

A column is a machine. A cell names the kernels that operators of these types may get there, the fastest first; one that
does not support an operator's shapes or options leaves it to the next. `plain` is C for any machine. The others are for
machines with some instructions: `words` for 32-bit words, `wide` for vectors on computers, `avx2`, `avx_vnni`, `vnni`,
`i8mm` and `simd128` for those instructions, names with `dsp` for SMLAD and names with `mve` for Helium.

In types, `int16×int8` means int16 values with int8 weights, and `int8→float32` an operator whose output has another
type than its first input that is no constant.
"""


def page(forms: Sequence[Form], targets: Sequence[Target]) -> str:
    """docs/operators.md."""
    lines = [_INTRODUCTION, _line(["operator", "types", *map(_heading, targets)]), _line(["---"] * (2 + len(targets)))]
    for op, types, variants in rows(forms):
        cells = (", ".join(variants.get(target.name, ())) or "-" for target in targets)
        lines.append(_line([f"`{op}`", join(types), *cells]))
    lines += ["", "The planner replaces these, so they need no kernel:", "", _line(["operator", "what they become"])]
    lines += [_line(["---"] * 2), *(_line([f"`{op}`", meaning]) for op, meaning in sorted(CONTROL.items()))]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell != "---" else cell for cell in cells) + "|"


def model_table(name: str, target: str, audit: Audit) -> Iterator[RenderableType]:
    """The operators of a model, and all that is missing."""
    shown = table(f"{name} on {target}", "<operator", "uses", "<types", "<kernel", "<variant", gap=1)
    for use in audit.uses:
        lost = bool(use.problems)
        kernel = use.control or use.kernel
        variant = "" if use.control or use.variant == PLAIN else use.variant
        style = "red" if lost else ""
        cell = Text("missing" if lost else kernel, style=style)
        shown.add_row(Text(use.op, style=style), str(use.count), use.types, cell, variant or "-")
    yield shown
    for problem in audit.missing:
        yield Text(f"missing: {problem}", style="red")
    if not audit.missing:
        yield Text(f"{name}: every operator has a kernel", style="green")


def described_model(name: str, target: str, audit: Audit) -> dict[str, Any]:
    """The same for programs."""
    return {
        "schema": SCHEMA,
        "model": name,
        "target": target,
        "operators": [
            {
                "op": use.op,
                "count": use.count,
                "types": use.types,
                "kernel": use.kernel or None,
                "variant": use.variant or None,
                "control": use.control or None,
                "missing": use.problems,
            }
            for use in audit.uses
        ],
        "problems": list(audit.problems),
        "supported": not audit.missing,
    }
