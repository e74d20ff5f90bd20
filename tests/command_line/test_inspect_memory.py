"""``twinfer inspect --memory``: the certificate of a plan's memory as text, JSON and a picture."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from twinfer.aot.build.targets import find
from twinfer.bench.memory.certificate import certificate
from twinfer.bench.models.source import load
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph
from twinfer.runtime.op import tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.target import GENERIC

M4 = find("cortex-m4").target


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["inspect", *arguments, "--target", "cortex-m4", "--json"]) == 0
    about: dict[str, Any] = json.loads(capsys.readouterr().out)
    return about


@pytest.mark.parametrize("way", ["auto", "layers", "rows"])
@pytest.mark.parametrize("model", ["kws_int8", "vww_int8"])
def test_the_promised_keys(capsys: pytest.CaptureFixture[str], model: str, way: str) -> None:
    """They are those of the plan itself; what forces the peak adds up to it."""
    about = document(capsys, model, "--memory", way)
    plan = make_plan(load(model).graph, M4, Options(memory=way))  # type: ignore[arg-type]
    assert about["schema"] == 1
    assert (about["arena_bytes"], about["state_bytes"]) == (plan.arena_bytes, plan.state_bytes)
    assert (about["lower_bound_bytes"], about["proven"]) == (plan.lower_bound_bytes, plan.proven)
    forced = about["forced_by"]
    assert forced["bytes"] <= plan.arena_bytes
    assert sum(live["bytes"] for live in forced["tensors"]) >= forced["bytes"]


@pytest.mark.parametrize("model", ["kws_int8", "vww_int8", "ic_int8"])
def test_every_hint_is_a_plan(model: str) -> None:
    """What a hint promises is what planning that gives, and less than the plan at hand takes."""
    graph = load(model).graph
    told = certificate(graph, M4, Options(memory="layers"))
    hints = {hint.kind: hint for hint in told.hints}
    assert "rows" in hints
    options = {
        "rows": Options(memory="rows"),
        "input_rows": Options(memory="rows", input_rows=True),
        "input_in_place": Options(memory="layers", input_in_place=True),
    }
    for kind, asked in options.items():
        plan = make_plan(graph, M4, asked)
        assert hints[kind].ram_bytes == plan.memory_bytes if kind in hints else kind != "rows"
    for hint in told.hints:
        assert hint.ram_bytes < told.plan.memory_bytes
        assert hint.ram_change == pytest.approx(hint.ram_bytes / told.plan.memory_bytes - 1)
        assert hint.text


def test_an_int8_input_is_a_hint() -> None:
    """A float input that is quantised first takes four bytes where one would do."""
    b = Builder("camera")
    x = b.input("x", "FLOAT32", (1, 64, 64, 1))
    q = tensor((1, 64, 64, 1), "INT8", 0.1, 0, name="q")
    options = {"padding": "SAME", "stride_h": 2, "stride_w": 2, "fused_activation_function": "NONE"}
    b.node("QUANTIZE", [x], [q])
    graph = b.graph([b.op("MAX_POOL_2D", [q], filter_height=2, filter_width=2, **options)])
    told = certificate(graph, GENERIC, Options(memory="layers"))
    (hint,) = (hint for hint in told.hints if hint.kind == "int8_input")
    assert told.plan.memory_bytes - hint.ram_bytes >= 3 * 64 * 64


def test_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "vww_int8", "--target", "cortex-m4", "--memory", "rows"]) == 0
    text = capsys.readouterr().out
    plan = make_plan(load("vww_int8").graph, M4, Options(memory="rows"))
    joined = re.sub(r"\s+", " ", text)
    assert f"arena {plan.arena_bytes:,} bytes" in joined
    assert f"lower bound {plan.lower_bound_bytes:,}" in joined
    assert "What forces" in joined
    assert "one row after the other" in joined


def test_by_rows_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "memory.svg"
    about = document(capsys, "vww_int8", "--memory", "rows", "--input-rows", "--picture", str(picture))
    assert about["arena_bytes"] < 17_000
    text = picture.read_text()
    assert f"vww_int8 on cortex-m4: {about['arena_bytes']:,} bytes" in text
    assert main(["inspect", "vww_int8", "--picture", str(tmp_path / "memory.bmp")]) == 2
    assert "can be written to .svg" in capsys.readouterr().err


def test_a_model_without_rows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder("two")
    x, y = b.input("x", "FLOAT32", (1, 4)), b.input("y", "FLOAT32", (1, 4))
    graph: Graph = b.graph([b.op("ADD", [x, y], fused_activation_function="NONE")])
    graph.save(tmp_path / "two.tflite")
    assert main(["inspect", str(tmp_path / "two.tflite"), "--memory", "--input-rows"]) == 2
    assert "has 2 inputs" in capsys.readouterr().err
