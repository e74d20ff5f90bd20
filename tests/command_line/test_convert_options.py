"""``twinfer convert``, ``search`` and ``run``: any options together mean what they mean in Python."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion
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
    "refine": [True],
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
    "equalize": False, "refine": False, "shapes": None, "constants": None, "prune": None, "prune_block": None,
    "prune_scope": None, "cluster": None, "compensate": False, "channels_last": False, "passes": None, "after": None,
    "progress": None, "store_plan": False, "loops": True,
    "max_loss": None, "min_snr": None, "cost": None, "target": None,
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
    """Twice, and with all defaults spelled out. Neither data nor graph change."""
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


def test_an_argument_per_flag() -> None:
    """DEFAULTS names every argument that has one: a new one must be tried here, too."""
    from twinfer.converter.arguments import How

    assert set(How.__annotations__) == {*DEFAULTS, "quantize", "calibration"}


@pytest.mark.parametrize("name", ["lrt_k_einsum", "di8_glow_arg_max", "t2o_conv_float32"])
def test_optimize_gives_no_larger_file(name: str, corpus: Path, tmp_path: Path) -> None:
    """What it gives is not made smaller again: the same bytes are written."""
    files = [corpus / "models" / f"{name}.tflite", tmp_path / "once.tflite", tmp_path / "twice.tflite"]
    for source, output in pairwise(files):
        assert main(["optimize", str(source), "-o", str(output)]) == 0
    sizes = [len(file.read_bytes()) for file in files]
    assert sizes[0] >= sizes[1]
    assert files[1].read_bytes() == files[2].read_bytes()
