"""``twinfer convert``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinfer.command_line.checking import add_check, checked, is_asked, show_check
from twinfer.command_line.command import Command
from twinfer.command_line.options import files_read, shapes_of, share, source_of
from twinfer.command_line.targets import machine
from twinfer.converter.passes import Pass

if TYPE_CHECKING:
    from twinfer.converter.convert import Conversion
    from twinfer.converter.quantize.calibrate import Progress
    from twinfer.converter.quantize.compare import Report
    from twinfer.runtime.graph import Graph

EXAMPLES = (
    "model.onnx -o model.tflite",
    "model.onnx -o model.tflite --quantize int8 --calibration samples.npz --method mse --report",
    "model.onnx -o model.tflite --quantize auto --calibration samples.npz --target cortex-m55",
    "model.onnx -o model.tflite --check --samples samples.npz",
    "model.keras -o model.tflite --quantize int8 --calibration samples.npz",
    "model.onnx -o model.tflite --quantize int8 --calibration data.npz --prune 0.7 --cluster 4 --compensate --report",
    "model.tflite -o small.tflite --quantize int4 --calibration samples.npz --recipe keep_first_float.toml",
)

STATUS = "\n\nexit status: 0 it is written, 1 it is written, but differs from the source by more than --max-error"

#: Arguments that ``conversion`` takes as they are.
_GIVEN = (
    *("quantize", "max_loss", "min_snr", "cost"),
    *("calibration", "method", "recipe", "bias_correction", "adaptive_rounding", "equalize", "refine"),
    *("prune", "prune_block", "prune_scope", "cluster", "compensate", "channels_last", "loops", "store_plan"),
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    about = "a .onnx, .keras, .pt2 (torch.export) or float .tflite file, or the name of a built-in model"
    command.add_argument("model", metavar="IN", help=about)
    command.add_argument("-o", "--output", required=True, metavar="OUT", help="the .tflite file to write")
    _add_quantisation(command)
    _add_compression(command)
    command.add_argument(
        "--report", nargs="?", const="", metavar="FILE", help="show what it costs; FILE: as .json or .html, too"
    )
    about = "write the graph as text behind every pass: FOLDER/01-constant_folding.txt, …"
    command.add_argument("--dump", metavar="FOLDER", help=about)
    add_reading(command)
    about = "store where TFLM is to put each tensor, as OfflineMemoryAllocation in the metadata"
    command.add_argument("--store-plan", action="store_true", help=about)
    add_check(command)


def add_reading(command: argparse.ArgumentParser) -> None:
    """How a source is read, and which passes run: also for ``optimize``."""
    about = "which passes run instead of the pipeline, by name with commas, in this order; none: no pass"
    command.add_argument("--passes", metavar="NAMES", help=about)
    about = "images that come in as NCHW (ONNX, PyTorch) go in and out as NHWC"
    command.add_argument("--channels-last", action="store_true", help=about)
    about = "the shape of an input whose dimensions the model leaves open"
    command.add_argument("--shape", action="append", default=[], metavar="NAME=D,D,…", help=about)
    about = "make an input a constant: numbers, or a .npy file"
    command.add_argument("--constant", action="append", default=[], metavar="NAME=VALUE", help=about)
    about = "write every step of recurrent layers out, instead of a loop (twinfer stream needs that)"
    command.add_argument("--no-loops", dest="loops", action="store_false", help=about)


def _add_quantisation(command: argparse.ArgumentParser) -> None:
    about = "int8; int16x8: int16 activations, int8 weights; int4: weights of 4 bits where TFLite has them; dynamic: "
    about += "int8 weights, float values, without calibration; auto: for every layer the cheapest of these, or float, "
    about += "that keeps the outputs good enough"
    command.add_argument("--quantize", choices=["int8", "int16x8", "int4", "dynamic", "auto"], help=about)
    about = (
        "auto: the most that may be lost of the share of right answers; 1%% or 0.01 (default where there are labels: "
    )
    about += "0.5%%)"
    command.add_argument("--max-loss", type=share, metavar="LOSS", help=about)
    about = "auto: the least signal-to-noise ratio of every output in dB (default where there are no labels: 25)"
    command.add_argument("--min-snr", type=float, metavar="DB", help=about)
    about = "auto: what is to be cheap (default: balanced, a third each of instructions, flash and RAM)"
    command.add_argument("--cost", choices=["balanced", "instructions", "flash", "constants", "arena"], help=about)
    command.add_argument("--target", metavar="TARGET", help="where it is to be cheap (default for auto: cortex-m4)")
    about = (
        "a .npz file that holds an array for every input by its name, samples along the first axis, and for auto, if "
    )
    about += "there are any, labels; .npy for one"
    command.add_argument("--calibration", metavar="DATA", help=about)
    about = "how the ranges of activations are chosen: minmax (the default), extended, moving-average, percentile, "
    about += "mse, entropy; percentile-99.9 keeps 99.9 %% of the values, percentile alone 99.99 %%"
    command.add_argument("--method", default="minmax", help=about)
    about = "a .toml or .json file of rules: operators or names of tensors, and how to quantise them"
    command.add_argument("--recipe", metavar="FILE", help=about)
    about = (
        "type of the model's inputs and outputs (default: that of --quantize); layers, as auto does: of the layer that "
    )
    about += "reads or makes it"
    command.add_argument("--inference-type", choices=["int8", "int16", "float32", "layers"], help=about)
    about = "change biases by what the rounding of weights adds to the sums on average"
    command.add_argument("--bias-correction", action="store_true", help=about)
    about = (
        "give neighbouring layers' weights alike ranges first, for weights with one scale per tensor (int4 above all)"
    )
    command.add_argument("--equalize", action="store_true", help=about)
    about = "round weights so that every layer's outputs change least, not each to the nearest (for int4 above all)"
    command.add_argument("--adaptive-rounding", action="store_true", help=about)
    about = "try ranges and 16 bits in normalisations, fit weights layer by layer; keep what held-out samples gain by"
    command.add_argument("--refine", action="store_true", help=about)


def _add_compression(command: argparse.ArgumentParser) -> None:
    about = "set this share of the weights to zero, those of least magnitude; 0.7: 70 %%"
    command.add_argument("--prune", type=float, metavar="SHARE", help=about)
    about = "prune blocks of M outputs by N input channels, or leave N of M input channels (default: 1x1)"
    command.add_argument("--prune-block", metavar="MxN|N:M", help=about)
    about = "prune that share of all layers together (global, the default) or of every layer (layer)"
    command.add_argument("--prune-scope", choices=["global", "layer"], help=about)
    about = "let the integer weights of a layer take 2**BITS values, 2 to 7 bits"
    command.add_argument("--cluster", type=int, metavar="BITS", help=about)
    about = "adjust the remaining weights and the biases to the calibration data, by least squares"
    command.add_argument("--compensate", action="store_true", help=about)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.page.page import need_library
    from twinfer.command_line.show.conversion import chosen_tables
    from twinfer.command_line.terminal import progress, say, show
    from twinfer.converter.convert import conversion
    from twinfer.converter.offline.stored import stored_plan
    from twinfer.converter.source import open_source
    from twinfer.runtime.errors import InvalidArgumentError
    from twinfer.runtime.read.files import check_places
    from twinfer.runtime.write.tflite import check_suffix

    model = open_source(arguments.model)
    read = [*files_read(arguments.model, model), arguments.calibration, arguments.recipe, arguments.samples]
    check_places([arguments.output, arguments.report], inputs=read)
    check_suffix(arguments.output)
    if arguments.report is not None and not (arguments.quantize or arguments.prune or arguments.cluster):
        raise InvalidArgumentError("--report shows what --quantize, --prune and --cluster cost: give one of them, too")
    if arguments.report is not None and _is_page(arguments.report):
        need_library()
    with progress(1) as told:
        told(0, "reading", 0)
        source, dump = source_of(model), _dump(arguments.dump, read)
        made = conversion(source, **_how(arguments), after=dump, progress=_step(told, "calibrating"))
    check = checked(source, made, arguments, _how(arguments)["constants"])
    made.graph.save(arguments.output)
    say(f"{arguments.output}: {_summary(made.graph)}")
    if arguments.store_plan:
        say(str(stored_plan(made.graph)))
    report = None if arguments.report is None else _compare(made, arguments.calibration)
    if made.chosen is not None:
        show(chosen_tables(made.chosen))
        say(f"auto: {made.chosen}")
    if (quality := made.quality) is not None:
        costly = quality.worst if report is None else report.sensitivity[: len(quality.worst)]
        say(f"{arguments.quantize}: {replace(quality, worst=costly)}")  # the figures that the report shows
    if report is not None:
        _show(report, arguments.report, Path(arguments.output).name)
    return show_check(check, whole=is_asked(arguments))


def _is_page(file: str) -> bool:
    return file.lower().endswith(".html")


def _how(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments of ``conversion`` that say how."""
    from twinfer.command_line.arrays import constants_of

    return {
        **{name: getattr(arguments, name) for name in _GIVEN},
        "inference_type": arguments.inference_type and arguments.inference_type.upper(),
        "shapes": shapes_of(arguments.shape),
        "constants": constants_of(arguments.constant),
        "passes": passes_of(arguments.passes),
        "target": None if arguments.target is None else machine(arguments.target)[0],
    }


