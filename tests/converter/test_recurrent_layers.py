"""Recurrent layers of ONNX, PyTorch and Keras: right, the same in every run and in LiteRT, and little larger than their
weights."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import deep_but, needs

needs("onnx", "onnxruntime", "ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter as Litert  # noqa: E402
from onnx import helper  # noqa: E402
from onnx_tools import by_onnxruntime, floats, model  # noqa: E402

import twinfer  # noqa: E402
from twinfer.converter.convert import conversion  # noqa: E402
from twinfer.runtime.write.tflite import write  # noqa: E402

TIME, DEPTH, HIDDEN = 16, 4, 24
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}

#: Directions of each layer.
FORMS = {"uni": [1], "bi": [2], "stacked": [1, 1]}

#: Bytes beyond 1.3 times the parameters' for each direction of a layer: of an LSTM of float or int8, and of a loop.
BESIDE = {"sequence": 2048, "loop": 8192}


def net(kind: str, form: str) -> tuple[Any, int]:
    """An ONNX model, and how many parameters it has."""
    rng = np.random.default_rng(3)
    nodes, weights, x, width = [], dict[str, np.ndarray](), "x", DEPTH
    for i, directions in enumerate(FORMS[form]):
        rows = GATES[kind] * HIDDEN
        own = {f"w{i}": floats(rng, directions, rows, width) / 2, f"r{i}": floats(rng, directions, rows, HIDDEN) / 5}
        own[f"b{i}"] = floats(rng, directions, 2 * rows) / 4
        more = {"linear_before_reset": 1} if kind == "GRU" else {}
        more["direction"] = "forward" if directions == 1 else "bidirectional"
        nodes.append(helper.make_node(kind, [x, *own], [f"y{i}"], hidden_size=HIDDEN, **more))
        nodes.append(helper.make_node("Transpose", [f"y{i}"], [f"t{i}"], perm=[0, 2, 1, 3]))
        own[f"s{i}"] = np.array([0, 0, -1], np.int64)
        nodes.append(helper.make_node("Reshape", [f"t{i}", f"s{i}"], [x := f"z{i}"]))
        weights |= own
        width = directions * HIDDEN
    feeds = {"x": floats(rng, TIME, 1, DEPTH)}
    count = sum(value.size for name, value in weights.items() if name[0] != "s")
    return model(nodes, feeds, weights, [x], opset=14), count


def runs(interpreter: Any, x: np.ndarray) -> np.ndarray:
    """The output of a second run, after one of another input."""
    interpreter.allocate_tensors()
    place = interpreter.get_input_details()[0]["index"]
    for value in (3 * x[::-1].copy(), x):
        interpreter.set_tensor(place, value)
        interpreter.invoke()
    return np.array(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


def judge(source: Any, x: np.ndarray, want: np.ndarray, quantize: str | None) -> tuple[bytes, bool]:
    """The file, and whether it has loops."""
    rng, how = np.random.default_rng(4), dict[str, Any]()
    if quantize:
        samples = [x, *(floats(rng, *x.shape) for _ in range(5))]
        how = {"quantize": quantize, "calibration": samples, "inference_type": "FLOAT32"}
    graph = conversion(source, **how).graph
    file = write(graph)
    ours, theirs = (runs(each(model_content=file), x) for each in (twinfer.Interpreter, Litert))
    loops = any(node.op == "WHILE" for node in graph.nodes)
    most = np.abs(want).max()
    if quantize is None:
        assert max(np.abs(ours - want).max(), np.abs(ours - theirs).max()) <= 1e-5 * most
    else:  # LiteRT rounds once where we round twice; its LSTM takes other tables than TFLM's
        error = 0.11 if quantize == "int8" else 0.01
        assert np.sqrt(((ours - want) ** 2).mean()) <= error * most
        assert np.abs(ours - theirs).max() <= error * most
    return file, loops


EVERY = list(product(GATES, FORMS, (None, "int8", "int16x8")))


@pytest.mark.parametrize(("kind", "form", "quantize"), deep_but(EVERY, *(e for e in EVERY if e[1] == "uni"), EVERY[3]))
def test_of_onnx(kind: str, form: str, quantize: str | None) -> None:
    proto, count = net(kind, form)
    x = floats(np.random.default_rng(5), TIME, 1, DEPTH)
    file, loops = judge(proto, x, by_onnxruntime(proto, {"x": x})[0], quantize)
    assert loops == (kind != "LSTM" or quantize == "int16x8")
    each = 4 if quantize is None else 1
    beside = BESIDE["loop" if loops else "sequence"] * sum(FORMS[form])
    assert len(file) <= 1.3 * each * count + beside * (2 if quantize == "int16x8" else 1)


@pytest.mark.parametrize(("kind", "form"), deep_but(list(product(GATES, FORMS)), ("LSTM", "uni"), ("GRU", "bi")))
def test_of_torch(kind: str, form: str) -> None:
    needs("torch", "onnxscript")
    import torch

    torch.manual_seed(1)
    directions = FORMS[form]
    layer = getattr(torch.nn, kind)(DEPTH, HIDDEN, len(directions), batch_first=True, bidirectional=directions == [2])

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0]

    module = Net().eval()
    x = floats(np.random.default_rng(5), 1, TIME, DEPTH)
    with torch.no_grad():
        want = module(torch.from_numpy(x)).numpy()
    _, loops = judge(twinfer.from_torch(module, torch.from_numpy(x)), x, want, None)
    assert loops == (kind != "LSTM")


#: Models of ../shared/faults -> shape of a sample, and the most bytes in int8: 1.3 times the parameters' and 2 KB.
SMALL = {"acc_gru": ((1, 1, 8, 8), 8558), "t_lstm_forecast": ((1, 24, 3), 8818)}


@pytest.mark.parametrize("name", SMALL)
def test_files_are_little_larger_than_their_weights(corpus: Path, name: str) -> None:
    """Tensors without names and layers without biases are read by all."""
    shape, most = SMALL[name]
    samples = [floats(np.random.default_rng(i), *shape) for i in range(8)]
    graph = twinfer.convert(corpus.parent / "faults" / f"{name}.onnx", quantize="int8", calibration=samples)
    file, x = write(graph), np.random.default_rng(9).integers(-128, 128, shape, np.int8)
    assert len(file) <= most
    ours, theirs = (runs(each(model_content=file), x).astype(int) for each in (twinfer.Interpreter, Litert))
    assert np.abs(ours - theirs).max() <= 8
