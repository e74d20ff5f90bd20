"""``from_keras``: every layer with its options against Keras itself, whole models, and what it refuses."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = needs("keras", os.environ["KERAS_BACKEND"])

from keras import layers as L  # noqa: E402
from onnx_tools import as_litert, compare, run  # noqa: E402

import twinfer  # noqa: E402
from twinfer.command_line.main import main  # noqa: E402
from twinfer.runtime.errors import InvalidArgumentError  # noqa: E402
from twinfer.runtime.graph import Graph  # noqa: E402
from twinfer.runtime.write.tflite import write  # noqa: E402

Shape = tuple[int, ...]

#: Keras's warning when it turns a PyTorch tensor into an array under NumPy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")


def randomised(model: Any, seed: int = 0) -> Any:
    """The model with random weights; variances are positive."""
    rng = np.random.default_rng(seed)
    for variable in model.variables:
        if variable.dtype == "float32":
            positive = "variance" in variable.path
            value = rng.uniform(0.5, 1.5, variable.shape) if positive else rng.normal(0, 0.5, variable.shape)
            variable.assign(value.astype(np.float32))
    return model


def check(model: Any, inputs: Sequence[np.ndarray], tolerance: float = 2e-5) -> Graph:
    """The graph of the model. Checks that it gives the same as Keras for these inputs, also optimised."""
    want = keras.tree.flatten(model(inputs if len(inputs) > 1 else inputs[0], training=False))
    graph = twinfer.from_keras(model, batch=inputs[0].shape[0])
    feeds = {t.name: x for t, x in zip(graph.inputs, inputs, strict=True)}
    for each in (graph, twinfer.convert(graph)):
        compare(run(each, feeds), [keras.ops.convert_to_numpy(w) for w in want], tolerance)
    return graph


def data(*shapes: Shape, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 2, shape).astype(np.float32) for shape in shapes]


def through(layer: Callable[..., Any], *shapes: Shape) -> Any:
    """A model of one layer over inputs of these shapes, batch included."""
    inputs = [keras.Input(shape[1:]) for shape in shapes]
    return randomised(keras.Model(inputs if len(inputs) > 1 else inputs[0], layer(*inputs)))


IMAGE, SERIES, ROW = (2, 7, 5, 4), (2, 9, 4), (2, 5)

#: Layers and the shapes of their inputs.
LAYERS: dict[str, tuple[Callable[[], Any], Shape]] = {}


def case(shape: Shape, make: Callable[[], Any], name: str) -> None:
    LAYERS[name] = (make, shape)


for _padding in ("same", "valid"):
    for _s, _d in (((1, 1), (1, 1)), ((2, 3), (1, 1)), ((1, 1), (2, 1))):
        _o: dict[str, Any] = {"strides": _s, "dilation_rate": _d, "padding": _padding}
        _n = f"{_padding}-{_s}-{_d}"
        case(IMAGE, lambda o=_o: L.Conv2D(3, (3, 2), **o), f"conv2d-{_n}")
        case(IMAGE, lambda o=_o: L.Conv2DTranspose(3, (3, 2), **o), f"conv2d-transpose-{_n}")
        if _s[0] == _s[1]:
            case(IMAGE, lambda o=_o: L.DepthwiseConv2D((3, 2), depth_multiplier=2, **o), f"depthwise2d-{_n}")
            case(IMAGE, lambda o=_o: L.SeparableConv2D(3, (3, 2), **o), f"separable2d-{_n}")
    for _i, _j in ((1, 1), (2, 1), (1, 2)):
        _o = {"strides": _i, "dilation_rate": _j, "padding": _padding}
        case(SERIES, lambda o=_o: L.Conv1D(3, 3, **o), f"conv1d-{_padding}-{_i}-{_j}")
        case(SERIES, lambda o=_o: L.DepthwiseConv1D(3, **o), f"depthwise1d-{_padding}-{_i}-{_j}")
        case(SERIES, lambda o=_o: L.SeparableConv1D(3, 3, **o), f"separable1d-{_padding}-{_i}-{_j}")
        case(SERIES, lambda o=_o: L.Conv1DTranspose(3, 4, **o), f"conv1d-transpose-{_padding}-{_i}-{_j}")
    for _pool in ("Max", "Average"):
        for _k, _i in ((2, None), (3, 2), (3, 1)):
            _o = {"pool_size": _k, "strides": _i, "padding": _padding}
            case(IMAGE, lambda o=_o, p=_pool: getattr(L, f"{p}Pooling2D")(**o), f"{_pool}2d-{_padding}-{_k}-{_i}")
            case(SERIES, lambda o=_o, p=_pool: getattr(L, f"{p}Pooling1D")(**o), f"{_pool}1d-{_padding}-{_k}-{_i}")
case(SERIES, lambda: L.Conv1D(3, 3, padding="causal", dilation_rate=2), "conv1d-causal")
case(IMAGE, lambda: L.Conv2D(6, 3, groups=2, use_bias=False, activation="relu"), "conv2d-groups")
case(IMAGE, lambda: L.Conv2D(8, 3, groups=4, activation="silu"), "conv2d-depthwise")
case(IMAGE, lambda: L.Conv2DTranspose(3, 2, strides=3), "conv2d-transpose-holes")
case(IMAGE, lambda: L.Conv2DTranspose(3, 3, strides=2, padding="same", output_padding=1), "conv2d-transpose-more")
for _pool in ("Max", "Average"):
    for _keep in (False, True):
        case(IMAGE, lambda p=_pool, k=_keep: getattr(L, f"Global{p}Pooling2D")(keepdims=k), f"global2d-{_pool}-{_keep}")
        case(
            SERIES, lambda p=_pool, k=_keep: getattr(L, f"Global{p}Pooling1D")(keepdims=k), f"global1d-{_pool}-{_keep}"
        )
case(ROW, lambda: L.Dense(3), "dense")
case(SERIES, lambda: L.EinsumDense("abc,cde->abde", output_shape=(None, 3, 2), bias_axes="de"), "einsumdense")
case(SERIES, lambda: L.SpectralNormalization(L.Dense(3)), "spectralnorm")
case(IMAGE, lambda: L.Dense(3, use_bias=False, activation="gelu"), "dense-4d")
case(IMAGE, lambda: L.BatchNormalization(), "batchnorm")
case(IMAGE, lambda: L.BatchNormalization(axis=1, scale=False), "batchnorm-axis")
case(SERIES, lambda: L.BatchNormalization(center=False), "batchnorm-series")
case(SERIES, lambda: L.LayerNormalization(), "layernorm")
case(IMAGE, lambda: L.LayerNormalization(axis=[1, 3], center=False), "layernorm-axes")
case(IMAGE, lambda: L.GroupNormalization(2), "groupnorm")
case(SERIES, lambda: L.GroupNormalization(-1), "instancenorm")
case(SERIES, lambda: L.UnitNormalization(), "unitnorm")
case(SERIES, lambda: L.RMSNormalization(), "rmsnorm")
case(SERIES, lambda: L.Rescaling(1 / 127.5, offset=-1), "rescaling")
case(IMAGE, lambda: L.Rescaling([1.0, 2, 3, 4], offset=[0.0, 1, 2, 3]), "rescaling-channels")
case(SERIES, lambda: L.Normalization(mean=[1.0, 2, 3, 4], variance=[1.0, 2, 3, 4]), "normalization")
case(SERIES, lambda: L.Normalization(mean=1.0, variance=2.0, axis=None, invert=True), "normalization-back")
case(SERIES, lambda: L.ReLU(), "relu")
case(SERIES, lambda: L.ReLU(6.0), "relu6")
case(SERIES, lambda: L.ReLU(2.5), "relu-max")
case(SERIES, lambda: L.ReLU(negative_slope=0.2), "relu-slope")
case(SERIES, lambda: L.ReLU(threshold=0.7), "relu-threshold")
case(SERIES, lambda: L.ReLU(2.0, 0.3, 0.5), "relu-all")
case(SERIES, lambda: L.LeakyReLU(0.1), "leaky-relu")
case(IMAGE, lambda: L.PReLU(), "prelu")
case(IMAGE, lambda: L.PReLU(shared_axes=[1, 2]), "prelu-shared")
case(SERIES, lambda: L.ELU(0.4), "elu-alpha")
case(SERIES, lambda: L.Softmax(), "softmax")
case(SERIES, lambda: L.Softmax(axis=1), "softmax-axis")
for _f in (
    "celu", "elu", "exponential", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "leaky_relu", "linear",
    "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus",
    "softsign", "swish", "tanh", "tanh_shrink",
):  # fmt: skip
    case(SERIES, lambda f=_f: L.Activation(f), f"activation-{_f}")
case(SERIES, lambda: L.Activation(lambda x: keras.activations.gelu(x, approximate=True)), "activation-lambda")
case(IMAGE, lambda: L.ZeroPadding2D(((1, 2), (0, 3))), "zeropadding2d")
case(SERIES, lambda: L.ZeroPadding1D(2), "zeropadding1d")
case(IMAGE, lambda: L.Cropping2D(((1, 2), (0, 3))), "cropping2d")
case(SERIES, lambda: L.Cropping1D((1, 2)), "cropping1d")
case(IMAGE, lambda: L.CenterCrop(4, 4), "centercrop")
case(IMAGE, lambda: L.UpSampling2D((2, 3)), "upsampling2d")
case(IMAGE, lambda: L.UpSampling2D(2, interpolation="bilinear"), "upsampling2d-bilinear")
case(SERIES, lambda: L.UpSampling1D(3), "upsampling1d")
case(IMAGE, lambda: L.Resizing(10, 4), "resizing")
case(IMAGE, lambda: L.Resizing(14, 10, interpolation="nearest"), "resizing-nearest")
case(IMAGE, lambda: L.Flatten(), "flatten")
case(IMAGE, lambda: L.Reshape((4, -1)), "reshape")
case(IMAGE, lambda: L.Permute((3, 1, 2)), "permute")
case(ROW, lambda: L.RepeatVector(3), "repeatvector")
case(ROW, lambda: L.Dropout(0.5), "dropout")
case(SERIES, lambda: L.SpatialDropout1D(0.5), "spatialdropout")
case(ROW, lambda: L.GaussianNoise(0.5), "gaussiannoise")
for _cell in ("LSTM", "GRU", "SimpleRNN"):
    for _o in ({}, {"return_sequences": True}, {"go_backwards": True, "return_sequences": True, "return_state": True}):
        case(SERIES, lambda o=_o, c=_cell: getattr(L, c)(3, **o), f"{_cell}-{len(_o)}")
    case(SERIES, lambda c=_cell: getattr(L, c)(3, use_bias=False, activation="relu"), f"{_cell}-nobias")
case(SERIES, lambda: L.GRU(3, reset_after=False, return_sequences=True), "GRU-reset-before")
case(SERIES, lambda: L.LSTM(3, recurrent_activation="hard_sigmoid"), "LSTM-hard")
for _merge in ("concat", "sum", "mul", "ave", None):
    case(SERIES, lambda m=_merge: L.Bidirectional(L.GRU(3, return_sequences=True), merge_mode=m), f"bi-{_merge}")
case(SERIES, lambda: L.Bidirectional(L.LSTM(3, return_state=True)), "bi-lstm")
case(SERIES, lambda: L.TimeDistributed(L.Dense(3, activation="tanh")), "timedistributed")
case((2, 3, 6, 5, 2), lambda: L.TimeDistributed(L.Conv2D(3, 2)), "timedistributed-conv")
case((2, 3, 6, 2), lambda: L.TimeDistributed(L.Flatten()), "timedistributed-flatten")
case(ROW, lambda: L.Lambda(lambda x: x * 2 + 1), "lambda")


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    make, shape = LAYERS[name]
    check(through(make(), shape), data(shape))


def cnn() -> Any:
    """A residual block with all usual layers of convolutional nets."""
    x = keras.Input((16, 16, 3), name="image")
    a = L.ReLU(6.0)(
        L.BatchNormalization(name="bn")(L.Conv2D(8, 3, strides=2, padding="same", use_bias=False, name="conv")(x))
    )
    b = L.BatchNormalization()(L.DepthwiseConv2D(3, padding="same")(a))
    y = L.Dropout(0.3)(L.GlobalAveragePooling2D()(L.Activation("relu")(L.Add()([a, b]))))
    return randomised(keras.Model(x, L.Dense(5, activation="softmax", name="scores")(y), name="cnn"))


def test_a_convolutional_net_has_no_transposes_and_its_names() -> None:
    graph = check(cnn(), data((1, 16, 16, 3)))
    assert "TRANSPOSE" not in {node.op for node in graph.nodes}
    assert [t.name for t in (*graph.inputs, *graph.outputs)] == ["image", "scores"]
    assert {"conv", "bn"} <= {t.name for t in graph.tensors}
    assert {node.op for node in twinfer.convert(graph).nodes} == {
        "CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "MEAN", "FULLY_CONNECTED", "SOFTMAX",
    }  # fmt: skip


def test_inputs_and_outputs_by_the_keys_of_a_dict() -> None:
    """The keys are those of ``fit`` and ``predict``, also for shapes and calibration data."""
    left, right = keras.Input((3,), name="left"), keras.Input((None,), name="right")
    outputs = {"sum": L.Add(name="add")([left, L.Dense(3)(L.ReLU()(left))]), "again": L.ReLU(name="relu")(right)}
    model = keras.Model({"right": right, "left": left}, outputs)
    graph = twinfer.from_keras(model, shapes={"right": (1, 3)})
    assert [t.name for t in graph.inputs] == ["left", "right"]
    assert [t.name for t in graph.outputs] == ["again", "sum"]
    x = {"left": data((1, 3))[0], "right": np.arange(3, dtype=np.float32)[None]}
    want = model(x)
    compare(run(graph, x), [keras.ops.convert_to_numpy(want[name]) for name in ("again", "sum")], 1e-6)
    assert twinfer.convert(graph, quantize="int8", calibration=x).inputs[1].type == "INT8"
    with pytest.raises(twinfer.InvalidArgumentError, match="inputs 'left', 'right', not 'first', 'second'"):
        twinfer.convert(graph, quantize="int8", calibration={"first": x["left"], "second": x["right"]})


def test_channels_are_last_already() -> None:
    """There are as many rows as channels, so that only values tell. The same line of code serves PyTorch and Keras."""
    x = keras.Input((16, 16, 16))
    graph = twinfer.from_keras(randomised(keras.Model(x, L.Conv2D(16, 3, padding="same")(x))))
    images = data((1, 16, 16, 16))[0]
    with pytest.warns(twinfer.ModelWarning, match="changes nothing"):
        converted = twinfer.convert(graph, quantize="int8", calibration={"x": images}, channels_last=True)
    plain = twinfer.convert(graph, quantize="int8", calibration=images)
    assert write(converted) == write(plain)


MERGES: dict[str, Callable[[], Any]] = {
    **{name: getattr(L, name) for name in ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply")},
    "Subtract": L.Subtract,
}


@pytest.mark.parametrize("name", MERGES)
def test_merge(name: str) -> None:
    check(through(lambda a, b: MERGES[name]()([a, b]), SERIES, SERIES), data(SERIES, SERIES))
    if name not in ("Concatenate", "Subtract"):
        check(through(lambda *x: MERGES[name]()(list(x)), SERIES, (2, 1, 4), SERIES), data(SERIES, (2, 1, 4), SERIES))


@pytest.mark.parametrize(
    ("axes", "shapes"), [(1, [(2, 5), (2, 5)]), ((2, 1), [(2, 3, 4), (2, 4, 5)]), (2, [SERIES] * 2)]
)
@pytest.mark.parametrize("normalize", [False, True])
def test_dot(axes: Any, shapes: list[Shape], normalize: bool) -> None:
    check(through(lambda a, b: L.Dot(axes, normalize=normalize)([a, b]), *shapes), data(*shapes), 5e-5)


@pytest.mark.parametrize("options", [{}, {"use_causal_mask": True}, {"return_attention_scores": True}])
def test_attention(options: dict[str, Any]) -> None:
    def attend(x: Any, y: Any) -> Any:
        return L.MultiHeadAttention(2, 3, value_dim=5)(x, y, **options)

    check(through(attend, SERIES, SERIES), data(SERIES, SERIES))
    check(through(lambda x: L.MultiHeadAttention(2, 4, use_bias=False, output_shape=3)(x, x, x), SERIES), data(SERIES))


def test_transformer_block() -> None:
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = L.Embedding(11, 8)(tokens)
    y = L.LayerNormalization()(x + L.MultiHeadAttention(2, 4)(x, x))
    y = L.LayerNormalization()(y + L.Dense(8)(L.Dense(16, activation="gelu")(y)))
    model = randomised(keras.Model(tokens, L.Dense(3)(L.GlobalAveragePooling1D()(y))))
    check(model, [np.random.default_rng(3).integers(0, 11, (1, 6)).astype(np.int32)])


def test_shared_layers_nested_models_several_ends() -> None:
    inner_in = keras.Input((4,))
    inner = keras.Model(inner_in, [L.Dense(3, name="deep")(inner_in), inner_in * 2], name="inner")
    shared = keras.Sequential([keras.Input((4,)), L.Dense(4, activation="tanh"), L.Dense(4)], name="shared")
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    first, second = inner(shared(a)), inner(shared(shared(b)))
    outputs = [L.Add(name="sum")([first[0], second[0]]), *second, b]
    graph = check(randomised(keras.Model([a, b], outputs)), data((3, 4), (3, 4)))
    assert [t.name for t in graph.inputs] == ["a", "b"]
    assert len({t.name for t in graph.outputs}) == 4
    assert dict(graph.signatures[0].outputs)["sum"] is graph.outputs[0]


def test_operations_between_layers() -> None:
    ops = keras.ops
    x, y = keras.Input((6, 4)), keras.Input((6, 4))
    a = ops.relu(x) * 2.0 - ops.abs(y) / 3.0 + ops.maximum(x, y) ** 2
    b = ops.concatenate([ops.sigmoid(x), ops.softmax(y, axis=1), -x], axis=-1)
    c = ops.stack([ops.mean(a, axis=1), ops.max(y, axis=1), ops.sum(ops.square(x), axis=1)], axis=1)
    d = ops.matmul(x, ops.transpose(y, (0, 2, 1))) + ops.expand_dims(ops.var(x, axis=-1), -1)
    e = ops.where(x > y, x * 0.5, ops.clip(y, -1, 1))[:, 1:, ..., ::2]
    f, g = ops.split(ops.reshape(ops.swapaxes(a, 1, 2), (-1, 8, 3)), 2, axis=1)
    h = ops.pad(ops.take(y, [0, 2], axis=1), ((0, 0), (1, 0), (0, 0))) + ops.squeeze(x[:, None, 0:3], 1)
    i = ops.repeat(ops.rsqrt(ops.exp(ops.minimum(x, 2.0))), 2, axis=1)[:, 3] + ops.flip(ops.leaky_relu(y), 2)[:, -1]
    check(keras.Model([x, y], [b, c, d, e, f, g, h, i, ops.gelu(x), ops.hard_sigmoid(y)]), data((2, 6, 4), (2, 6, 4)))


class Gate(L.Layer):
    """A custom layer with weights, an inner layer and arithmetic."""

    def build(self, shape: Any) -> None:
        self.inner = L.Dense(shape[-1], activation="sigmoid")
        self.inner.build(shape)
        self.factor = self.add_weight(shape=(shape[-1],), name="factor")

    def call(self, x: Any, training: bool = False) -> Any:
        y = keras.ops.matmul(x * self.factor, keras.ops.transpose(self.inner.kernel)) * self.inner(x)
        return y if not training else y * 0


class Subclass(keras.Model):
    """A model that is not functional."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.out = Gate(), L.Dense(2)

    def call(self, x: Any) -> Any:
        return self.out(self.gate(x))


