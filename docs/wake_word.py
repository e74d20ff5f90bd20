"""Hears words in a .wav file: ``python wake_word.py FRONT_END.tflite MODEL.tflite FILE.wav [--threshold 0.8]``.

The front end (TFLM's audio_preprocessor) makes a row of features of every 30 ms of sound, each ``--step`` after the
last: as many milliseconds as the model was trained with. The model takes rows: one of ``twinfer stream``, or any other
that keeps a state. Printed are the times at which the score of a class rises above the threshold.
"""

from __future__ import annotations

import argparse
import wave
from collections.abc import Iterator

import numpy as np

from twinfer import Interpreter, TwinferError

RATE, FRAME = 16_000, 480


def samples(path: str) -> np.ndarray:
    """The sound as int16 samples; the file must be mono, 16 kHz, 16 bits."""
    with wave.open(path) as file:
        if (file.getnchannels(), file.getframerate(), file.getsampwidth()) != (1, RATE, 2):
            raise SystemExit(f"{path}: mono sound of {RATE} Hz and 16 bits is needed")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def features(front_end: Interpreter, sound: np.ndarray, step: int) -> Iterator[np.ndarray]:
    """A row of features per frame; ``step`` samples are between them."""
    source, result = front_end.get_input_details()[0], front_end.get_output_details()[0]
    for start in range(0, len(sound) - FRAME + 1, step):
        front_end.set_tensor(source["index"], sound[start : start + FRAME].reshape(source["shape"]))
        front_end.invoke()
        yield front_end.get_tensor(result["index"])


def heard(model: Interpreter, rows: Iterator[np.ndarray], threshold: float) -> Iterator[tuple[int, int, float]]:
    """Rows so far, class and score whenever a score rises above the threshold."""
    scale, zero = model.get_output_details()[0]["quantization"]
    given, above = 0, -1

    def counted() -> Iterator[np.ndarray]:
        nonlocal given
        for row in rows:
            given += 1
            yield row

    for (scores,) in model.stream(counted()):
        real = (scores.reshape(-1).astype(np.float64) - zero) * (scale or 1)
        best = int(real.argmax())
        loud = best if real[best] >= threshold else -1
        if loud not in (-1, above):
            yield given, best, float(real[best])
        above = loud


def ready(path: str) -> Interpreter:
    model = Interpreter(model_path=path)
    model.allocate_tensors()
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("front_end", "model", "wav"):
        parser.add_argument(name)
    parser.add_argument("--threshold", type=float, default=0.8)
    parser.add_argument("--step", type=int, default=20, metavar="MS", help="from row to row (default: 20)")
    arguments = parser.parse_args()
    step = arguments.step * RATE // 1000
    try:
        front_end, model = ready(arguments.front_end), ready(arguments.model)
        rows = features(front_end, samples(arguments.wav), step)
        for count, word, score in heard(model, rows, arguments.threshold):
            print(f"{((count - 1) * step + FRAME) / RATE:7.2f} s: class {word}, score {score:.2f}")
    except (TwinferError, OSError, EOFError, wave.Error) as error:
        raise SystemExit(f"wake_word.py: {error}") from None


if __name__ == "__main__":
    main()