def _step(told: Callable[[int, str, float], None], what: str) -> Progress:
    """A callback that moves the bar after every sample."""
    return lambda done, total: told(0, f"{what}: sample {done}", done / (total or done + 1))


def passes_of(names: str | None) -> list[Pass] | None:
    """The passes of these names; None for the pipeline."""
    from twinfer.converter.passes import PASSES
    from twinfer.runtime.errors import InvalidArgumentError

    if names is None:
        return None
    wanted = [] if names == "none" else names.split(",")
    if unknown := [name for name in wanted if name not in PASSES]:
        raise InvalidArgumentError(f"--passes: there is no {unknown[0]!r}; there are: {', '.join(sorted(PASSES))}")
    return [PASSES[name] for name in wanted]


def _dump(folder: str | None, read: Sequence[Any]) -> Callable[[str, Graph], None] | None:
    """A callback that writes each graph to a numbered file of the folder, never over a file that was read."""
    if folder is None:
        return None
    from twinfer.converter.text import text
    from twinfer.runtime.read.files import check_folder, check_places, write_text, writing

    numbers, place = count(1), Path(folder)
    check_folder(place)
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)

    def write(name: str, graph: Graph) -> None:
        path = place / f"{next(numbers):02}-{name}.txt"
        check_places([path], inputs=read)
        write_text(path, text(graph))

    return write


