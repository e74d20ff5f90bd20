"""The front door of the converter: a model in, a graph that runs here, in LiteRT and in TFLM out."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Unpack

from twinfer.converter.arguments import How, check, only_known, recipe_of
from twinfer.converter.compress.cluster import cluster
from twinfer.converter.compress.prune import SCOPES, prune
from twinfer.converter.emit.finish import leave_out, share_constants
from twinfer.converter.emit.sequence import written_out
from twinfer.converter.freeze import open_batch
from twinfer.converter.loops import roll
from twinfer.converter.offline.stored import with_plan
from twinfer.converter.optimise import optimise
from twinfer.converter.passes import PIPELINE, TO_QUANTIZE, run
from twinfer.converter.passes.constant_folding import beginnings
from twinfer.converter.passes.equalize import equalize
from twinfer.converter.quantize.affine import to_stored
from twinfer.converter.quantize.calibrate import calibrate
from twinfer.converter.quantize.features import scale_features
from twinfer.converter.quantize.observed import Calibration
from twinfer.converter.quantize.quality import KEPT, Quality, is_poor, keep_samples, quality, warn
from twinfer.converter.quantize.quantize import Options, quantize
from twinfer.converter.quantize.recipe import Recipe
from twinfer.converter.quantize.refine import refine
from twinfer.converter.quantize.rounding import grams
from twinfer.converter.quantize.samples import Samples, samples_of
from twinfer.converter.quantize.wide import for_16_bits
from twinfer.converter.search.auto import Chosen, Whole, choose, settled
from twinfer.converter.source import Source, files_of, open_source, read_source
from twinfer.converter.table import layers
from twinfer.runtime.errors import ModelError, ModelWarning, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.options import Options as PlanOptions
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.files import check_places
from twinfer.runtime.read.tflite import read
from twinfer.runtime.stages import Stage, tell
from twinfer.runtime.support import audit
from twinfer.runtime.target import HOST
from twinfer.runtime.write.tflite import check_suffix, write

#: From so many bytes on it is told that layers stay float.
TOLD_BYTES = 8192

#: How many operators without a kernel are told; multiplications of a model for which better precisions are still looked
#: for, to be told: it takes as long as some hundred runs of it.
MOST_TOLD, ADVISED = 8, 20_000_000


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion, and how it came about. ``imported`` is the graph as it was read. ``source`` is the
    optimised graph. ``pruned`` is ``source`` with fewer weights, or ``source`` itself. ``flat`` is ``pruned``,
    quantised and clustered as asked. ``graph`` is the result: ``flat`` with loops in the place of steps that repeat.
    ``plan``: of ``graph``, for this computer.
    ``seen`` is what calibration saw of ``pruned``. ``quality`` says what quantisation did to the outputs (None: nothing
    was quantised, or no output is float). ``chosen`` is what ``quantize="auto"`` found."""

    graph: Graph
    imported: Graph
    source: Graph
    pruned: Graph
    flat: Graph
    seen: Calibration
    recipe: Recipe
    quality: Quality | None = None
    chosen: Chosen | None = None
    plan: Plan | None = None


