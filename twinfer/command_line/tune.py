"""``twinfer tune``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from twinfer.command_line.command import Command
from twinfer.command_line.options import MODEL, positive, write_json

if TYPE_CHECKING:
    from twinfer.bench.host.tune import Tuned

ABOUT = "time every kernel that can compute a layer, for each layer, on this computer; remember the fastest"
EXAMPLES = ("kws_int8", "model.tflite --seconds 20", "model.tflite --json -")


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    command.add_argument(
        "--seconds", type=positive(float), default=5.0, help="time for all kernels together (default: 5)"
    )
    command.add_argument("--json", metavar="FILE", help="write the times to FILE, too; - for standard output alone")


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.host.tune import settings_of, tune
    from twinfer.bench.models.source import file_of, load
    from twinfer.command_line.show.tune import shown
    from twinfer.command_line.terminal import progress, show
    from twinfer.runtime.plan.tuned import save
    from twinfer.runtime.read.files import check_places
    from twinfer.runtime.run.isa import this_computer

    check_places([arguments.json], inputs=[file_of(arguments.model)])
    source = load(arguments.model)
    with progress(1) as told:
        tuned = tune(source.graph, arguments.seconds, partial(told, 0, source.name))
    kept = save(this_computer(), settings_of(tuned))
    if arguments.json:
        write_json(arguments.json, document(source.name, tuned))
    if arguments.json != "-":
        show(shown(source.name, tuned, str(kept)))
    return 0


def document(model: str, tuned: Sequence[Tuned]) -> dict[str, Any]:
    """The JSON document: of every layer the usual and the best way, and the shortest time of each in microseconds."""
    from twinfer.bench.host.tune import loss
    from twinfer.bench.measure.report import SCHEMA, machine
    from twinfer.command_line.show.tune import way_name

    layers = [
        {
            "index": layer.index,
            "op": layer.node.op,
            "shape": list(layer.node.output.shape),
            "usual": way_name(layer.usual),
            "best": way_name(layer.best),
            "min_us": {way_name(way): ns / 1e3 for way, ns in layer.times.items()},
        }
        for layer in tuned
    ]
    return {"schema": SCHEMA, "model": model, "machine": machine(), "loss": loss(tuned), "layers": layers}


COMMAND = Command("tune", ABOUT, EXAMPLES, add_arguments, run)
