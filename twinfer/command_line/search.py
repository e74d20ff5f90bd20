"""``twinfer search``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from twinfer.command_line.command import EXIT_DIFFERS, Command, interrupted
from twinfer.command_line.options import files_read, shapes_of, share, source_of, write_json
from twinfer.command_line.targets import machine, words

if TYPE_CHECKING:
    from twinfer.converter.search.find import Found, How
    from twinfer.runtime.target import Target

EXAMPLES = (
    "model.onnx --data samples.npz --max-loss 0.01 -o model.tflite",
    "model.tflite --data samples.npz --max-loss 0.01 --resume search.jsonl --html search.html --json search.json",
    "model.onnx --data samples.npz --max-loss 0.005 --cost arena --target cortex-m4 --dask tcp://10.0.0.1:8786",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    about = "a float .onnx, .keras, .pt2 (torch.export) or .tflite file, or the name of a built-in model"
    command.add_argument("model", metavar="MODEL", help=about)
    about = "a .npz file: an array for every input by its name, samples along the first axis; and, if there are any, "
    about += "one called labels: whole numbers are classes, floats targets (without: what the float model says)"
    command.add_argument("--data", required=True, metavar="DATA", help=about)
    about = "the most that may be lost: of the share of right answers, or in relative squared error; 1%% or 0.01"
    command.add_argument("--max-loss", required=True, type=share, metavar="LOSS", help=about)
    command.add_argument("-o", "--output", metavar="OUT", help="the .tflite file to write the chosen model to")
    about = "samples that ranges are calibrated on (default: some of --data, on which no loss is measured then)"
    command.add_argument("--calibration", metavar="DATA", help=about)
    about = "how many samples of --data ranges are calibrated on (default: a quarter, at most 200)"
    command.add_argument("--calibrate", type=int, metavar="N", help=about)
    about = "what is compared: the arg-max or relative squared errors (default: answers where there can be such)"
    command.add_argument("--metric", choices=["auto", "answers", "error"], default="auto", help=about)
    _add_space(command)
    _add_workers(command)
    command.add_argument("--all", action="store_true", help="show all trials, not just the Pareto front")
    command.add_argument("--json", metavar="FILE", help="write everything to FILE, too; - for standard output alone")
    command.add_argument("--html", metavar="FILE", help="write a page with a picture of cost and loss to FILE, too")


def _add_space(command: argparse.ArgumentParser) -> None:
    about = "bytes of the .tflite file (flash, the default), of the constants or the arena that compiled C has on "
    about += "--target, or instructions of one inference there, counted under QEMU, which takes seconds per trial "
    about += "(estimated on generic and host); balanced: a third each of instructions, flash and RAM as estimated"
    costs = ["flash", "constants", "arena", "instructions", "balanced"]
    command.add_argument("--cost", choices=costs, default="flash", help=about)
    about = "generic (any 32-bit machine, the default), host, native (this CPU), cortex-m4, … or a board's .toml file"
    command.add_argument("--target", default="generic", help=about)
    about = (
        "methods of calibration, with commas: minmax, extended, moving-average, percentile, percentile-P, mse, entropy"
    )
    command.add_argument("--methods", type=words, metavar="NAMES", help=f"{about} (default: all)")
    about = "what model and layers may be in, with commas: int4, int8, int16x8, float (layers only; default: these), "
    about += "dynamic (int8 weights, float values, which TFLM refuses)"
    command.add_argument("--precisions", type=words, metavar="NAMES", help=about)
    about = "a recipe to try, too, as --recipe of convert; may be repeated"
    command.add_argument("--recipe", action="append", default=[], metavar="FILE", help=about)
    about = "type of the model's inputs and outputs (default: that of its precision)"
    command.add_argument("--inference-type", choices=["int8", "int16", "float32"], help=about)
    about = "give neighbouring layers' weights alike ranges first, as --equalize of convert"
    command.add_argument("--equalize", action="store_true", help=about)
    command.add_argument("--trials", type=int, default=64, metavar="N", help="trials at most (default: 64)")
    about = "decides how samples are split and which settings are tried; the same seed finds the same (default: 0)"
    command.add_argument("--seed", type=int, default=0, help=about)
    about = "the shape of an input whose dimensions the model leaves open"
    command.add_argument("--shape", action="append", default=[], metavar="NAME=D,D,…", help=about)
    about = "images that come in as NCHW go in and out as NHWC, in the data, too, as --channels-last of convert"
    command.add_argument("--channels-last", action="store_true", help=about)


def _add_workers(command: argparse.ArgumentParser) -> None:
    about = "write every trial to FILE, and do none again that is there already"
    command.add_argument("--resume", metavar="FILE", help=about)
    command.add_argument("--jobs", type=int, metavar="N", help="processes that try settings (default: one per CPU)")
    about = "the scheduler of a Dask cluster whose workers try settings: tcp://HOST:PORT"
    command.add_argument("--dask", metavar="ADDRESS", help=about)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.page.page import need_library
    from twinfer.command_line.show.search import document, tables, unmet
    from twinfer.command_line.show.search_html import search_html
    from twinfer.command_line.terminal import note, show
    from twinfer.converter.source import open_source
    from twinfer.runtime.read.files import check_places, write_text
    from twinfer.runtime.write.tflite import check_suffix

    check_suffix(arguments.output or "")
    sources = files_read(arguments.model, open_source(arguments.model))
    read = (*sources, arguments.data, arguments.calibration, *arguments.recipe, arguments.target)
    check_places((arguments.output, arguments.html, arguments.json, arguments.resume), inputs=read)
    if arguments.html:
        need_library()
    outcome, whole = _outcome(arguments)
    if arguments.output and outcome.chosen and whole:
        outcome.graph().save(arguments.output)
    if arguments.html:
        write_text(arguments.html, search_html(outcome, arguments.model))
    if arguments.json:
        write_json(arguments.json, document(outcome) | ({} if whole else {"interrupted": True}))
    if arguments.json != "-":
        show(tables(outcome, arguments.all))
    if not whole:
        left = f"up to {arguments.trials - len(outcome.trials)} of {arguments.trials} trials"
        return interrupted([left, *filter(None, [arguments.output])])
    if outcome.chosen is None:
        note(unmet(outcome))
        return EXIT_DIFFERS
    return 0


def _outcome(arguments: argparse.Namespace) -> tuple[Found, bool]:
    """What was found, and whether the search came to its end; Ctrl-C keeps the trials so far."""
    from twinfer.command_line.terminal import progress
    from twinfer.converter.search.find import Interrupted, search

    how, source = _how(arguments), source_of(arguments.model)
    with progress(max(1, arguments.trials)) as told:
        how["progress"] = lambda done, total, what: told(done, f"{done} of at most {total}" if done else what, 0)
        try:
            return search(source, arguments.data, arguments.max_loss, **how), True
        except Interrupted as stopped:
            return stopped.found, False


def _how(arguments: argparse.Namespace) -> How:
    """The arguments of ``search``, except model, data and budget."""
    cost, target = _cost(arguments.cost, arguments.target)
    how: How = {
        "calibration": arguments.calibration,
        "calibrate": arguments.calibrate,
        "metric": arguments.metric,
        "cost": cost,
        "target": target,
        "recipes": arguments.recipe,
        "inference_type": arguments.inference_type and arguments.inference_type.upper(),
        "equalize": arguments.equalize,
        "trials": arguments.trials,
        "seed": arguments.seed,
        "jobs": arguments.jobs,
        "dask": arguments.dask,
        "journal": arguments.resume,
        "shapes": shapes_of(arguments.shape),
        "channels_last": arguments.channels_last,
    }
    if arguments.methods is not None:
        how["methods"] = arguments.methods
    if arguments.precisions is not None:
        how["precisions"] = arguments.precisions
    return how


def _cost(cost: str, target: str) -> tuple[Any, Target]:
    """``cost`` and ``target`` of ``How``."""

    planned_for, board = machine(target)
    if cost != "instructions" or board is None:
        return cost, planned_for
    from twinfer.bench.measure.embedded import Instructions

    return Instructions(target), planned_for


ABOUT = "find the cheapest quantisation that loses no more accuracy than is allowed"
COMMAND = Command("search", ABOUT, EXAMPLES, add_arguments, run)
