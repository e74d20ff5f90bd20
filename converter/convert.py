"""The front door of the converter: a model in, a graph that runs here, in LiteRT and in TFLM out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from twinfer.converter.calibrate import Calibration, Progress, calibrate
from twinfer.converter.passes import PIPELINE, Pass, run
from twinfer.converter.passes._rewrite import renamed
from twinfer.converter.passes.nhwc_io import channels_last
from twinfer.converter.quantize import Options, quantize
from twinfer.converter.recipe import Choice, Recipe, read_recipe
from twinfer.converter.rounding import grams
from twinfer.converter.samples import Samples
from twinfer.converter.whole import write_whole
from twinfer.converter.write import write
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.shapes import infer_shapes, is_open
from twinfer.runtime.tflite import read_file

#: A Graph, a path of a .tflite, .onnx, .keras or .pt2 file, or an onnx.ModelProto.
Source = Any

Shapes = Mapping[str, Sequence[int]]

#: What ``quantize=`` may be.
MODES = ("int8", "int16x8", "int4")


class How(TypedDict, total=False):
    """The arguments of ``convert`` beside the source."""

    quantize: str | None
    calibration: Samples | None
    method: str
    recipe: Recipe | str | os.PathLike[str] | None
    inference_type: str | None
    bias_correction: bool
    adaptive_rounding: bool
    shapes: Shapes | None
    channels_last: bool | Sequence[str]
    passes: Sequence[Pass] | None
    after: Callable[[str, Graph], None] | None
    progress: Progress | None


@dataclass(frozen=True)
class Conversion:
    """What came of a conversion: ``source`` is the optimised float graph, which ``graph`` is the quantised twin of
    (the same, if nothing was quantised); ``seen`` and ``recipe`` are what that was done by."""

    graph: Graph
    source: Graph
    seen: Calibration
    recipe: Recipe


def convert(source: Source, **how: Unpack[How]) -> Graph:
    """The model of ``source`` as a graph, optimised and, if ``quantize`` says so, in integers.

    ``source``: a file (.tflite, .onnx, .keras, or .pt2 of torch.export), an ``onnx.ModelProto``, or a Graph, as
    ``from_torch`` and ``from_keras`` make one. ``quantize``: None (as it is), "int8",
    "int16x8" (int16 activations, int8 weights) or "int4" (weights of 4 bits where TFLite has them). ``calibration``:
    ``samples.Samples``, by the names of the model's inputs; float models need it to be quantised. ``method``: how
    ranges are chosen ("minmax", or another of ``methods.METHODS``). ``recipe``: rules that change both for some nodes,
    a file's path or a Recipe, whose own default then counts. ``inference_type``: "FLOAT32" keeps the inputs and outputs
    float. ``bias_correction`` and ``adaptive_rounding``: see ``quantize.Options``; the latter reads the calibration
    data twice. ``shapes`` gives inputs a static shape by name. ``channels_last``: images that came in as NCHW
    (ONNX, PyTorch) go in and out as NHWC, which saves the transposes there: True for all inputs and outputs of four
    dimensions, or the names of those meant, [n, c, w], too; calibration data then are channels last as well, and names,
    order and values stay. ``passes``: instead of ``passes.PIPELINE``; ``after``
    is called with the name of every pass and the graph behind it.
    ``progress(done, total)`` is called after every calibration sample.

    Raises TwinferError: ModelError for a damaged model, UnsupportedOperatorError for one that cannot be expressed,
    InvalidArgumentError for arguments and data that do not fit.
    """
    return conversion(source, **how).graph


def convert_file(source: Source, output: str | os.PathLike[str], **how: Unpack[How]) -> Conversion:
    """``convert``, written to a .tflite file whole or not at all; returns how it came about."""
    made = conversion(source, **how)
    content = write(made.graph)
    write_whole(output, lambda file: file.write(content))
    return made


def conversion(source: Source, **how: Unpack[How]) -> Conversion:
    """``convert`` with what it saw on the way."""
    mode, calibration = how.get("quantize"), how.get("calibration")
    recipe = _recipe(how.get("recipe"), mode, how.get("method", "minmax"))
    if mode and calibration is None:
        raise InvalidArgumentError("quantize needs calibration data: give calibration=… (samples by input name)")
    if not mode and (calibration is not None or how.get("recipe") is not None):
        raise InvalidArgumentError("calibration and recipe mean nothing without quantize=…")
    passes = how.get("passes")
    graph = _laid_out(read_source(source, how.get("shapes")), how.get("channels_last", False))
    graph = run(graph, PIPELINE if passes is None else passes, how.get("after"))
    if calibration is None:
        return Conversion(graph, graph, {}, recipe)
    seen = calibrate(graph, calibration, how.get("progress"))
    found = grams(graph, calibration) if how.get("adaptive_rounding") else {}
    options = Options(how.get("inference_type"), how.get("bias_correction", False), found)
    return Conversion(quantize(graph, seen, recipe, options), graph, seen, recipe)


def _laid_out(graph: Graph, which: bool | Sequence[str]) -> Graph:
    if isinstance(which, bool):
        return channels_last(graph) if which else graph
    return channels_last(graph, (which,) if isinstance(which, str) else tuple(which))


def read_source(source: Source, shapes: Shapes | None = None) -> Graph:
    """The graph of a source with all shapes known; InvalidArgumentError for inputs that need one (``shapes``)."""
    if isinstance(source, Graph):
        return _closed(source, shapes or {})
    made = _by_suffix(source, shapes) if isinstance(source, str | os.PathLike) else _by_type(source, shapes)
    return infer_shapes(made)


#: Files that are no whole model, or an old form of one, and what to do with them.
ELSEWHERE = {
    ".pt": "weights or pickled code: load it in PyTorch and give the module to twinfer.from_torch, or save it by "
    "torch.export.save as .pt2",
    ".h5": "Keras's old format: load it in Keras and save it as .keras, or give the model to twinfer.from_keras",
}
ELSEWHERE |= {".pth": ELSEWHERE[".pt"]}


def _by_suffix(path: str | os.PathLike[str], shapes: Shapes | None) -> Graph:
    suffix = Path(path).suffix.lower()
    if suffix in ELSEWHERE:
        raise InvalidArgumentError(f"{os.fspath(path)}: {suffix} is {ELSEWHERE[suffix]}")
    if suffix == ".onnx":
        from twinfer.converter.onnx import read_onnx

        return read_onnx(path, shapes=shapes)
    if suffix == ".keras":
        from twinfer.converter.keras import from_keras

        return from_keras(path, shapes=shapes)
    if suffix == ".pt2":
        from twinfer.converter.torch import from_torch

        return _closed(from_torch(path), shapes or {})
    return _closed(read_file(path), shapes or {})


def _by_type(source: Source, shapes: Shapes | None) -> Graph:
    """Of an onnx.ModelProto; InvalidArgumentError that says what to do with others."""
    kinds = {base.__module__.partition(".")[0] for base in type(source).__mro__}
    for package, function in (("keras", "from_keras(model)"), ("torch", "from_torch(model, example_inputs)")):
        if package in kinds:
            raise InvalidArgumentError(f"convert takes files and graphs: give it twinfer.{function}")
    if "onnx" not in kinds and not isinstance(source, bytes):
        raise InvalidArgumentError(f"convert takes a path, an onnx.ModelProto or a Graph, no {type(source).__name__}")
    from twinfer.converter.onnx import read_onnx

    return read_onnx(source, shapes=shapes)


def _recipe(recipe: Recipe | str | os.PathLike[str] | None, mode: str | None, method: str) -> Recipe:
    if mode is not None and mode not in MODES:
        raise InvalidArgumentError(f"cannot quantise to {mode!r}; there are: {', '.join(MODES)}")
    default = Choice(mode or "int8", None, method)
    if isinstance(recipe, Recipe):
        return recipe
    return Recipe(default=default) if recipe is None else read_recipe(recipe, default)


def _closed(graph: Graph, shapes: Shapes) -> Graph:
    """The graph with these shapes of inputs, the rest inferred."""
    named = {t.name: t for t in graph.inputs}
    if unknown := set(shapes) - set(named):
        known = ", ".join(map(repr, named))
        raise InvalidArgumentError(f"no input is called {sorted(unknown)[0]!r}; the inputs are: {known}")
    still = [t for name, t in named.items() if name not in shapes and _is_vague(t)]
    if still:
        what = ", ".join(f"{t.name!r} {list(t.shape_signature or t.shape)}" for t in still)
        raise InvalidArgumentError(f"the shape of {what} is open: give it with shapes (--shape NAME=1,2,3)")
    graph = infer_shapes(graph, {named[name]: tuple(int(d) for d in shape) for name, shape in shapes.items()})
    return _static(graph)


def _is_vague(tensor: Tensor) -> bool:
    """Whether more is open than the number of batches, for which the file proposes 1."""
    return is_open(tensor) and (tensor.shape[:1] != (1,) or any(d < 0 for d in tensor.shape_signature[1:]))


def _static(graph: Graph) -> Graph:
    """The graph with no dimension left open."""
    closed: dict[Tensor, Tensor] = {t: replace(t, shape_signature=()) for t in graph.tensors if t.shape_signature}
    if not closed:
        return graph

    def of(tensor: Tensor) -> Tensor:
        return closed.get(tensor, tensor)

    nodes = tuple(renamed(node, closed) for node in graph.nodes)
    signatures = tuple(
        replace(s, inputs={k: of(t) for k, t in s.inputs.items()}, outputs={k: of(t) for k, t in s.outputs.items()})
        if s.subgraph == 0
        else s
        for s in graph.signatures
    )
    tensors, ins, outs = (tuple(map(of, group)) for group in (graph.tensors, graph.inputs, graph.outputs))
    return replace(graph, tensors=tensors, nodes=nodes, inputs=ins, outputs=outs, signatures=signatures)
