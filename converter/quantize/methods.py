"""Methods that choose a range from what calibration has seen, by name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.quantize.affine import LIMITS, Range, activation
from twinfer.converter.quantize.observed import HALF, Observed
from twinfer.runtime.affine import quantize
from twinfer.runtime.errors import InvalidArgumentError

#: Share of the values, in percent, that "percentile" keeps inside the range; "percentile-99.9" sets another.
PERCENTILE = 99.99

#: Candidates for one end of the range in "mse", and thresholds in "entropy".
CANDIDATES = 100

#: The greatest share of the values that "entropy" clips, and the share of the quantised distribution that it gives to
#: all bins alike, so that clipped values count.
CLIPPED, SMOOTHING = 1e-3, 1e-4

#: (what was observed, integer type) -> the range that the type's steps cover.
Method = Callable[[Observed, str], Range]

#: How often "extended" may be exceeded by the next sample.
MISSED = 0.01

#: How much wider a range of 16 bits is than what calibration has seen. It costs 0.6 of a bit; a value that is clipped
#: costs far more: a mel front end gained 17 dB on samples that were held out.
ROOM = 1.5


def minmax(seen: Observed, type: str) -> Range:
    """All that was seen; in 16 bits, which have steps to spare, with ROOM for what was not seen."""
    room = 1.0 if _coarse(type) else ROOM
    return seen.low * room, seen.high * room


def extended(seen: Observed, type: str) -> Range:
    """All that was seen, and as much more as a sample not seen exceeds in MISSED of the cases only.

    The ends of the samples that reach farthest are taken for a tail that falls exponentially: of n samples the next one
    exceeds the farthest by x with the probability exp(-x / b) / (n + 1), where b is the mean excess over the nearest of
    these ends. So the fewer samples there are, and the more they differ, the more room is left.
    """
    low, high = minmax(seen, type)
    return min(low, -_next([-end for end in seen.lows], seen.count)), max(high, _next(seen.highs, seen.count))


def _next(ends: Sequence[float], count: int) -> float:
    """Where the tail of samples' ends, the farthest first, is exceeded in MISSED of the cases."""
    known = ends[: max(1, count // 2)]
    if len(known) < 2:
        return ends[0]
    excess = sum(known[:-1]) / (len(known) - 1) - known[-1]
    return ends[0] + excess * max(0.0, math.log(1 / (MISSED * (count + 1))))


def moving_average(seen: Observed, type: str) -> Range:
    """Exponential moving average of the ranges of batches. Source: Jacob et al. 2018, section 3.1."""
    return seen.moving


def percentile(seen: Observed, type: str, kept: float = PERCENTILE) -> Range:
    """The range that leaves out (100 - kept) / 2 percent of the values at either end, never zero."""
    counts = seen.histogram.counts.copy()
    counts[HALF] += seen.histogram.zeros
    share = np.cumsum(counts) / max(1, counts.sum())
    tail = (100 - kept) / 200
    first, last = int(np.searchsorted(share, tail, "right")), int(np.searchsorted(share, 1 - tail))
    edges = seen.histogram.edges()
    return max(seen.low, float(edges[first])), min(seen.high, float(edges[last + 1]))


def mse(seen: Observed, type: str) -> Range:
    """The range of least mean squared error between the values and what their integers stand for.

    Coordinate descent: each end in turn tries CANDIDATES shares of itself, twice. Values count as the middle of their
    bin; exact zeros have no error. Source: Banner et al. 2019, by search in place of their closed form.
    """
    if not seen.histogram.counts.any() or not _coarse(type):
        return minmax(seen, type)
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    shares = np.arange(1, CANDIDATES + 1)[::-1] / CANDIDATES
    counts, values = _values(seen)
    best_low, best_high = low, high

    def error(limits: Range) -> float:
        """As by ``quantize`` and ``dequantize``, without whole numbers in between: this runs hundreds of times."""
        quant = activation(limits, type)
        scale, zero = float(quant.scale[0]), int(quant.zero_point[0])
        steps = values / scale
        whole = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
        off = scale * (np.clip(whole + zero, *LIMITS[type]) - zero) - values
        return float(counts @ (off * off))

    for _ in range(2):
        best_low = min((low * s for s in shares), key=lambda end: error((end, best_high))) if low else low
        best_high = min((high * s for s in shares), key=lambda end: error((best_low, end))) if high else high
    return float(best_low), float(best_high)


def _values(seen: Observed) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Counts of the bins that are not empty, and a value for each. Values are cut to what was seen: that matters if
    many are the greatest one (6 behind RELU6), where its bin begins."""
    used = seen.histogram.counts.nonzero()[0]
    return seen.histogram.counts[used], np.clip(seen.histogram.centres()[used], seen.low, seen.high)


def entropy(seen: Observed, type: str) -> Range:
    """The range of least Kullback-Leibler divergence between the values' distribution and its quantised one.

    Clips at a magnitude, but never more than CLIPPED of the values. Exact zeros, which ReLU makes, are left out: they
    are exact in every range. Source: Migacz, "8-bit Inference with TensorRT", 2017, with the steps of the asymmetric
    type in place of 128 magnitudes, and over all values. In the source, clipped values move to the outermost bin of P:
    clipping much then costs little if steps are as fine as bins. That favours narrow ranges where values gather in
    single bins (the background of an image behind a first layer), which wide steps spread over their neighbours.
    CLIPPED guards against the same.
    """
    if not seen.histogram.counts.any() or not _coarse(type):
        return minmax(seen, type)
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    peak, (counts, values) = max(-low, high), _values(seen)
    candidates = []
    for share in np.linspace(1, 1 / 16, CANDIDATES):  # the whole range, then narrower ones
        limits = max(low, -peak * share), min(high, peak * share)
        if counts[(values < limits[0]) | (values > limits[1])].sum() / counts.sum() <= CLIPPED:
            candidates.append(limits)
    return min(candidates, key=lambda limits: _divergence(seen, limits, type))


def _divergence(seen: Observed, limits: Range, type: str) -> float:
    """KL(P || Q): P is the distribution over all bins, Q the one that the quantised values give.

    Q spreads every step evenly over its bins in the range; the outermost steps include the clipped values. Bins outside
    the range have only SMOOTHING, which Q has everywhere.
    """
    counts, values = _values(seen)
    steps = quantize(values, activation(limits, type), *LIMITS[type]) - LIMITS[type][0]
    inside = (values >= limits[0]) & (values <= limits[1])
    sums, bins = np.bincount(steps, counts), np.bincount(steps, inside)
    q = np.where(inside, (sums / np.maximum(bins, 1))[steps], 0.0)
    p, q = counts / counts.sum(), (1 - SMOOTHING) * q / q.sum() + SMOOTHING / q.size
    return float(p @ np.log(p / q))


def _coarse(type: str) -> bool:
    """Whether the type has fewer steps than the histogram has bins. If not, it cannot tell ranges apart."""
    least, most = LIMITS[type]
    return most - least < 2 * HALF


METHODS: Mapping[str, Method] = {
    "minmax": minmax,
    "extended": extended,
    "moving-average": moving_average,
    "percentile": percentile,
    "mse": mse,
    "entropy": entropy,
}


def method(name: str) -> Method:
    """The method of that name, or "percentile-P" for one that keeps P percent; InvalidArgumentError for other names."""
    if name in METHODS:
        return METHODS[name]
    kind, _, kept = name.partition("-")
    if kind != "percentile" or not re.fullmatch(r"\d+(\.\d+)?", kept) or not 50 < float(kept) <= 100:
        known = f"{', '.join(METHODS)}, and percentile-P that keeps P percent, 50 < P <= 100"
        raise InvalidArgumentError(f"{name!r} is no method of calibration; there are: {known}")
    return partial(percentile, kept=float(kept))
