"""Warnings of convert about poor results, and about calibration data that lead to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRT
from ai_edge_litert.interpreter import OpResolverType

from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion
from twinfer.converter.quantize.calibrate import calibrate
from twinfer.converter.search.auto import choose
from twinfer.runtime.errors import ModelWarning
from twinfer.runtime.graph import Graph
from twinfer.runtime.write.tflite import write


def blind() -> Graph:
    b = Builder("blind")
    x = b.input("x", "FLOAT32", (1, 8))
    return b.graph([b.op("TANH", [b.op("FULLY_CONNECTED", [x, np.eye(7, 8, dtype=np.float32)], shape=(1, 7))])])


def normal(count: int = 8, last: float = 1.0) -> Any:
    """Samples with a last number ``last`` times as large as the others, which share its step."""
    x = np.random.default_rng(2).normal(0, 1, (count, 1, 8)).astype(np.float32)
    return x * np.array([1] * 7 + [last], np.float32)


def test_a_poor_result_is_warned_of_with_what_may_be_done() -> None:
    with (
        pytest.warns(ModelWarning, match=r"int8 model's outputs.*auto.*: '.*' FULLY_CONNECTED") as told,
        pytest.warns(ModelWarning, match="features of very different ranges share one scale.*leave inference_type"),
    ):
        converted = conversion(blind(), quantize="int8", calibration={"x": normal(last=1000)}, inference_type="INT8")
    assert len(told) == 1
    assert str(choose(blind(), {"x": normal(last=1000)}, methods=("minmax",))) in str(told[0].message)
    assert converted.quality is not None
    assert converted.quality.snr_db < 20
    assert converted.quality.worst[0].snr_db == min(layer.snr_db for layer in converted.quality.worst)


def several(shares: tuple[float, ...]) -> Graph:
    """Outputs that int8 spoils by as much as their share of a step is small."""
    b = Builder("several")
    x = b.input("x", "FLOAT32", (1, 8))
    rows = np.eye(8, dtype=np.float32)
    outs = []
    for i, share in enumerate(shares):
        scaled = b.op("MUL", [x, np.array([share] * 7 + [1], np.float32)])
        outs.append(b.op("FULLY_CONNECTED", [b.op("TANH", [scaled]), rows[: 3 + i]], shape=(1, 3 + i)))
    return b.graph(outs)


def by_litert(graph: Graph, rows: Any) -> list[list[Any]]:
    peer = LiteRT(model_content=write(graph), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    peer.allocate_tensors()
    (into,), outs = peer.get_input_details(), peer.get_output_details()
    results: list[list[Any]] = [[] for _ in outs]
    for row in rows:
        scale, zero = into["quantization"]
        fed = np.clip(np.rint(row / scale) + zero, -128, 127) if scale else row
        peer.set_tensor(into["index"], fed.astype(into["dtype"]))
        peer.invoke()
        for kept, detail in zip(results, outs, strict=True):
            scale, zero = detail["quantization"]
            value = peer.get_tensor(detail["index"])
            kept.append((value.astype(np.float64) - zero) * scale if scale else value.astype(np.float64))
    return results


@pytest.mark.parametrize("worst", [0, 1, 2])
@pytest.mark.filterwarnings("ignore:the int8 model:twinfer.runtime.errors.ModelWarning")
def test_every_output_is_judged(worst: int, tmp_path: Path, capsys: Any) -> None:
    """In Python, on the terminal, in the report and on its page; recomputed from the file by LiteRT."""
    graph = several(tuple(0.01 if i == worst else 1.0 for i in range(3)))
    data, files = normal(12), {end: tmp_path / f"m.{end}" for end in ("tflite", "json", "html")}
    graph.save(tmp_path / "float.tflite")
    np.save(tmp_path / "d.npy", data)
    converted = conversion(graph, quantize="int8", calibration=data)
    want, got = by_litert(graph, data), by_litert(converted.graph, data)
    exact = {
        t.name: 10 * np.log10(np.square(a).sum() / np.square(np.subtract(a, b)).sum())
        for t, a, b in zip(graph.outputs, want, got, strict=True)
    }
    assert converted.quality is not None
    assert {o.name: o.snr_db for o in converted.quality.outputs} == pytest.approx(exact, abs=0.5)
    assert [o.name for o in converted.quality.outputs] == sorted(exact, key=lambda name: exact[name])
    assert converted.quality.outputs[0].name == graph.outputs[worst].name
    assert converted.quality.snr_db == converted.quality.outputs[0].snr_db < 20 < converted.quality.outputs[1].snr_db
    command = ["convert", str(tmp_path / "float.tflite"), "-o", str(files["tflite"]), "--quantize", "int8"]
    for end in ("json", "html"):
        assert main([*command, "--calibration", str(tmp_path / "d.npy"), "--report", str(files[end])]) == 0
    said = capsys.readouterr()
    listed = ", ".join(f"'{o.name}' {o.snr_db:.1f} dB" for o in converted.quality.outputs)
    assert f"the worst first: {listed};" in said.out
    assert f"output '{graph.outputs[worst].name}' is at {converted.quality.snr_db:.1f} dB" in said.err
    assert "outputs are)" not in said.err, "it is the only one"
    told = json.loads(files["json"].read_text())
    assert {o["name"]: o["snr_db"] for o in told["outputs"]} == pytest.approx(exact, abs=0.5)
    assert told["outputs_snr_db"] == min(o["snr_db"] for o in told["outputs"])
    page = files["html"].read_text()
    assert all(f"{o['name']} {o['snr_db']:.1f} dB" in page for o in told["outputs"])


@pytest.mark.parametrize(("count", "value"), [(4, 0.0), (4, 3.0), (1, 3.0)])
def test_constant_data_are_warned_of(count: int, value: float) -> None:
    with pytest.warns(ModelWarning, match=rf"input 'x' is {value:g} everywhere in all {count} samples"):
        calibrate(blind(), {"x": np.full((count, 1, 8), value, np.float32)})
