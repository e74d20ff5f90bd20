"""``twinfer ops``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from twinfer.command_line.command import EXIT_DIFFERS, Command
from twinfer.command_line.foreign import add_shapes, is_foreign, need_no_shapes, preview, preview_tables
from twinfer.command_line.options import MODEL, TARGET, write_json

if TYPE_CHECKING:
    from twinfer.runtime.target import Target

ABOUT = "show which operators have kernels, for which types and targets, or what a model needs and lacks"
EXAMPLES = ("", "model.tflite --target cortex-m4", "model.tflite --json", "model.onnx")
STATUS = "\n\nexit status: 0 a model has all that it needs, 1 something is missing"


def add_arguments(command: argparse.ArgumentParser) -> None:
    about = f"{MODEL}; or a .onnx, .keras or .pt2 file, for what it would become; all operators if none is given"
    command.add_argument("model", nargs="?", metavar="MODEL", help=about)
    about = f"what to plan for: generic (any 32-bit machine), native (this CPU), {TARGET} (default: host; all kinds)"
    command.add_argument("--target", help=about)
    add_shapes(command)
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print it as JSON")
    form.add_argument("--markdown", action="store_true", help="print all operators as a page of Markdown")


def run(arguments: argparse.Namespace) -> int:
    from twinfer.command_line.show.support import describe, page, tables
    from twinfer.command_line.terminal import show
    from twinfer.runtime.support import forms

    if arguments.model is not None:
        return _model(arguments)
    targets = _targets(arguments.target)
    every = list(forms(targets))
    if arguments.json:
        write_json("-", describe(every))
    elif arguments.markdown:
        sys.stdout.write(page(every, targets))
    else:
        show(tables(every, targets))
    return 0


def _targets(name: str | None) -> list[Target]:
    """The target asked for, else one of every kind, microcontrollers first."""
    from twinfer.command_line.targets import machine
    from twinfer.runtime.target import REFERENCE, TARGETS

    kinds = sorted(set(TARGETS) - {REFERENCE}, key=lambda kind: (not kind.flash_is_dear, TARGETS.index(kind)))
    return kinds if name is None else [machine(name)[0]]


def _model(arguments: argparse.Namespace) -> int:
    from twinfer.bench.models.source import load
    from twinfer.command_line.show.support import described_model, model_table
    from twinfer.command_line.targets import machine
    from twinfer.command_line.terminal import show
    from twinfer.runtime.errors import InvalidArgumentError
    from twinfer.runtime.support import audit

    if arguments.markdown:
        raise InvalidArgumentError("--markdown is for the page of all operators: leave MODEL out")
    target, _ = machine(arguments.target or "host")
    if is_foreign(arguments.model):
        return _foreign(arguments, target)
    need_no_shapes(arguments)
    source = load(arguments.model)
    result = audit(source.graph, target)
    if arguments.json:
        write_json("-", described_model(source.name, target.name, result))
    else:
        show(model_table(source.name, target.name, result))
    return EXIT_DIFFERS if result.missing else 0


def _foreign(arguments: argparse.Namespace, target: Target) -> int:
    """What a model of another framework is made of, what lacks, and what it would become."""
    from twinfer.bench.models.source import name_of
    from twinfer.command_line.show.support import described_model, model_table
    from twinfer.command_line.terminal import show
    from twinfer.runtime.support import Audit, audit

    found, name = preview(arguments), name_of(arguments.model)
    result = Audit((), found.missing) if found.graph is None else audit(found.graph, target)
    if arguments.json:
        write_json("-", {**described_model(name, target.name, result), "source": dict(found.operators)})
    else:
        became = () if found.graph is None else model_table(f"{name}, converted", target.name, result)
        show([*preview_tables(name, found), *became])
    return EXIT_DIFFERS if result.missing else 0


COMMAND = Command("ops", ABOUT, EXAMPLES, add_arguments, run, more=STATUS)
