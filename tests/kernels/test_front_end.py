"""From a wave to a word: TFLM's audio front end and its network, step by step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from needs import deep_but

from twinfer.aot.build.firmware import build
from twinfer.aot.build.host import compile_plans
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.graph import Array
from twinfer.runtime.options import Mode
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST

RATE, WINDOW, HOP, FRAMES = 16000, 480, 320, 49


def speech(seconds: float) -> Array:
    """Something like speech, int16 at 16 kHz: syllables of a falling pitch, formants that move, hiss, pauses."""
    rng, t = np.random.default_rng(7), np.arange(int(RATE * seconds)) / RATE
    pitch = 2 * np.pi * np.cumsum(130 - 25 * t + 4 * np.sin(2 * np.pi * 5 * t)) / RATE
    formants = ((600 + 250 * np.sin(2 * np.pi * 2 * t), 90), (1500 + 500 * np.sin(2 * np.pi * 1.3 * t), 140))
    voice = np.zeros_like(t)
    for harmonic in range(1, 30):
        gain = sum(width**2 / (width**2 + (harmonic * 120 - at) ** 2) for at, width in formants)
        voice += gain * np.sin(harmonic * pitch)
    hiss = np.diff(rng.normal(size=t.size + 1))
    syllable = np.clip(np.sin(2 * np.pi * 3.1 * t), 0, 1)
    wave = 6000 * syllable * voice + 1500 * np.clip(-np.sin(2 * np.pi * 3.1 * t - 0.6), 0, 1) ** 4 * hiss
    wave += 20 * rng.normal(size=t.size)
    return np.clip(wave, -32768, 32767).astype(np.int16)


Engine = Callable[[list[Array]], Array]


def ours(engine: Session) -> Engine:
    poison(engine)
    engine.reset_variables()

    def once(inputs: list[Array]) -> Array:
        engine.feed(inputs)
        engine.run()
        return np.array(engine.outputs()[0])

    return once


def engines_of(path: Path, name: str) -> dict[str, Engine]:
    content = path.read_bytes()
    plan = make_plan(read(content), HOST)
    peer = open_peer("tflm", content, 1)
    compiled = compile_plans({name: plan})[name]
    return {
        "tflm": lambda inputs: np.asarray(peer(inputs)[0]),
        "interpreted": ours(Session(plan)),
        "compiled": ours(compiled),
    }


def test_a_wave_through_micro_speech(corpus: Path) -> None:
    """Frame by frame through TFLM's front end, then 49 frames at a time through its network: TFLM's bits."""
    front = engines_of(corpus / "models" / "tflm_audio_preprocessor_int8.tflite", "front")
    network = engines_of(corpus / "models" / "tflm_micro_speech_quantized.tflite", "network")
    wave = speech(1.6)
    features: list[Array] = []
    for start in range(0, wave.size - WINDOW + 1, HOP):
        frame = [wave[None, start : start + WINDOW]]
        rows = {name: engine(frame).reshape(-1) for name, engine in front.items()}
        for name, row in rows.items():
            assert np.array_equal(row, rows["tflm"]), f"{name}, frame {len(features)}"
        features.append(rows["tflm"])
    assert len(features) > FRAMES + 20
    assert np.std(features) > 20
    answers = set()
    for first in range(0, len(features) - FRAMES + 1, 5):
        spectrogram = [np.concatenate(features[first : first + FRAMES])[None]]
        scores = {name: engine(spectrogram).tobytes() for name, engine in network.items()}
        assert set(scores.values()) == {scores["tflm"]}, first
        answers |= set(scores.values())
    assert len(answers) > 1


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("core", deep_but(["cortex-m0", "cortex-m4", "cortex-m55"], "cortex-m4"))
def test_frames_on_microcontrollers(core: str, corpus: Path) -> None:
    """The state goes on from frame to frame, and a fresh one begins again, in both modes of emitted C."""
    graph = read((corpus / "models" / "tflm_audio_preprocessor_int8.tflite").read_bytes())
    card, wave = find(core), speech(0.2)
    frames = [wave[None, start : start + WINDOW] for start in range(0, wave.size - WINDOW + 1, HOP)]
    engine = ours(Session(make_plan(graph, HOST)))
    want = [engine([frame]).tobytes() for frame in frames]
    assert len(want) > 6
    assert want[0] != engine([frames[0]]).tobytes(), "the state tells"
    plan = make_plan(graph, card.target)
    projects = [emit(plan.printed(mode=mode), f"front_{mode}") for mode in get_args(Mode)]
    jobs = [Job([frame], i, fresh=k == 0) for i in range(len(projects)) for k, frame in enumerate(frames)]
    results = run_jobs(build(projects, card), jobs, count=False)
    assert [np.asarray(result.outputs[0]).tobytes() for result in results] == want * len(projects)
