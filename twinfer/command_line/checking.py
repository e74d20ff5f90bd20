"""What ``convert`` says of its result beside the source, as the source's own runtime computes it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from twinfer.command_line.command import EXIT_DIFFERS
from twinfer.command_line.options import positive

if TYPE_CHECKING:
    from twinfer.converter.check import Check
    from twinfer.converter.convert import Conversion
    from twinfer.runtime.graph import Array

#: Nobody has to ask for a check of models with fewer bytes and multiply-accumulates: it takes about a second.
SMALL_BYTES, SMALL_MACS = 20_000_000, 500_000_000

#: How many samples are drawn, and used of the calibration data, for a check that nobody asked for.
DRAWN, USED = 1, 8


def add_check(command: argparse.ArgumentParser) -> None:
    about = "run source and result on samples, the source in its own runtime (ONNX Runtime, Keras, PyTorch), and show "
    about += (
        "each output's error; models below 20 MB that run fast are checked on one sample unless --no-check is given"
    )
    command.add_argument("--check", action=argparse.BooleanOptionalAction, default=None, help=about)
    about = "the samples to check with, as --calibration (default: those of --calibration, else random ones)"
    command.add_argument("--samples", metavar="DATA", help=about)
    about = "the largest error, as a share of the output's range (default: 1e-4; 0.01 for sources of 16-bit floats; "
    about += "none for quantised and pruned results); exit status 1 beyond it"
    command.add_argument("--max-error", type=positive(float), metavar="SHARE", help=about)


def is_asked(arguments: argparse.Namespace) -> bool:
    asked = arguments.samples is not None or arguments.max_error is not None
    return arguments.check is True or (arguments.check is None and asked)


def checked(
    source: Any, made: Conversion, arguments: argparse.Namespace, constants: Mapping[str, Any] | None
) -> Check | None:
    """The conversion beside its source; None without a check, or where one that nobody asked for cannot be made.

    Of a result that is quantised or compressed, such a check looks at the floats before that.
    """
    from twinfer.converter.check import check
    from twinfer.runtime.errors import InvalidArgumentError, TwinferError

    if arguments.check is False:
        if arguments.samples is not None or arguments.max_error is not None:
            raise InvalidArgumentError("--samples and --max-error are for a check: leave --no-check out")
        return None
    how: dict[str, Any] = {"constants": constants, "imported": made.imported, "layout": made.source}
    lossy = made.flat is not made.source
    if is_asked(arguments):
        engines = {"LiteRT": partial(_by_peer, "litert")}
        samples = arguments.samples or arguments.calibration
        how |= {"bound": arguments.max_error, "lossy": lossy, "plan": made.plan}
        return check(source, made.graph, samples, engines=engines, **how)
    if not _is_small(source, made):
        return None
    try:
        result, plan = (made.source, None) if lossy else (made.graph, made.plan)
        return check(source, result, arguments.calibration, drawn=DRAWN, most=USED, plan=plan, **how)
    except TwinferError:
        return None


def _is_small(source: Any, made: Conversion) -> bool:
    from twinfer.converter.source import files_of

    files = [file for file in files_of(source) if os.path.isfile(file)]
    constants = sum(t.nbytes for t in made.imported.tensors if t.data is not None)
    if max(constants, sum(map(os.path.getsize, files))) >= SMALL_BYTES:
        return False
    return made.plan is not None and made.plan.macs < SMALL_MACS


def _by_peer(peer: str, content: bytes, samples: Sequence[Sequence[Array]], outputs: int) -> Sequence[Sequence[Array]]:
    from twinfer.bench.peers.engines import isolate

    return isolate(peer, content, samples, outputs)


def show_check(check: Check | None, *, whole: bool) -> int:
    """Show a check: as tables, or in one line. Returns the exit status."""
    from twinfer.command_line.show.check import tables
    from twinfer.command_line.terminal import note, say, show

    if check is None:
        return 0
    if whole:
        show(tables(check))
    if check.good:
        say(f"check: {check}")
        return 0
    note(f"check: {check}")
    return EXIT_DIFFERS
