"""Params in emitted C: what they look like."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cases import cases_of, graph_of

from twinfer.aot.print.initialiser import initialiser
from twinfer.aot.print.literals import WIDTH
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.program import Call
from twinfer.runtime.target import GENERIC

NESTED = """    .walk = {
        .size = 1, .tile = 1, .a_step = 1, .b_step = 1,
        .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
    },
    .minimum = 0"""


def calls(op: str) -> Iterator[Call]:
    for case in cases_of(op).values():
        yield from (call for step in make_plan(graph_of(case.node), GENERIC).steps for call in step.calls)


def test_a_struct_that_does_not_fit_on_a_line_has_its_own() -> None:
    maximum = next(call for call in calls("MAXIMUM") if call.kernel == "tw_maximum_f32")
    assert initialiser(maximum) == NESTED


@pytest.mark.parametrize("op", ["ADD", "CONV_2D", "FULLY_CONNECTED", "MEAN", "STRIDED_SLICE"])
def test_lines_are_indented_by_depth(op: str) -> None:
    for call in calls(op):
        depth = 1
        for line in initialiser(call).splitlines():
            depth -= line.lstrip().startswith("}")
            assert line[: 4 * depth].isspace()
            assert not line[4 * depth].isspace()
            assert len(line) <= WIDTH
            depth += line.endswith("{")
        assert depth == 1


def test_a_call_is_printed_once() -> None:
    call = next(calls("ADD"))
    assert initialiser(call) is initialiser(call)
