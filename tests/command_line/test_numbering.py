"""One numbering: what readers see of an operator, in emitted C, tables and JSON, is its number in the model's file."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from twinfer.aot.print.emit import emit
from twinfer.bench.measure.compare import describe
from twinfer.bench.models.source import load
from twinfer.command_line.main import main
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.target import DSP


def in_file(model: str) -> dict[int, str]:
    return {i: node.op for i, node in enumerate(load(model).graph.nodes)}


@pytest.mark.parametrize("model", ["kws_int8", "tcn_int8"])
@pytest.mark.parametrize("options", [Options(), Options(memory="rows")])
def test_operators_have_the_numbers_of_the_file(model: str, options: Options, capsys: Any) -> None:
    """A RESHAPE takes no step, so that layers are counted otherwise; comments of C say both numbers."""
    known, plan = in_file(model), make_plan(load(model).graph, DSP, options)
    told = emit(plan, "m").files
    named = [
        (int(number), op)
        for text in told.values()
        for op, number in re.findall(r"Layer \d+: (\w+), operator (\d+) of the model", text)
    ]
    named += [(int(n), op) for text in told.values() for n, op in re.findall(r"of operator (\d+) (\w+)", text)]
    assert {number for number, _ in named} == {step.node.index for step in plan.steps}
    rows = [describe(step) for step in plan.steps]
    named += [(row["index"], row["op"]) for row in rows]
    assert [row["index"] for row in rows] != [*range(len(rows))] or model == "tcn_int8"
    assert main(["inspect", model, "--json"]) == 0
    operators = json.loads(capsys.readouterr().out)["operators"]
    assert [each["index"] for each in operators] == [*known]
    named += [(each["index"], each["op"]) for each in operators]
    assert not [pair for pair in named if known[pair[0]] != pair[1]]
