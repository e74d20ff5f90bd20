"""A layer has one number everywhere: that of its operator in the file, from 0, as LiteRT's ops details have it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import twinfer
from twinfer.command_line.main import main
from twinfer.converter.build import Builder

#: Operator 0 becomes part of operator 1, 2 needs no step: numbers of steps and of operators differ.
OPS = ("PAD", "CONV_2D", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX")


@pytest.fixture
def padded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    b = Builder("padded")
    x = b.input("x", "INT8", (1, 6, 6, 2), scale=0.5, zero=3)
    border = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    y = b.op("PAD", [x, border], shape=(1, 8, 8, 2), scale=0.5, zero=3)
    weights = b.constant(np.full((4, 3, 3, 2), 5, np.int8), scale=0.01)
    window = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    y = b.op("CONV_2D", [y, weights, np.zeros(4, np.int32)], scale=0.05, zero=-128, **window)
    y = b.op("RESHAPE", [y, np.array([1, 144], np.int32)], shape=(1, 144), scale=0.05, zero=-128, new_shape=(1, 144))
    dense = b.constant(np.arange(576).reshape(4, 144).astype(np.int8), scale=0.01)
    y = b.op("FULLY_CONNECTED", [y, dense, None], shape=(1, 4), scale=0.25, zero=7)
    b.graph([b.op("SOFTMAX", [y], scale=1 / 256, zero=-128, beta=1.0)]).save("m.tflite")
    return "m.tflite"


COMMANDS = (
    "inspect m.tflite --trace page.html",
    "inspect m.tflite --memory",
    "verify m.tflite",
    "bench m.tflite --runs 1 --layers",
    "explain m.tflite --seconds 0.1",
    "report m.tflite --seconds 0.1 --no-ladder -o page.html --json page.json",
    "compile m.tflite --target generic -o project",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_numbers(command: str, padded: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 0
    texts = [capsys.readouterr().out, *(path.read_text() for path in Path().rglob("*.[hc]*") if path.is_file())]
    plain = re.sub(r"<[^>]*>", " ", "\n".join(texts))
    found = {(int(n), op) for n, op in re.findall(rf"(?<![\w.,-])(\d+)\s+({'|'.join(OPS)})\b", plain)}
    found |= {(int(n), op) for op, n in re.findall(rf"\b({'|'.join(OPS)}), operator (\d+) of the model", plain)}
    assert {(1, "CONV_2D"), (3, "FULLY_CONNECTED"), (4, "SOFTMAX")} <= found
    assert found <= {*enumerate(OPS)}
    if Path("page.json").exists():
        document = json.loads(Path("page.json").read_text())
        assert [(node["index"], node["op"]) for node in document["nodes"]] == [(i, OPS[i]) for i in (1, 3, 4)]
        assert [layer["operators"] for layer in document["ledger"]["layers"] if layer["operators"]] == [[1], [3], [4]]


def test_numbers_in_python(padded: str) -> None:
    engine = twinfer.Interpreter(padded)
    assert [(each["index"], each["op_name"]) for each in engine._get_ops_details()] == [*enumerate(OPS)]
    plan = twinfer.make_plan(twinfer.read_file(padded))
    assert [str(step.node).split()[1:3] for step in plan.steps] == [[str(i), OPS[i]] for i in (1, 3, 4)]
