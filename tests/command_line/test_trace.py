"""``inspect --trace``: the page has every stage, what it changed, the plan as it is and the C as it is printed."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.models.builtin import builtin
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import STAGES, make_plan

#: Where a stage ends.
SECTION = re.compile(r'<section id="([a-z]+)">(.*?)</section>', re.DOTALL)


def sections(path: Path) -> dict[str, str]:
    return dict(SECTION.findall(path.read_text()))


def two_stages() -> Graph:
    """A PAD before a convolution, and two operators over one value of 8 bits."""
    b = Builder("<stages>")
    x = b.input("<x>", "INT8", (1, 4, 4, 2), scale=0.5, zero=-3)
    y = b.op("PAD", [x, np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)], shape=(1, 6, 6, 2), scale=0.5, zero=-3)
    w = b.constant(np.ones((2, 3, 3, 2), np.int8), 0.1)
    y = b.op("CONV_2D", [y, w, None], shape=(1, 4, 4, 2), scale=1.0, padding="VALID", stride_h=1, stride_w=1)
    y = b.op("LOGISTIC", [y], scale=1 / 256, zero=-128)
    return b.graph([b.op("QUANTIZE", [y], type="INT8", scale=0.1)])


def test_what_stages_change(tmp_path: Path) -> None:
    model, out = tmp_path / "m.tflite", tmp_path / "m.html"
    two_stages().save(model)
    assert main(["inspect", str(model), "--target", "cortex-m4", "--trace", str(out)]) == 0
    found = sections(out)
    assert [*found] == ["m", *(stage.name.lower() for stage in STAGES), "c"]
    gone = {name: re.findall("<del>(.*?)</del>", text) for name, text in found.items()}
    new = {name: re.findall("<ins>(.*?)</ins>", text) for name, text in found.items()}
    assert all(not gone[name] and "Nothing to do" in found[name] for name in ("shapes", "unsigned"))
    assert [line.split("(")[0].split()[-1] for line in gone["padding"]] == ["PAD", "CONV_2D"]
    assert [line.split("(")[0].split()[-1] for line in new["padding"]] == ["CONV_2D"]
    assert [line.split("(")[0].split()[-1] for line in gone["tables"]] == ["LOGISTIC", "QUANTIZE"]
    assert [line.split("(")[0].split()[-1] for line in new["tables"]] == ["QUANTIZE"]
    assert "<x>" not in out.read_text()
    assert "&lt;x&gt; INT8[1,4,4,2]" in found["m"]


@pytest.mark.parametrize("target", ["cortex-m4"])
def test_the_plan_and_the_c(target: str, tmp_path: Path) -> None:
    assert main(["inspect", "kws_int8", "--target", target, "--trace", str(tmp_path / "m.html")]) == 0
    found = {name: unescape(re.sub("<[^>]*>", "", text)) for name, text in sections(tmp_path / "m.html").items()}
    plan = make_plan(builtin()["kws_int8"](), find(target).target)
    for step in plan.steps:
        assert f"\n{step.node.index} {step.node.op}: {step.call.kernel}, {step.choice.variant}" in f"\n{found['plan']}"
        assert all(reason in found["plan"] for _, reason in step.choice.declined)
    for tensor, place in plan.places.items():
        known = tensor in (*plan.graph.inputs, *plan.graph.outputs)
        assert not known or f"{place.region.value} {place.offset}..{place.offset + tensor.nbytes}" in found["plan"]
    assert f"{len(plan.steps)} layers in an arena of {plan.arena_bytes:,} bytes" in found["plan"]
    code = emit(plan, "kws_int8").code["kws_int8.c"]
    assert [line for line in code.splitlines() if line.strip()][-20:] == [
        line for line in found["c"].splitlines() if line.strip()
    ][-20:]


def test_nothing_is_written_where_there_is_no_plan(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    graph = two_stages()
    unknown = replace(graph, nodes=tuple(replace(node, op="CUSTOM:Mine") for node in graph.nodes[:1]) + graph.nodes[1:])
    unknown.save(tmp_path / "m.tflite")
    before = (tmp_path / "m.tflite").read_bytes()
    for out in ("m.html", "m.tflite"):
        assert main(["inspect", str(tmp_path / "m.tflite"), "--trace", str(tmp_path / out)]) == 2
        assert capfd.readouterr().err
    assert not (tmp_path / "m.html").exists()
    assert (tmp_path / "m.tflite").read_bytes() == before
