"""The sample in docs: a .wav file through the audio front end and a streaming model."""

from __future__ import annotations

import runpy
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from needs import ROOT

from twinfer.converter.stream.convert import stream
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.run.interpreter import Interpreter

SAMPLE = ROOT / "docs" / "wake_word.py"


def write_sound(path: Path, samples: np.ndarray, rate: int = 16_000) -> None:
    with wave.open(str(path), "w") as file:
        file.setnchannels(1)
        file.setframerate(rate)
        file.setsampwidth(2)
        file.writeframes(samples.astype("<i2").tobytes())


@pytest.fixture
def sound() -> np.ndarray:
    """Three seconds of a warbling tone that comes and goes."""
    t = np.arange(48_000) / 16_000
    tone = np.sin(2 * np.pi * (300 + 200 * np.sin(2 * np.pi * 3 * t)) * t)
    return np.asarray(8000 * tone * (np.sin(2 * np.pi * t) > 0))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [str(SAMPLE), *arguments])
    runpy.run_path(str(SAMPLE), run_name="__main__")


def scores(corpus: Path, sound: np.ndarray) -> list[tuple[float, np.ndarray]]:
    front, window = (Interpreter(model_path=corpus / "models" / name) for name in (FRONT_END, MODEL))
    front.allocate_tensors()
    window.allocate_tensors()
    rows = []
    for start in range(0, len(sound) - 479, 320):
        front.set_tensor(
            front.get_input_details()[0]["index"], sound[start : start + 480].reshape(1, 480).astype(np.int16)
        )
        front.invoke()
        rows.append(front.get_tensor(front.get_output_details()[0]["index"]).reshape(40))
    results = []
    for end in range(2, len(rows) + 1, 2):
        if end >= 49:
            window.set_tensor(window.get_input_details()[0]["index"], np.concatenate(rows[end - 49 : end])[None])
            window.invoke()
            results.append(
                (((end - 1) * 320 + 480) / 16_000, window.get_tensor(window.get_output_details()[0]["index"]))
            )
    return results


FRONT_END, MODEL = "tflm_audio_preprocessor_int8.tflite", "tflm_micro_speech_quantized.tflite"


def test_times_of_words(
    corpus: Path, sound: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "streaming.tflite"
    stream(read_file(corpus / "models" / MODEL)).graph.save(model)
    write_sound(tmp_path / "x.wav", sound)
    run(monkeypatch, str(corpus / "models" / FRONT_END), str(model), str(tmp_path / "x.wav"), "--threshold", "0.6")
    printed = capsys.readouterr().out.splitlines()
    want, above = [], -1
    for seconds, values in scores(corpus, sound):
        real = (values.reshape(-1).astype(np.float64) + 128) / 256
        loud = int(real.argmax()) if real.max() >= 0.6 else -1
        if loud not in (-1, above):
            want.append(f"{seconds:7.2f} s: class {loud}, score {real.max():.2f}")
        above = loud
    assert printed == want
    assert want
