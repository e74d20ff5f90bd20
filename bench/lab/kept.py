"""The trained networks of ``accuracy`` and ``compression``, one per fold, stored so that figures repeat.

``make networks``, or ``python -m twinfer.bench.lab.kept [SET ...]``, trains them anew in a quarter of an hour. The last
bits of a matrix product depend on CPU and threads, and after thousands of training steps the whole network does. So the
figures are about the networks in data/networks.npz. For every network the file has float16 [FOLDS, parameters], exactly
the values of its ONNX files; for every set it has a hash of samples and folds.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from rich.console import Console

from twinfer.bench.lab.datasets import DATASETS, Dataset
from twinfer.bench.lab.layers import Layer
from twinfer.bench.lab.networks import NETWORKS, fit, to_onnx
from twinfer.runtime.errors import ToolError, TwinferError
from twinfer.runtime.graph import Array

FILE = Path(__file__).resolve().parent / "data" / "networks.npz"

#: The seed of all randomness: folds, first weights, order of the samples.
SEED = 1


def network(data: Dataset, model: str, fold: int) -> bytes:
    """The ONNX file of the network that was trained without that fold: input "x" [1, channels, *space], output "logits"
    [1, classes]. ToolError if the stored networks are of other samples or folds."""
    arrays = _arrays(FILE)
    if not np.array_equal(arrays.get(data.name, b""), fingerprint(data)):
        raise ToolError(f"{FILE.name} belongs to other samples of {data.name}: make networks")
    layers = untrained(data, model)
    at = 0
    for value in (value for layer in layers for value in layer.state()):
        part = arrays[f"{data.name}_{model}"][fold, at : at + value.size]
        value[...] = part.reshape(value.shape)
        at += value.size
    return to_onnx(layers, data.x.shape[1:])


def untrained(data: Dataset, model: str) -> list[Layer]:
    """The layers with their first weights."""
    maker, _ = NETWORKS[data.name][model]
    shape = (*data.x.shape[2:], data.x.shape[1])
    return maker(shape, int(data.y.max()) + 1, np.random.default_rng(SEED))


def trained(data: Dataset, model: str) -> Array:
    """Float16 [FOLDS, parameters]: for every fold, the network trained on the others."""
    rows = []
    for train, _ in data.folds(SEED):
        layers = untrained(data, model)
        x = np.moveaxis(data.x[train], 1, -1)
        fit(layers, x, data.y[train], NETWORKS[data.name][model][1], np.random.default_rng(SEED))
        rows.append(np.concatenate([value.reshape(-1) for layer in layers for value in layer.state()]))
    return np.array(rows).astype(np.float16)


def fingerprint(data: Dataset) -> Array:
    """A hash of samples, classes and folds: uint8 [32]."""
    key = hashlib.sha256(data.x.tobytes() + data.y.tobytes())
    for _, held in data.folds(SEED):
        key.update(held.tobytes())
    return np.frombuffer(key.digest(), np.uint8)


@cache
def _arrays(path: Path) -> dict[str, Array]:
    if not path.exists():
        return {}
    with np.load(path) as file:
        return dict(file)


def _anew(name: str, progress: Console) -> dict[str, Array]:
    """The arrays to store for one set, with its networks trained anew."""
    data = DATASETS[name]()
    arrays = {name: fingerprint(data)}
    for model in NETWORKS[name]:
        with progress.status(f"training {name} {model}"):
            arrays[f"{name}_{model}"] = trained(data, model)
    return arrays


def main(argv: Sequence[str] | None = None) -> int:
    """Trains the networks of the sets; those of other sets stay. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m twinfer.bench.lab.kept", description="Train the kept networks anew."
    )
    parser.add_argument("sets", nargs="*", choices=[[], *DATASETS], metavar="SET", help=f"of {', '.join(DATASETS)}")
    arrays, progress = dict(_arrays(FILE)), Console(stderr=True, markup=False)
    try:
        for name in parser.parse_args(argv).sets or DATASETS:
            arrays |= _anew(name, progress)
    except TwinferError as error:
        progress.print(f"networks: {error}", style="red", soft_wrap=True)
        return 2
    np.savez_compressed(FILE, **arrays)  # type: ignore[arg-type]
    _arrays.cache_clear()
    return 0


if __name__ == "__main__":
    sys.exit(main())
