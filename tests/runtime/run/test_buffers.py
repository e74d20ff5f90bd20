"""The names of LiteRT's CompiledModel: the same calls of theirs, our interpreter and our compiled model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import twinfer
from twinfer.bench.peers.engines import installed
from twinfer.converter.build import Builder
from twinfer.runtime.write.tflite import write


def model(signature: str | None = "serve") -> bytes:
    """sum = b + a, twice = sum + sum; int8 gives another type of buffer."""
    b = Builder("sum")
    y, x = b.input("b", "FLOAT32", (1, 3)), b.input("a", "FLOAT32", (1, 3))
    s = b.op("ADD", [x, y])
    return write(b.graph([b.op("ADD", [s, s]), s], **({"signature": signature} if signature else {})))


def rows(*values: float) -> Any:
    return np.array([values], np.float32)


def filled(engine: Any, index: int = 0) -> tuple[Any, Any]:
    inputs, outputs = engine.create_input_buffers(index), engine.create_output_buffers(index)
    for i, buffer in enumerate(inputs):
        buffer.write(rows(1, 2, 3) * (i + 1))
    return inputs, outputs


def after(run: Callable[[Any, Any, Any], Any]) -> Callable[[Any], Any]:
    """What outputs hold after a run of filled buffers."""

    def called(engine: Any) -> Any:
        inputs, outputs = filled(engine)
        run(engine, inputs, outputs)
        return [buffer.read(3, np.float32).tolist() for buffer in outputs]

    return called


def key(engine: Any) -> str:
    return str(engine.get_signature_by_index(0)["key"])


def by_name(engine: Any, inputs: Any, outputs: Any) -> None:
    about = engine.get_signature_by_index(0)
    names = dict(zip(about["inputs"], inputs, strict=True)), dict(zip(about["outputs"], outputs, strict=True))
    engine.run_by_name(about["key"], *names)


def twice(engine: Any, inputs: Any, outputs: Any) -> None:
    """The outputs of a run as the inputs of the next."""
    engine.run_by_index(0, inputs, outputs)
    engine.run_by_index(0, outputs, inputs)
    engine.run_by_index(0, inputs, outputs)


def buffer(engine: Any) -> Any:
    return filled(engine)[0][0]


def destroyed(engine: Any) -> Any:
    gone = buffer(engine)
    gone.destroy()
    return engine.run_by_index(0, [gone, buffer(engine)], filled(engine)[1])


def partly(engine: Any) -> Any:
    one = buffer(engine)
    one.write(np.array([7], np.float32))
    return one.read(2, np.float32).tolist()


#: What gives the same on all three: a value, or an exception.
CALLS: dict[str, Callable[[Any], Any]] = {
    "number": lambda e: e.get_num_signatures(),
    "by index": lambda e: e.get_signature_by_index(0),
    "index": lambda e: e.get_signature_index(key(e)),
    "index of none": lambda e: e.get_signature_index("train"),
    "inputs": lambda e: e.get_input_tensor_details(key(e)),
    "outputs": lambda e: e.get_output_tensor_details(key(e)),
    "inputs of none": lambda e: e.get_input_tensor_details("train"),
    "bytes": lambda e: (e.get_input_buffer_requirements(0), e.get_output_buffer_requirements(1, 0)),
    "bytes out of range": lambda e: e.get_input_buffer_requirements(7),
    "accelerated": lambda e: e.is_fully_accelerated(),
    "buffers": lambda e: [b.get_tensor_details() for b in (*e.create_input_buffers(0), *e.create_output_buffers(0))],
    "buffers of none": lambda e: e.create_input_buffers(5),
    "buffer by name": lambda e: e.create_output_buffer_by_name(
        key(e), e.get_signature_by_index(0)["outputs"][1]
    ).get_tensor_details(),
    "buffer of none": lambda e: e.create_input_buffer_by_name(key(e), "c"),
    "run": after(lambda e, inputs, outputs: e.run_by_index(0, inputs, outputs)),
    "run by name": after(by_name),
    "run on": after(twice),
    "an input twice": after(lambda e, inputs, outputs: e.run_by_index(0, [inputs[0]] * 2, outputs)),
    "run none": after(lambda e, inputs, outputs: e.run_by_index(3, inputs, outputs)),
    "run none by name": after(lambda e, inputs, outputs: e.run_by_name("train", {}, {})),
    "too few inputs": after(lambda e, inputs, outputs: e.run_by_index(0, inputs[:1], outputs)),
    "too few outputs": after(lambda e, inputs, outputs: e.run_by_index(0, inputs, [])),
    "write a list": lambda e: buffer(e).write([1.0, 2.0, 3.0]),
    "write float64": lambda e: buffer(e).write(np.ones(3)),
    "write too much": lambda e: buffer(e).write(np.ones(4, np.float32)),
    "write another shape": lambda e: buffer(e).write(np.ones((3, 1), np.float32)),
    "write a part": partly,
    "write every other": lambda e: buffer(e).write(np.ones((3, 2), np.float32)[:, 0]),
    "read a part": lambda e: buffer(e).read(2, np.float32).tolist(),
    "read too much": lambda e: buffer(e).read(4, np.float32),
    "read float64": lambda e: buffer(e).read(1, np.float64),
    "after destroy": destroyed,
}


def answer(call: Callable[[Any], Any], engine: Any) -> Any:
    try:
        return call(engine)
    except (ValueError, RuntimeError):  # LiteRT raises either for wrong arguments
        return "refused"


OURS = [twinfer.Interpreter, twinfer.CompiledModel]


@pytest.mark.parametrize("signature", ["serve", None])
def test_the_same_calls_give_the_same(signature: str | None) -> None:
    if not installed("litert"):
        pytest.skip("LiteRT is not installed")
    from ai_edge_litert.compiled_model import CompiledModel

    content = model(signature)
    theirs = {name: answer(call, CompiledModel.from_buffer(content)) for name, call in CALLS.items()}
    assert "refused" in theirs.values()
    for ours in OURS:
        engine = ours.from_buffer(content)
        assert {name: answer(call, engine) for name, call in CALLS.items()} == theirs
    names = {name for name in dir(CompiledModel) if not name.startswith("_")} - {"environment"}  # of accelerators
    assert not [name for name in names if not hasattr(twinfer.Interpreter, name)]


@pytest.mark.parametrize("ours", OURS)
def test_what_is_safer_than_theirs(ours: Any) -> None:
    """LiteRT copies the bytes of any type, ends the process for a signature that is not there, and takes any name."""
    engine = ours.from_buffer(model())
    with pytest.raises(ValueError, match="holds float32, not int8"):
        buffer(engine).write(np.ones(3, np.int8))
    with pytest.raises(ValueError, match="no signature 9: the model has 1"):
        engine.get_signature_by_index(9)
    inputs, outputs = filled(engine)
    with pytest.raises(ValueError, match="'serve' has b, a, not c"):
        engine.run_by_name("serve", {"c": inputs[0]}, {})
    assert not engine.create_input_buffers(0)[0].read(3, np.float32).any()
    own = np.zeros((1, 3), np.float32)
    engine.run_by_index(0, inputs, [twinfer.TensorBuffer.create_from_host_memory(own), outputs[1]])
    assert own.tolist() == [[6, 12, 18]]
    with pytest.raises(ValueError, match="C-contiguous"):
        twinfer.TensorBuffer.create_from_host_memory(np.ones((3, 2), np.float32).T)


def test_another_shape() -> None:
    engine = twinfer.Interpreter.from_buffer(model())
    for i, name in enumerate("ba"):
        engine.resize_input_tensor(i, [2, 3], strict=False)
        engine.resize_input_tensor_by_name("serve", name, [2, 3], strict=False)
    engine.allocate_tensors()
    inputs, outputs = engine.create_input_buffers(), engine.create_output_buffers()
    for each in inputs:
        each.write(np.ones((2, 3), np.float32))
    engine.run_by_index(0, inputs, outputs)
    assert outputs[0].read(6, np.float32).tolist() == [4] * 6
    with pytest.raises(ValueError, match="is float32"):
        engine.run_by_index(0, inputs, filled(twinfer.Interpreter.from_buffer(model()))[1])
