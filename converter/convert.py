"""The front door of the converter: a model in, a graph that runs here, in LiteRT and in TFLM out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

from twinfer.converter.calibrate import Calibration, Progress, calibrate
from twinfer.converter.passes import PIPELINE, TO_QUANTIZE, Pass, run
from twinfer.converter.passes.nhwc_io import channels_last
from twinfer.converter.quantize import Options, quantize
from twinfer.converter.recipe import Choice, Recipe, read_recipe
from twinfer.converter.rounding import grams
from twinfer.converter.samples import Samples
from twinfer.converter.source import Shapes, Source, read_source
from twinfer.converter.versions import with_versions
from twinfer.converter.whole import write_whole
from twinfer.converter.write import write
from twinfer.runtime.errors import InvalidArgumentError, ModelWarning
from twinfer.runtime.graph import Graph

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
    data twice. ``shapes`` gives inputs a static shape by name. ``channels_last``: images that came in as NCHW (ONNX,
    PyTorch) go in and out as NHWC, which saves the transposes there: True for all inputs and outputs of four
    dimensions, or the names of those meant, [n, c, w], too; calibration data then are channels last as well.
    ``passes``: instead of ``passes.PIPELINE``, or
    ``passes.TO_QUANTIZE``, which also makes floats of float16 and int8 weights; ``after`` is called with the name of
    every pass and the graph behind it. ``progress(done, total)`` is called after every calibration sample.
    Subgraphs beside the main one (other signatures, bodies of control flow) stay as they are, of which a ModelWarning
    tells; models with control flow are not quantised, they end in UnsupportedOperatorError.

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
    steps = passes if passes is not None else TO_QUANTIZE if mode else PIPELINE
    graph = _laid_out(read_source(source, how.get("shapes")), how.get("channels_last", False))
    graph = optimised(graph, passes=steps, after=how.get("after"))
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


def optimised(
    source: Source,
    shapes: Shapes | None = None,
    passes: Sequence[Pass] = TO_QUANTIZE,
    after: Callable[[str, Graph], None] | None = None,
) -> Graph:
    """The graph of a source behind the passes, by default those that quantisation begins with."""
    return with_versions(run(_main_only(read_source(source, shapes)), passes, after))


def _main_only(graph: Graph) -> Graph:
    """The graph; warns if there are others beside it."""
    if graph.subgraphs:
        names = ", ".join(repr(g.extra.get("subgraph_name", g.name)) for g in graph.subgraphs[:3])
        more = ", …" if len(graph.subgraphs) > 3 else ""
        count = f"{len(graph.subgraphs)} subgraph(s)"
        what = f"{graph.name}: the main graph is converted, {count} beside it stay as they are"
        warnings.warn(f"{what}: {names}{more}", ModelWarning, stacklevel=5)
    return graph


def _recipe(recipe: Recipe | str | os.PathLike[str] | None, mode: str | None, method: str) -> Recipe:
    if mode is not None and mode not in MODES:
        raise InvalidArgumentError(f"cannot quantise to {mode!r}; there are: {', '.join(MODES)}")
    default = Choice(mode or "int8", None, method)
    if isinstance(recipe, Recipe):
        return recipe
    return Recipe(default=default) if recipe is None else read_recipe(recipe, default)
