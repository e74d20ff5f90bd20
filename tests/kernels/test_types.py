"""Every operator and type that TFLM takes (../shared/corpus/tflm_ops.tsv) has a case that TFLM decides."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

import pytest
from cases import cases_of, graph_of
from needs import SHARED

from twinfer.runtime.graph import Node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators
from twinfer.runtime.target import GENERIC

TABLE = SHARED / "corpus" / "tflm_ops.tsv"

NAMES = {"f": "FLOAT", "i": "INT", "u": "UINT"}

#: What "any" asks for.
ANY = ("FLOAT32", "INT8", "INT16", "INT32", "INT64", "UINT8", "BOOL")

#: Operators of the table that are no kernels of ours: control flow, state, and commands for a chip.
ELSEWHERE = {"IF", "WHILE", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CUSTOM:ethos-u"}

#: TFLM compares int16 without regard to scales; LiteRT decides.
OTHER_ORACLE = ("GREATER", {"INT16"})


def named(text: str) -> list[str]:
    found = re.findall(r"\b(?:([iuf])(\d+)|bool)(?=x|\b)|(?<=x)(i)(\d+)", text)
    types = [NAMES[a or c] + (b or d) if a or c else "BOOL" for a, b, c, d in found]
    return [type for type in types if type != "FLOAT16"]  # only named where it is not taken


def wanted(column: str) -> Iterator[tuple[set[str], set[str]]]:
    """Types of inputs and outputs that must be in one case; without an arrow of either: ``i16xi8 (bias i32)``."""
    for part in column.split(";"):
        head, _, more = part.partition("(")
        sources, arrow, targets = part.partition("->")
        if arrow:
            yield from (({x}, {y}) for x in (ANY if "any" in sources else named(sources)) for y in named(targets))
        elif "x" in head.replace("max", ""):
            yield from (({*named(head), type} - {""}, set()) for type in named(more) or [""])
        else:
            yield from (({type}, set()) for type in named(part))


def has(node: Node, sources: set[str], targets: set[str]) -> bool:
    inputs, outputs = {t.type for t in node.inputs if t is not None}, {t.type for t in node.outputs}
    return sources <= inputs and targets <= outputs if targets else sources <= inputs | outputs


def rows() -> list[tuple[str, str]]:
    if not TABLE.exists():
        return []
    with TABLE.open() as file:
        return [(row["op"], row["tflm_dtypes"]) for row in csv.DictReader(file, delimiter="\t")]


def test_how_the_table_is_read() -> None:
    assert [*wanted("f32; i8xi4; i16xi8 (bias i32/i64)")] == [
        ({"FLOAT32"}, set()), ({"INT8", "INT4"}, set()), ({"INT16", "INT8", "INT32"}, set()),
        ({"INT16", "INT8", "INT64"}, set()),
    ]  # fmt: skip
    assert [*wanted("i8 u8 -> f32")] == [({"INT8"}, {"FLOAT32"}), ({"UINT8"}, {"FLOAT32"})]
    assert [*wanted("any but string, <=5-D")] == []


@pytest.mark.parametrize(("op", "column"), rows(), ids=[op for op, _ in rows()])
def test_every_type_of_the_table_has_a_case(op: str, column: str) -> None:
    assert (op in ELSEWHERE) != (op in operators())
    for sources, targets in wanted(column) if op in operators() else ():
        able = [case for case in cases_of(op).values() if has(case.node, sources, targets)]
        assert able, f"{op}: no case has {sources} {targets}"
        decided = [case for case in able if case.oracle == "tflm"]
        assert decided or (op, sources) == OTHER_ORACLE, f"{op}: TFLM decides no case of {sources} {targets}"
        make_plan(graph_of((decided or able)[0].node), GENERIC)
