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
from onnx_tools import compare, run  # noqa: E402
from test_keras_random import randomised  # noqa: E402

import twinfer  # noqa: E402
from twinfer.command_line.main import main  # noqa: E402
from twinfer.runtime.graph import Graph  # noqa: E402
from twinfer.runtime.write.tflite import write  # noqa: E402

Shape = tuple[int, ...]

#: Keras's warning when it turns a PyTorch tensor into an array under NumPy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")


def check(model: Any, inputs: Sequence[np.ndarray], tolerance: float = 2e-5) -> Graph:
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
    inputs = [keras.Input(shape[1:]) for shape in shapes]
    return randomised(keras.Model(inputs if len(inputs) > 1 else inputs[0], layer(*inputs)))


SERIES = (2, 9, 4)


@pytest.mark.parametrize("function", [lambda x: x * 2 + 1, lambda x: keras.activations.gelu(x, approximate=True)])
def test_functions_of_ones_own(function: Callable[[Any], Any]) -> None:
    check(through(L.Lambda(function), SERIES), data(SERIES))
    check(through(L.Activation(function), SERIES), data(SERIES))


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
    y = L.Conv2D(4, 3, name="fine")(x)
    y = L.LSTM(3, stateful=True, return_sequences=True, name="keeps")(L.Reshape((6, -1))(y))
    ranks = [keras.ops.svd(y, compute_uv=False), keras.ops.svd(y * 2, compute_uv=False)]
    y = L.TimeDistributed(L.Dense(2), name="steps")(L.Masking(name="mask")(y))
    model = keras.Model(x, [y, *ranks])
    with pytest.raises(twinfer.UnsupportedOperatorError) as caught:
        twinfer.from_keras(model)
    text = str(caught.value)
    parts = ("stateful", "keeps", "TimeDistributed (1x)", "sequences of full length", "SVD (2x)")
    assert [part for part in parts if part not in text] == []


def test_shapes() -> None:
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, L.Conv1D(2, 3)(x))
    with pytest.raises(twinfer.InvalidArgumentError, match=r"'x' \[1, \?, 4\] is open.*--shape x=1,D,4"):
        twinfer.from_keras(model)
    assert twinfer.from_keras(model, shapes={"x": (3, 7, 4)}).outputs[0].shape == (3, 5, 2)
    for options, message in (
        ({"shapes": {"z": (1, 3)}}, "no input 'z'"),
        ({"shapes": {"x": (1, 3, 5)}}, "cannot have the shape"),
        ({"shapes": {"x": (1, 0, 4)}}, "cannot have the shape"),
        ({"shapes": {"x": (1, 3, 4, 1)}}, "cannot have the shape"),
        ({"batch": 0}, "batch is 0"),
    ):
        with pytest.raises(twinfer.InvalidArgumentError, match=message):
            twinfer.from_keras(model, **options)
    with pytest.raises(twinfer.InvalidArgumentError, match=r"no builtins\.list"):
        twinfer.from_keras([])
    with pytest.raises(twinfer.InvalidArgumentError, match=r"twinfer\.from_keras\(model\)"):
        twinfer.convert(model)


def test_outputs_of_one_layer_are_counted() -> None:
    """A batch that the model states stays; of one layer that is called twice, and of one with several results."""
    x = keras.Input((4, 3), batch_size=2, name="x")
    lstm, relu = L.LSTM(5, return_state=True, name="lstm"), L.ReLU(name="relu")
    model = randomised(keras.Model(x, [*lstm(x), relu(x), relu(x * 2), L.ReLU(name="last")(x)]))
    graph = check(model, data((2, 4, 3)))
    names = ["lstm_0", "lstm_1", "lstm_2", "relu_0", "relu_1", "last"]
    assert [t.name for t in graph.outputs] == names
    assert list(graph.signatures[0].outputs) == names
    with pytest.raises(twinfer.InvalidArgumentError, match=r"'x' \[2, 4, 3\] cannot have the shape \[1, 4, 3\]"):
        twinfer.from_keras(model, shapes={"x": (1, 4, 3)})


