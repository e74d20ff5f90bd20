"""Warnings of convert about poor results, and about calibration data that lead to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRT
from ai_edge_litert.interpreter import OpResolverType
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion
from twinfer.converter.quantize.calibrate import calibrate
from twinfer.converter.quantize.compare import OutputReport, Sensitivity
from twinfer.converter.quantize.quality import Quality, remedies
from twinfer.converter.quantize.quantize import Options
from twinfer.converter.quantize.recipe import Choice, Recipe, Rule
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
        pytest.warns(ModelWarning, match=r"int8 model's outputs.*recipe.*: '.*' FULLY_CONNECTED") as told,
        pytest.warns(ModelWarning, match="features of very different ranges share one scale.*leave inference_type"),
    ):
        converted = conversion(blind(), quantize="int8", calibration={"x": normal(last=1000)}, inference_type="INT8")
    assert len(told) == 1
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


#: What a made-up model of a recipe and border gives, in dB.
RATIO = st.sampled_from([5.0, 9.0, 13.0, 18.9, 19.1, 21.0, 40.0])


@settings(max_examples=60, deadline=None)
@given(
    now=st.sampled_from([8.0, 17.5, 18.5]),
    mode=st.sampled_from(["int4", "int8", "int16x8"]),
    border=st.sampled_from([None, "FLOAT32"]),
    ratios=st.lists(RATIO, min_size=8, max_size=8) | st.lists(st.just(9.0), min_size=8, max_size=8),
    less=st.sampled_from([{}, {"prune": 0.5}, {"cluster": 4}]),
    ruled=st.booleans(),
)
def test_remedies_are_chosen_by_what_they_reach(
    now: float, mode: str, border: Any, ratios: list[float], less: dict[str, Any], ruled: bool
) -> None:
    """Each that reaches 20 dB or is 3 dB better; of layers in float the fewest that reach 20 dB, else the last."""
    b = Builder("source")
    source = b.graph([b.op("MUL", [b.input("x", "FLOAT32", (1, 8)), np.float32([1])])])
    places = [(count, end) for count in (3, 6, 12) for end in dict.fromkeys((border, "FLOAT32"))]
    of = dict(zip(["int8", "int16x8", *places], ratios, strict=False))
    own = Rule(operator="TANH", precision="float", **(less if ruled else {}))

    def made(changed: Recipe, options: Options) -> Graph:
        assert changed.rules[0] == own
        key = changed.default.precision if len(changed.rules) == 1 else (len(changed.rules) - 1, options.inference_type)
        c = Builder("made")
        factor = 1 + 10 ** (-of[key] / 20)
        return c.graph([c.op("MUL", [c.input("x", "FLOAT32", (1, 8)), np.float32([factor])])])

    layers = tuple(Sensitivity(f"layer {i}", "CONV_2D", float(i)) for i in range(12))
    judged = Quality((OutputReport("y", now),), layers)
    got = remedies(source, judged, Recipe((own,), Choice(mode, **({} if ruled else less))), Options(border),
                   {"x": normal(4)}, made)  # fmt: skip
    want = [f"quantise to {each} ({of[each]:.1f} dB on 4 samples)"
            for each in {"int4": ("int8", "int16x8"), "int8": ("int16x8",)}.get(mode, ())
            if of[each] >= min(20, now + 3)]  # fmt: skip
    good = [place for place in places if of[place] >= min(20, now + 3)]
    reach = [place for place in good if of[place] >= 20]
    for count, end in (reach or good[::-1])[:1]:
        ends = "" if end == border else ", with float inputs and outputs"
        names = ", ".join(f"'layer {i}'" for i in range(count))
        ratio = f"{of[count, end]:.1f} dB on 4 samples"
        want.append(f"keep these {count} layers float by a recipe{ends} ({ratio}): {names}")
    if less and not want:
        want.append("prune or cluster less: nothing else that was tried helps much")
    assert got == want


@pytest.mark.parametrize(("count", "value"), [(4, 0.0), (4, 3.0), (1, 3.0)])
def test_constant_data_are_warned_of(count: int, value: float) -> None:
    with pytest.warns(ModelWarning, match=rf"input 'x' is {value:g} everywhere in all {count} samples"):
        calibrate(blind(), {"x": np.full((count, 1, 8), value, np.float32)})
