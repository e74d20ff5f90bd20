"""``twinfer inspect``: the file's operators, and what planning made of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from flows import Sub

from twinfer.command_line.main import main
from twinfer.converter.build import Builder


def rows(text: str) -> list[str]:
    """The lines with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.fixture
def unsigned(tmp_path: Path) -> str:
    """A FULLY_CONNECTED of uint8, whose values planning converts before and behind it, and then a RESHAPE."""
    b = Builder("byte")
    x = b.input("x", "UINT8", (1, 3), 0.5, 128)
    w = b.constant(np.full((2, 3), 130, np.uint8), 0.5, 128)
    y = b.op("FULLY_CONNECTED", [x, w, None], shape=(1, 2))
    z = b.op("RESHAPE", [y, np.array([2, 1], np.int32)], shape=(2, 1))
    b.graph([z]).save(tmp_path / "byte.tflite")
    return str(tmp_path / "byte.tflite")


def test_operators_of_uint8_are_the_files_own(unsigned: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", unsigned, "--json", "--target", "generic"]) == 0
    told = json.loads(capsys.readouterr().out)["operators"]
    own = [op for op in told if not op["added"]]
    assert [(op["index"], op["op"], op["macs"]) for op in own] == [(0, "FULLY_CONNECTED", 6), (1, "RESHAPE", 0)]
    assert own[0]["kernel"].startswith("tw_fully_connected")
    assert own[0]["constant_bytes"] == 6
    assert [op["op"] for op in told if op["added"]] == ["QUANTIZE", "QUANTIZE"]


def test_conversions_of_planning_are_marked(unsigned: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", unsigned]) == 0
    lines = rows(capsys.readouterr().out)
    assert sum(line.startswith("+ QUANTIZE 1×3 1×3 INT8 0.5, 0 flip") for line in lines) == 1
    # In the table of operators, that of variants that declined, and the arena's map.
    assert sum(line.startswith("0 FULLY_CONNECTED") for line in lines) == 3
    assert sum(line.startswith("+ QUANTIZE") for line in lines) == 4
    assert main(["verify", unsigned, "--against", "none"]) == 0
    numbers = [line.split()[0] for line in rows(capsys.readouterr().out) if "=" in line and "byte" not in line]
    assert (numbers.count("0"), numbers.count("1"), numbers.count("+")) == (1, 1, 2)


def test_subgraphs_and_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Operators of subgraphs have kernels, handles the names of their variables, control flow the words of ``ops``."""
    main_, init, test, body = Sub("main"), Sub("init"), Sub("test"), Sub("body")
    init.assign(init.handle("level"), np.array([1], np.float32))
    a, b = test.input(), body.input()
    main_.once(1)
    x, handle = main_.input(), main_.handle("level")
    y = main_.loop(2, 3, [main_.add(x, main_.read(handle))])[0]
    main_.assign(handle, y)
    others = (
        init.graph([]),
        test.graph([test.less(np.array([1], np.float32), a)]),
        body.graph([body.mul(b, np.array([0.5], np.float32))]),
    )
    path = tmp_path / "loop.tflite"
    main_.graph([y], *others).save(path)
    assert main(["inspect", str(path)]) == 0
    lines = rows(capsys.readouterr().out)
    for wanted in (
        "0 CALL_ONCE - - - - what a reset does",
        "1 VAR_HANDLE - level RESOURCE - a tensor of the state",
        "2 READ_VARIABLE level 1 FLOAT32 - in place",
        "4 WHILE 1 1 FLOAT32 - a loop of the program",
        "5 ASSIGN_VARIABLE level, 1 - - - copy",
        "0 LESS 1 1 BOOL - compare_f32",
        "0 MUL 1 1 FLOAT32 - f32",
    ):
        assert any(line.startswith(wanted) for line in lines), (wanted, lines)


def test_an_output_that_is_only_flipped_is_one_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder("flip")
    x = b.op("RELU", [b.input("x", "INT8", (1, 3), 0.5, -128)])
    b.graph([b.op("QUANTIZE", [x], type="UINT8", shape=(1, 3), scale=0.5, zero=0)]).save(tmp_path / "flip.tflite")
    assert main(["inspect", str(tmp_path / "flip.tflite")]) == 0
    lines = [line for line in rows(capsys.readouterr().out) if "QUANTIZE" in line and "operator" not in line]
    assert [line.split()[0] for line in lines] == ["1", "1"]  # in the table of operators and in the arena's map
