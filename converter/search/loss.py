"""The loss of a quantised model: its answers or errors beside the float model's, over the judged samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from twinfer.converter.quantize.compare import decibels
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Tensor

#: The least signal-to-noise ratio of every output where no loss is stated: errors are 1/18 of the values.
MIN_SNR = 25.0

METRICS = ("auto", "answers", "error")

#: How sure it is that other samples reach the ratio, too, if they are of the same kind.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Judge:
    """Compares outputs, each [samples, *shape], with what is ``wanted`` of them.

    "answers": an answer is the arg-max along the last axis (of an integer output: the value itself). ``wanted`` are the
    right answers: labels, or the float model's own. The score is the share of right answers; the loss is the float
    model's score minus the quantised one's. "error": ``wanted`` are targets or the float model's outputs; the score is
    the relative squared error, the sum of squared differences over that of the targets' squared distances from their
    mean over the samples (1 - R^2), of the worst output; the loss is the quantised model's minus the float model's, of
    the output that loses most. ``floats`` are the float model's outputs.
    """

    metric: str
    wanted: tuple[Array, ...]
    floats: tuple[Array, ...]

    def score(self, outputs: Sequence[Array]) -> float:
        return self._right(outputs) / self.wanted[0].size if self.metric == "answers" else max(self._errors(outputs))

    def loss(self, outputs: Sequence[Array]) -> float:
        """The loss; negative if these outputs are better."""
        if self.metric == "error":
            pairs = zip(self._errors(outputs), self._errors(self.floats), strict=True)
            return max(error - own for error, own in pairs)
        return (self._right(self.floats) - self._right(outputs)) / self.wanted[0].size

    def snr_db(self, outputs: Sequence[Array]) -> float:
        """Ratio of the energies of the float model's output and of the differences, in dB, of the worst output, as in
        ``report.compare``."""
        pairs = zip(outputs, self.floats, strict=True)
        return min(decibels(_distance(wanted, 0), _distance(y, wanted)) for y, wanted in pairs)

    def sure_db(self, outputs: Sequence[Array]) -> float:
        """The ratio of the worst output that as many other samples reach, too, as far as the spread of these tells: the
        upper end of a one-sided prediction interval of CONFIDENCE for the ratio of noise to signal. Sources: Cochran,
        "Sampling Techniques", 1977, section 6.3, for the variance of a ratio of two means; Hall, "On the Removal of
        Skewness by Transformation", 1992, for noise of which few samples have most."""
        pairs = zip(outputs, self.floats, strict=True)
        return min(_sure(_each(wanted, 0), _each(y, wanted)) for y, wanted in pairs)

    def first(self, count: int) -> Judge:
        """The judge of the first samples."""
        return Judge(self.metric, tuple(w[:count] for w in self.wanted), tuple(f[:count] for f in self.floats))

    @property
    def float_score(self) -> float:
        return self.score(self.floats)

    @property
    def step(self) -> float:
        """The least difference between two losses; 0 if any is possible."""
        return 1 / self.wanted[0].size if self.metric == "answers" else 0.0

    def _right(self, outputs: Sequence[Array]) -> int:
        return int((answers(outputs[0]) == self.wanted[0]).sum())

    def _errors(self, outputs: Sequence[Array]) -> list[float]:
        """Shares of the spread; of the energy where one sample alone was judged."""
        spreads = (_spread(wanted) or _distance(wanted, 0) or 1.0 for wanted in self.wanted)
        return [_distance(y, w) / spread for y, w, spread in zip(outputs, self.wanted, spreads, strict=True)]


@dataclass(frozen=True)
class Goal:
    """What is good enough: a loss of at most ``max_loss``; where that is None, a signal-to-noise ratio of every output
    that is surely at least ``min_snr`` (``Judge.sure_db``)."""

    max_loss: float | None = None
    min_snr: float = MIN_SNR

    def badness(self, loss: float, sure_db: float) -> float:
        """How bad a model is; less is better."""
        return -sure_db if self.max_loss is None else loss

    def met(self, loss: float, sure_db: float) -> bool:
        return sure_db >= self.min_snr if self.max_loss is None else loss <= self.max_loss

    def __str__(self) -> str:
        return f"{self.min_snr:g} dB or more" if self.max_loss is None else f"a loss of at most {self.max_loss:g}"


def answers(output: Array) -> Array:
    """[samples, …, n] -> arg-max [samples, …]; integers are answers already."""
    return output if output.dtype.kind in "iub" else np.asarray(output.argmax(-1))


def _distance(x: Array, y: Array | float) -> float:
    return float(np.square(np.subtract(x, y, dtype=np.float64)).sum())


