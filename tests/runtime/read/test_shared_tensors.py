"""Files whose nodes write a tensor again, or one that they read: as TFLM runs them, and LiteRT where it does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs

from twinfer.command_line.main import main
from twinfer.runtime.errors import ModelError
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run.interpreter import Interpreter

schema = needs("ai_edge_litert.schema_py_generated", "flatbuffers", "tflite_micro")

ADD, RELU, TANH = 0, 19, 28

#: Nodes as (operator, inputs, outputs), inputs and outputs of the graph: numbers of tensors.
CASES: dict[str, Any] = {
    "into an input": ([(ADD, (0, 1), (0,))], (0, 1), (0,)),
    "into an input, twice": ([(ADD, (0, 1), (0,)), (ADD, (0, 1), (0,))], (0, 1), (0,)),
    "an input by itself": ([(ADD, (0, 0), (0,))], (0,), (0,)),
    "a value again": ([(ADD, (0, 0), (1,)), (ADD, (1, 0), (1,)), (ADD, (1, 0), (2,))], (0,), (2, 1)),
    "an input that it does not read": ([(ADD, (0, 0), (1,)), (ADD, (1, 1), (0,))], (0,), (0, 1)),
    "in place": ([(RELU, (0,), (0,)), (ADD, (0, 1), (2,))], (0, 1), (2,)),
    "in place, and again": ([(TANH, (0,), (0,)), (TANH, (0,), (1,)), (RELU, (1,), (1,))], (0,), (1, 0)),
    "twice": ([(ADD, (0, 0), (1,)), (ADD, (0, 1), (2,)), (ADD, (2, 2), (1,))], (0,), (1, 2)),
}


def file_of(nodes: Sequence[Any], inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """A .tflite file of float32 [1, 4] tensors, made by the schema's own classes."""
    import flatbuffers

    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.buffers, model.subgraphs = 3, [schema.BufferT()], [graph]
    codes = sorted({node[0] for node in nodes})
    model.operatorCodes, graph.tensors, graph.operators = [], [], []
    for code in codes:
        made = schema.OperatorCodeT()
        made.builtinCode = made.deprecatedBuiltinCode = code
        made.version = 1
        model.operatorCodes.append(made)
    for name in ("x", "y", "z")[: 1 + max(t for node in nodes for side in node[1:] for t in side)]:
        tensor = schema.TensorT()
        tensor.shape, tensor.type, tensor.buffer, tensor.name = [1, 4], 0, 0, name.encode()
        graph.tensors.append(tensor)
    for code, read_, written in nodes:
        node = schema.OperatorT()
        node.opcodeIndex, node.inputs, node.outputs = codes.index(code), [*read_], [*written]
        if code == ADD:
            node.builtinOptionsType, node.builtinOptions = schema.BuiltinOptions.AddOptions, schema.AddOptionsT()
        graph.operators.append(node)
    graph.inputs, graph.outputs = [*inputs], [*outputs]
    builder = flatbuffers.Builder(64)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


GIVEN = np.array([[-1, 2, -0.3, 0.4]], np.float32)


def in_tflm(content: bytes, case: Any) -> list[list[Any]]:
    """The outputs of two runs, of which the second gets no new inputs."""
    from tflite_micro import runtime

    model = runtime.Interpreter.from_bytes(content)
    for i, _ in enumerate(case[1]):
        model.set_input(GIVEN * (1 + 10 * i), i)
    return [[model.invoke(), *(model.get_output(i) for i, _ in enumerate(case[2]))][1:] for _ in range(2)]


def in_ours_or_litert(model: Any) -> list[list[Any]]:
    model.allocate_tensors()
    for i, detail in enumerate(model.get_input_details()):
        model.set_tensor(detail["index"], GIVEN * np.float32(1 + 10 * i))
    return [
        [model.invoke(), *(model.get_tensor(detail["index"]).copy() for detail in model.get_output_details())][1:]
        for _ in range(2)
    ]


@pytest.mark.parametrize("name", CASES)
def test_as_tflm_and_litert(name: str) -> None:
    content = file_of(*CASES[name])
    want, got = in_tflm(content, CASES[name]), in_ours_or_litert(Interpreter(model_content=content))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)
    from ai_edge_litert.interpreter import Interpreter as LiteRT

    with suppress(RuntimeError):  # LiteRT refuses operators with options that write what they read
        np.testing.assert_allclose(got, in_ours_or_litert(LiteRT(model_content=content)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["into an input, twice", "a value again"])
def test_compiled(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """numpy, interpreter, compiled C and TFLM agree on every tensor."""
    (tmp_path / "m.tflite").write_bytes(file_of(*CASES[name]))
    assert main(["verify", str(tmp_path / "m.tflite"), "--against", "tflm"]) == 0
    assert "proven" in capsys.readouterr().out


def test_what_was_never_written_is_refused_still() -> None:
    with pytest.raises(ModelError, match="before any operator has written it"):
        read(file_of([(ADD, (1, 1), (1,))], (0,), (1,)))
    with pytest.raises(ModelError, match="written already"):
        read(file_of([(ADD, (0, 0), (1, 1))], (0,), (1,)))
