"""The samples of a search: some to calibrate ranges on, others to judge settings on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twinfer.converter.quantize.samples import LABELS, Samples, load_arrays, samples_of
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Graph

#: Where one set serves both, one sample in QUARTER is for calibration, but no more than MOST.
QUARTER, MOST = 4, 200

#: With so many samples or fewer each half is judged by ranges of the other.
FEW = 128

#: Arrays by the name of the input, [samples, *shape].
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Data:
    """Samples to calibrate on and samples to judge on; none is in both. ``labels`` [judged, …] or None. ``sha256``: of
    all data given. ``turned``: the samples are few, so that each half is judged by ranges of the other."""

    calibration: Arrays
    judged: Arrays
    labels: Array | None
    sha256: str
    turned: bool = False

    @property
    def folds(self) -> tuple[tuple[Arrays, Arrays], ...]:
        """Samples that give ranges, and those that are judged by them."""
        one, other = self.calibration, self.judged
        return ((one, other), (other, one)) if self.turned else ((one, other),)


def gather(
    graph: Graph,
    data: Samples,
    calibration: Samples | None = None,
    *,
    seed: int = 0,
    count: int | None = None,
    few: bool = False,
) -> Data:
    """The samples of ``data``; a .npz file or arrays by name may have LABELS.

    Ranges are calibrated on ``calibration``, else on ``count`` samples drawn with the seed (by default a quarter, at
    most 200). All others are judged, but for those that equal a calibration sample. ``few``: half are for calibration,
    and each half is judged if there are no labels; where no others are left, all are. InvalidArgumentError for data
    that do not fit the model or are too few.
    """
    labels = None
    if isinstance(data, str | os.PathLike):
        data = load_arrays(graph, data)
    if isinstance(data, Mapping) and LABELS in data and LABELS not in {t.name for t in graph.inputs}:
        labels = np.asarray(data[LABELS])
        data = {name: value for name, value in data.items() if name != LABELS}
    rows = _stack(graph, data)
    total = len(next(iter(rows.values())))
    if labels is not None:
        labels = _check(labels, total)
    digest = hashlib.sha256(_digest(rows, labels))
    if calibration is not None:
        own = _stack(graph, calibration)
        digest.update(_digest(own, None))
        rest = _others(rows, own)
    else:
        half = min(-(-total // 2), MOST) if few and count is None else count
        drawn, rest = (np.arange(1), np.arange(0)) if few and total == 1 else _split(total, seed, half)
        own = _pick(rows, drawn)
        rest = rest[_others(_pick(rows, rest), own)]
    turned = few and labels is None and len(rest) > 0 and total <= FEW
    if not len(rest) and few:
        rest = np.arange(total)
    if not len(rest):
        distinct = len(set(_contents(rows)))
        raise InvalidArgumentError(
            f"all {total} samples ({distinct} distinct) are calibration samples: judging needs others: give some"
        )
    return Data(own, _pick(rows, rest), None if labels is None else labels[rest], digest.hexdigest(), turned)


def _stack(graph: Graph, source: Samples) -> dict[str, Array]:
    samples = list(samples_of(graph, source))
    return {t.name: np.stack([sample[t] for sample in samples]) for t in graph.inputs}


def _check(labels: Array, total: int) -> Array:
    """The labels as int64 or float64, one entry per sample."""
    count = len(labels) if labels.ndim else 0
    if count != total:
        raise InvalidArgumentError(f"there are {total} samples but {count} labels: give one per sample")
    if labels.dtype.kind not in "biuf":
        raise InvalidArgumentError(f"labels of dtype {labels.dtype}: give whole numbers (classes) or floats (targets)")
    if labels.dtype.kind != "f":
        return labels.astype(np.int64)
    if not np.isfinite(labels).all():
        at = [int(k) for k in np.argwhere(~np.isfinite(labels))[0]]
        raise InvalidArgumentError(f"the label at {at} is {labels[tuple(at)]}; leave such samples out")
    return labels.astype(np.float64)


def _split(total: int, seed: int, count: int | None) -> tuple[Array, Array]:
    """Numbers of the samples to calibrate on, in the order drawn, and of the others, in the data's."""
    count = max(1, min(total // QUARTER, MOST)) if count is None else count
    if not 0 < count < total:
        raise InvalidArgumentError(f"cannot calibrate on {count} of {total} samples and judge by others")
    drawn = np.random.default_rng(seed).permutation(total)[:count]
    return drawn, np.setdiff1d(np.arange(total), drawn)


def _pick(rows: Arrays, which: Array) -> dict[str, Array]:
    return {name: value[which] for name, value in rows.items()}


def _others(rows: Arrays, than: Arrays) -> Array:
    """Numbers of the rows that are not among those."""
    known = set(_contents(than))
    return np.array([i for i, row in enumerate(_contents(rows)) if row not in known], np.int64)


def _contents(rows: Arrays) -> list[tuple[bytes, ...]]:
    return [tuple(np.asarray(v).tobytes() for v in row) for row in zip(*rows.values(), strict=True)]


def _digest(rows: Arrays, labels: Array | None) -> bytes:
    named = dict(rows) if labels is None else {**rows, LABELS: labels}
    sha = hashlib.sha256()
    for name, value in named.items():
        sha.update(f"{name} {value.dtype} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes())
    return sha.digest()
