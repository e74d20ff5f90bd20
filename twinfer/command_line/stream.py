"""``twinfer stream``."""

from __future__ import annotations

import argparse

from twinfer.command_line.command import EXIT_DIFFERS, Command
from twinfer.command_line.options import MODEL

EXAMPLES = ("kws_int8 -o streaming.tflite", "tcn.tflite -o streaming.tflite --hop 4")


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    command.add_argument("-o", "--output", required=True, metavar="OUT", help="the .tflite file to write")
    about = "the dimension of the input that is time (default: the first with more than one element)"
    command.add_argument("--axis", type=int, metavar="N", help=about)
    about = "new rows per step (default: the fewest that fit the strides)"
    command.add_argument("--hop", type=int, metavar="ROWS", help=about)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.models.source import file_of, load
    from twinfer.command_line.show.stream import tables
    from twinfer.command_line.terminal import show
    from twinfer.converter.stream.convert import prove, stream
    from twinfer.runtime.read.files import check_places
    from twinfer.runtime.write.tflite import check_suffix

    check_suffix(arguments.output)
    check_places([arguments.output], inputs=[file_of(arguments.model)])
    graph = load(arguments.model).graph
    streaming = stream(graph, axis=arguments.axis, hop=arguments.hop)
    proof = prove(graph, streaming)
    if not proof.different:
        streaming.graph.save(arguments.output)
    show(tables(graph, streaming, proof, arguments.output))
    return EXIT_DIFFERS if proof.different else 0


ABOUT = "turn a model over a sliding window into one that takes only the new rows"
COMMAND = Command("stream", ABOUT, EXAMPLES, add_arguments, run)