def test_layers_and_models_of_ones_own_are_followed() -> None:
    model = Subclass()
    model(np.zeros((1, 4), np.float32))
    before = len(model.out._inbound_nodes)
    inputs = keras.Input((4,))
    whole = randomised(keras.Model(inputs, model(inputs)))
    check(whole, data((2, 4)))
    assert len(model.out._inbound_nodes) == before
    with pytest.raises(twinfer.InvalidArgumentError, match=r"'subclass' has no inputs.*keras.Input"):
        twinfer.from_keras(model)


def test_all_that_is_unsupported_is_told_at_once() -> None:
    x = keras.Input((8, 8, 3), batch_size=1)
    y = L.Conv2D(4, 3, data_format="channels_last", name="fine")(x)
    y = L.UpSampling2D(2, interpolation="bicubic", name="cubic")(y)
    y = L.Permute((3, 1, 2))(L.Resizing(8, 8, antialias=True, name="alias")(y))
    y = L.LSTM(3, stateful=True, return_sequences=True, name="keeps")(L.Reshape((8, -1))(y))
    y = L.LSTM(3, name="masked")(L.Masking(name="mask")(y))
    model = keras.Model(x, keras.ops.erf(keras.ops.erf(y)))
    with pytest.raises(twinfer.UnsupportedOperatorError) as caught:
        twinfer.from_keras(model)
    text = str(caught.value)
    parts = (
        "bicubic",
        "cubic",
        "antialias",
        "stateful",
        "keeps",
        "Masking (1x)",
        "sequences of full length",
        "Erf (2x)",
    )
    assert [part for part in parts if part not in text] == []