def convert(source: Source, **how: Unpack[How]) -> Graph:
    """The model of ``source`` as a graph, optimised and, if ``quantize`` says so, in integers; ``graph.save(path)``
    writes it.

    What comes in:
    ``source``: a .tflite, .onnx, .keras or .pt2 file, an ``onnx.ModelProto``, a Graph (``from_torch``…).
    ``shapes``: gives inputs a static shape by name.
    ``constants``: makes inputs constants, by name: a number of classes, a size, a choice that never changes.
    ``channels_last``: inputs and outputs that are NCHW in the source (ONNX, PyTorch) become NHWC, which saves
    transposes. True means all with four dimensions; names mean those, also [n, c, w]. Calibration data then have the
    channels last, too. Images that have their channels last already (Keras, TFLite) stay: a ModelWarning says so; for a
    name it is an error.
    ``passes``: what runs instead of ``passes.PIPELINE`` (where it quantises: ``passes.TO_QUANTIZE``). ``after`` is
    called with the name of every pass and the graph behind it.

    Quantisation:
    ``quantize``: None (as it is), "int8", "int16x8" (int16 activations, int8 weights), "int4" (weights of 4 bits where
    TFLite has them), "dynamic" (int8 weights, float values: TFLite's dynamic range, without calibration) or "auto": for
    every layer the cheapest of these, or float, that keeps the outputs good enough (``search.auto.choose``). For "auto"
    alone: ``max_loss`` is the most that may be lost of the share of right answers (by default 0.005 where calibration
    data have labels), ``min_snr`` the least signal-to-noise ratio of every output in dB (25 where there are no labels);
    ``cost`` is what is to be cheap ("balanced", or another of ``costs.SHARES``).
    ``target``: the core to be cheap on, for "auto" (a Cortex-M4), and for what int16x8 spells out where there are no
    instructions for floats (``for_16_bits``).
    ``calibration``: ``samples.Samples``, by the names of the model's inputs (a lone one's array will do); needed where
    values become integers.
    ``progress(done, total)`` is called after every sample.
    ``method``: how ranges are chosen ("minmax", or another of ``methods.METHODS``).
    ``recipe``: rules that change precision and method for some nodes: a file's path, or a Recipe, whose default counts.
    ``inference_type``: "FLOAT32" keeps the inputs and outputs float; "INT8", "INT16"; "LAYERS", as "auto" does, gives
    each the type of the layer that reads or makes it.
    ``bias_correction``, ``adaptive_rounding``: see ``quantize.Options``; the latter reads the data twice.
    ``equalize``: neighbouring layers' weights get similar ranges first (``passes.equalize``). It helps weights with one
    scale per tensor.
    ``refine``: ranges, and 16 bits in normalisations, are tried, weights fitted; what held-out samples gain by is kept
    (``quantize.refine``).

    Compression (``compress.prune``, ``compress.cluster``):
    ``prune``: the share of weights that become zero, in blocks of ``prune_block`` ("1x1"), by ``prune_scope`` "global"
    (all layers together) or "layer". DEPTHWISE_CONV_2D is left alone unless the recipe says otherwise.
    ``cluster``: a number of bits; integer weights of a layer take at most 2**cluster different values.
    ``compensate``: the weights that are left are fitted to the calibration data, so that outputs change least.

    ``loops``: steps that repeat with the same weights, as those of a recurrent layer over time, are written once, in
    a WHILE, where that makes the file smaller. All of them get the same scales. False writes every step out, which
    ``twinfer stream`` needs, and runtimes without WHILE.
    ``store_plan``: the result brings a memory plan for TFLM along (``offline.stored``). Without it, a plan that
    ``source`` brought along is left out, because it fitted ``source`` only.

    Only the main subgraph is converted: others (other signatures, bodies of control flow) stay as they are. Models with
    control flow are not quantised: UnsupportedOperatorError. A ModelWarning tells of subgraphs that stay, of integer
    divisions whose divisor rounds to 0, of outputs that quantisation brings below 20 dB, and of calibration data that
    are constant, or integers where the model takes floats.

    What comes out is written, read and planned once, for the shapes that it has: it runs here.

    Raises TwinferError: ModelError for a damaged model, UnsupportedOperatorError for one that cannot be expressed, or
    that has an operator without a kernel here, InvalidArgumentError for arguments and data that do not fit.
    """
    return conversion(source, **how).graph


def convert_file(source: Source, output: str | os.PathLike[str], **how: Unpack[How]) -> Conversion:
    """``convert``, written to a .tflite file whole or not at all; returns the result and how it came about. Raises
    InvalidArgumentError, before any work, for an output that cannot be written or is one of the inputs.
    """
    check_suffix(output)
    source = open_source(source)
    check_places([output], inputs=[*files_of(source), how.get("calibration"), how.get("recipe")])
    converted = conversion(source, **how)
    converted.graph.save(output)
    return converted


@dataclass(frozen=True)
class _Job:
    """What was asked for. ``samples`` are the calibration data; ``judged`` keeps some of them for judging."""

    how: How
    samples: Samples | None
    judged: list[Any]


def conversion(source: Source, **how: Unpack[How]) -> Conversion:
    """``convert``; returns the result and how it came about."""
    only_known(how, How)
    recipe = recipe_of(how)
    check(how, recipe)
    passes = how.get("passes")
    steps = passes if passes is not None else TO_QUANTIZE if how.get("quantize") else PIPELINE
    steps = (*steps, equalize) if how.get("equalize") else steps
    laid_out = how.get("channels_last", False)
    imported = read_source(source, how.get("shapes"), how.get("constants"))
    stepwise = written_out(imported, partial(_written_out, how, recipe))
    stepwise = stepwise if how.get("loops", True) else beginnings(stepwise)
    graph = optimise(stepwise, steps, how.get("after"), laid_out)
    graph = for_16_bits(graph, recipe, how.get("target")) if how.get("quantize") else graph
    judged: list[Any] = []
    data = how.get("calibration")
    job = _Job(how, None if data is None else keep_samples(data, judged), judged)
    converted = Conversion(graph, imported, graph, graph, graph, {}, recipe)
    for name, about, stage in STAGES:
        before, converted = converted, stage(converted, job)
        tell(name, about, before, converted)
    return converted


