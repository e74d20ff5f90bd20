"""Reads models of all forms as graphs with all shapes known."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twinfer.converter import TO_CONVERT, OnnxFile
from twinfer.converter.composites import without_composites
from twinfer.converter.freeze import freeze, inputs_by_name
from twinfer.converter.open_shapes import MOST_BYTES, Dims, OpenShapes, workable
from twinfer.converter.passes._rewrite import swap_tensors
from twinfer.runtime.errors import InvalidArgumentError, ModelError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.metadata import without_plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.shapes import infer_shapes, is_open, shape_of

#: A Graph, a path of a .tflite, .onnx, .keras or .pt2 file, an onnx.ModelProto, or an ``OnnxFile``.
Source = Any

Shapes = Mapping[str, Sequence[int]]


def read_source(source: Source, shapes: Shapes | None = None, constants: Mapping[str, Any] | None = None) -> Graph:
    """The graph of a source with all shapes known, and some inputs frozen to ``constants``; a memory plan for TFLM that
    it brings along is left out.

    InvalidArgumentError for inputs that need a shape in ``shapes``, and for constants that do not fit.
    """
    if isinstance(source, str | os.PathLike):
        check_kind(source)
        source = source if _suffix(source) in TO_CONVERT else read_file(source)
    if isinstance(source, Graph):
        return _close(freeze(without_composites(without_plan(source)), constants or {}), shapes or {})
    try:
        return infer_shapes(_read(source, shapes, constants), keep_half=True)
    except OpenShapes as error:
        found = _shapes_for(source, error, shapes, constants)
        raise OpenShapes(error.inputs, found) from None


def _shapes_for(
    source: Source, error: OpenShapes, shapes: Shapes | None, constants: Mapping[str, Any] | None
) -> Shapes | None:
    """Shapes of the open inputs with which the source can be read, found by trying; None if none are, or if that would
    take long."""
    sizes = [os.path.getsize(file) for file in files_of(source) if os.path.isfile(file)]
    if sum(sizes) > MOST_BYTES:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return workable(error.inputs, lambda tried: _read(source, {**(shapes or {}), **tried}, constants))


_TORCH = "give the module itself to twinfer.from_torch(module, example_inputs), or save it by torch.export.save as .pt2"
_PICKLED = f"weights or pickled code of PyTorch: {_TORCH}"
_SCRIPT = f"TorchScript, which PyTorch exports to nothing else: {_TORCH}"
_KERAS = "Keras's old format: load it in Keras and save it as .keras, or give the model to twinfer.from_keras"
_TENSORFLOW = (
    "TensorFlow's: make a .tflite file of it by tf.lite.TFLiteConverter.from_saved_model(folder).convert(), or "
)
_TENSORFLOW += "an .onnx file by python -m tf2onnx.convert --saved-model FOLDER --output model.onnx"

#: Suffixes of files that are not whole models or cannot be read here -> what to do with them.
ELSEWHERE = {".pt": _PICKLED, ".pth": _PICKLED, ".ckpt": _PICKLED, ".jit": _SCRIPT, ".torchscript": _SCRIPT}
ELSEWHERE |= {".h5": _KERAS, ".hdf5": _KERAS, ".pb": _TENSORFLOW}


def check_kind(path: str | os.PathLike[str]) -> None:
    """Raises InvalidArgumentError for a model in a form that cannot be read here, and says how to convert it."""
    suffix = _suffix(path)
    if suffix in ELSEWHERE:
        raise InvalidArgumentError(f"{os.fspath(path)}: {suffix} is {ELSEWHERE[suffix]}")
    if os.path.exists(os.path.join(path, "saved_model.pb")):
        raise InvalidArgumentError(f"{os.fspath(path)}: a SavedModel is {_TENSORFLOW}")


def open_source(source: Source) -> Source:
    """The source; an ``OnnxFile`` for the path of an ONNX file that can be parsed, so that this is done once."""
    if not isinstance(source, str | os.PathLike) or not os.path.isfile(source) or _suffix(source) != ".onnx":
        return source
    from twinfer.converter.onnx.read import open_onnx

    try:
        return open_onnx(source)
    except ModelError:  # reading the path gives the error
        return source


def files_of(source: Source) -> list[str | os.PathLike[str]]:
    """The files that a source of ``open_source`` is read from: its own, and those that an ONNX file keeps beside it."""
    if isinstance(source, OnnxFile):
        return [source.path, *source.beside]
    return [source] if isinstance(source, str | os.PathLike) else []


def _suffix(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix.lower()


def _read(source: Source, shapes: Shapes | None, constants: Mapping[str, Any] | None) -> Graph:
    """The graph of a file of one of the kinds TO_CONVERT, of an onnx.ModelProto or an OnnxFile; InvalidArgumentError
    that says what to do with others."""
    suffix = _suffix(source) if isinstance(source, str | os.PathLike) else ""
    if suffix == ".keras":
        from twinfer.converter.keras import from_keras

        return freeze(from_keras(source, shapes=shapes), constants or {})
    if suffix == ".pt2":
        from twinfer.converter.torch import from_torch

        return from_torch(source, shapes=shapes, constants=constants, check=False)  # ``check`` is for all sources
    kinds = {base.__module__.partition(".")[0] for base in type(source).__mro__}
    for package, function in (("keras", "from_keras(model)"), ("torch", "from_torch(model, example_inputs)")):
        if package in kinds:
            raise InvalidArgumentError(f"convert takes files and graphs: give it twinfer.{function}")
    if not suffix and "onnx" not in kinds and not isinstance(source, bytes | OnnxFile):
        raise InvalidArgumentError(f"convert takes a path, an onnx.ModelProto or a Graph, no {type(source).__name__}")
    from twinfer.converter.onnx import read_onnx

    return read_onnx(source, shapes=shapes, constants=constants)


def _close(graph: Graph, shapes: Shapes) -> Graph:
    """The graph with these shapes of inputs, the rest inferred. A .tflite file whose inputs have a fixed batch says so:
    ``open_batch`` asks."""
    if "subgraph_name" in graph.extra and not any(t.shape_signature[:1] == (-1,) for t in graph.inputs):
        graph = replace(graph, extra={**graph.extra, "fixed_batch": True})
    named = inputs_by_name(graph)
    if unknown := set(shapes) - set(named):
        known = ", ".join(repr(t.name) for t in graph.inputs)
        raise InvalidArgumentError(f"no input is called {sorted(unknown)[0]!r}; the inputs are: {known}")
    given = {named[name]: shape_of(shape) for name, shape in shapes.items()}
    still = [t for t in graph.inputs if t not in given and is_open(t)]
    # But for the batch dimension, for which the file proposes 1.
    still = [t for t in still if t.shape[:1] != (1,) or any(d < 0 for d in t.shape_signature[1:])]
    if still:
        opened: dict[str, Dims] = {t.name: _dims(t) for t in still}

        def infer(tried: Shapes) -> Graph:
            return infer_shapes(graph, {**given, **{named[name]: shape_of(shape) for name, shape in tried.items()}})

        raise OpenShapes(opened, workable(opened, infer))
    graph = infer_shapes(graph, given, keep_half=True)
    return swap_tensors(graph, {t: replace(t, shape_signature=()) for t in graph.tensors if t.shape_signature})


def _dims(tensor: Tensor) -> Dims:
    """What a .tflite file says of an open shape; None where it leaves the rank open, too."""
    if not tensor.shape_signature and not tensor.shape:
        return None
    return ["?" if d < 0 else d for d in tensor.shape_signature or tensor.shape]