def _summary(graph: Graph) -> str:
    """How many operators there are and how many of them are float, and the bytes of constants."""
    from twinfer.command_line.show.description import constant_bytes

    nodes = [node for each in (graph, *graph.subgraphs) for node in each.nodes]
    left = sum(any(t.type == "FLOAT32" for t in node.outputs) for node in nodes)
    return f"{len(nodes)} operators, {left} of them float, {constant_bytes(graph):,} constant bytes"


def _compare(conversion: Conversion, samples: str) -> Report:
    """What the conversion costs and saves."""
    from twinfer.command_line.terminal import progress
    from twinfer.converter.compress.layers import footprints
    from twinfer.converter.quantize.compare import Report, compare, sensitivity

    if not conversion.seen:
        return Report(compression=footprints(conversion.flat))
    with progress(1) as told:
        report = compare(conversion.source, conversion.flat, samples, conversion.seen, _step(told, "comparing"))
        costs = sensitivity(conversion.pruned, conversion.flat, samples, _step(told, "sensitivity"))
    return replace(report, sensitivity=costs)


def _show(report: Report, file: str, name: str) -> None:
    """Show a report, and write it to ``file`` unless that is empty."""
    from twinfer.command_line.show.conversion import tables
    from twinfer.command_line.terminal import show
    from twinfer.runtime.read.files import write_text

    if _is_page(file):
        from twinfer.command_line.show.conversion_html import report_html

        write_text(file, report_html(report, name))
    elif file:
        write_text(file, json.dumps(report.json(), indent=1) + "\n")
    show(tables(report))


ABOUT = "turn a float model into a .tflite file, optimised and, on request, quantised"
COMMAND = Command("convert", ABOUT, EXAMPLES, add_arguments, run, more=STATUS)