def _written_out(how: How, recipe: Recipe, node: Node) -> bool:
    """Whether an LSTM becomes steps: without loops, and for what TFLite's operator has not, but layers have."""
    finer = bool(how.get("quantize")) and recipe.of_node(node).precision in ("int16x8", "int4")
    return not how.get("loops", True) or finer or recipe.prunes or recipe.clusters


def _features(converted: Conversion, job: _Job) -> Conversion:
    """Gives every feature of the inputs a scale of its own, if quantisation would lose them and the inputs may be
    float. Warns if they may not."""
    how, source = job.how, converted.source
    if not how.get("quantize") or job.samples is None:
        return converted
    few = list(islice(samples_of(source, job.judged or job.samples), KEPT))
    graph = scale_features(source, few, converted.recipe)
    if graph is not source and how.get("inference_type") not in (None, "FLOAT32", "LAYERS"):
        what = "features of very different ranges share one scale, which loses the small ones"
        how_else = "leave inference_type (--inference-type) out, which gives each of them its own, or scale the data"
        warnings.warn(f"an input is to be {how['inference_type']}: its {what}; {how_else}", ModelWarning, stacklevel=3)
        return converted
    return replace(converted, source=graph, pruned=graph, flat=graph, graph=graph)


def _prune(converted: Conversion, job: _Job) -> Conversion:
    """Prunes the weights, if the recipe says so."""
    if not converted.recipe.prunes:
        return converted
    fitted_by = job.samples if job.how.get("compensate") else None
    scope = job.how.get("prune_scope") or SCOPES[0]
    graph = prune(converted.graph, converted.recipe, fitted_by, scope, job.how.get("progress"))
    return replace(converted, flat=graph, pruned=graph)


def _quantize(converted: Conversion, job: _Job) -> Conversion:
    """Calibrates and quantises the pruned graph, if that was asked for."""
    how, source = job.how, converted.pruned
    if not how.get("quantize"):
        return converted
    samples: Samples = job.samples if job.samples is not None else ()
    if how["quantize"] == "auto":
        return _auto(converted, samples, how)
    seen = calibrate(source, samples, how.get("progress"), converted.recipe.types) if job.samples is not None else {}
    matrices = grams(source, samples) if how.get("adaptive_rounding") else {}
    options = Options(how.get("inference_type"), how.get("bias_correction", False), matrices, how.get("loops", True))
    if how.get("refine"):
        refined = refine(source, seen, converted.recipe, options, samples)
        quantized, recipe = refined.graph, refined.recipe
    else:
        quantized, recipe = quantize(source, seen, converted.recipe, options), converted.recipe
    for tensor in quantized.inputs:
        if tensor.type == "FLOAT32" and options.border(converted.recipe) not in ("FLOAT32", "LAYERS"):
            mode = converted.recipe.default.precision
            why = f"{mode} would lose too much of it, as of features whose ranges are very different"
            how_else = "give inference_type=… (--inference-type) to choose the inputs' type"
            warnings.warn(f"input {tensor.name!r} stays float32: {why}; {how_else}", ModelWarning, stacklevel=3)
    _warn_of_float_layers(converted, quantized, seen)
    return replace(converted, flat=quantized, seen=seen, recipe=recipe)


def _warn_of_float_layers(converted: Conversion, quantized: Graph, seen: Calibration) -> None:
    """Warns of layers with many weights that stay float for what is done with their results next (``lost``)."""
    lost = {t.name for t, observed in seen.items() if observed.lost & converted.recipe.types}
    at = layers()
    kept = [n for n in quantized.nodes if n.op in at and n.output.name in lost]
    kept = [n for n in kept if (w := n.optional(at[n.op].weights)) and w.type == "FLOAT32" and w.data is not None]
    more = sum(3 * n.input(at[n.op].weights).size for n in kept)
    if more < TOLD_BYTES:
        return
    names = ", ".join(repr(n.output.name) for n in kept[:3]) + (f" and {len(kept) - 3} more" if len(kept) > 3 else "")
    what = f"{names} stay float, because integers would lose what is done with their results: {more:,} B of flash more"
    how_else = "a rule of a recipe says otherwise ('dynamic': int8 weights, float values); --quantize auto weighs it"
    warnings.warn(f"{what}; {how_else}", ModelWarning, stacklevel=4)


