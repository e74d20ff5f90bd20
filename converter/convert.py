"""The front door of the converter: a model in, a graph that runs here, in LiteRT and in TFLM out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from types import UnionType
from typing import Any, TypedDict, Union, Unpack, get_args, get_origin, get_type_hints

from twinfer.converter.compress.cluster import cluster
from twinfer.converter.compress.prune import SCOPES, prune
from twinfer.converter.divisions import warn_of_divisions
from twinfer.converter.passes import PIPELINE, TO_QUANTIZE, Pass, run
from twinfer.converter.passes.equalize import equalize
from twinfer.converter.passes.nhwc_io import channels_last
from twinfer.converter.quantize.affine import fed
from twinfer.converter.quantize.calibrate import Progress, calibrate
from twinfer.converter.quantize.observed import Calibration
from twinfer.converter.quantize.quality import Quality, kept, quality, warn_if_poor
from twinfer.converter.quantize.quantize import Options, quantize
from twinfer.converter.quantize.recipe import Choice, Recipe, Rule, read_recipe
from twinfer.converter.quantize.rounding import grams
from twinfer.converter.quantize.samples import Samples, need_to_last, samples_of
from twinfer.converter.source import Shapes, Source, files_of, read_source
from twinfer.converter.versions import with_versions
from twinfer.runtime.errors import InvalidArgumentError, ModelWarning
from twinfer.runtime.graph import Graph
from twinfer.runtime.op import Array
from twinfer.runtime.read.files import check_places
from twinfer.runtime.write.tflite import check_suffix

#: What ``quantize=`` may be.
MODES = ("int8", "int16x8", "int4")


#: Arguments that need ``quantize=``, and what they are where they are not given.
_OF_QUANTISATION: dict[str, Any] = {
    "method": "minmax", "inference_type": None, "bias_correction": False, "adaptive_rounding": False, "equalize": False,
}  # fmt: skip

#: What ``prune=`` leaves alone: it has few weights, and every one of them matters to a whole channel.
SPARED = Rule(operator="DEPTHWISE_CONV_2D", prune=0.0)


class How(TypedDict, total=False):
    """The arguments of ``convert`` beside the source."""

    quantize: str | None
    calibration: Samples | None
    method: str
    recipe: Recipe | str | os.PathLike[str] | None
    inference_type: str | None
    bias_correction: bool
    adaptive_rounding: bool
    equalize: bool
    shapes: Shapes | None
    prune: float | None
    prune_block: str | None
    prune_scope: str | None
    cluster: int | None
    compensate: bool
    channels_last: bool | Sequence[str]
    passes: Sequence[Pass] | None
    after: Callable[[str, Graph], None] | None
    progress: Progress | None


@dataclass(frozen=True)
class Conversion:
    """What came of a conversion: ``source`` is the optimised graph, ``pruned`` the same with fewer weights (itself, if
    none were pruned), which ``graph`` is the quantised twin of (the same, if nothing was quantised), its weights
    clustered; ``seen`` (of ``pruned``) and ``recipe`` are what that was done by; ``quality`` is what it did to the
    outputs (None: nothing was quantised, or no output is float)."""

    graph: Graph
    source: Graph
    pruned: Graph
    seen: Calibration
    recipe: Recipe
    quality: Quality | None = None


def convert(source: Source, **how: Unpack[How]) -> Graph:
    """The model of ``source`` as a graph, optimised and, if ``quantize`` says so, in integers; ``graph.save(path)``
    writes it.

    What comes in:
    ``source``: a .tflite, .onnx, .keras or .pt2 file, an ``onnx.ModelProto``, a Graph (``from_torch``…).
    ``shapes``: gives inputs a static shape by name.
    ``channels_last``: images that came in as NCHW (ONNX, PyTorch) go in and out as NHWC, which saves the transposes
    there: True for all inputs and outputs of four dimensions, or the names of those meant, [n, c, w], too; calibration
    data then are channels last as well. Those that have them last already (Keras, TFLite) stay as they are, of which a
    ModelWarning tells; where they are named it is an error.
    ``passes``: instead of ``passes.PIPELINE``, or ``passes.TO_QUANTIZE``, which also makes floats of float16 and int8
    weights; ``after`` is called with the name of every pass and the graph behind it.

    Quantisation:
    ``quantize``: None (as it is), "int8", "int16x8" (int16 activations, int8 weights) or "int4" (weights of 4 bits
    where TFLite has them).
    ``calibration``: ``samples.Samples``, by the names of the model's inputs (a lone one's array will do); float models
    need it to be quantised.
    ``progress(done, total)`` is called after every sample.
    ``method``: how ranges are chosen ("minmax", or another of ``methods.METHODS``).
    ``recipe``: rules that change precision and method for some nodes: a file's path, or a Recipe, whose default counts.
    ``inference_type``: "FLOAT32" keeps the inputs and outputs float.
    ``bias_correction``, ``adaptive_rounding``: see ``quantize.Options``; the latter reads the data twice.
    ``equalize``: neighbouring layers' weights get alike ranges first (``passes.equalize``), for weights with one scale
    a tensor.

    Compression (``compress.prune``, ``compress.cluster``):
    ``prune``: share of weights that become zero, of all layers but DEPTHWISE_CONV_2D unless the recipe says so, in
    blocks of ``prune_block`` ("1x1"), by ``prune_scope`` "global" (all layers together) or "layer".
    ``cluster``: bits of the number of different values that integer weights take.
    ``compensate``: what is left makes good for both, by the calibration data.

    Subgraphs beside the main one (other signatures, bodies of control flow) stay as they are, of which a ModelWarning
    tells; models with control flow are not quantised, they end in UnsupportedOperatorError. A ModelWarning names the
    integer divisions by what rounds to 0.

    Warns with ModelWarning of outputs that quantising brings below 20 dB, and of calibration data that are constant or
    integers where the model takes floats.

    Raises TwinferError: ModelError for a damaged model, UnsupportedOperatorError for one that cannot be expressed,
    InvalidArgumentError for arguments and data that do not fit.
    """
    return conversion(source, **how).graph


def convert_file(source: Source, output: str | os.PathLike[str], **how: Unpack[How]) -> Conversion:
    """``convert``, written to a .tflite file whole or not at all; returns how it came about.

    InvalidArgumentError, before anything is done, for an output that cannot be written or is one of the inputs.
    """
    check_suffix(output)
    check_places([output], inputs=[*files_of(source), how.get("calibration"), how.get("recipe")])
    made = conversion(source, **how)
    made.graph.save(output)
    return made


def conversion(source: Source, **how: Unpack[How]) -> Conversion:
    """``convert`` with what it saw on the way."""
    only_known(how, How)
    recipe = _recipe(how)
    _check(how, recipe)
    passes, samples = how.get("passes"), how.get("calibration")
    steps = passes if passes is not None else TO_QUANTIZE if how.get("quantize") else PIPELINE
    steps = (*steps, equalize) if how.get("equalize") else steps
    graph = optimised(source, how.get("shapes"), steps, how.get("after"), how.get("channels_last", False))
    made = Conversion(graph, graph, graph, {}, recipe)
    if recipe.prunes:
        fitted_by = samples if how.get("compensate") else None
        graph = prune(graph, recipe, fitted_by, how.get("prune_scope") or SCOPES[0], how.get("progress"))
        made = replace(made, graph=graph, pruned=graph)
    judged: list[Any] = []
    if how.get("quantize") and samples is not None:
        made = _quantized(made, kept(samples, judged), how)
    if recipe.clusters:
        fitted_by = _fed(made, samples) if samples is not None and how.get("compensate") else None
        made = replace(made, graph=cluster(made.graph, recipe, fitted_by, how.get("progress")))
    return made if samples is None or not how.get("quantize") else _judged(made, judged or samples)


def _judged(made: Conversion, samples: Samples) -> Conversion:
    """The conversion with what it did to the outputs; warns if that is much."""
    found = quality(made.source, made.graph, samples) if made.seen else None
    if found is not None:
        warn_if_poor(found, made.recipe.default.precision)
    return replace(made, quality=found)


def only_known(given: Mapping[str, Any], arguments: type[Any]) -> None:
    """InvalidArgumentError for an argument that the TypedDict ``arguments`` does not have, or not of this type: type
    checkers see it, Python does not."""
    if unknown := sorted(set(given) - set(arguments.__annotations__)):
        raise InvalidArgumentError(
            f"there is no argument {unknown[0]!r}; there are: {', '.join(arguments.__annotations__)}"
        )

    for name, hint in get_type_hints(arguments).items():
        if name in given and not _fits(given[name], hint):
            what = type(given[name]).__name__
            raise InvalidArgumentError(f"{name} cannot be of type {what}; it may be: {getattr(hint, '__name__', hint)}")


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of the type, as far as the outermost one goes; numbers may be NumPy's."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    numbers = {int: Integral, float: Real}
    kinds = [numbers.get(kind, get_origin(kind) or kind) for kind in members]
    return Any in kinds or isinstance(value, tuple(kinds))


def _quantized(made: Conversion, samples: Samples, how: How) -> Conversion:
    """The pruned graph in integers."""
    seen = calibrate(made.pruned, samples, how.get("progress"))
    found = grams(made.pruned, samples) if how.get("adaptive_rounding") else {}
    options = Options(how.get("inference_type"), how.get("bias_correction", False), found)
    graph = quantize(made.pruned, seen, made.recipe, options)
    warn_of_divisions(graph, seen)
    return replace(made, graph=graph, seen=seen)


def _fed(made: Conversion, samples: Samples) -> list[dict[str, Array]]:
    """The samples as the inputs of the graph take them that was made."""
    inputs = made.graph.inputs
    rows = (zip(inputs, sample.values(), strict=True) for sample in samples_of(made.source, samples))
    return [{t.name: fed(value, t) if value.dtype != t.dtype else value for t, value in row} for row in rows]


def _check(how: How, recipe: Recipe) -> None:
    """InvalidArgumentError for arguments that need others."""
    mode, calibration, compensate = how.get("quantize"), how.get("calibration"), how.get("compensate")
    compresses = recipe.prunes or recipe.clusters
    if mode and calibration is None:
        raise InvalidArgumentError(
            "quantize needs samples of the inputs to calibrate with: calibration=… (by input name), or "
            "--calibration FILE on the command line"
        )
    useless = (calibration is not None and not compensate) or (how.get("recipe") is not None and not compresses)
    if not mode and (useless or any(how.get(name, plain) != plain for name, plain in _OF_QUANTISATION.items())):
        names = f"calibration, recipe, {', '.join(_OF_QUANTISATION)}"
        raise InvalidArgumentError(f"{names} mean nothing without quantize=… (--quantize on the command line)")
    if not recipe.prunes and (how.get("prune_block") or how.get("prune_scope")):
        raise InvalidArgumentError(
            "prune_block and prune_scope mean nothing without prune=… (--prune) or a recipe that prunes"
        )
    if compensate and not compresses:
        raise InvalidArgumentError("compensate means nothing without prune=… (--prune) or cluster=… (--cluster)")
    if compensate and calibration is None:
        raise InvalidArgumentError(
            "compensate fits weights to calibration data: give calibration=… (--calibration FILE)"
        )
    if compensate and calibration is not None:
        need_to_last(calibration)


def _laid_out(graph: Graph, which: bool | Sequence[str]) -> Graph:
    if isinstance(which, bool):
        return channels_last(graph) if which else graph
    return channels_last(graph, (which,) if isinstance(which, str) else tuple(which))


def optimised(
    source: Source,
    shapes: Shapes | None = None,
    passes: Sequence[Pass] = TO_QUANTIZE,
    after: Callable[[str, Graph], None] | None = None,
    channels_last: bool | Sequence[str] = False,
) -> Graph:
    """The graph of a source behind the passes, by default those that quantisation begins with."""
    graph = _laid_out(read_source(source, shapes), channels_last)
    return with_versions(run(_main_only(graph), passes, after))


def _main_only(graph: Graph) -> Graph:
    """The graph; warns if there are others beside it."""
    if graph.subgraphs:
        names = ", ".join(repr(g.extra.get("subgraph_name", g.name)) for g in graph.subgraphs[:3])
        more = ", …" if len(graph.subgraphs) > 3 else ""
        count = f"{len(graph.subgraphs)} subgraph(s)"
        what = f"{graph.name}: the main graph is converted, {count} beside it stay as they are"
        warnings.warn(f"{what}: {names}{more}", ModelWarning, stacklevel=5)
    return graph


def _recipe(how: How) -> Recipe:
    """The recipe, its default by the other arguments."""
    mode, given = how.get("quantize"), how.get("recipe")
    if mode is not None and mode not in MODES:
        raise InvalidArgumentError(f"cannot quantise to {mode!r}; there are: {', '.join(MODES)}")
    default = given.default if isinstance(given, Recipe) else Choice(mode or "int8", None, how.get("method", "minmax"))
    asked: dict[str, Any] = {key: how.get(key) for key in ("prune", "prune_block", "cluster")}
    default = replace(default, **{key: value for key, value in asked.items() if value is not None})
    made = replace(given, default=default) if isinstance(given, Recipe) else Recipe(default=default)
    if given is not None and not isinstance(given, Recipe):
        made = read_recipe(given, default)
    return replace(made, rules=(SPARED, *made.rules)) if how.get("prune") else made
