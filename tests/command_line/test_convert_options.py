"""``twinfer convert``, ``search`` and ``run``: any options together mean what they mean in Python."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRT
from ai_edge_litert.interpreter import OpResolverType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import twinfer
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion
from twinfer.converter.quantize.recipe import Choice, Recipe, Rule
from twinfer.runtime.graph import Graph
from twinfer.runtime.write.tflite import write

RNG = np.random.default_rng(11)
DATA = RNG.normal(0, 1, (9, 1, 6, 6, 2)).astype(np.float32)

#: Argument of ``convert`` -> values that differ from its default, which is left out.
QUANTISES: dict[str, list[Any]] = {
    "method": ["moving-average", "percentile", "percentile-99", "mse", "entropy"],
    "inference_type": ["FLOAT32", "INT8", "INT16"],
    "bias_correction": [True],
    "adaptive_rounding": [True],
    "equalize": [True],
}
CHANGES: dict[str, list[Any]] = {
    "prune": [0.5],
    "cluster": [3],
    "compensate": [True],
    "channels_last": [True],
    "store_plan": [True],
    "loops": [False],
}
DEFAULTS: dict[str, Any] = {
    "method": "minmax", "recipe": None, "inference_type": None, "bias_correction": False, "adaptive_rounding": False,
    "equalize": False, "shapes": None, "constants": None, "prune": None, "prune_block": None, "prune_scope": None,
    "cluster": None, "compensate": False, "channels_last": False, "passes": None, "after": None, "progress": None,
    "store_plan": False, "loops": True,
}  # fmt: skip


def net() -> Graph:
    rng, b = np.random.default_rng(12), Builder("net")
    y = b.input("x", "FLOAT32", (1, 6, 6, 2))
    for channels in (2, 6):
        w, bias = (
            rng.normal(size=(6, 3, 3, channels)) * np.geomspace(0.1, 3, 6)[:, None, None, None],
            rng.normal(size=6),
        )
        y = b.op(
            "CONV_2D", [y, w.astype(np.float32), bias.astype(np.float32)],
            padding="SAME", stride_h=1, stride_w=1, fused_activation_function="RELU",
        )  # fmt: skip
    y = b.op("MEAN", [y, np.int32([1, 2])])
    first = b.op("FULLY_CONNECTED", [y, rng.normal(size=(5, 6)).astype(np.float32)])
    return b.graph([b.op("SOFTMAX", [first], beta=1.0), b.op("TANH", [y])])


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments that go together."""
    how: dict[str, Any] = {}
    mode = draw(st.sampled_from(["int8", "int16x8", "int4"]))
    how = {"quantize": mode, "calibration": DATA}
    for name, values in {**QUANTISES, **CHANGES}.items():
        if draw(st.integers(0, 3)) == 0:
            how[name] = draw(st.sampled_from(values))
    if "compensate" in how and not {"prune", "cluster"} & set(how):
        del how["compensate"]
    return how


def flags(how: dict[str, Any], data: Path) -> list[str]:
    """The same on the command line."""
    line = []
    for name, value in how.items():
        flag = f"--{name.replace('_', '-')}"
        given = str(data) if name == "calibration" else str(value).lower() if name == "inference_type" else str(value)
        line += [f"--no-{name}"] if value is False else [flag] if value is True else [flag, given]
    return line


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options")
    net().save(folder / "net.tflite")
    np.save(folder / "data.npy", DATA)
    return folder


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(how=arguments())
@pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")
def test_command_and_python_write_the_same(how: dict[str, Any], files: Path) -> None:
    """Twice, and with all defaults spelled out. Neither data nor graph change. LiteRT finds in the file what the line
    says of quality."""
    graph, kept = net(), DATA.copy()
    before = write(graph)
    converted = conversion(graph, **how)
    content = write(converted.graph)
    assert content == write(conversion(graph, **{**DEFAULTS, **how}).graph)
    out = files / "out.tflite"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(["convert", str(files / "net.tflite"), "-o", str(out), *flags(how, files / "data.npy")]) == 0
    assert out.read_bytes() == content
    assert write(converted.graph) == content
    assert write(graph) == before
    np.testing.assert_array_equal(DATA, kept)
    assert converted.quality is not None
    wanted, got = by_litert(before), by_litert(content)
    for want, have, tensor in zip(wanted, got, graph.outputs, strict=True):
        ratio = 10 * np.log10(np.square(want).sum() / np.square(want - have).sum())
        said = {o.name: o.snr_db for o in converted.quality.outputs}[tensor.name]
        assert said == pytest.approx(ratio, abs=0.35 * max(1.0, ratio / 15))  # LiteRT rounds some sums otherwise


def by_litert(content: bytes) -> list[Any]:
    """The real outputs for DATA, one array per output."""
    peer = LiteRT(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    peer.allocate_tensors()
    (into,), rows = peer.get_input_details(), []
    for value in DATA.astype(np.float64):
        if into["dtype"] != np.float32:
            scale, zero = into["quantization"]
            limits = np.iinfo(into["dtype"])
            value = np.clip(np.rint(value / scale) + zero, limits.min, limits.max)
        peer.set_tensor(into["index"], value.astype(into["dtype"]))
        peer.invoke()
        rows.append([real(peer, detail) for detail in peer.get_output_details()])
    return [np.array(column) for column in zip(*rows, strict=True)]


def real(peer: Any, detail: Any) -> Any:
    scale, zero = detail["quantization"]
    value = peer.get_tensor(detail["index"]).astype(np.float64)
    return value if detail["dtype"] == np.float32 else (value - zero) * scale


@pytest.mark.parametrize("changed", [{"prune": 0.8}, {"prune": 0.5, "cluster": 2, "bias_correction": True}])
@pytest.mark.filterwarnings("ignore:the int4 model:twinfer.runtime.errors.ModelWarning")
def test_advice_holds_for_pruned_and_clustered_models(changed: dict[str, Any]) -> None:
    """Whoever follows it gets the ratio that it names."""
    how = {"quantize": "int4", "calibration": DATA, **changed}
    with pytest.warns(twinfer.ModelWarning, match="model's output") as told:
        conversion(net(), **how)
    said = str(told[0].message)
    advised = re.findall(r"quantise to (\w+) \((-?[\d.]+) dB on 9 samples\)", said)
    kept = re.findall(r"layers float by a recipe \((-?[\d.]+) dB on 9 samples\): ([^;]*);", said)
    assert advised or kept or "less" in said
    for ratio, names in kept:
        rules = tuple(Rule(re.escape(name), precision="float") for name in re.findall("'(.*?)'", names))
        again = conversion(net(), **how, recipe=Recipe(rules, Choice("int4"))).quality
        assert again is not None
        assert again.snr_db == pytest.approx(float(ratio), abs=0.06)
    for mode, ratio in advised:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = conversion(net(), **{**how, "quantize": mode}).quality
        assert again is not None
        assert again.snr_db == pytest.approx(float(ratio), abs=0.06)


def test_an_argument_per_flag() -> None:
    """DEFAULTS names every argument that has one: a new one must be tried here, too."""
    from twinfer.converter.arguments import How

    assert set(How.__annotations__) == {*DEFAULTS, "quantize", "calibration"}


@pytest.mark.parametrize("mode", ["int8", "int16x8"])
def test_a_graph_stays_as_it_is_when_another_is_made(mode: str) -> None:
    """Conversions share nothing that a later one changes."""
    first = twinfer.convert(net(), quantize=mode, calibration=DATA)
    content = write(first)
    other = twinfer.convert(net(), quantize=mode, calibration=5 * DATA[:3])
    assert write(first) == content != write(other)