class Moody(L.Layer):
    """A layer whose code works until it does not."""

    broken = False

    def call(self, x: Any) -> Any:
        if self.broken:
            raise RuntimeError("not today")
        return x * 2


def test_code_that_cannot_be_followed() -> None:
    layer = Moody()
    model = through(layer, (1, 4))
    check(model, data((1, 4)))
    layer.broken = True
    with pytest.raises(twinfer.UnsupportedOperatorError, match=r"(?s)Moody \(1x\).*code cannot be followed.*not today"):
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


def test_files_with_code_of_their_own(tmp_path: Path) -> None:
    x = keras.Input((4,))
    for name, layer, message in (
        ("moody", Moody(), "its own, 'Moody'.*custom_objects"),
        ("code", L.Lambda(lambda x: x), "safe_mode=False"),
    ):
        keras.Model(x, layer(x)).save(tmp_path / f"{name}.keras")
        with pytest.raises(twinfer.UnsupportedOperatorError, match=message):
            twinfer.from_keras(tmp_path / f"{name}.keras")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_that_keras_has_quantised() -> None:
    """Keras rounds inputs to 8 bits as well, so its results are near."""
    x, tokens = keras.Input((8,)), keras.Input((4,), dtype="int32")
    table = L.ReversibleEmbedding(9, 6, logit_soft_cap=2.0)
    seen = L.MultiHeadAttention(2, 3)(table(tokens), L.Embedding(9, 6)(tokens))
    outputs = [L.Dense(5, activation="relu")(x), table(L.EinsumDense("abc,cd->abd", (None, 6))(seen), reverse=True)]
    model = randomised(keras.Model([x, tokens], outputs))
    model.quantize("int8")
    check(model, [*data((2, 8)), np.array([[0, 1, 2, 8], [8, 7, 1, 1]], np.int32)], 0.03)
    model = randomised(keras.Model(x, L.EinsumDense("ab,bc->ac", 6)(x)))
    model.quantize("int4")
    with pytest.raises(twinfer.UnsupportedOperatorError, match="weights of int4"):
        twinfer.from_keras(model)


class Trained(L.Layer):
    """A range that quantisation-aware training has found."""

    def call(self, x: Any) -> Any:
        return keras.quantizers.fake_quant_with_min_max_vars(x, -1.5, 2.5)


def test_ranges_that_training_has_found() -> None:
    graph = check(through(Trained(), (2, 9)), data((2, 9)))
    assert [node.op for node in graph.nodes] == ["QUANTIZE", "DEQUANTIZE"]


def test_variables_and_tensors_in_front_of_inputs() -> None:
    """Their operators leave symbolic tensors to the reflected ones, and are as before behind it."""

    class Own(L.Layer):
        def build(self, shape: Any) -> None:
            self.factor = self.add_weight(shape=(shape[-1],), name="factor")

        def call(self, x: Any) -> Any:
            return self.factor * x + keras.ops.ones((1,)) - self.factor @ keras.ops.transpose(x)[:, :1] / x

    before = [vars(keras.Variable).get("__mul__"), vars(type(keras.ops.ones((1,)))).get("__mul__")]
    check(through(Own(), (2, 4)), data((2, 4)))
    assert [vars(keras.Variable).get("__mul__"), vars(type(keras.ops.ones((1,)))).get("__mul__")] == before


def test_weights_that_are_no_numbers() -> None:
    x = keras.Input((4,))
    layer = L.Dense(5, name="scores")
    model = keras.Model(x, layer(x))
    layer.bias.assign(np.full(5, np.nan, np.float32))
    with pytest.raises(twinfer.ModelError, match=r"'scores'.*5 values that are NaN"):
        twinfer.from_keras(model)
