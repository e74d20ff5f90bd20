"""What a visitor of the demo does with a model: the kind of its input, by its shape, and the names of its classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twinfer.runtime.graph import Graph
from twinfer.runtime.op import Shape

#: Draw a digit, speak a word, show something to the camera, move sliders.
Kind = Literal["digit", "words", "camera", "numbers"]

#: What is made of sound: MLPerf Tiny's spectrogram of a second, TFLM's features of a second, or its newest features.
Ear = Literal["spectrogram", "window", "stream", ""]

#: The shape of MLPerf Tiny's spectrogram, of 49 moments; so many moments of TFLM's 40 features are a window; a model
#: that keeps a state takes a few.
WORDS: Shape = (1, 49, 10, 1)
MOMENTS, FEATURES, FEW = 49, 40, 4


@dataclass(frozen=True)
class Task:
    """``labels`` are the classes in the order of the first output; none: they have numbers."""

    kind: Kind
    labels: tuple[str, ...] = ()
    ear: Ear = ""


_DIGITS = tuple("0123456789")

#: What models of well-known data sets answer, by their input's shape and the number of their classes: MLPerf Tiny's
#: and TFLM's (Speech Commands, Visual Wake Words, CIFAR-10).
_LABELS: dict[tuple[Shape, int], tuple[str, ...]] = {
    (WORDS, 12): (
        "down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes", "(silence)", "(another word)",
    ),
    ((1, 96, 96, 3), 2): ("nobody", "a person"),
    ((1, 96, 96, 1), 2): ("nobody", "a person"),
    ((1, 32, 32, 3), 10): (
        "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
    ),
}  # fmt: skip


def task_of(graph: Graph) -> Task:
    """By the model's one input; a model with several has sliders."""
    free = [tensor for tensor in graph.inputs if tensor.data is None]
    if len(free) != 1 or not graph.outputs:
        return Task("numbers")
    shape, classes = free[0].shape, graph.outputs[0].size
    labels = _LABELS.get((shape, classes), ())
    if shape == WORDS:
        return Task("words", labels, "spectrogram")
    if free[0].size == MOMENTS * FEATURES and shape[-1] in (free[0].size, FEATURES, 1):
        return Task("words", ("(silence)", "(another word)", "yes", "no") if classes == 4 else (), "window")
    match shape:
        case (1, moments, 40) | (1, 1, moments, 40) if moments <= FEW:
            return Task("words", ("the wake word",) if classes == 1 else (), "stream")
        case (1, height, width, *channels) if height == width and channels in ([], [1]) and height in (8, 28):
            return Task("digit", _DIGITS if classes == len(_DIGITS) else ())
        case (1, height, width, 1 | 3) if min(height, width) >= 16:
            return Task("camera", labels)
    return Task("numbers")
