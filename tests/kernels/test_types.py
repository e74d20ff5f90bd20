"""Every operator and type that TFLM takes (../shared/corpus/tflm_ops.tsv) has a case that plans and that TFLM decides.

test_ops.py and test_compiled.py run the cases; this file shows that none of the table is missing among them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import pytest
from cases import cases_of, graph_of
from needs import SHARED

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Case
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators
from twinfer.runtime.shapes import infer_node
from twinfer.runtime.target import GENERIC

TABLE = SHARED / "corpus" / "tflm_ops.tsv"

NAMES = {
    "f32": "FLOAT32", "i4": "INT4", "i8": "INT8", "i16": "INT16", "i32": "INT32", "i64": "INT64", "u8": "UINT8",
    "u32": "UINT32", "u64": "UINT64", "bool": "BOOL",
}  # fmt: skip

#: What "any" asks for.
ANY = ("FLOAT32", "INT8", "INT16", "INT32", "INT64", "UINT8", "BOOL")

#: Operators of the table that are no kernels of ours, and why.
ELSEWHERE = {
    "IF": "control flow of the plan", "WHILE": "control flow of the plan", "CALL_ONCE": "runs before the first run",
    "VAR_HANDLE": "state of the plan", "READ_VARIABLE": "state of the plan", "ASSIGN_VARIABLE": "state of the plan",
    "CUSTOM:ethos-u": "commands for a chip that has its own compiler",
}  # fmt: skip

#: Types of an operator whose cases another runtime decides, or numpy alone, and why.
OTHER_ORACLE: Mapping[tuple[str, frozenset[str]], str] = {
    ("GREATER", frozenset({"INT16"})): "TFLM compares int16 without regard to scales; LiteRT decides",
}

#: Types that must be in one case: anywhere, or as (type of an input, type of an output).
Wanted = frozenset[str] | tuple[str, str]


def _types(text: str) -> list[str]:
    return [NAMES[name] for name in re.findall(r"\b(?:[iuf]\d+|bool)(?=x|\b)|(?<=x)i\d+", text) if name in NAMES]


def wanted(column: str) -> Iterator[Wanted]:
    """What a column asks for: parts behind ``;``, sources and targets around ``->``, layers ``i16xi8 (bias i32)``."""
    for part in column.split(";"):
        head, _, more = part.partition("(")
        sources, arrow, targets = part.partition("->")
        if arrow:
            yield from ((x, y) for x in ([*ANY] if "any" in sources else _types(sources)) for y in _types(targets))
        elif "x" in head.replace("max", ""):
            beside = _types(more) or [""]
            yield from (frozenset({*_types(head), type} - {""}) for type in beside)
        else:
            yield from (frozenset({type}) for type in _types(part))


def _has(node: Node, types: Wanted) -> bool:
    inputs, outputs = {t.type for t in node.inputs if t is not None}, {t.type for t in node.outputs}
    if isinstance(types, tuple):
        return types[0] in inputs and types[1] in outputs
    return types <= inputs | outputs


@cache
def _cases(op: str) -> tuple[Case, ...]:
    return tuple(cases_of(op).values())


def rows() -> list[tuple[str, str]]:
    if not TABLE.exists():
        return []
    with TABLE.open() as file:
        return [(row["op"], row["tflm_dtypes"]) for row in csv.DictReader(file, delimiter="\t")]


@pytest.mark.parametrize(("op", "column"), rows(), ids=[op for op, _ in rows()])
def test_every_type_of_the_table_has_a_case(op: str, column: str) -> None:
    if op in ELSEWHERE:
        assert op not in operators(), f"{op} is a kernel now: take it out of ELSEWHERE"
        return
    for types in wanted(column):
        able = [case for case in _cases(op) if _has(case.node, types)]
        assert able, f"{op}: no case has {types}"
        decided = [case for case in able if case.oracle == "tflm"]
        assert decided or (op, frozenset(types)) in OTHER_ORACLE, f"{op}: TFLM decides no case of {types}"
        make_plan(graph_of((decided or able)[0].node), GENERIC)


def _retyped(node: Node, type: str) -> Node:
    """The node with its first fed input, and what has its type, as another type."""
    old = next(t for t in node.inputs if t is not None and t.data is None).type

    def of(tensor: Tensor | None) -> Tensor | None:
        if tensor is None or tensor.type != old or tensor.data is not None:
            return tensor
        return replace(tensor, type=type, quant=None)

    outputs = tuple(replace(t, type=type, quant=None) if t.type == old else t for t in node.outputs)
    return replace(node, inputs=tuple(map(of, node.inputs)), outputs=outputs)


@pytest.mark.parametrize("op", [op for op, column in rows() if column.startswith("any") and op not in ELSEWHERE])
@pytest.mark.parametrize("type", ANY)
def test_operators_of_any_type_take_all(op: str, type: str) -> None:
    case = next(case for case in _cases(op) if case.node.input(0).type == "FLOAT32")
    node = _retyped(case.node, type)
    assert infer_node(node) == [t.shape for t in node.outputs]
    make_plan(graph_of(node), GENERIC)


def test_how_the_table_is_read() -> None:
    assert list(wanted("f32; i8xi4; i16xi8 (bias i32/i64)")) == [
        {"FLOAT32"}, {"INT8", "INT4"}, {"INT16", "INT8", "INT32"}, {"INT16", "INT8", "INT64"},
    ]  # fmt: skip
    assert list(wanted("i8 u8 -> f32 (bool out)")) == [
        ("INT8", "FLOAT32"), ("INT8", "BOOL"), ("UINT8", "FLOAT32"), ("UINT8", "BOOL"),
    ]  # fmt: skip
    assert not list(wanted("any but string, <=5-D"))
