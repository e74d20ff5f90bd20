"""``twinfer tflm``."""

from __future__ import annotations

import argparse

from twinfer.command_line.command import EXIT_DIFFERS, Command
from twinfer.command_line.options import MODEL

EXAMPLES = ("model.tflite", "model.tflite --ops firmware/main.cc")
STATUS = """

exit status: 0, or 1 if the firmware of --ops lacks an operator, or TFLM has none"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    about = "a source with a resolver's Add… calls, or a list of operators' names: says which of the model's it lacks"
    command.add_argument("--ops", metavar="FILE", help=about)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.models.source import load
    from twinfer.bench.tflm.arena import arena_size
    from twinfer.bench.tflm.resolver import CALLS, call, lacking, operators
    from twinfer.command_line.terminal import say
    from twinfer.runtime.read.files import read_bytes

    source = load(arguments.model)
    needed = operators(source.graph)
    text = read_bytes(arguments.ops).decode("utf-8", "replace") if arguments.ops else None
    size = arena_size(source.graph, source.content)
    say(f"tensor_arena_size {size.nbytes}: {size.how}\n")
    say(f"static tflite::MicroMutableOpResolver<{max(1, len(needed))}> resolver;")
    for op in needed:
        say(call(op))
    missing = [op for op in needed if op not in CALLS and not op.startswith("CUSTOM:")]
    if text is not None:
        missing = list(dict.fromkeys([*lacking(source.graph, text), *missing]))
        named = ", ".join(missing)
        say(f"\n{arguments.ops} {f'lacks {named}' if missing else 'registers all that the model needs'}")
    return EXIT_DIFFERS if missing else 0


ABOUT = "say what a model needs in TFLM: bytes of arena, the resolver's calls, what a firmware lacks"
COMMAND = Command("tflm", ABOUT, EXAMPLES, add_arguments, run, STATUS)
