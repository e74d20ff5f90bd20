"""Reports: figures that agree with their sources, remarks that follow from them, and pages that hold them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
import row_nets
import tiny
from browser import shared_browser  # noqa: F401
from flows import Sub
from hypothesis import given
from hypothesis import strategies as st
from needs import deep_but

from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.explain.explain import Wanted
from twinfer.bench.memory.certificate import certificate
from twinfer.bench.models.source import Source, load
from twinfer.bench.page.page import data_of
from twinfer.bench.report.charts import _lanes
from twinfer.bench.report.diff import changed_layers, diff_html, difference
from twinfer.bench.report.document import Report, node_rows, report_of, views
from twinfer.bench.report.html import explain_html, report_html
from twinfer.bench.report.maps import arena_chart
from twinfer.bench.report.noise import layer_of, noise
from twinfer.converter.build import Builder
from twinfer.converter.convert import convert
from twinfer.runtime.affine import dequantize
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import USUAL, Memory, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter

pytestmark = pytest.mark.usefixtures("board_tools")

M4 = find("cortex-m4")

Document = dict[str, Any]


@cache
def source(model: str) -> Source:
    """A built-in model, or a small one that runs row by row and has branches."""
    return Source("rows", row_nets.network(4, layers=7)) if model == "rows" else load(model)


@cache
def made_once(model: str, memory: Memory = "auto") -> str:
    """The JSON of a report on M4; kws_int8 with some techniques."""
    names = ("folding", "packing", "instructions") if model == "kws_int8" else ()
    return json.dumps(report_of(source(model), M4, Options(memory=memory), Wanted(techniques=names)))


def report(model: str = "rows", memory: Memory = "auto") -> Document:
    """A report as read from its JSON."""
    read: Document = json.loads(made_once(model, memory))
    return read


@pytest.fixture(params=deep_but(["rows", "kws_int8", "vww_int8", "ic_int8"], "rows"))
def kept(request: pytest.FixtureRequest) -> Document:
    return report(request.param)


# -- the document ------------------------------------------------------------------------------------------------------


def test_figures_are_those_of_plan_ledger_and_image(kept: Document) -> None:
    model = source(kept["model"])
    plan = make_plan(model.graph, M4.target)
    image = sizes(emit(plan, kept["model"]), M4)
    totals = kept["totals"]
    assert totals["compiled"] == sum(layer["compiled"] for layer in kept["layers"])
    assert totals["interpreted"] == sum(layer["interpreted"] for layer in kept["layers"])
    assert totals["macs"] == plan.macs == sum(node["macs"] for node in kept["nodes"])
    assert (totals["arena_bytes"], totals["state_bytes"]) == (plan.arena_bytes, plan.state_bytes)
    assert (totals["flash_bytes"], totals["ram_bytes"]) == (image.flash_bytes, image.ram_bytes)
    assert totals["flash_bytes"] == sum(s["size"] + s["padding"] for s in kept["flash"] if s["group"] != "bss")
    assert (kept["kind"], kept["schema"], kept["sha256"]) == ("twinfer report", 1, model.sha256)
    assert kept["options"]["memory"] == "auto"


def test_a_hint_of_an_input_by_rows_is_planned_by_rows() -> None:
    """Also where the plan is by layers."""
    graph = source("rows").graph
    fed = make_plan(graph, M4.target, Options(memory="rows", input_rows=True)).memory_bytes
    hints = certificate(graph, M4.target, Options(memory="layers")).hints
    assert [hint.ram_bytes for hint in hints if hint.kind == "input_rows"] == [fed]


def test_what_every_step_weighs(kept: Document) -> None:
    """Summed again over the tensors of the file and the symbols of the image."""
    graph = source(kept["model"]).graph
    noises, families = noise(graph), {"CONV_2D": "conv", "DEPTHWISE_CONV_2D": "depthwise", "ADD": "elementwise"}
    plan = make_plan(graph, M4.target)
    assert kept["totals"]["scratch_bytes"] == max(step.scratch.nbytes for step in plan.steps if step.scratch)
    assert kept["totals"]["constant_bytes"] == plan.constant_bytes
    assert kept["totals"]["weight_bytes"] == sum(layer["weight_bytes"] or 0 for layer in kept["layers"])
    for node in kept["nodes"]:
        own = graph.nodes[node["index"]]
        read = [t for t in own.inputs if t is not None]
        sizes = [math.prod(t.shape) * t.dtype.itemsize for t in read if t.data is None]
        assert (node["input_bytes"], node["shape"], node["type"]) == (sum(sizes), [*own.output.shape], "INT8")
        assert node["output_bytes"] == math.prod(own.output.shape)
        assert node["constant_bytes"] == sum(np.asarray(t.data).nbytes for t in read if t.data is not None)
        assert kept["memory"]["operators"][node["time"]] == f"{node['index']} {own.op}"
        assert node["family"] == families.get(own.op, node["family"])
        symbols = [s for s in kept["flash"] if s["layer"] == node["position"]]
        code = [s["size"] + s["padding"] for s in symbols if s["group"] in ("code", "params")]
        assert node["code_bytes"] == sum(code)
        judged = noises.get((node["index"], own.op, own.output.name))
        want = (None, None) if judged is None else (round(judged.own, 2), round(judged.total, 2))
        assert (node["own_snr_db"], node["total_snr_db"]) == want


def nameless(graph: Graph) -> Graph:
    """The same model; no tensor has a name."""
    new = {tensor: replace(tensor, name="") for tensor in graph.tensors}

    def of(tensors: Any) -> Any:
        return tuple(t and new[t] for t in tensors)

    nodes = tuple(replace(node, inputs=of(node.inputs), outputs=of(node.outputs)) for node in graph.nodes)
    return replace(graph, tensors=of(graph.tensors), nodes=nodes, inputs=of(graph.inputs), outputs=of(graph.outputs))


def test_tensors_without_names_have_a_report() -> None:
    """Layers read what the layers before them write, whatever these are called; as in the named model."""
    graph = source("rows").graph
    kept, named = (node_rows(make_plan(each, M4.target), None, {}) for each in (nameless(graph), graph))
    writer = {name: i for i, node in enumerate(kept) for name in node["outputs"]}
    own = {name: i for i, node in enumerate(named) for name in node["outputs"]}
    assert len(writer) == len(own) == len(kept)
    for node, twin in zip(kept, named, strict=True):
        assert [writer.get(name) for name in node["inputs"]] == [own.get(name) for name in twin["inputs"]]
    assert "" not in views(make_plan(nameless(graph), M4.target)).values()
    assert len(noise(nameless(graph))) == len(noise(graph)), "each layer has its own figure"


def converted(graph: Graph) -> Graph:
    """The model in int8, by a few samples."""
    rows = np.random.default_rng(0).normal(0, 1, (8, *graph.inputs[0].shape)).astype(np.float32)
    return convert(graph, quantize="int8", calibration=rows)


@cache
def on_host() -> tuple[Document, Graph, list[float]]:
    """A report of this computer, its model, and what was told of its progress."""
    told: list[float] = []
    graph = converted(tiny.classifier())
    return report_of(Source("tiny", graph), None, USUAL, Wanted(seed=3, seconds=0.1), told.append), graph, told


def test_a_report_of_this_computer() -> None:
    kept, graph, told = on_host()
    assert (kept["target"], kept["unit"], kept["ladder"], kept["flash"]) == ("host", "µs", None, [])
    assert kept["totals"]["flash_bytes"] is None
    assert kept["totals"]["compiled"] > 0
    assert [node["op"] for node in kept["nodes"]] == ["FULLY_CONNECTED", "SOFTMAX"]
    assert [node["own_snr_db"] for node in kept["nodes"]] == [round(n.own, 2) for n in noise(graph, 3).values()]
    assert noise(graph, 3) != noise(graph, 0)
    assert all(layer["code_bytes"] is None for layer in kept["layers"] if layer["steps"]), (
        "only a core's flash is known"
    )
    assert told == sorted(told)
    assert json.loads(json.dumps(kept)) == json.loads(json.dumps(data_of(report_html(kept))))


# -- noise -------------------------------------------------------------------------------------------------------------


def chain_of_layers(seed: int, kind: str = "INT8") -> Graph:
    """A dense layer with a bias, a conversion of scale, an addition of a constant, a dense layer per channel."""
    b, rng = Builder("chain"), np.random.default_rng(seed)
    if kind == "INT16":
        x = b.input("x", "INT16", (1, 24), 0.0002)
        w = b.constant(rng.integers(-127, 128, (16, 24), np.int8), 0.01, name="w")
        bias = b.constant(rng.integers(-200_000, 200_000, 16), name="bias")
        y = b.op("FULLY_CONNECTED", [x, w, bias], shape=(1, 16), scale=0.0007, fused_activation_function="RELU")
        y = b.op("QUANTIZE", [y], scale=0.0009, type="INT16", shape=(1, 16))
        c = b.constant(rng.integers(-32767, 32768, (1, 16), np.int16), 0.0004, name="c")
        y = b.op("ADD", [y, c], scale=0.0012, fused_activation_function="NONE")
        v = b.constant(rng.integers(-127, 128, (5, 16), np.int8), rng.uniform(0.01, 0.02, 5), name="v")
        return b.graph([b.op("FULLY_CONNECTED", [y, v, None], shape=(1, 5), scale=0.003)])
    x = b.input("x", "INT8", (1, 24), 0.04, 3)
    w = b.constant(rng.integers(-127, 128, (16, 24), np.int8), 0.01, name="w")
    bias = b.constant(rng.integers(-2000, 2000, 16).astype(np.int32), name="bias")  # its scale is x's times w's
    y = b.op("FULLY_CONNECTED", [x, w, bias], shape=(1, 16), scale=0.12, zero=-7, fused_activation_function="RELU")
    y = b.op("QUANTIZE", [y], scale=0.17, zero=5, type="INT8", shape=(1, 16))
    c = b.constant(rng.integers(-127, 128, (1, 16), np.int8), 0.1, 9, name="c")
    y = b.op("ADD", [y, c], scale=0.3, zero=1, fused_activation_function="NONE")
    v = b.constant(rng.integers(-127, 128, (5, 16), np.int8), rng.uniform(0.01, 0.02, 5), name="v")
    return b.graph([b.op("FULLY_CONNECTED", [y, v, None], shape=(1, 5), scale=0.7, zero=-2)])


@pytest.mark.parametrize(("seed", "kind"), [(0, "INT8"), (1, "INT8"), (2, "INT8"), (0, "INT16")])
def test_noise_of_every_layer_by_hand(seed: int, kind: str) -> None:
    """Each in float64: on the values that the interpreter gave it, and on those of the float layers before; through a
    conversion these go as they are."""
    graph = chain_of_layers(seed, kind)
    dense, convert_, add, last = graph.nodes
    real = {t.name: dequantize(np.asarray(t.data), t.quant) for t in graph.tensors if t.data is not None and t.quant}
    real["bias"] = np.asarray(dense.input(2).data) * graph.inputs[0].scale * np.float32(0.01)
    layers = {
        dense: lambda x: np.maximum(x @ real["w"].T + real["bias"], 0),
        add: lambda x: x + real["c"],
        last: lambda x: x @ real["v"].T,
    }
    sums = {node: ([0.0, 0.0], [0.0, 0.0]) for node in layers}
    for i in range(4):
        (value,) = random_inputs(graph, seed + i)
        model = Interpreter.from_graph(graph, Options(preserve_all=True))
        model.allocate_tensors()
        model.set_tensor(model.get_input_details()[0]["index"], value)
        model.invoke()
        seen = {
            t: dequantize(model.get_tensor(graph.tensors.index(t)), t.quant) for t in graph.tensors if t.data is None
        }  # type: ignore[arg-type]
        so_far = seen[graph.inputs[0]]
        for node, layer in layers.items():
            so_far, alone = layer(so_far), layer(seen[node.input(0)])
            for total, want in zip(sums[node], (alone, so_far), strict=True):
                total[0] += float((want**2).sum())
                total[1] += float(((want - seen[node.output]) ** 2).sum())
    judged = noise(graph, seed)
    assert layer_of(convert_) not in judged
    for node, (own, whole) in sums.items():
        assert judged[layer_of(node)].own == pytest.approx(10 * math.log10(own[0] / own[1]), abs=0.05)
        assert judged[layer_of(node)].total == pytest.approx(10 * math.log10(whole[0] / whole[1]), abs=0.05)


def test_layers_that_read_positions_have_noise() -> None:
    """Constants of INT32 are no biases there, wherever they stand: what only moves values adds nothing, and the layers
    behind it have the noise of those before."""
    b, rng = Builder("moved"), np.random.default_rng(4)
    x = b.input("x", "INT8", (1, 8), 0.04, 3)
    w = b.constant(rng.integers(-127, 128, (8, 8), np.int8), 0.01, name="w")
    y = b.op("FULLY_CONNECTED", [x, w, None], shape=(1, 8), scale=0.5, zero=-7)
    same = {"scale": 0.5, "zero": -7}
    cut = b.op("SLICE", [y, np.int32([0, 1]), np.int32([1, 6])], shape=(1, 6), **same)
    cut = b.op("STRIDED_SLICE", [cut, np.int32([0, 1]), np.int32([1, 5]), np.int32([1, 1])], shape=(1, 4), **same)
    padded = b.op("PADV2", [cut, np.int32([[0, 0], [2, 2]]), b.constant(np.int8([-7]), **same)], shape=(1, 8), **same)
    graph = b.graph([b.op("RESHAPE", [padded, np.int32([8])], shape=(8,), **same)])
    judged = [noise(graph)[layer_of(node)] for node in graph.nodes]
    assert [each.own for each in judged[1:]] == [300.0] * 4
    assert judged[0].own == judged[0].total < 60
    assert all(each.total < 60 for each in judged), "the first layer's roundings are in all that is made of it"
    assert judged[2].total == judged[3].total == judged[4].total


def test_noise_of_float_models_and_branches_is_none() -> None:
    main, then, other = Sub("main"), Sub("then"), Sub("else")
    x, a, b = main.input(), then.input(), other.input()
    (y,) = main.branch(main.less(x, np.float32([2])), 1, 2, [x], [x])
    branching = main.graph([y], then.graph([then.add(a, np.float32([1]))]), other.graph([other.mul(b, b)]))
    assert noise(tiny.classifier()) == noise(branching) == {}


# -- remarks -----------------------------------------------------------------------------------------------------------


# -- summary and page --------------------------------------------------------------------------------------------------


def test_a_page_holds_its_document(kept: Document) -> None:
    html = report_html(kept)
    assert data_of(html) == kept
    titles = ["In short", "Layers", "Memory", "What compiling is worth", "Flash", "Quantisation noise", "Graph"]
    places = [html.index(f"<h2>{title}</h2>") for title in titles]
    assert places == sorted(places)
    assert ("<h2>Techniques</h2>" in html) == (kept["ladder"] is not None)
    assert "http://" not in html.split("<script>")[0].replace("http://www.w3.org", ""), "a page needs no network"


def long_names(document: Document) -> Document:
    """The same report with values of long names."""
    text = json.dumps(document)
    for i, node in enumerate(document["nodes"]):
        text = text.replace(json.dumps(node["name"]), json.dumps(f"a_model/with/quite_a_long_name/that_never_ends/{i}"))
    read: Document = json.loads(text)
    return read


PAGES: dict[str, Callable[[], str]] = {
    "small": lambda: report_html(report("kws_int8")),
    "chains": lambda: report_html(report()),
    "branches": lambda: report_html(long_names(report("ic_int8"))),
    "host": lambda: report_html(on_host()[0]),
    "explained": lambda: explain_html(
        [report("kws_int8")["ledger"] | {"ladder": report("kws_int8")["ladder"]}, report("ic_int8")["ledger"]]
    ),
    "difference": lambda: diff_html(difference(report("vww_int8"), report("vww_int8", "layers"))),
    "other names": lambda: diff_html(difference(report("ic_int8"), long_names(report("ic_int8")))),
}


@pytest.mark.parametrize("every", deep_but([False, True], False))
@pytest.mark.parametrize("name", deep_but(list(PAGES), "chains", "host"))
def test_pages_in_a_browser(name: str, every: bool, tmp_path: Path) -> None:
    """No error, nothing cut off or over something else, all contrasts good, all reached by the keyboard."""
    browser.need_browser()
    (tmp_path / "page.html").write_text(PAGES[name](), encoding="utf-8")
    browser.check(tmp_path / "page.html", every)


def test_the_slider_goes_through_the_operators(tmp_path: Path) -> None:
    browser.need_browser()
    kept = report()
    (tmp_path / "page.html").write_text(report_html(kept), encoding="utf-8")
    live, at = (param["value"] for param in arena_chart(kept).spec["params"])
    for _, _, shown in browser.windows(tmp_path / "page.html", widths=(1280,), themes=("light",)):
        slider, texts = shown.locator("input[type=range]"), shown.locator(".role-title-text text")
        assert (texts.text_content() or "").startswith(live[at][0])
        slider.press("ArrowRight")
        shown.wait_for_function(
            f"document.querySelector('.role-title-text').textContent.startsWith('{live[at + 1][0]}')"
        )


def test_foreign_names_stay_text() -> None:
    kept, evil = report(), "</script><script>alert(1)</script>"
    kept["model"] = kept["nodes"][0]["name"] = kept["layers"][0]["name"] = evil
    kept["memory"]["bands"][0]["name"] = kept["memory"]["forced_by"]["layer"] = evil
    html = report_html(kept)
    assert evil not in html
    assert data_of(html) == kept


def test_a_notebook_shows_the_page() -> None:
    html = Report(report())._repr_html_()
    (inside,) = re.findall(r'^<iframe srcdoc="(.*)" style="[^"]*"></iframe>$', html, re.DOTALL)
    assert unescape(inside) == report_html(report())


# -- charts ------------------------------------------------------------------------------------------------------------


def rows(spec: Mapping[str, Any], layer: int | None = None) -> list[dict[str, Any]]:
    part = spec if layer is None else spec["layer"][layer]
    data: list[dict[str, Any]] = part["data"]["values"]
    return data


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=30))
def test_lanes_do_not_run_into_one_another(spans: list[tuple[int, int]]) -> None:
    edges = sorted({(begin, begin + long) for begin, long in spans})
    lanes, points = _lanes(edges)
    assert len({point["edge"] for point in points}) == len(edges)
    taken = [(lane, *edge) for lane, edge in zip(lanes, edges, strict=False) if lane]
    for i, (lane, begin, end) in enumerate(taken):
        for other, first, last in taken[:i]:
            assert lane != other or last <= begin or end <= first
    assert all((lane == 0) == (end == begin + 1) for lane, (begin, end) in zip(lanes, edges, strict=False))


# -- differences -------------------------------------------------------------------------------------------------------


def test_a_program_that_branches_has_a_report() -> None:
    main, then, other = Sub("main"), Sub("then"), Sub("else")
    x, a, b = main.input(), then.input(), other.input()
    (y,) = main.branch(main.less(x, np.float32([2])), 1, 2, [x], [x])
    graph = main.graph([y], then.graph([then.add(a, np.float32([1]))]), other.graph([other.mul(b, b)]))
    kept = report_of(Source("branches", graph), M4)
    assert [layer["op"] for layer in kept["layers"]] == ["RUN"]
    assert data_of(report_html(kept)) == json.loads(json.dumps(kept))
    assert changed_layers(difference(kept, kept)) == []
