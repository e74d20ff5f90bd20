"""Models as modules of WebAssembly with their JavaScript: in Node and Chromium they give the interpreter's bits."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import wasm
from browser import need_browser
from cases import cases_of, graph_of
from conftest import CorpusModel
from needs import need_npm, need_tools

from twinfer.aot.build.project import write_all, write_project
from twinfer.bench.measure.embedded import agree, host_outputs
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.errors import ToolError, ToolWarning, UnsupportedOperatorError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.tools import run_tool

pytestmark = pytest.mark.usefixtures("kept_builds")


@pytest.fixture(autouse=True)
def tools() -> None:
    need_tools("clang", "wasm-ld", "node")


def inputs_of(graph: Graph) -> list[Array]:
    """Random values for the inputs that callers give."""
    return [x for x, t in zip(random_inputs(graph), graph.inputs, strict=True) if t.data is None]


def faults(graph: Graph, ways: Any) -> list[str]:
    """Where outputs differ from the interpreter's."""
    want = host_outputs(graph, random_inputs(graph))
    pairs = [
        (way, i, got, wanted)
        for way, (outputs,) in enumerate(ways)
        for i, (got, wanted) in enumerate(zip(wasm.arrays(outputs, graph), want, strict=True))
    ]
    return [f"way {way}, output {i}: {got}, not {want}" for way, i, got, want in pairs if not agree(got, want)]


def in_node(graph: Graph, folder: Path, options: Options = USUAL) -> list[str]:
    wasm.write_package(folder, graph, "m", options)
    return faults(graph, wasm.in_node(folder, [("m", [inputs_of(graph)])])[0])


@pytest.mark.corpus("app", "op", "derived", sample=8)
@pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")
def test_the_corpus(corpus_model: CorpusModel, tmp_path: Path) -> None:
    try:
        graph = make_plan(read_file(corpus_model.path)).graph
    except UnsupportedOperatorError:
        pytest.skip("the interpreter does not run it either")
    assert not in_node(graph, tmp_path)


