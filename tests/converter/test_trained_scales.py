"""Scales that others have chosen stay: ONNX Runtime's quantiser, PyTorch's PT2E, training in Keras."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx_tools import by_onnxruntime
from onnxruntime.quantization import CalibrationDataReader, quantize_static

import twinfer
from twinfer.converter.quantize.affine import real, to_stored
from twinfer.converter.quantize.weights import _steps
from twinfer.runtime.graph import Graph

pytestmark = pytest.mark.filterwarnings("ignore")
torch = pytest.importorskip("torch")
nn = torch.nn

Array = NDArray[np.float32]

#: A graph, what its own framework gives, and all scales that were chosen there.
Made = tuple[Graph, Callable[[Array], Array], set[float]]


class Residual(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.a, self.d = nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.p, self.f = nn.Conv2d(8, 8, 1), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        first = torch.relu(self.a(x))
        y = self.p(torch.relu(self.d(first))) + first
        return self.f(nn.functional.max_pool2d(y, 2).mean((2, 3)))


class Recurrent(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.l, self.f = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.f(self.l(x)[0][:, -1])


def dense() -> Any:
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8), nn.Hardtanh(), nn.Linear(8, 3))


NETS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "residual": (Residual, (1, 3, 8, 8)),
    "dense": (dense, (1, 10)),
    "LSTM": (Recurrent, (1, 5, 6)),
}


def net(name: str) -> tuple[Any, Array]:
    torch.manual_seed(1)
    make, shape = NETS[name]
    return make().eval(), np.random.default_rng(2).normal(0, 1, (6, *shape)).astype(np.float32)


class Data(CalibrationDataReader):
    def __init__(self, samples: Array) -> None:
        self.rest = iter(samples)

    def get_next(self) -> Any:
        sample = next(self.rest, None)
        return None if sample is None else {"x": sample}


def by_ort(name: str, folder: Path) -> Made:
    module, xs = net(name)
    plain, path = folder / "float.onnx", folder / "int8.onnx"
    torch.onnx.export(module, (torch.from_numpy(xs[0]),), plain, input_names=["x"], dynamo=True, verbose=False)
    quantize_static(plain, path, Data(xs), per_channel=True)
    proto = onnx.load(path)
    chosen = [onnx.numpy_helper.to_array(t) for t in proto.graph.initializer if t.name.endswith("_scale")]
    scales = {float(v) for values in chosen for v in values.reshape(-1)}
    return twinfer.convert(proto), lambda x: by_onnxruntime(proto, {"x": x})[0], scales


def by_pt2e(name: str, _: Path) -> Made:
    pytest.importorskip("torchao")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    module, xs = net(name)
    samples = [(torch.from_numpy(x),) for x in xs]
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    watched = prepare_pt2e(torch.export.export(module, samples[0], strict=False).module(), quantizer)
    for sample in samples:
        watched(*sample)
    program = torch.export.export(convert_pt2e(watched), samples[0], strict=False)
    calls = [node for node in program.graph.nodes if "quantize_per_tensor" in str(node.target)]
    scales = {float(np.float32(node.args[1])) for node in calls}

    def run(x: Array) -> Array:
        with torch.no_grad():
            return np.asarray(program.module()(torch.from_numpy(x)).numpy())

    return twinfer.from_torch(program), run, scales


def by_keras(name: str, _: Path) -> Made:
    keras = pytest.importorskip("keras")
    from keras import layers, ops

    fake = keras.quantizers.fake_quant_with_min_max_vars

    def rounded(x: Any, most: float) -> Any:
        return layers.Lambda(lambda x: fake(x, -most, most * 127 / 128))(x)

    def trained(base: Any, compute: Callable[..., Any]) -> Any:
        def call(self: Any, x: Any) -> Any:
            most = float(ops.max(ops.abs(self.kernel)))
            return self.activation(compute(x, fake(self.kernel, -most, most, narrow_range=True)) + self.bias)

        return type(base.__name__, (base,), {"call": call})

    convolution, product = trained(layers.Conv2D, ops.conv), trained(layers.Dense, ops.matmul)
    keras.utils.set_random_seed(1)
    shape = NETS[name][1][1:]
    x = keras.Input((*shape[1:], shape[0]) if name == "residual" else shape)
    y = rounded(x, 3.0)
    if name == "residual":
        first = rounded(convolution(8, 3, activation="relu")(y), 4.0)
        second = trained(layers.DepthwiseConv2D, lambda x, w: ops.depthwise_conv(x, w, padding="same"))(
            3, padding="same"
        )(first)
        y = rounded(layers.Add()([first, rounded(second, 5.0)]), 6.0)
        y = rounded(layers.GlobalAveragePooling2D()(y), 6.0)
    elif name == "LSTM":
        y = rounded(layers.LSTM(8)(y), 1.0)
    y = rounded(product(5)(y), 4.0)
    model = keras.Model(x, y)
    scales = {float(np.float32(most / 128)) for most in (3.0, 4.0, 5.0, 6.0, 1.0)}
    return twinfer.from_keras(model), lambda x: np.asarray(ops.convert_to_numpy(model(x))), scales


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("made", [by_ort, by_pt2e, by_keras])
def test_scales_that_were_chosen_stay(made: Callable[[str, Path], Made], name: str, tmp_path: Path) -> None:
    """All in integers, by these scales; outputs are a step off at most, because TFLite rounds after every layer by a
    multiplier of 32 bits, and MEAN and LSTM inside. An LSTM was not quantised there: it may move what is behind it."""
    logging.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph, theirs, scales = made(name, tmp_path)
    logging.disable(logging.NOTSET)
    shape = graph.inputs[0].shape
    xs = np.random.default_rng(3).normal(0, 1, (6, *shape)).astype(np.float32)
    result = twinfer.convert(graph, quantize="int8", calibration={graph.inputs[0].name: xs})
    tensors = [t for node in result.nodes for t in (*node.inputs, *node.outputs) if t is not None]
    assert not [str(t) for t in tensors if t.type == "FLOAT32"]
    own = {float(t.scale) for t in tensors if t.type == "INT8" and t.data is None}
    near = [s for s in own if min(abs(s - known) for known in scales) <= 1e-6 * s]
    assert len(near) == len(own) or name == "LSTM"
    ends = (result.inputs[0], result.outputs[0])
    assert float(ends[1].scale) in near
    session = twinfer.Interpreter(model_content=twinfer.write(result))
    session.allocate_tensors()
    for x in xs:
        session.set_tensor(session.get_input_details()[0]["index"], to_stored(x, ends[0]))
        session.invoke()
        got = real(session.get_tensor(session.get_output_details()[0]["index"]), ends[1])
        assert np.abs(got - theirs(x)).max() <= (4.01 if name == "LSTM" else 1.01) * ends[1].scale


@pytest.mark.parametrize("most", [127, 7])
def test_weights_that_are_multiples_of_a_step_keep_their_values(most: int) -> None:
    rng = np.random.default_rng(5)
    q = rng.integers(-most, most + 1, (6, 20))
    q[0] = 0
    q[1:4] //= 2
    scale = rng.uniform(0.001, 0.1, (6, 1)).astype(np.float32)
    rows = (q * scale).astype(np.float32).astype(np.float64)
    steps = np.maximum(_steps(rows, most), 1e-9)[:, None]
    np.testing.assert_allclose(rows / steps, np.rint(rows / steps), atol=1e-4)
    assert np.abs(rows / steps).max() < most + 0.5
    other = rng.normal(0, 1, (3, 20))
    np.testing.assert_array_equal(_steps(other, most), np.abs(other).max(1) / most)
