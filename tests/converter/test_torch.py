"""``from_torch``: whole networks against torch itself, float and quantised, and what it refuses."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import deep_but, needs

torch = needs("torch", "onnxscript")

from onnx_tools import as_litert, compare, run  # noqa: E402
from torch import nn  # noqa: E402
from torch_nets import NETS, trained  # noqa: E402

import twinfer  # noqa: E402
from twinfer.command_line.main import main  # noqa: E402
from twinfer.runtime.errors import ModelError  # noqa: E402
from twinfer.runtime.graph import Graph  # noqa: E402
from twinfer.runtime.write.tflite import write  # noqa: E402


def by_torch(net: Any, inputs: tuple[Any, ...]) -> list[np.ndarray]:
    with torch.no_grad():
        result = net(*inputs)
    return [r.numpy() for r in (result if isinstance(result, tuple) else (result,))]


def fed(graph: Graph, inputs: tuple[Any, ...]) -> dict[str, np.ndarray]:
    return {t.name: x.numpy() for t, x in zip(graph.inputs, inputs, strict=True)}


#: Networks for the tests of channels last and of quantisation. An export takes a second, so every network has one test.
CHANNELS_LAST: dict[str, bool | str] = {
    **dict.fromkeys(("resnet", "mobilenet", "ds_cnn", "unet"), True),
    "motion": "input",
}
INT8 = ("resnet", "mobilenet", "motion", "gru", "transformer")


@pytest.mark.parametrize("name", deep_but(NETS, "resnet", "motion", "transformer"))
def test_net(name: str) -> None:
    net, inputs = trained(NETS[name])
    graph, want = twinfer.from_torch(net, inputs), by_torch(net, inputs)
    compare(run(twinfer.convert(graph), fed(graph, inputs)), want, 2e-5)
    if name in CHANNELS_LAST:
        without_transposes(graph, CHANNELS_LAST[name], inputs[0].numpy(), want[0])
    if name in INT8:
        in_int8(graph, inputs, want[0])


def laid_out(value: np.ndarray, rank: int) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(value, 1, -1)) if value.ndim == rank else value


def without_transposes(graph: Graph, which: bool | str, x: np.ndarray, want: np.ndarray) -> None:
    turned = twinfer.convert(graph, channels_last=which)
    assert "TRANSPOSE" not in {node.op for node in turned.nodes}
    compare(run(turned, {turned.inputs[0].name: laid_out(x, x.ndim)}), [laid_out(want, x.ndim)], 2e-5)
    with pytest.raises(twinfer.InvalidArgumentError, match=r"called 'z'; those of three"):
        twinfer.convert(graph, channels_last="z")


def in_int8(graph: Graph, inputs: tuple[Any, ...], want: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    samples = [{graph.inputs[0].name: rng.normal(0, 1, inputs[0].shape).astype(np.float32)} for _ in range(8)]
    integer = twinfer.convert(graph, quantize="int8", calibration=samples, inference_type="FLOAT32")
    assert not any(t.type == "FLOAT32" for node in integer.nodes[1:-1] for t in node.outputs)
    assert np.abs(as_litert(integer, fed(integer, inputs), 4) - want).mean() < 0.1 * np.abs(want).max()


def test_programs_and_their_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, inputs = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).eval(), (torch.zeros(1, 3),)
    program = torch.export.export(net, inputs)
    want = write(twinfer.convert(twinfer.from_torch(net, inputs)))
    torch.export.save(program, tmp_path / "net.pt2")
    open_batch = torch.export.export(net, (torch.zeros(4, 3),), dynamic_shapes=({0: torch.export.Dim("n", max=9)},))
    assert write(twinfer.convert(twinfer.from_torch(open_batch, shapes={"input": (1, 3)}))) == want
    assert write(twinfer.convert(twinfer.from_torch(open_batch))) == want  # an open batch is 1
    assert write(twinfer.convert(twinfer.from_torch(program))) == want
    assert main(["convert", str(tmp_path / "net.pt2"), "-o", str(tmp_path / "net.tflite")]) == 0
    assert capsys.readouterr().out.startswith(str(tmp_path / "net.tflite"))
    assert (tmp_path / "net.tflite").read_bytes() == want
    with pytest.raises(twinfer.InvalidArgumentError, match="leave example_inputs out"):
        twinfer.from_torch(program, inputs)
    (tmp_path / "bad.pt2").write_bytes(b"no archive")
    for name, message in (("bad.pt2", "damaged"), ("none.pt2", "no such file"), ("x.pth", "torch.export.save as .pt2")):
        with pytest.raises(twinfer.TwinferError, match=message):
            twinfer.convert(tmp_path / name)


class Branch(nn.Module):
    """Control flow that depends on values."""

    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


class Unknown(nn.Module):
    """Operators that there is no importer for."""

    def forward(self, x: Any) -> Any:
        return torch.special.airy_ai(torch.linalg.eigvalsh(x))


class Large(nn.Module):
    """A matrix that is too large to spell out."""

    def forward(self, x: Any) -> Any:
        return torch.linalg.inv(x)


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_files_run_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch itself would run code in example inputs and in objects beside tensors, and load compiled code."""
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    harm, evil = tmp_path / "harm", io.BytesIO()
    torch.save((Evil(harm),), evil)
    torch.export.save(torch.export.export(nn.ReLU(), (torch.zeros(1, 3),)), tmp_path / "good.pt2")
    assert twinfer.from_torch(tmp_path / "good.pt2").outputs[0].shape == (1, 3)
    with zipfile.ZipFile(tmp_path / "good.pt2") as archive:
        good = {name: archive.read(name) for name in archive.namelist()}
    (inputs,) = (name for name in good if "sample_inputs" in name)
    (config,) = (name for name in good if name.endswith("constants_config.json"))
    entry = {"path_name": "opaque_obj_0", "use_pickle": True, "is_param": False, "tensor_meta": None}
    pickled = {config: json.dumps({"config": {"x": entry}}).encode()}
    folder = config.rpartition("/")[0]
    changes = [({inputs: evil.getvalue()}, "damaged"), (pickled, "opaque_obj_0, which may run code")]
    changes += [({f"{folder}/opaque_obj_0": pickle.dumps(Evil(harm))}, "may run code")]
    changes += [({f"{config.partition('/')[0]}/data/aotinductor/m/m.so": b""}, "may run code")]
    for change, message in changes:
        with zipfile.ZipFile(tmp_path / "evil.pt2", "w") as archive:
            for name, content in {**good, **change}.items():
                archive.writestr(name, content)
        with pytest.raises(ModelError, match=message):
            twinfer.from_torch(tmp_path / "evil.pt2")
    assert not harm.exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0")
    twinfer.from_torch(tmp_path / "good.pt2")
    assert os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] == "0"


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
def test_what_is_refused() -> None:
    linear, wrong = nn.Linear(3, 3), torch.zeros(2)
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (linear, None, twinfer.InvalidArgumentError, "needs example_inputs"),
        (
            linear,
            wrong,
            twinfer.InvalidArgumentError,
            "Linear does not run with these example inputs: RuntimeError: mat1",
        ),
        ([], wrong, twinfer.InvalidArgumentError, "no builtins.list"),
        (
            Branch(),
            wrong,
            twinfer.UnsupportedOperatorError,
            "export Branch: it has a size or a branch that depends on values",
        ),
        (
            nn.LSTM(3, 4, proj_size=2),
            (torch.zeros(5, 1, 3), (torch.ones(1, 1, 2), torch.ones(1, 1, 4))),
            twinfer.UnsupportedOperatorError,
            r"nn.LSTM\(proj_size=2\) with a first hidden state that is not 0: call it without",
        ),
        (Unknown(), torch.eye(3), twinfer.UnsupportedOperatorError, "torch.onnx has no form of _linalg_eigh: compute"),
        (
            Large(),
            torch.eye(17),
            twinfer.UnsupportedOperatorError,
            "17 x 17 matrices at run time; the limit is 16 x 16",
        ),
    ]
    for module, inputs, error, message in cases:
        with pytest.raises(error, match=message):
            twinfer.from_torch(module, inputs)
    with pytest.raises(twinfer.InvalidArgumentError, match=r"twinfer\.from_torch\(model, example_inputs\)"):
        twinfer.convert(linear)
    with torch.no_grad():
        linear.weight[0, 0] = torch.nan
    with pytest.raises(twinfer.ModelError, match="1 values that are NaN"):
        twinfer.from_torch(linear, torch.zeros(1, 3))