def _each(x: Array, y: Array | float) -> Array:
    """``_distance`` of every sample."""
    difference = np.subtract(x, y, dtype=np.float64).reshape(len(x), -1)
    return np.asarray(np.square(difference).sum(1))


def _sure(signal: Array, noise: Array) -> float:
    count, whole = len(signal), float(signal.sum())
    if count < 2 or not whole > 0 or not np.isfinite(noise).all():
        return decibels(whole, float(noise.sum()))
    ratio, t = float(noise.sum()) / whole, student(count - 1)
    off = noise - ratio * signal
    square = float(np.square(off).sum()) / (count - 1)
    skew = max(0.0, float((off**3).mean())) / (6 * square) if square else 0.0
    error = t * math.sqrt(2 * count * square)  # of these samples, and of as many others
    return decibels(1.0, ratio + (error + (1 + 2 * t * t) * skew) / whole)


def student(freedom: int) -> float:
    """The value that Student's t exceeds with a probability of 1 - CONFIDENCE, by the first terms of the expansion of
    Cornish and Fisher: within 2 % from 3 degrees of freedom on, too small for fewer."""
    z = NormalDist().inv_cdf(CONFIDENCE)
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _spread(wanted: Array) -> float:
    return _distance(wanted, wanted.mean(0, dtype=np.float64))


def judge(outputs: Sequence[Tensor], floats: Sequence[Array], labels: Array | None, metric: str) -> Judge:
    """The judge for a model with these ``outputs`` that gives ``floats`` in float32, [samples, *shape] each.

    ``labels``: integers are right answers, floats are targets; None: the float model's own. ``metric``: "auto" takes
    answers if labels are integers, or if there are none and the model has one output with answers. InvalidArgumentError
    for labels and metrics that do not fit.
    """
    if metric not in METRICS:
        raise InvalidArgumentError(f"{metric!r} is no metric; there are: {', '.join(METRICS)}")
    for tensor, value in zip(outputs, floats, strict=True):
        if not np.isfinite(value).all():
            raise InvalidArgumentError(f"the float model's {tensor} is not finite on every judged sample")
    if labels is not None and len(outputs) != 1:
        raise InvalidArgumentError(f"labels are for models of one output, this one has {len(outputs)}: leave them out")
    metric = _metric(outputs, labels, metric)
    wanted = _answers(outputs, floats, labels) if metric == "answers" else _targets(outputs, floats, labels)
    return Judge(metric, wanted, tuple(floats))


def _metric(outputs: Sequence[Tensor], labels: Array | None, metric: str) -> str:
    if labels is not None:
        own = "answers" if labels.dtype.kind in "iu" else "error"
        if metric not in ("auto", own):
            kind = "whole numbers, which are classes" if own == "answers" else "floats, which are targets"
            raise InvalidArgumentError(f"the labels are {kind}: the metric can only be {own!r}, not {metric!r}")
        return own
    answer = len(outputs) == 1 and (outputs[0].type != "FLOAT32" or outputs[0].shape[-1:] > (1,))
    if metric == "answers" and not answer:
        what = ", ".join(map(str, outputs))
        raise InvalidArgumentError(f"an arg-max takes one output with a last axis of several elements, not {what}")
    return metric if metric != "auto" else "answers" if answer else "error"


def _answers(outputs: Sequence[Tensor], floats: Sequence[Array], labels: Array | None) -> tuple[Array]:
    own = answers(floats[0])
    if labels is None:
        return (own,)
    (tensor,) = outputs
    if labels.size != own.size:
        need = f"{own[0].size} per sample"
        raise InvalidArgumentError(f"labels {list(labels.shape)}: {tensor} gives {need}, {list(own.shape)} in all")
    classes = tensor.shape[-1] if tensor.type == "FLOAT32" else None
    if classes is not None and not (labels.min() >= 0 and labels.max() < classes):
        span = f"{labels.min()} to {labels.max()}"
        raise InvalidArgumentError(f"labels are {span}, but {tensor} has classes 0 to {classes - 1}")
    return (labels.reshape(own.shape),)


def _targets(outputs: Sequence[Tensor], floats: Sequence[Array], labels: Array | None) -> tuple[Array, ...]:
    wanted: Sequence[Array] = floats
    if labels is not None:
        if labels.size != floats[0].size:
            need = f"{floats[0][0].size} targets per sample; classes must be whole numbers"
            raise InvalidArgumentError(f"labels {labels.dtype} {list(labels.shape)}: {outputs[0]} needs {need}")
        wanted = [labels.reshape(floats[0].shape)]
    for tensor, value in zip(outputs, wanted, strict=True):
        if not _spread(value) > 0:
            raise InvalidArgumentError(f"what is wanted of {tensor} is the same on every judged sample: give others")
    return tuple(np.asarray(value, np.float64) for value in wanted)