def test_channels_first_is_refused() -> None:
    x = keras.Input((3, 8, 8))
    model = keras.Model(x, L.Conv2D(2, 3, data_format="channels_first", name="first")(x))
    with pytest.raises(twinfer.UnsupportedOperatorError, match=r"channels_first; build.*node first"):
        twinfer.from_keras(model)


def test_shapes() -> None:
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, L.Conv1D(2, 3)(x))
    with pytest.raises(twinfer.InvalidArgumentError, match=r"'x' \[None, None, 4\] has open.*--shape x=1,1,4"):
        twinfer.from_keras(model)
    assert twinfer.from_keras(model, shapes={"x": (3, 7, 4)}).outputs[0].shape == (3, 5, 2)
    for options, message in (
        ({"shapes": {"z": (1, 3)}}, "no input 'z'"),
        ({"shapes": {"x": (1, 3, 5)}}, "cannot have the shape"),
        ({"batch": 0}, "batch is 0"),
    ):
        with pytest.raises(twinfer.InvalidArgumentError, match=message):
            twinfer.from_keras(model, **options)
    with pytest.raises(twinfer.InvalidArgumentError, match=r"no builtins\.list"):
        twinfer.from_keras([])
    with pytest.raises(twinfer.InvalidArgumentError, match=r"twinfer\.from_keras\(model\)"):
        twinfer.convert(model)


