"""``twinfer weights``."""

from __future__ import annotations

import argparse
from pathlib import Path

from twinfer.command_line.command import Command
from twinfer.command_line.options import MODEL, add_io

EXAMPLES = (
    "new.tflite --like model_c -o model.bin",
    "new.tflite --like both --name kws_int8 -o kws.bin",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=f"the model trained anew: {MODEL}")
    about = "the folder that twinfer compile --weights-as blob, or paged, has written: the code that stays"
    command.add_argument("--like", required=True, metavar="FOLDER", help=about)
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="the file of weights to write")
    command.add_argument("--name", default="", help="which model of a folder with several")
    add_io(command)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.aot.build.update import weights_for
    from twinfer.bench.models.source import file_of, load_with
    from twinfer.command_line.terminal import say
    from twinfer.runtime.read.files import check_places, write_whole

    check_places([arguments.output], inputs=[file_of(arguments.model)])
    project = weights_for(load_with(arguments.model, arguments.io).graph, Path(arguments.like), arguments.name)
    write_whole(arguments.output, lambda file: file.write(project.weights))
    say(f"{arguments.output}: {len(project.weights):,} bytes for the code in {arguments.like}")
    return 0


COMMAND = Command(
    "weights", "write the weights of a model trained anew for code that stays", EXAMPLES, add_arguments, run
)