WAYS = {
    "interpreted": ("digits_int8", Options(mode="interpreted")),
    "by rows": ("kws_int8", Options(memory="rows", input_rows=True)),
    "by rows, interpreted": ("kws_int8", Options(memory="rows", input_rows=True, mode="interpreted")),
    "input in place": ("digits_int8", Options(input_in_place=True)),
    "coded": ("digits_int8", Options(weights="huffman", decode="start")),
    "guarded": ("digits_int8", Options(guard=True)),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_compile(way: str, tmp_path: Path) -> None:
    name, options = WAYS[way]
    assert not in_node(builtin()[name](), tmp_path, options)


def test_values_that_are_only_passed_on(tmp_path: Path) -> None:
    """Constant outputs, an input that is an output, names with quotes; bits of NaN stay."""
    graph = tiny.passing().graph
    wasm.write_package(tmp_path, graph, "m")
    (whole,), (by_layer,) = wasm.in_node(tmp_path, [("m", [inputs_of(graph)])])[0]
    assert whole == by_layer == [y.tobytes() for y in host_outputs(graph, random_inputs(graph))]


SCRIPT = """
import {{ load }} from "./m.js";
const model = await load();
const said = (call) => {{ try {{ return call(); }} catch (error) {{ return `${{error.name}}: ${{error.message}}`; }} }};
console.log(JSON.stringify([{calls}].map((call) => said(call))));
"""


def said(folder: Path, *calls: str) -> list[Any]:
    """What calls of JavaScript gave or threw; arrays as objects."""
    (folder / "said.js").write_text(SCRIPT.format(calls=", ".join(f"() => {call}" for call in calls)))
    return list(json.loads(run_tool(["node", "said.js"], folder)))


def test_real_numbers_are_quantised_as_in_python(tmp_path: Path) -> None:
    graph = builtin()["digits_int8"]()
    wasm.write_package(tmp_path, graph, "m")
    x = graph.inputs[0]
    real = np.random.default_rng(3).normal(0, 1, x.shape).astype(np.float32)
    real.ravel()[:3] = [1e9, -1e9, 0]
    values = f"new Float32Array({real.ravel().tolist()})"
    given = f"[{values}]"
    calls = [f"model.run({values})", f"model.run({given})", f"model.run({{{json.dumps(x.name)}: {values}}})"]
    whole = [f"model.run({values}, {{ integers: true }})", f"model.run({real.ravel().tolist()})"]
    model = Interpreter.from_graph(graph)
    reals, stored = (list(model.run(real, integers=way).ravel().tolist()) for way in (False, True))
    got = [list(each[0].values()) for each in said(tmp_path, *calls, *whole)]
    assert got == [reals, reals, reals, stored, reals]


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    graph = builtin()["digits_int8"]()
    wasm.write_package(tmp_path, graph, "m")
    size, name = graph.inputs[0].size, graph.inputs[0].name
    calls = {
        "model.run([1, 2])": f"RangeError: {name} takes {size} values, not 2",
        f"model.run(new Int16Array({size}))": f"TypeError: {name} takes Int8Array or Float32Array, not Int16Array",
        f"model.run(new Array({size}).fill(NaN))": f"RangeError: {name}: value 0 is no number",
        "model.run()": f"TypeError: input 0, {name}, should be an array",
        "model.run([[1], [2]])": "TypeError: 2 inputs are given, not 1",
        "model.pushRow([1])": "Error: m takes its input whole: compile it with --input-rows",
        "model.runLayers(0, 1000)": "Error: m: no such layers",
    }
    assert said(tmp_path, *calls) == [*calls.values()]


def test_a_state_lasts_until_it_is_reset(tmp_path: Path) -> None:
    graph = graph_of(next(iter(cases_of("SVDF").values())).node)
    wasm.write_package(tmp_path, graph, "m")
    samples = [inputs_of(graph)] * 3
    model = Interpreter.from_graph(graph)
    want = [[y.tobytes() for y in listed(model.run(x, integers=True))] for (x,) in samples]
    assert len({*map(tuple, want)}) > 1
    assert wasm.in_node(tmp_path, [("m", samples)]) == [[want, want]]


USE = """\
import {{ load }} from "./m.js";
import type {{ Facts, Model, Values }} from "./twinfer-run.js";

const members: Record<keyof Model, true> = {{
  facts: true, run: true, reset: true, begin: true, pushRow: true, finish: true, set: true, runLayers: true,
  results: true, inputs: true, outputs: true, arena: true,
}};
const written = {facts} as const;
const facts: Facts = written;
const model: Model = await load();
const row: readonly number[] = new Array(facts.inputs[0]!.length).fill(1);
const named = {{ [facts.inputs[0]!.name]: row }};
const runs: Values[][] = [model.run(row), model.run([row], {{ integers: true }}), model.run(named)];
// @ts-expect-error text is no input
() => model.run("text");
// @ts-expect-error the row is missing
() => model.pushRow();
const missing = Object.keys(members).filter((name) => !(name in model));
console.log(JSON.stringify([missing, runs.map(([y]) => y!.constructor.name), facts.macs]));
"""


@pytest.mark.deep
@pytest.mark.parametrize("rows", [False, True])
def test_the_types_are_those_of_the_script(rows: bool, tmp_path: Path) -> None:
    """TypeScript takes a script that uses all of a model, with what m.js says of it as Facts; then Node runs that."""
    graph = builtin()["kws_int8"]()
    compiler = need_npm("typescript@5.9.3") / "tsc"
    wasm.write_package(tmp_path, graph, "m", Options(memory="rows", input_rows=rows))
    facts = (tmp_path / "m.js").read_text().partition("export const facts = ")[2].partition(";\n")[0]
    (tmp_path / "use.ts").write_text(USE.format(facts=facts))
    strict = ("--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--lib", "es2022,dom")
    run_tool([str(compiler), *strict, "--module", "nodenext", "use.ts", "m.d.ts"], tmp_path)
    macs = make_plan(graph, wasm.CARD.target).macs
    got = json.loads(run_tool(["node", "use.js"], tmp_path))
    assert got == [[], ["Float32Array", "Int8Array", "Float32Array"], macs]


def listed(outputs: Any) -> list[Array]:
    return outputs if isinstance(outputs, list) else [outputs]


def test_what_compile_writes(tmp_path: Path) -> None:
    """A folder of two models, each with its module; the types and scripts are valid."""
    both = [(name, make_plan(builtin()[name](), wasm.CARD.target), "") for name in ("digits_int8", "ad01_int8")]
    with pytest.warns(ToolWarning, match="the stack is not measured"):
        write_all(both, "both", tmp_path / "both", card=wasm.CARD)
    graphs = {name: plan.graph for name, plan, _ in both}
    cases = [(name, [inputs_of(graph)]) for name, graph in graphs.items()]
    results = wasm.in_node(tmp_path / "both", cases)
    assert not [
        faults(graph, ways) for graph, ways in zip(graphs.values(), results, strict=True) if faults(graph, ways)
    ]
    readme = (tmp_path / "both" / "README.md").read_text()
    assert "## In a browser or in Node" in readme


@pytest.mark.filterwarnings("ignore:the stack is not measured")
def test_without_a_compiler_there_is_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ziglang", None)
    monkeypatch.setenv("PATH", "")
    plan = make_plan(builtin()["digits_int8"](), wasm.CARD.target)
    with pytest.warns(ToolWarning, match="there is C alone: clang is not installed: apt-get install clang lld"):
        write_project(plan, "m", tmp_path / "m", card=wasm.CARD)
    assert not [*(tmp_path / "m").glob("*.wasm")]
    assert "In a browser" not in (tmp_path / "m" / "README.md").read_text()


def test_a_clang_without_webassembly_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ziglang", None)
    monkeypatch.setattr("twinfer.aot.board.wasm.architecture._targets", lambda compiler: "x86-64")
    with pytest.raises(ToolError, match="clang builds no WebAssembly"):
        wasm.CARD.toolchain.need()


def test_in_chromium(tmp_path: Path) -> None:
    """The same modules and script in a page."""
    need_browser()
    graphs = {"digits": builtin()["digits_int8"](), "state": tiny.flow().graph, "rows": builtin()["kws_int8"]()}
    for name, graph in graphs.items():
        wasm.write_package(tmp_path, graph, name, Options(memory="rows", input_rows=name == "rows"))
    cases = [(name, [inputs_of(graph)]) for name, graph in graphs.items()]
    assert wasm.in_chromium(tmp_path, cases) == wasm.in_node(tmp_path, cases)


@pytest.mark.deep
def test_the_compiler_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where clang is missing ziglang builds the module: it imports nothing either, and has the same bits."""
    graph = builtin()["digits_float32"]()
    with monkeypatch.context() as hidden:
        hidden.setenv("PATH", str(tmp_path))
        wasm.write_package(tmp_path, graph, "m")
    assert not faults(graph, wasm.in_node(tmp_path, [("m", [inputs_of(graph)])])[0])
