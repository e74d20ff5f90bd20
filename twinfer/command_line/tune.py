"""``twinfer tune``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from twinfer.command_line.command import Command
from twinfer.command_line.options import MODEL, positive, write_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from twinfer.bench.host.tune import Tuned
    from twinfer.runtime.plan.tuned import Setting

ABOUT = "time every kernel that can compute a layer, for each layer, on this computer; remember the fastest"
EXAMPLES = ("kws_int8", "model.tflite --seconds 20", "model.tflite --json -")

#: The most by which the usual choice should be slower than the best, as a share.
FAIR = 0.05


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    command.add_argument(
        "--seconds", type=positive(float), default=5.0, help="time for all kernels together (default: 5)"
    )
    command.add_argument("--json", metavar="FILE", help="write the times to FILE, too; - for standard output alone")


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.host.tune import settings_of, tune
    from twinfer.bench.models.source import file_of, load
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
        show(tables(source.name, tuned, str(kept)))
    return 0


def tables(name: str, tuned: Sequence[Tuned], kept: str) -> Iterator[RenderableType]:
    """Each layer as it usually is and as it is best here, then both sums."""
    from rich.text import Text

    from twinfer.bench.host.tune import loss
    from twinfer.bench.measure.report import number, table

    grid = table(f"Ways to compute {name}", "#", "<operator", "<output", "<usual", "µs", "<best", "µs", "gain")
    for layer in tuned:
        usual, best = (layer.times[way] / 1e3 for way in (layer.usual, layer.best))
        same = layer.best == layer.usual
        grid.add_row(
            str(layer.index),
            layer.node.op,
            "×".join(map(str, layer.node.output.shape)),
            way_name(layer.usual),
            number(usual),
            Text("the same", style="dim") if same else way_name(layer.best),
            "" if same else number(best),
            "" if same else f"{100 * (usual / max(best, 1e-3) - 1):.0f} %",
        )
    yield grid
    share = loss(tuned)
    verdict = "within" if share <= FAIR else "not within"
    yield Text(f"The usual ways take {100 * share:.1f} % longer than the best: {verdict} {100 * FAIR:.0f} %.")
    yield Text(f"Kept in {kept}; Interpreter(tuned=True) and compile --target native --tuned take it.")


def way_name(way: Setting) -> str:
    """A way in a few words: its variant, and the size of its blocks if that is not the usual one."""
    return f"{way.variant}, blocks of {way.block}" if way.block else way.variant


def document(model: str, tuned: Sequence[Tuned]) -> dict[str, Any]:
    """The JSON document: of every layer the usual and the best way, and the shortest time of each in microseconds."""
    from twinfer.bench.host.tune import loss
    from twinfer.bench.measure.report import SCHEMA, machine

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