def test_weights_that_are_no_numbers() -> None:
    model = cnn()
    model.layers[-1].bias.assign(np.full(5, np.nan, np.float32))
    with pytest.raises(twinfer.ModelError, match=r"'scores'.*5 values that are NaN"):
        twinfer.from_keras(model)


def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = cnn()
    model.save(tmp_path / "net.keras")
    assert write(twinfer.from_keras(tmp_path / "net.keras")) == write(twinfer.from_keras(model))
    np.savez(tmp_path / "data.npz", image=np.concatenate(data(*[(1, 16, 16, 3)] * 4)))
    arguments = ["--quantize", "int8", "--calibration", str(tmp_path / "data.npz")]
    assert main(["convert", str(tmp_path / "net.keras"), "-o", str(tmp_path / "net.tflite"), *arguments]) == 0
    assert "0 of them float" in capsys.readouterr().out
    graph = twinfer.read_file(tmp_path / "net.tflite")
    assert [t.name for t in graph.inputs] == ["image"]
    (tmp_path / "bad.keras").write_bytes(b"no archive")
    for name, message in (("bad.keras", "cannot be loaded by Keras"), ("none.keras", "no such file"), ("x.h5", "old")):
        with pytest.raises(twinfer.TwinferError, match=message):
            twinfer.convert(tmp_path / name)


def test_int8_runs_here_and_in_litert() -> None:
    model, images = cnn(), np.random.default_rng(5).normal(0, 1, (8, 16, 16, 3)).astype(np.float32)
    graph = twinfer.convert(
        twinfer.from_keras(model), quantize="int8", calibration={"image": images}, inference_type="FLOAT32"
    )
    want = keras.ops.convert_to_numpy(model(images[:1]))
    assert np.abs(as_litert(graph, {"image": images[:1]}, 1) - want).max() < 0.1


def test_a_sequential_model_by_itself(tmp_path: Path) -> None:
    model = randomised(keras.Sequential([keras.Input((4,), name="x"), L.Dense(3, activation="relu"), L.Dense(2)]))
    graph = check(model, data((1, 4)))
    model.save(tmp_path / "m.keras")
    for each in (graph, twinfer.from_keras(tmp_path / "m.keras")):
        assert [t.name for t in each.inputs] == ["x"]
        assert [node.op for node in each.nodes] == [node.op for node in graph.nodes]
    with pytest.raises(InvalidArgumentError, match="has no inputs yet"):
        twinfer.from_keras(keras.Sequential([L.Dense(3)]))
