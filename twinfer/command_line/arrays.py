"""Arrays of ``twinfer run``: reads .npy and .npz files, writes them whole, and sums up what they hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import IO, Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from rich.table import Table
from rich.text import Text

from twinfer.bench.measure.report import table
from twinfer.command_line.terminal import note
from twinfer.converter.quantize.samples import read_arrays
from twinfer.runtime.affine import quantised, stored
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Graph, Tensor
from twinfer.runtime.read.files import check_places, write_whole
from twinfer.runtime.run.inputs import random_inputs


def read_inputs(graph: Graph, given: Sequence[str], seed: int) -> list[Array]:
    """A value per input: from the files of ``given`` ("[name=]file"), else random from ``seed``. Real values for an
    input of quantised integers are quantised, which is noted on standard error.

    InvalidArgumentError for a file that cannot be read, a name, dtype or number of dimensions that does not
    fit, or too many files.
    """
    values = dict(zip(graph.inputs, random_inputs(graph, seed), strict=True))
    waiting = list(graph.inputs)
    for argument in given:
        for name, array in _arrays(argument):
            tensor = _pick(graph.inputs, waiting, name, argument)
            values[tensor] = _fit(tensor, array, argument)
    return [values[t] for t in graph.inputs]


def _fit(tensor: Tensor, array: Array, argument: str) -> Array:
    """The array, whose dimensions may differ from the tensor's, but not their number."""
    if array.ndim != len(tensor.shape):
        shape = list(array.shape)
        raise InvalidArgumentError(f"{argument}: it holds {shape}, {tensor} needs {len(tensor.shape)} dimensions")
    try:
        value = stored(array, tensor)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{argument}: {error}") from None
    if array.dtype.kind == "f" and quantised(tensor):
        least, most = tensor.limits
        how = "each channel by its own scale"
        if tensor.quant is not None and not tensor.quant.per_channel:
            how = f"round(x / {tensor.scale:.6g}) {tensor.zero:+}, from {least} to {most}"
        note(f"{argument}: its {array.dtype} are quantised as {tensor.name!r} takes them: {how}")
    return value


def _arrays(argument: str) -> list[tuple[str, Array]]:
    """(name, array) of every array of a file; the name is "" where the order decides."""
    name, path = _split(argument)
    loaded = read_arrays(path)
    return [(name, loaded)] if isinstance(loaded, np.ndarray) else list(loaded.items())


def _split(argument: str) -> tuple[str, str]:
    """Name and file of "name=file"; no name if the whole is a file's name."""
    name, equals, path = argument.rpartition("=")
    return (name, path) if equals and not os.path.exists(argument) else ("", argument)


def _pick(all_of: Sequence[Tensor], waiting: list[Tensor], name: str, argument: str) -> Tensor:
    """The tensor of that name, or without a name the next one that is waiting."""
    fits = [t for t in waiting if not name or t.name == name]
    if not fits:
        names = ", ".join(repr(t.name) for t in all_of)
        what = f"no tensor {name!r} is left" if name else "there are not so many"
        raise InvalidArgumentError(f"{argument}: {what}; the model has: {names}")
    waiting.remove(fits[0])
    return fits[0]


def constants_of(given: Sequence[str]) -> dict[str, Array]:
    """NAME=3, NAME=0.5,1 or NAME=FILE.npy -> name and value; InvalidArgumentError for anything else."""
    constants = {}
    for argument in given:
        name, _, value = argument.rpartition("=")
        array = read_arrays(value) if value.endswith(".npy") else _numbers(value)
        if not name or not isinstance(array, np.ndarray):
            raise InvalidArgumentError(f"--constant {argument}: it should look like NAME=3, NAME=1,2 or NAME=FILE.npy")
        constants[name] = array
    return constants


def _numbers(text: str) -> Array | None:
    """Numbers with commas between them: whole ones if all are; None if one is no number."""
    for kind in (int, float):
        with suppress(ValueError, OverflowError):
            return np.array([kind(number) for number in text.split(",")])
    return None


def check_outputs(wanted: Sequence[str], inputs: Sequence[str]) -> None:
    """InvalidArgumentError for "[name=]file"s that cannot be written or are inputs; asked before the run."""
    check_places([_split(argument)[1] for argument in wanted], [_split(argument)[1] for argument in inputs])


def _write_npz(tensors: Sequence[Tensor], values: Sequence[Array], file: IO[bytes]) -> None:
    """As ``numpy.savez``, but for any names, ``file`` too; InvalidArgumentError for two tensors of one name."""
    named = dict(zip(tensors, values, strict=True))
    names = [tensor.name for tensor in named]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidArgumentError(f"two outputs are called {twice[0]!r}: write each to a .npy file of its own")
    with ZipFile(file, "w") as archive:
        for tensor, value in named.items():
            with archive.open(ZipInfo(f"{tensor.name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(value), allow_pickle=False)


def write_outputs(graph: Graph, wanted: Sequence[str], values: Sequence[Array]) -> None:
    """Write outputs to the files of ``wanted`` ("[name=]file.npy", or "file.npz" for all), each whole or not at all."""
    waiting = list(graph.outputs)
    for argument in wanted:
        name, path = _split(argument)
        if path.endswith(".npz"):
            write_whole(path, partial(_write_npz, graph.outputs, values))
        else:
            tensor = _pick(graph.outputs, waiting, name, argument)
            value = values[graph.outputs.index(tensor)]
            write_whole(path, lambda file, value=value: np.save(file, value))  # type: ignore[misc]


def summary(graph: Graph, inputs: Sequence[Array], outputs: Sequence[Array]) -> Table:
    """A line for every input and output: its range, mean, and first values."""
    lines = table("", "<", "<name", "<type", "<shape", "min", "max", "mean", "<largest at", "<values")
    for kind, tensors, values in (("in", graph.inputs, inputs), ("out", graph.outputs, outputs)):
        for i, (tensor, value) in enumerate(zip(tensors, values, strict=True)):
            shape = "×".join(map(str, value.shape)) or "()"
            lines.add_row(f"{kind} {i}", Text(tensor.name), tensor.type, shape, *_statistics(value))
    return lines


def _statistics(value: Array) -> list[str]:
    if not value.size or value.dtype.kind not in "fiub":
        return ["-"] * 5
    at = np.unravel_index(int(np.argmax(value)), value.shape)
    first = " ".join(_short(x) for x in value.reshape(-1)[:6]) + (" …" if value.size > 6 else "")
    mean = _short(value.mean(dtype=np.float64))
    return [_short(value.min()), _short(value.max()), mean, "[" + ", ".join(str(int(i)) for i in at) + "]", first]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(int(value))
