"""Warnings of convert about poor results, and about calibration data that lead to them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion, convert
from twinfer.converter.quantize.calibrate import calibrate
from twinfer.converter.report import decibels, in_words
from twinfer.runtime.errors import InvalidArgumentError, ModelWarning
from twinfer.runtime.graph import Graph
from twinfer.runtime.write.tflite import write


def blind() -> Graph:
    """A dense layer that ignores its last input."""
    b = Builder("blind")
    x = b.input("x", "FLOAT32", (1, 8))
    return b.graph([b.op("TANH", [b.op("FULLY_CONNECTED", [x, np.eye(7, 8, dtype=np.float32)], shape=(1, 7))])])


def normal(count: int = 8, last: float = 1.0) -> Any:
    """Samples with a last number ``last`` times as large as the others, which share its step."""
    x = np.random.default_rng(2).normal(0, 1, (count, 1, 8)).astype(np.float32)
    return x * np.array([1] * 7 + [last], np.float32)


def test_a_poor_result_is_warned_of_with_what_may_be_done() -> None:
    with pytest.warns(ModelWarning, match=r"int8 model's outputs.*int16x8.*: '.*' FULLY_CONNECTED") as told:
        converted = conversion(blind(), quantize="int8", calibration={"x": normal(last=1000)})
    assert len(told) == 1
    assert converted.quality is not None
    assert converted.quality.snr_db < 20
    assert converted.quality.worst[0].snr_db == min(layer.snr_db for layer in converted.quality.worst)


def test_int16x8_is_not_advised_to_itself() -> None:
    what = r"int16x8 model's outputs .*: keep these 2 layers float by a recipe, with float inputs and outputs \(\d"
    with pytest.warns(ModelWarning, match=what):
        convert(blind(), quantize="int16x8", calibration={"x": normal(last=1e6)})


def test_a_good_result_is_only_said() -> None:
    converted = conversion(blind(), quantize="int8", calibration={"x": normal()})
    assert converted.quality is not None
    assert 20 < converted.quality.snr_db < 80


def test_an_iterator_is_judged_by_its_first_samples() -> None:
    whole = conversion(blind(), quantize="int8", calibration={"x": normal(8)})
    once = conversion(blind(), quantize="int8", calibration=({"x": row} for row in normal(8)))
    assert once.quality == whole.quality


@pytest.mark.parametrize("last", [1.0, 1000.0])
def test_the_command_says_how_good_it_is(tmp_path: Path, capsys: Any, last: float) -> None:
    source, data, out = tmp_path / "m.tflite", tmp_path / "d.npy", tmp_path / "o.tflite"
    source.write_bytes(write(blind()))
    np.save(data, normal(last=last))
    assert main(["convert", str(source), "-o", str(out), "--quantize", "int8", "--calibration", str(data)]) == 0
    said = capsys.readouterr()
    assert "int8: outputs at " in said.out
    assert "worst layer: '" in said.out
    assert ("warning: the int8 model's outputs" in said.err) == (last > 1)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_data_are_warned_of(value: float) -> None:
    with pytest.warns(ModelWarning, match=rf"input 'x' is {value:g} everywhere in all 4 samples"):
        calibrate(blind(), {"x": np.full((4, 1, 8), value, np.float32)})


def test_integers_for_floats_are_warned_of_once() -> None:
    data = np.arange(32, dtype=np.uint8).reshape(4, 1, 8)
    with pytest.warns(ModelWarning, match=r"'x' FLOAT32\[1, 8\] is given uint8 from 0 to 7 in sample 0") as told:
        calibrate(blind(), {"x": data})
    assert len(told) == 1


def test_data_that_are_no_numbers_name_the_input() -> None:
    data = normal()
    data[1, 0, 3] = np.nan
    with pytest.raises(InvalidArgumentError, match=r"sample 1, input 'x': the value at .* is nan"):
        convert(blind(), quantize="int8", calibration={"x": data})


def test_good_data_are_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrate(blind(), {"x": normal()})


def test_ratios_in_words() -> None:
    assert in_words(decibels(1, 0.5)) == "3.0 dB"
    assert in_words(decibels(0, 1)) == "-300 dB (all of it is noise)"
