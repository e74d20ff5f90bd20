"""Samples of a model's inputs, for calibration above all: from files, mappings or iterables, one at a time."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import numpy as np

from twinfer.converter.quantize.affine import Range
from twinfer.converter.quantize.masks import ENDLESS, far, maskable
from twinfer.runtime.errors import InvalidArgumentError, ModelWarning
from twinfer.runtime.graph import Array, Graph, Tensor
from twinfer.runtime.read.files import reading

#: A .npz or .npy file, arrays by input name with the samples along the first axis, or samples as dicts by input name. A
#: model with one input takes any name, or an array or its samples without a name.
Samples = str | os.PathLike[str] | Mapping[str, Any] | Iterable[Any]

#: The name of the array with the right answers. A search judges by it; calibration ignores it.
LABELS = "labels"

#: One value for every input of a graph.
Sample = Mapping[Tensor, Array]

FORMS = (
    "give a .npz or .npy file, a dict of arrays by input name with the samples along the first axis, or an iterable of "
    "dicts by input name; a model with one input takes the array itself"
)


def samples_of(graph: Graph, source: Samples, *, warn: bool = False) -> Iterator[Sample]:
    """The samples of ``source`` as arrays of the inputs' shapes and dtypes, one after the other.

    A sample may lack an input's leading dimension if that is 1. A model with one input needs no name.
    InvalidArgumentError names the input and the sample for names, shapes, dtypes and values (NaN, infinities) that do
    not fit, and for no samples at all.
    ``warn``: warn of an input that takes floats if the first sample gives it integers.
    """
    count, masks = 0, maskable(graph)
    for i, sample in enumerate(_raw(graph, source)):
        if set(sample) != {t.name for t in graph.inputs}:
            raise _misnamed(graph, sample, f"sample {i}")
        if warn and not i:
            _warn_of_integers(graph, sample)
        yield {t: _value(t, sample[t.name], i, masks.get(t, ENDLESS)) for t in graph.inputs}
        count += 1
    if not count:
        raise InvalidArgumentError(f"the data are empty, at least one sample is needed: {FORMS}")


def _warn_of_integers(graph: Graph, sample: Mapping[str, Any]) -> None:
    for tensor in graph.inputs:
        value = _array(sample[tensor.name], f"sample 0, input {tensor.name!r}")
        if tensor.dtype.kind == "f" and value.dtype.kind in "iub" and value.size:
            what = f"{tensor} is given {value.dtype} from {value.min()} to {value.max()} in sample 0"
            how = "give the floats that the model takes in use, scaled as in training"
            warnings.warn(f"calibration data: {what}; {how}", ModelWarning, stacklevel=4)


def need_to_last(source: Samples) -> None:
    """Raises InvalidArgumentError for an iterator: it can be read only once."""
    if isinstance(source, Iterator):
        raise InvalidArgumentError("the samples are read more than once: give a list, a dict of arrays or a file")


def count_of(graph: Graph, source: Samples) -> int | None:
    """How many samples there are; None if they must all be read to count them."""
    if isinstance(source, str | os.PathLike):
        source = load_arrays(graph, source)
    if isinstance(source, Mapping):
        return max((len(np.atleast_1d(v)) for v in source.values()), default=0)
    return len(source) if isinstance(source, Sized) else None


def _raw(graph: Graph, source: Samples) -> Iterator[Mapping[str, Any]]:
    if isinstance(source, str | os.PathLike):
        source = load_arrays(graph, source)
    if isinstance(source, Mapping):
        return _rows(graph, source)
    try:
        return _named(graph, iter(source))
    except TypeError:
        raise InvalidArgumentError(f"samples cannot be a {type(source).__name__}: {FORMS}") from None


def _named(graph: Graph, source: Iterator[Any]) -> Iterator[Mapping[str, Any]]:
    for i, sample in enumerate(source):
        if isinstance(sample, Mapping):
            yield _alone(graph, sample)
        elif len(graph.inputs) == 1:
            yield {graph.inputs[0].name: sample}
        else:
            what = f"sample {i} is a {type(sample).__name__}, not a dict of the inputs {_names(graph)}"
            raise InvalidArgumentError(f"{what}: {FORMS}")


def _alone(graph: Graph, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values by name. A model with one input gets its only value whatever that is called."""
    if len(graph.inputs) == len(values) == 1:
        return {graph.inputs[0].name: next(iter(values.values()))}
    return values


