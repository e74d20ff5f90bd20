"""``twinfer ops``: what has kernels, what a model needs, and docs/operators.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import cases_of
from needs import ROOT

from twinfer.command_line.main import main
from twinfer.command_line.ops import _targets
from twinfer.command_line.show.support import join, page
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators, variants
from twinfer.runtime.support import PLAIN, Form, audit, forms, types_of
from twinfer.runtime.target import DSP, GENERIC, HOST, REFERENCE, TARGETS
from twinfer.runtime.write.tflite import write

SHOWN = _targets(None)


@pytest.fixture(scope="module")
def every() -> Sequence[Form]:
    return list(forms(SHOWN))


# -- all operators -----------------------------------------------------------------------------------------------------


def test_the_page_is_what_the_registry_says(every: Sequence[Form]) -> None:
    written = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    assert page(every, SHOWN) == written, "make operators"


def test_every_operator_and_every_variant_is_told(every: Sequence[Form]) -> None:
    assert {form.op for form in every} == set(operators())
    for op in operators():
        told = {name for form in every if form.op == op for names in form.variants.values() for name in names}
        assert told - {PLAIN} <= {variant.name for variant in variants(op)}
        own = {variant.name for variant in variants(op) if op in variant.ops}
        assert own - {REFERENCE.name} <= told, op
    assert all(form.variants.keys() == {target.name for target in TARGETS} - {REFERENCE.name} for form in every)


@pytest.mark.parametrize("op", ["CONV_2D", "ADD", "LOGISTIC", "GATHER", "CUSTOM:SignalDelay"])
def test_all_types_of_the_cases_are_told(op: str, every: Sequence[Form]) -> None:
    wanted = {types_of(case.node) for name, case in cases_of(op).items() if not name.endswith("uint8")}
    assert wanted <= {form.types for form in every if form.op == op}


def test_many_types_in_one_cell() -> None:
    pairs = [f"{a}→{b}" if a != b else a for a in ("x", "y", "z", "u") for b in ("x", "y", "z", "u")]
    assert join(pairs) == "u, x, y, z → u, x, y, z"
    assert join(pairs[:-1]) == ", ".join(pairs[:-1])
    assert join(pairs[:4]) == "x, x→y, x→z, x→u"


# -- a model -----------------------------------------------------------------------------------------------------------


def saved(graph: Graph, folder: Path) -> str:
    path = folder / "model.tflite"
    path.write_bytes(write(graph))
    return str(path)


def lacking() -> Graph:
    """Two unknown operators, one twice, and one with a type that it has no kernel for; ABS between them is fine."""
    b = Builder("lacking")
    x = b.input("x", "FLOAT32", (1, 3))
    first = b.op("CUSTOM:One", [x], shape=(1, 3))
    second = b.op("CUSTOM:Two", [b.op("ABS", [first])], shape=(1, 3))
    third = b.op("CUSTOM:One", [second], shape=(1, 3))
    return b.graph([third])


def test_nodes_are_counted_by_operator_and_types() -> None:
    """Copies of three types run the same kernel."""
    b = Builder("copies")
    outputs = []
    for i, type in enumerate(("FLOAT32", "INT32", "INT8", "FLOAT32", "INT8", "INT8")):
        x = b.input(f"x{i}", type, (2, 3), 0.1 if type == "INT8" else None)
        outputs += [b.op("RESHAPE", [x], shape=(3, 2), new_shape=(3, 2)), b.op("ABS", [x]) if i else x]
    graph = b.graph([y for y in outputs if y not in b.inputs])
    told = Counter[tuple[str, str]]()
    for use in audit(graph, GENERIC).uses:
        told[use.op, use.types] += use.count
    assert told == Counter((node.op, types_of(node)) for node in graph.nodes)


def test_a_model_that_lacks_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(lacking(), tmp_path)
    assert main(["ops", path]) == 1
    text = capsys.readouterr().out
    assert text.count("missing: operator") == 3, "all at once"
    assert re.search(r"CUSTOM:One +2 float32 missing", text)
    assert main(["ops", path, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    rows = {row["op"]: row for row in document["operators"]}
    assert {op: (row["count"], row["kernel"], len(row["missing"])) for op, row in rows.items()} == {
        "ABS": (1, "tw_abs_f32", 0), "CUSTOM:One": (2, None, 2), "CUSTOM:Two": (1, None, 1),
    }  # fmt: skip
    assert document["supported"] is False
    assert document["problems"] == []


def test_a_type_without_a_kernel() -> None:
    """The operator is known, its type is not: that is missing, too."""
    x, y = tensor((3,), "FLOAT64", name="x"), tensor((3,), "FLOAT64", name="y")
    result = audit(Graph("g", (x, y), (Node("COS", (x,), (y,)),), (x,), (y,)), HOST)
    (use,) = result.uses
    assert (use.types, use.kernel, result.problems) == ("float64", "", ())
    assert "has a type that twinfer has no kernel for" in result.missing[0]


def branching(body: str) -> Graph:
    """IF over two subgraphs, the second with the operator ``body``."""
    condition, x, y = tensor((1,), "BOOL", name="c"), tensor((3,), name="x"), tensor((3,), name="y")
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    sides = []
    for name, op in (("then", "ABS"), ("else", body)):
        a, b = tensor((3,), name=f"{name} in"), tensor((3,), name=f"{name} out")
        sides.append(Graph(name, (a, b), (Node(op, (a,), (b,)),), (a,), (b,)))
    node = Node("IF", (condition, x), (y,), options)
    return Graph("main", (condition, x, y), (node,), (condition, x), (y,), subgraphs=tuple(sides))


def test_what_only_the_whole_model_shows() -> None:
    """Every operator has a kernel, but a subgraph that is called does not exist."""
    graph = branching("NEG")
    wrong: Any = Graph("main", graph.tensors, graph.nodes, graph.inputs, graph.outputs, subgraphs=graph.subgraphs[:1])
    result = audit(wrong, HOST)
    assert not any(use.problems for use in result.uses)
    assert len(result.problems) == 1
    assert "does not exist" in result.problems[0]


def test_own_operators_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], own_operators: None) -> None:
    b = Builder("level")
    x = b.input("x", "FLOAT32", (5, 2))
    graph = b.graph([b.op("CUSTOM:LeakyIntegrator", [x, np.float32([0.5, 0.9])], shape=(5, 2))])
    path, folder = saved(graph, tmp_path), str(ROOT / "docs" / "examples")
    assert main(["ops", path]) == 1
    assert main(["ops", path, "--operators", folder]) == 0
    assert "leaky_integrator_f32" in capsys.readouterr().out


@pytest.mark.corpus("app", sample=6)
def test_it_agrees_with_planning(corpus_model: Any) -> None:
    """What it says of a real model is what the plan layer by layer has."""
    from twinfer.runtime.errors import TwinferError
    from twinfer.runtime.read.tflite import read_file

    graph = read_file(corpus_model.path)
    result = audit(graph, DSP)
    try:
        plan = make_plan(graph, DSP, Options(memory="layers", optimize="size"))
    except TwinferError:
        assert result.missing
        return
    assert not result.missing
    told = {use.kernel for use in result.uses}
    assert {step.call.kernel for step in plan.steps} - {"tw_copy", "tw_flip_s8"} <= told
