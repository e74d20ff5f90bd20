"""``twinfer fit``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from twinfer.command_line.command import EXIT_DIFFERS, Command
from twinfer.command_line.options import byte_count, files_read, shapes_of, share, source_of, write_json

if TYPE_CHECKING:
    from twinfer.bench.fit.fit import Fitted

EXAMPLES = (
    "model.onnx --board nucleo-f446re --data samples.npz -o firmware",
    "model.tflite --board pico --data samples.npz --ram 64K --flash 256K --max-ms 20 --max-loss 0.5% -o firmware",
)

STATUS = "\n\nexit status: 0 it fits and is written, 1 it does not fit"


def add_arguments(command: argparse.ArgumentParser) -> None:
    about = "a float .onnx, .keras, .pt2 (torch.export) or .tflite file, or the name of a built-in model"
    command.add_argument("model", metavar="MODEL", help=about)
    about = "a board (twinfer boards lists them), or a .toml file that describes one"
    command.add_argument("--board", required=True, metavar="BOARD", help=about)
    about = "a .npz file: an array for every input by its name, samples along the first axis; and labels, if there are "
    about += "any: whole numbers are classes, floats targets"
    command.add_argument("--data", required=True, metavar="DATA", help=about)
    command.add_argument("-o", "--output", metavar="FOLDER", help="where to write model.tflite and its C, as FOLDER/c")
    command.add_argument("--ram", type=byte_count, metavar="BYTES", help="the most RAM it may take: 65536 or 64K")
    command.add_argument("--flash", type=byte_count, metavar="BYTES", help="the most flash it may take")
    about = "the most milliseconds that a run may take, as estimated for the board's clock"
    command.add_argument("--max-ms", type=float, metavar="MS", help=about)
    about = "the most that may be lost of the share of right answers (default, where there are labels: 0.5%%)"
    command.add_argument("--max-loss", type=share, metavar="LOSS", help=about)
    about = "the least signal-to-noise ratio of every output in dB (default, where there are no labels: 25)"
    command.add_argument("--min-snr", type=float, metavar="DB", help=about)
    about = "the input is a window that moves on by ROWS rows between runs (by default the fewest that the model "
    about += "allows), so that a stream over the new rows may take its place"
    command.add_argument("--stream", type=int, nargs="?", const=0, metavar="ROWS", help=about)
    about = "the shape of an input whose dimensions the model leaves open"
    command.add_argument("--shape", action="append", default=[], metavar="NAME=D,D,…", help=about)
    command.add_argument("--html", metavar="FILE", help="write a page with all that was possible to FILE")
    command.add_argument("--json", metavar="FILE", help="write all that was possible to FILE, too; - for that alone")


def run(arguments: argparse.Namespace) -> int:
    from twinfer.aot.build.catalogue import board
    from twinfer.bench.fit.fit import fit
    from twinfer.bench.page.page import need_library
    from twinfer.command_line.show.fit import described, tables
    from twinfer.command_line.show.fit_html import fit_html
    from twinfer.command_line.terminal import note, progress, say, show
    from twinfer.converter.source import open_source
    from twinfer.runtime.read.files import check_places, write_text

    read = files_read(arguments.model, open_source(arguments.model))
    check_places([arguments.html, arguments.json], inputs=[*read, arguments.data])
    if arguments.html:
        need_library()
    on = board(arguments.board).limited(arguments.ram, arguments.flash)
    limits = {"max_ms": arguments.max_ms, "max_loss": arguments.max_loss, "min_snr": arguments.min_snr}
    limits["new_rows"] = arguments.stream
    with progress(1) as told:
        told(0, "reading", 0)
        source = source_of(arguments.model)
        found: Fitted = fit(
            source,
            on,
            arguments.data,
            **limits,
            name=Path(arguments.model).stem,
            shapes=shapes_of(arguments.shape),
            told=lambda what, done: told(0, what, done),
        )
    if arguments.html:
        write_text(arguments.html, fit_html(found))
    if arguments.json:
        write_json(arguments.json, described(found))
    if arguments.json != "-":
        show(tables(found))
    if not found.fits:
        note(f"{found.name} does not fit {found.board.name}: {found.best.short}")
        return EXIT_DIFFERS
    if arguments.output:
        found.write(arguments.output)
        say(f"{arguments.output}: model.tflite, and C in {arguments.output}/c; try: make -C {arguments.output}/c test")
    return 0


ABOUT = "find the cheapest firmware of a float model for a board, within a loss, and write it"
COMMAND = Command("fit", ABOUT, EXAMPLES, add_arguments, run, more=STATUS)