def _names(graph: Graph) -> str:
    return ", ".join(sorted(repr(t.name) for t in graph.inputs))


def read_arrays(path: str | os.PathLike[str]) -> Array | dict[str, Array]:
    """The array of a .npy file, or those of a .npz file by name; InvalidArgumentError if it is neither."""
    with reading(path, "a .npy or .npz file"), open(path, "rb") as file:
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content:
            return {name: content[name] for name in content.files}


def load_arrays(graph: Graph, path: str | os.PathLike[str]) -> Mapping[str, Array]:
    """The arrays of a .npz file, or of a .npy file for a graph with one input."""
    arrays = read_arrays(path)
    if not isinstance(arrays, np.ndarray):
        return arrays
    if len(graph.inputs) != 1:
        what = f"one array for {len(graph.inputs)} inputs; give a .npz file with {_names(graph)}"
        raise InvalidArgumentError(f"{os.fspath(path)}: {what}")
    return {graph.inputs[0].name: arrays}


def _rows(graph: Graph, arrays: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Arrays with the samples along their first axis, cut into samples."""
    inputs = {t.name for t in graph.inputs}
    wanted = _alone(graph, {name: value for name, value in arrays.items() if name in inputs or name != LABELS})
    whole = {name: _array(value, f"input {name!r}") for name, value in wanted.items()}
    if set(whole) != inputs:
        raise _misnamed(graph, whole, "the data")
    counts = {name: len(value) if value.ndim else 0 for name, value in whole.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name!r} {count}" for name, count in counts.items())
        raise InvalidArgumentError(f"every input needs as many samples as the others, there are: {said}")
    for i in range(next(iter(counts.values()), 0)):
        yield {name: value[i] for name, value in whole.items()}


def _array(given: Any, where: str) -> Array:
    try:
        return np.asarray(given)
    except (TypeError, ValueError) as error:  # lists of different lengths, above all
        raise InvalidArgumentError(f"{where}: is no array: {error}") from None


def _misnamed(graph: Graph, given: Iterable[str], what: str) -> InvalidArgumentError:
    have = ", ".join(sorted(map(repr, given)))
    return InvalidArgumentError(f"{what} must hold the model's inputs {_names(graph)}, not {have or 'none'}")


def _value(tensor: Tensor, given: Any, i: int, span: Range) -> Array:
    """The value in the tensor's shape and dtype. Beyond the ends of the span it may be infinite."""
    where = f"sample {i}, input {tensor.name!r}"
    value = _array(given, where)
    if value.shape == tensor.shape[1:] and tensor.shape[:1] == (1,):
        value = value[None]
    if value.shape != tensor.shape:
        short = f" or {list(tensor.shape[1:])}" if tensor.shape[:1] == (1,) else ""
        raise InvalidArgumentError(f"{where}: shape {list(value.shape)}, the model takes {list(tensor.shape)}{short}")
    if not np.can_cast(value.dtype, tensor.dtype, "same_kind"):
        known = "" if tensor.quant is None else ": it is quantised already"
        raise InvalidArgumentError(f"{where}: dtype {value.dtype}, the model takes {tensor.dtype}{known}")
    with np.errstate(over="ignore"):
        value = value.astype(tensor.dtype)
    bad = ~np.isfinite(value) & ~np.any(far(value, span), 0) if value.dtype.kind == "f" else np.zeros(1, bool)
    if bad.any():
        at = [int(k) for k in np.argwhere(bad)[0]]
        raise InvalidArgumentError(f"{where}: the value at {at} is {value[tuple(at)]}; leave such samples out")
    return value