def _auto(converted: Conversion, samples: Samples, how: How) -> Conversion:
    """The graph in the precisions that suit it, with ranges from all samples."""
    source, recipe, progress = converted.pruned, converted.recipe, how.get("progress")
    chosen = choose(
        *(source, samples),
        max_loss=how.get("max_loss"),
        min_snr=how.get("min_snr"),
        cost=how.get("cost"),
        target=how.get("target"),
        inference_type=how.get("inference_type"),
        rules=recipe.rules,
        told=None if progress is None else lambda done, total, what: progress(done, total),
    )
    whole = Whole(source, samples)
    chosen, made = settled(chosen, whole, how.get("inference_type"), loops=how.get("loops", True))
    if made is None:  # features need no scales
        graph = run(source) if how.get("passes") is None else source
        return replace(converted, flat=graph, chosen=chosen)
    graph, own = made
    recipe = replace(own, default=replace(recipe.default, precision=own.default.precision, method=own.default.method))
    return replace(converted, flat=graph, seen=whole.seen, recipe=recipe, chosen=chosen)


def _cluster(converted: Conversion, job: _Job) -> Conversion:
    """Clusters the weights, if the recipe says so."""
    if not converted.recipe.clusters:
        return converted
    fitted_by = None
    if job.samples is not None and job.how.get("compensate"):
        rows = samples_of(converted.source, job.samples)
        pairs = (zip(converted.flat.inputs, sample.values(), strict=True) for sample in rows)
        fitted_by = [{t.name: to_stored(v, t) if v.dtype != t.dtype else v for t, v in pair} for pair in pairs]
    return replace(converted, flat=cluster(converted.flat, converted.recipe, fitted_by, job.how.get("progress")))


def _finish(converted: Conversion, job: _Job) -> Conversion:
    """Makes loops of repeated steps, opens the batch, and adds a memory plan, as asked for. TwinferError if the result
    cannot run."""
    named = not job.how.get("quantize")  # other quantisers need names
    graph = roll(converted.flat, named) if job.how.get("loops", True) else converted.flat
    graph = share_constants(open_batch(leave_out(beginnings(graph))), named)
    graph = with_plan(graph) if job.how.get("store_plan") else graph
    return replace(converted, graph=graph, plan=_planned(graph))


def _planned(graph: Graph) -> Plan:
    """The plan of the graph's file by layers, because by rows takes longer and refuses nothing more. TwinferError, with
    all nodes that are at fault, if it cannot be read or planned."""
    try:
        return make_plan(read(write(graph), graph.name), options=PlanOptions(memory="layers"))
    except (ModelError, UnsupportedOperatorError) as error:
        found = [use.problems for use in audit(graph, HOST).uses if use.problems]
        lines = [each[0] + (f" (and {len(each) - 1} more such)" if len(each) > 1 else "") for each in found]
        more = [f"and {len(lines) - MOST_TOLD} more operators"] if len(lines) > MOST_TOLD else []
        told = "\n  ".join([*lines[:MOST_TOLD], *more] or [str(error)])
        raise type(error)(f"what the conversion gives cannot run: {told}") from error


def _judge(converted: Conversion, job: _Job) -> Conversion:
    """Compares the outputs with those of the float graph; warns if they lost much, and of divisors that round to 0."""
    how = job.how
    if job.samples is None or not converted.seen:
        return converted
    samples: Samples = job.judged or job.samples
    judged = quality(converted.source, converted.flat, samples)
    if is_poor(judged):
        warn(judged, how["quantize"] or "", _advice(converted, job, samples), converted.seen)
    return replace(converted, quality=judged if judged.outputs else None)


def _advice(converted: Conversion, job: _Job, samples: Samples) -> str:
    """What would be better, tried on a few samples."""
    if converted.chosen is not None:
        return f"the cheapest that was found: {converted.chosen}"
    if make_plan(converted.pruned).macs > ADVISED:
        return "look at --report; --quantize auto takes a while to find layers that need 16 bits or floats"
    few = list(islice(({t.name: v for t, v in s.items()} for s in samples_of(converted.source, samples)), KEPT))
    rules, method = (replace(rule, precision=None) for rule in converted.recipe.rules), converted.recipe.default.method
    try:
        better = choose(converted.pruned, few, rules=tuple(rules), methods=(method,))
    except TwinferError:  # such as an operator of the user's that cannot be written
        return "look at --report, and at the calibration data"
    if converted.recipe.prunes or converted.recipe.clusters:
        return f"prune or cluster less, or --quantize auto: {better}"
    return f"--quantize auto would have {better}"


#: What is done to a conversion behind front end and passes, in order.
STAGES = (
    Stage("Features", "Features of very different ranges get scales of their own.", _features),
    Stage("Prune", "Small weights become zero.", _prune),
    Stage("Quantise", "Values and weights become integers.", _quantize),
    Stage("Cluster", "Weights of a layer take few different values.", _cluster),
    Stage("Finish", "Loops are rolled, the batch is opened, a memory plan is stored; the result is planned.", _finish),
    Stage("Judge", "The outputs are compared with those of the floats.", _judge),
)
