"""``twinfer demo``."""

from __future__ import annotations

import argparse

from twinfer.command_line.command import Command
from twinfer.command_line.options import MODEL

ABOUT = "write a web page that runs models in the browser: draw a digit, speak a word, show something to the camera"
EXAMPLES = (
    "-o site && python -m http.server -d site",
    "model.tflite -o site",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    about = f"{MODEL}; several share the page (default: digits, kws, vww and ic)"
    command.add_argument("models", metavar="MODEL", nargs="*", help=about)
    command.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="folder to write; an earlier run's is replaced"
    )


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.demo.site import USUAL, write_site
    from twinfer.bench.models.source import file_of, load
    from twinfer.command_line.terminal import say
    from twinfer.runtime.read.files import check_folder

    check_folder(arguments.output, inputs=tuple(map(file_of, arguments.models)))
    sources = [load(model) for model in arguments.models or USUAL]
    for line in write_site(sources, arguments.output):
        say(line)
    say(f"look at it: python -m http.server -d {arguments.output}, then http://localhost:8000")
    return 0


COMMAND = Command("demo", ABOUT, EXAMPLES, add_arguments, run)
