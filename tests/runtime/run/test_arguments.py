"""Wrong arguments of the Python API raise InvalidArgumentError; no other exception escapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twinfer
from twinfer.bench.models.builtin import float_model, int8_model
from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError, TwinferError
from twinfer.runtime.read.files import check_file, is_stream
from twinfer.runtime.write.tflite import write


class Refuses:
    """Refuses to become an array, as tensors of other libraries may."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array today")


ODD: tuple[Any, ...] = (
    *(None, True, -1, 1.5, float("nan"), 10**30, "x", "\0", b"", [], {}, (1, 2), ["a"], [[1], [1, 2]], object(), print),
    *(np.zeros(3, np.uint8), np.zeros((2, 2)), {"input": None}, Refuses()),
)


def interpreter() -> twinfer.Interpreter:
    b = Builder("small")
    x = b.input("input", "INT8", (1, 4), scale=0.5)
    engine = twinfer.Interpreter.from_graph(b.graph([b.op("RELU", [x], shape=(1, 4))], signature="serve"))
    engine.allocate_tensors()
    return engine


def converted(name: str) -> Callable[[Any], object]:
    samples = {"input": np.linspace(0, 1, 128, dtype=np.float32).reshape(2, 8, 8, 1)}
    return lambda v: twinfer.convert(
        float_model("digits"), **{"quantize": "int8", "calibration": samples, "passes": [], name: v}
    )


CALLS: dict[str, Callable[[Any], object]] = {
    "model_path": lambda v: twinfer.Interpreter(model_path=v),
    "model_content": lambda v: twinfer.Interpreter(model_content=v),
    "experimental_delegates": lambda v: twinfer.Interpreter(model_content=b"", experimental_delegates=v),
    "num_threads": lambda v: twinfer.Interpreter(model_content=b"", num_threads=v),
    "from_graph": lambda v: twinfer.Interpreter.from_graph(v),
    "resize_tensor_input, index": lambda v: interpreter().resize_tensor_input(v, (1, 4)),
    "resize_tensor_input, size": lambda v: interpreter().resize_tensor_input(0, v),
    "set_tensor, index": lambda v: interpreter().set_tensor(v, np.zeros((1, 4), np.int8)),
    "set_tensor, value": lambda v: interpreter().set_tensor(0, v),
    "get_tensor": lambda v: interpreter().get_tensor(v),
    "tensor": lambda v: interpreter().tensor(v),
    "get_signature_runner": lambda v: interpreter().get_signature_runner(v),
    "signature runner": lambda v: interpreter().get_signature_runner()(input=v),
    "compile": lambda v: twinfer.compile(v),
    "compile, target": lambda v: twinfer.compile(int8_model("digits"), target=v),
    "compile, optimize": lambda v: twinfer.compile(int8_model("digits"), optimize=v),
    "compile, weights": lambda v: twinfer.compile(int8_model("digits"), weights=v),
    "read": lambda v: twinfer.read(v),
    "read_file": lambda v: twinfer.read_file(v),
    "make_plan": lambda v: twinfer.make_plan(v),
    "write": lambda v: write(v),
    "save": lambda v: None if isinstance(v, str) and v == "x" else int8_model("digits").save(v),
    "check_file": lambda v: check_file(v),
    "is_stream": lambda v: is_stream(v),
    "convert": lambda v: twinfer.convert(v),
    **{
        f"convert, {name}": converted(name)
        for name in ("quantize", "calibration", "method", "recipe", "inference_type", "prune", "prune_block", "cluster")
    },
    "convert, shapes": lambda v: twinfer.convert(float_model("digits"), shapes={"input": v}),
    "search, max_loss": lambda v: twinfer.search(float_model("digits"), {}, v),
    "search, data": lambda v: twinfer.search(float_model("digits"), v, 0.1),
    "search, trials": lambda v: twinfer.search(float_model("digits"), {}, 0.1, trials=v),
    "search, jobs": lambda v: twinfer.search(float_model("digits"), {}, 0.1, jobs=v),
}


@pytest.mark.filterwarnings("ignore:calibration data:twinfer.runtime.errors.ModelWarning")
@pytest.mark.filterwarnings("ignore:.*outputs are at:twinfer.runtime.errors.ModelWarning")
@pytest.mark.parametrize("call", CALLS)
def test_nothing_foreign_escapes(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = 0
    for value in ODD:
        try:
            CALLS[call](value)
        except TwinferError:
            refused += 1
    assert refused >= len(ODD) // 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "value", "message"),
    [
        ("resize_tensor_input, size", None, "a shape is a sequence of whole numbers, not None"),
        ("resize_tensor_input, size", (1, 4.5), r"a shape is a sequence of whole numbers, not \(1, 4\.5\)"),
        ("get_tensor", [], r"tensor index \[\] is outside 0\.\."),
        ("set_tensor, value", [[1], [1, 2]], "cannot set tensor 'input' .*: the value is no array"),
        ("set_tensor, value", Refuses(), "no array today"),
        ("signature runner", [[1], [1, 2]], "cannot set input 'input': the value is no array"),
        ("model_content", np.zeros(3, np.uint8), "the bytes of a file, not ndarray"),
        ("model_path", 1, "a path is a string, no int"),
        ("from_graph", "model.tflite", "a Graph is needed, no str: twinfer.read_file"),
        ("convert, cluster", "4", r"cluster cannot be of type str; it may be: int \| None"),
        ("convert, shapes", 5, "a shape is a sequence of whole numbers, not 5"),
        ("is_stream", 1, "a path is a string, no int"),
    ],
)
def test_what_is_said(call: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        CALLS[call](value)


@pytest.mark.filterwarnings("ignore:.*outputs are at:twinfer.runtime.errors.ModelWarning")
def test_numbers_of_numpy_are_numbers() -> None:
    engine = interpreter()
    engine.resize_tensor_input(np.int64(0), np.array([2, 4]))
    engine.allocate_tensors()
    assert engine.get_tensor(np.int32(0)).shape == (2, 4)
    converted("prune")(np.float32(0.5))
    converted("cluster")(np.int64(4))
