"""Calibration: run the float graph over samples, and note what values every float tensor takes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.quantize.affine import Range
from twinfer.converter.quantize.histogram import Histogram
from twinfer.converter.quantize.samples import Samples, count_of, samples_of
from twinfer.runtime.errors import InvalidArgumentError, ModelWarning
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.op import Array
from twinfer.runtime.ops.recurrent.lstm import CELL, cells
from twinfer.runtime.options import Options
from twinfer.runtime.plan.planner import make_plan
from twinfer.runtime.run.session import Session

#: ``progress(done, total)`` after every sample; the total is None where only reading all samples would tell.
Progress = Callable[[int, int | None], None]

#: Least weight of a new batch in the moving average of the range (PyTorch's MovingAverageMinMaxObserver has it from
#: the second batch on; here the first 1 / MOVING batches count alike, so that the first one does not decide).
MOVING = 0.01

#: Samples of a batch: the average of the ranges of single samples would clip something in every other sample.
BATCH = 16


@dataclass
class Observed:
    """What one tensor was seen to hold: range, moving average of the batches' ranges, histogram, and mean.

    ``batch`` is the range of the batch that is being read, ``average`` that of the batches before. ``total`` is the sum
    over all samples, with the tensor's shape: bias correction needs the mean of every element. ``ranges`` keeps what
    methods have made of all this, by their name and the integer type.
    """

    low: float = np.inf
    high: float = -np.inf
    batch: Range = (np.inf, -np.inf)
    average: Range = (0.0, 0.0)
    count: int = 0
    histogram: Histogram = field(default_factory=Histogram)
    total: NDArray[np.float64] | None = None
    ranges: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def add(self, value: Array) -> None:
        """One sample's value, finite and not empty."""
        self.ranges.clear()
        low, high = float(value.min()), float(value.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.histogram.add(value)
        self.total = value.astype(np.float64) if self.total is None else self.total + value
        self.count += 1
        self.batch = min(self.batch[0], low), max(self.batch[1], high)
        if self.count % BATCH == 0:
            self._end_batch(self.count // BATCH)

    def _end_batch(self, batches: int) -> None:
        share = max(MOVING, 1 / batches)
        (low, high), (new_low, new_high) = self.average, self.batch
        self.average = low + share * (new_low - low), high + share * (new_high - high)
        self.batch = np.inf, -np.inf

    @property
    def moving(self) -> Range:
        """The moving average of the ranges of whole batches; all that was seen if there was none."""
        return self.average if self.count >= BATCH else (self.low, self.high)

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean of every element over the samples; zero if there were none."""
        return np.zeros(1) if self.total is None else self.total / self.count


#: What every float tensor of a graph that is not a constant was seen to hold.
Calibration = Mapping[Tensor, Observed]


def calibrate(graph: Graph, samples: Samples, progress: Progress | None = None) -> dict[Tensor, Observed]:
    """Run ``graph`` (float, all shapes known) on every sample, one at a time, and observe all its float tensors.

    Every sample is run from fresh state, but in graphs with SVDF samples are successive inputs of a stream.
    Memory does not grow with the number of samples; their order only changes the moving averages. Raises
    InvalidArgumentError for data that do not fit the graph's inputs (``samples_of``), and where a tensor takes a value
    that is no number; UnsupportedOperatorError for what twinfer has no kernel for. Warns with ModelWarning of inputs
    that never change, and of integers for a float input.
    """
    session = Session(make_plan(graph, options=Options(preserve_all=True)))
    seen = {t: Observed() for t in observable(graph)}
    lstms = {n.input(CELL): n for n in graph.nodes if n.op == "UNIDIRECTIONAL_SEQUENCE_LSTM"}
    total = count_of(graph, samples) if progress else None
    for i, sample in enumerate(samples_of(graph, samples, warn=True)):
        run(session, sample)
        for tensor, observed in seen.items():
            if tensor in lstms:  # a run goes through many cells and keeps the last
                observed.add(cells(lstms[tensor], session.view(lstms[tensor].input(0))))
            elif tensor in session.plan.offsets and tensor.size:
                observed.add(finite(session.view(tensor), tensor, i))
        if progress is not None:
            progress(i + 1, total)
    for tensor in graph.inputs:
        _warn_if_constant(tensor, seen.get(tensor))
    return seen


def _warn_if_constant(tensor: Tensor, seen: Observed | None) -> None:
    """A ModelWarning for an input that calibration never saw change: its range, and those behind it, are a guess."""
    if seen is not None and seen.low == seen.high and seen.count * tensor.size > 1:
        what = f"calibration data: input {tensor.name!r} is {seen.low:g} everywhere in all {seen.count} samples"
        warnings.warn(f"{what}; give data like those in use", ModelWarning, stacklevel=2)


def observable(graph: Graph) -> list[Tensor]:
    """The float tensors that are computed, fed or kept."""
    return [t for t in graph.tensors if t.type == "FLOAT32" and t.data is None]


def run(session: Session, sample: Mapping[Tensor, Array]) -> None:
    """One inference from fresh state; graphs with SVDF go on from the last one's, as samples are parts of a stream."""
    if not any(node.op == "SVDF" for node in session.plan.graph.nodes):
        session.reset_variables()
    for tensor, value in sample.items():
        session.view(tensor)[...] = value
    session.run()


def finite(value: Array, tensor: Tensor, i: int) -> Array:
    """The value; InvalidArgumentError if it is no number somewhere, with the tensor and the sample."""
    if not np.isfinite(value).all():
        bad = value[~np.isfinite(value)][0]
        raise InvalidArgumentError(
            f"{tensor} takes the value {bad} on calibration sample {i}: look at the model's weights and that sample"
        )
    return value