def test_the_module_is_left_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    """Its weights, its mode and that of its parts stay, and nothing is printed."""
    net, inputs = nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3)), (torch.zeros(1, 2, 5),)
    net[1].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    graph = twinfer.from_torch(net, inputs, input_names=["axes"], output_names=["class"])
    assert [t.name for t in (*graph.inputs, *graph.outputs)] == ["axes", "class"]
    assert net.training
    assert net[0].training
    assert not net[1].training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert capfd.readouterr() == ("", "")


def test_inputs_and_names_in_other_forms() -> None:
    """A list of inputs; one name as a string; a program has its inputs already."""
    graph = twinfer.from_torch(nn.ReLU(), [torch.zeros(2, 3)], input_names="alpha", output_names="beta")
    assert [(t.name, t.shape) for t in (*graph.inputs, *graph.outputs)] == [("alpha", (2, 3)), ("beta", (2, 3))]
    program = torch.export.export(nn.ReLU(), (torch.zeros(2, 3),))
    with pytest.raises(twinfer.InvalidArgumentError, match="has its example inputs already: leave example_inputs out"):
        twinfer.from_torch(program, torch.zeros(2, 3))


class Aware(nn.Module):
    """A layer after quantisation-aware training: fake quantisation in PyTorch's own operators."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        x = torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127)
        scales, zeros = torch.tensor([0.01, 0.02, 0.03]), torch.zeros(3, dtype=torch.int32)
        weight = torch.fake_quantize_per_channel_affine(self.linear.weight, scales, zeros, 0, -128, 127)
        y = nn.functional.linear(x, weight, self.linear.bias)
        return torch.fake_quantize_per_tensor_affine(y, 0.04, -2, -128, 127)


def test_quantisation_aware_training_keeps_its_scales() -> None:
    torch.manual_seed(1)
    net, inputs = Aware(), (torch.randn(5, 4),)
    graph = twinfer.convert(twinfer.from_torch(net, inputs))
    (layer,) = [node for node in graph.nodes if node.op == "FULLY_CONNECTED"]
    assert [t.type for t in (layer.input(0), layer.input(1), layer.output)] == ["INT8"] * 3
    assert (layer.input(0).scale, layer.output.zero) == (np.float32(0.05), -2)
    weights = layer.input(1).quant
    assert weights is not None
    np.testing.assert_array_equal(weights.scale, np.float32([0.01, 0.02, 0.03]))
    (got,), (want,) = run(graph, fed(graph, inputs)), by_torch(net, inputs)
    assert np.abs(got - want).max() < 0.041  # one step of the output
