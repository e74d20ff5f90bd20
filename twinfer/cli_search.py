"""``twinfer search``: its arguments, and the table that it shows."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from twinfer.converter.search.find import Found, How
    from twinfer.converter.search.trial import Trial
    from twinfer.runtime.target import Target

EXAMPLES = (
    "model.onnx --data samples.npz --max-loss 0.01 -o model.tflite",
    "model.tflite --data samples.npz --max-loss 0.01 --resume search.jsonl --html search.html --json search.json",
    "model.onnx --data samples.npz --max-loss 0.005 --cost arena --target cortex-m4 --dask tcp://10.0.0.1:8786",
)

#: What a score is called.
SCORES = {"answers": "right", "error": "error"}


def add_arguments(command: argparse.ArgumentParser) -> None:
    about = "a float .onnx, .keras, .pt2 (torch.export) or .tflite file, or the name of a built-in model"
    command.add_argument("model", metavar="MODEL", help=about)
    about = "a .npz file: an array for every input by its name, samples along the first axis; and, if there are any, "
    about += "one called labels: whole numbers are classes, floats targets (without: what the float model says)"
    command.add_argument("--data", required=True, metavar="DATA", help=about)
    about = "the most that may be lost: of the share of right answers, or in relative squared error; 1%% or 0.01"
    command.add_argument("--max-loss", required=True, type=_share, metavar="LOSS", help=about)
    command.add_argument("-o", "--output", metavar="OUT", help="the .tflite file to write the chosen model to")
    about = "samples that ranges are calibrated on (default: some of --data, which then do not judge)"
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
    about += "--target, or instructions of one inference there, counted under QEMU, which takes seconds a trial"
    command.add_argument("--cost", choices=["flash", "constants", "arena", "instructions"], default="flash", help=about)
    about = "generic (any 32-bit machine, the default), host, cortex-m4, … or a .toml file that describes a board"
    command.add_argument("--target", default="generic", help=about)
    about = "methods of calibration, with commas: minmax, moving-average, percentile, percentile-P, mse, entropy"
    command.add_argument("--methods", type=_names, metavar="NAMES", help=f"{about} (default: all)")
    about = "what model and layers may be in, with commas: int4, int8, int16x8, float (layers only; default: all)"
    command.add_argument("--precisions", type=_names, metavar="NAMES", help=about)
    about = "a recipe to try, too, as --recipe of convert; may be repeated"
    command.add_argument("--recipe", action="append", default=[], metavar="FILE", help=about)
    about = "type of the model's inputs and outputs (default: that of its precision)"
    command.add_argument("--inference-type", choices=["int8", "int16", "float32"], help=about)
    about = "give neighbouring layers' weights alike ranges first, as --equalize of convert"
    command.add_argument("--equalize", action="store_true", help=about)
    command.add_argument("--trials", type=int, default=64, metavar="N", help="trials at most (default: 64)")
    about = "of the split of the samples and of the search; the same seed finds the same (default: 0)"
    command.add_argument("--seed", type=int, default=0, help=about)
    about = "the shape of an input whose dimensions the model leaves open"
    command.add_argument("--shape", action="append", default=[], metavar="NAME=D,D,…", help=about)
    about = "images that come in as NCHW go in and out as NHWC, in the data, too, as --channels-last of convert"
    command.add_argument("--channels-last", action="store_true", help=about)


def _add_workers(command: argparse.ArgumentParser) -> None:
    about = "a journal: every trial is noted there, and none that it has is done again"
    command.add_argument("--resume", metavar="FILE", help=about)
    command.add_argument("--jobs", type=int, metavar="N", help="processes that try settings (default: one a CPU)")
    about = "the scheduler of a Dask cluster whose workers try settings: tcp://HOST:PORT"
    command.add_argument("--dask", metavar="ADDRESS", help=about)


def _share(text: str) -> float:
    """1% or 0.01, both as the same number."""
    try:
        return float(Decimal(text.rstrip("% ")) / (100 if "%" in text else 1))
    except ArithmeticError:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: write 1% or 0.01") from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def search(arguments: argparse.Namespace) -> int:
    from twinfer.cli import EXIT_DIFFERS
    from twinfer.runtime.read.files import write_text
    from twinfer.search_html import search_html
    from twinfer.terminal import note, show

    _check_places(arguments)
    found = _found(arguments)
    if arguments.output and found.chosen:
        found.graph().save(arguments.output)
    if arguments.html:
        write_text(arguments.html, search_html(found, arguments.model))
    if arguments.json:
        text = json.dumps(document(found), indent=1) + "\n"
        sys.stdout.write(text) if arguments.json == "-" else write_text(arguments.json, text)
    if arguments.json != "-":
        show(tables(found, arguments.all))
    if found.chosen is None:
        note(unmet(found))
        return EXIT_DIFFERS
    return 0


def _check_places(arguments: argparse.Namespace) -> None:
    from twinfer.converter.source import files_of, opened
    from twinfer.runtime.read.files import check_places
    from twinfer.runtime.write.tflite import check_suffix

    check_suffix(arguments.output or "")
    written = arguments.output, arguments.html, arguments.json, arguments.resume
    model = files_of(opened(arguments.model))
    read = *model, arguments.data, arguments.calibration, *arguments.recipe, arguments.target
    check_places(written, inputs=read)


def _found(arguments: argparse.Namespace) -> Found:
    from twinfer.cli_convert import source_of
    from twinfer.converter.search.find import search as find
    from twinfer.terminal import progress

    how, source = _how(arguments), source_of(arguments.model)
    with progress(max(1, arguments.trials)) as told:
        how["progress"] = lambda done, total, what: told(done, f"{done} of at most {total}" if done else what, 0)
        return find(source, arguments.data, arguments.max_loss, **how)


def _how(arguments: argparse.Namespace) -> How:
    """The arguments of ``search`` but for model, data and budget."""
    from twinfer.cli_convert import shapes_of

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
    from twinfer.runtime.errors import InvalidArgumentError
    from twinfer.targets import machine

    planned_for, board = machine(target)
    if cost != "instructions":
        return cost, planned_for
    if board is None:
        raise InvalidArgumentError("--cost instructions needs a microcontroller to count on: --target cortex-m4, …")
    from twinfer.bench.measure.embedded import Instructions

    return Instructions(target), planned_for


def unmet(found: Found) -> str:
    """Why nothing was chosen."""
    count, least = len(found.trials), found.least
    if least is None:
        return f"all {count} trials failed; the first one: {found.trials[0].error}"
    best = f"the least loss found is {least.loss:.5f} ({least.setting})"
    return f"none of {count} trials loses at most {found.max_loss:g}: {best}; allow more, or more --trials"


def document(found: Found) -> dict[str, Any]:
    """Everything as JSON has it; ``rule`` of a setting is that of a recipe file."""
    front = {trial.setting for trial in found.front}
    return {
        "schema": 1,
        "max_loss": found.max_loss,
        **{key: value for key, value in found.search.items() if key != "search"},
        "float": {"cost": found.float_cost, "score": found.job.judge.float_score},
        "chosen": None if found.chosen is None else found.trials.index(found.chosen),
        "trials": [{**_row(trial), "front": trial.setting in front} for trial in found.trials],
    }


def _row(trial: Trial) -> dict[str, Any]:
    """A failed trial has its error in place of figures."""
    about = {"setting": trial.setting.json(), "seconds": trial.seconds}
    if trial.error:
        return {**about, "error": trial.error}
    keys = ("cost", "loss", "score", "snr_db", "sha256")
    return {**about, **{key: getattr(trial, key) for key in keys}}


def tables(found: Found, every: bool = False) -> Iterator[RenderableType]:
    """The Pareto front, or ``every`` trial in the order tried, the chosen one marked; then why trials failed."""
    from rich.text import Text

    yield _table(found, [t for t in found.trials if not t.error] if every else found.front)
    search = found.search
    by = f"{search['calibrated']:,} samples calibrated on, {search['judged']:,} others judged; seed {search['seed']}"
    yield Text(f"{by}. Loss: {LOSSES[search['metric']]}.")
    yield from (Text(f"failed: {t.setting}: {t.error}", style="yellow") for t in found.trials if t.error)


#: What a loss is, by metric.
LOSSES = {
    "answers": "share of right answers less than the float model's",
    "error": "relative squared error beyond the float model's",
}


def _table(found: Found, trials: Sequence[Trial]) -> Table:
    from rich.text import Text

    from twinfer.bench.measure.report import table

    metric, cost = found.search["metric"], found.search["cost"]
    kind = "Trials" if len(trials) > len(found.front) else "Pareto front"
    title = f"{kind} of {len(found.trials)}, a loss of at most {found.max_loss:g} allowed"
    figures = ("instructions" if cost == "instructions" else f"{cost} B", "of float", "loss", SCORES[metric], "SNR dB")
    made = table(title, "<", *figures, "<setting", gap=1)
    float_cost = found.float_cost
    score = f"{found.job.judge.float_score:.4f}"
    made.add_row("", f"{float_cost:,}", "100.0 %", "", score, "", "float")
    for trial in trials:
        chosen = trial == found.chosen
        share = f"{100 * trial.cost / float_cost:.1f} %"
        figures = (f"{trial.cost:,}", share, f"{trial.loss:.5f}", f"{trial.score:.4f}", f"{trial.snr_db:.1f}")
        style = "bold green" if chosen else ""
        made.add_row("→" if chosen else "", *figures, Text(str(trial.setting)), style=style)
    return made
