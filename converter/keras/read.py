"""A Keras model -> ``Graph``, float, in TFLite's terms; NHWC as Keras has it."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import keras

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.finish import change_tensors, renamer, sign, with_outputs
from twinfer.converter.keras.call import CARRIED
from twinfer.converter.keras.walk import Walk
from twinfer.converter.open_shapes import OpenShapes
from twinfer.runtime.errors import InvalidArgumentError, ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph
from twinfer.runtime.read.files import check_file
from twinfer.runtime.shapes import EXTENT_LIMIT, shape_of


def read_keras(model: Any, batch: int, shapes: Mapping[str, Sequence[int]]) -> Graph:
    with warnings.catch_warnings():  # Keras reads PyTorch's tensors in a way that NumPy 2 calls old
        warnings.filterwarnings("ignore", "__array__ implementation doesn't accept a copy", DeprecationWarning)
        model = loaded(model)
        g = Emitter(model.name)
        sources, results = named_ends(model)
        inputs = [g.builder.input(*described) for described in _inputs(sources, batch, shapes)]
        walk = Walk(g, list(sources.values()), inputs)
        outputs = walk.run(list(results.values()))
        walk.problems.report()
        graph, taken = with_outputs(g, list(zip(results, outputs, strict=True)))
        name = renamer(graph, {**walk.names, **{t: t.name for t in graph.inputs}, **taken})  # as the layers are called
        return sign(change_tensors(graph, lambda t: replace(t, name=name(t))))


def loaded(model: Any) -> keras.Model:
    """The model, or that of a .keras file; InvalidArgumentError for what is neither, ModelError for damaged files."""
    if isinstance(model, str | os.PathLike):
        return _load(os.fspath(model))
    if not isinstance(model, keras.Model):
        what = f"{type(model).__module__}.{type(model).__qualname__}"
        raise InvalidArgumentError(f"from_keras takes a keras.Model or the path of a .keras file, no {what}")
    return model


def _load(path: str) -> keras.Model:
    check_file(path)
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # whatever Keras and its archive readers meet in a damaged file
        if (unknown := re.search(r"Could not locate (?:class|function|object) '?([^'. ]+)", str(error))) is not None:
            raise UnsupportedOperatorError(
                f"{path} has a class or function of its own, {unknown[1]!r}, whose code is not in the file: load it "
                f"in Python with keras.saving.load_model(path, custom_objects={{{unknown[1]!r}: ...}}), and give the "
                "model to twinfer.from_keras"
            ) from error
        if "Lambda" in str(error) and "safe_mode" in str(error):
            raise UnsupportedOperatorError(
                f"{path} has a Lambda layer with Python code, which is not run from a file. If you trust it, load it "
                "with keras.saving.load_model(path, safe_mode=False), and give the model to twinfer.from_keras"
            ) from error
        raise ModelError(f"{path} cannot be loaded by Keras {keras.__version__}: {error}") from error


def named_ends(model: keras.Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """Symbolic inputs and outputs by the model's names for them."""
    try:
        given = getattr(model, "input", None), getattr(model, "output", None)  # a Sequential has neither
        inputs, outputs = _called(model.inputs, given[0]), _called(model.outputs, given[1])
    except (AttributeError, TypeError, ValueError):
        inputs, outputs = {}, {}
    if not inputs or not outputs:
        raise InvalidArgumentError(f"model {model.name!r} has no inputs yet: give it a keras.Input, or build it")
    return inputs, outputs


def _called(tensors: Sequence[Any], given: Any) -> dict[str, Any]:
    """The tensors by the keys of the dict that the model was given them in, else by the layers that they come from."""
    keys = isinstance(given, dict) and len(given) == len(tensors)
    if keys:
        return dict(zip(map(str, keras.tree.flatten({key: key for key in given})), tensors, strict=True))
    named, names = dict[str, Any](), [str(tensor._keras_history.operation.name) for tensor in tensors]
    for name, tensor in zip(names, tensors, strict=True):  # names that occur more than once get numbers
        numbered = (f"{name}_{i}" for i in count())
        free = next(n for n in numbered if n not in names and n not in named) if names.count(name) > 1 else name
        named[free] = tensor
    return named


def _inputs(
    tensors: Mapping[str, Any], batch: int, shapes: Mapping[str, Sequence[int]]
) -> list[tuple[str, str, tuple[int, ...]]]:
    if batch < 1:
        raise InvalidArgumentError(f"batch is {batch}; it must be at least 1")
    if unknown := set(shapes) - set(tensors):
        raise InvalidArgumentError(f"there is no input {sorted(unknown)[0]!r}; there are: {', '.join(tensors)}")
    for name, tensor in tensors.items():
        if tensor.dtype not in CARRIED:
            raise UnsupportedOperatorError(f"input {name!r} of type {tensor.dtype}; TFLite has no such type")
    found = {name: _shape(name, t, batch, shapes.get(name)) for name, t in tensors.items()}
    if opened := {name: shape for name, shape in found.items() if None in shape}:
        raise OpenShapes({name: ["?" if d is None else d for d in shape] for name, shape in opened.items()})
    return [(name, CARRIED[t.dtype], tuple(int(d or 0) for d in found[name])) for name, t in tensors.items()]


def _shape(name: str, tensor: Any, batch: int, given: Sequence[int] | None) -> tuple[int | None, ...]:
    """The input's shape, None for dimensions that stay open."""
    stated = tuple(tensor.shape)
    shape = shape_of(given) if given is not None else (*(d or batch for d in stated[:1]), *stated[1:])
    fits = len(shape) == len(stated) and all(s in (None, d) for s, d in zip(stated, shape, strict=True))
    if not fits or any(d is not None and not 0 < d < EXTENT_LIMIT for d in shape):
        raise InvalidArgumentError(f"input {name!r} {list(stated)} cannot have the shape {list(shape)}")
    return shape
