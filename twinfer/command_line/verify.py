"""``twinfer verify``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from twinfer.command_line.command import EXIT_DIFFERS, EXIT_USAGE, Command, complain_of, interrupted
from twinfer.command_line.options import (
    GUARD,
    MODEL,
    OPTIMIZE,
    add_float,
    add_io,
    add_optimize,
    add_storage,
    add_targets,
    add_threads,
    natural,
    note_unused_storage,
    positive,
)
from twinfer.command_line.targets import cards, need_tools, peers
from twinfer.runtime.errors import TwinferError

if TYPE_CHECKING:
    from twinfer.bench.models.source import Source
    from twinfer.bench.models.verify import Proof
    from twinfer.runtime.options import Options
    from twinfer.runtime.passes.ends import Io

ABOUT = "prove that numpy, interpreter, compiled code, tflite-micro and LiteRT agree on every tensor"
EXAMPLES = ("kws_int8", "models/*.tflite --samples 4 --against tflm", "kws_int8 --target cortex-m4,cortex-m55")
STATUS = "\n\nexit status: 0 all agree, 1 something differs, 2 a model cannot be run"


@dataclass(frozen=True)
class Prover:
    """Proves one model and tells the share that is done; ``engines`` are the columns of its matrix, ``where`` is for
    readers."""

    where: str
    engines: Sequence[str]
    prove: Callable[[Source, Callable[[float], None]], Proof]


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("models", nargs="+", metavar="MODEL", help=MODEL)
    command.add_argument("--seed", type=natural, default=0, help="seed of the first input (default: 0)")
    command.add_argument(
        "--samples", type=positive(int), default=1, metavar="K", help="inputs to compare on (default: 1)"
    )
    about = "tflm, litert-ref, or none (default: those installed)"
    command.add_argument("--against", metavar="PEERS", help=about)
    add_targets(command)
    add_optimize(command, f"of compiled code, {OPTIMIZE}")
    add_storage(command)
    add_float(command)
    add_io(command)
    add_threads(command, "on this computer, split large layers over so many threads")
    command.add_argument("--guard", action="store_true", help=GUARD)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.command_line.show.matrix import findings, matrix
    from twinfer.command_line.terminal import show

    provers = _provers(arguments)
    proofs, failed, missing = _proofs(arguments.models, arguments.io, provers)
    for prover, proven in zip(provers, proofs, strict=True):
        show(matrix(proven, prover.engines))
        show(findings(proven))
    if missing:
        return interrupted(missing)
    every = [proof for proven in proofs for proof in proven]
    failed = EXIT_USAGE if any(proof.unrun for proof in every) else failed
    return failed if all(proof.proven for proof in every) else EXIT_DIFFERS


def _proofs(names: Sequence[str], io: Io, provers: Sequence[Prover]) -> tuple[list[list[Proof]], int, list[str]]:
    """The proofs of every prover, the exit status (EXIT_USAGE if a model could not be run) and, after Ctrl-C, what is
    missing."""
    from twinfer.bench.models.source import load_with
    from twinfer.command_line.terminal import progress

    proofs: list[list[Proof]] = [[] for _ in provers]
    every, failed, at = list(product(names, range(len(provers)))), 0, 0
    try:
        with progress(len(every)) as told:
            for at, (name, k) in enumerate(every):
                told(at, name, 0)
                try:
                    proofs[k].append(provers[k].prove(load_with(name, io), partial(told, at, name)))
                except TwinferError as error:
                    failed = complain_of(name, error)
    except KeyboardInterrupt:
        return proofs, failed, [f"{name} {provers[k].where}" for name, k in every[at:]]
    return proofs, failed, []


def _provers(arguments: argparse.Namespace) -> list[Prover]:
    """A prover for this computer, and one for all the microcontrollers."""
    chosen = cards(arguments.target)
    boards = [board for board in chosen if board is not None]
    provers = [_on_host(arguments)] if None in chosen else []
    return [*provers, _on_boards(boards, arguments)] if boards else provers


def _options(arguments: argparse.Namespace, threads: int = 1) -> Options:
    from twinfer.runtime.options import Options

    how: Any = {"guard": arguments.guard, "floats": arguments.floats, "threads": threads}
    return Options(arguments.optimize, arguments.weights, arguments.decode, **how)


def _on_host(arguments: argparse.Namespace) -> Prover:
    from twinfer.bench.models import verify
    from twinfer.bench.peers.engines import trusted
    from twinfer.runtime.target import HOST

    against, options = peers(arguments.against, trusted()), _options(arguments, arguments.threads)
    samples = verify.Samples(arguments.samples, arguments.seed)

    def prove(source: Source, told: Callable[[float], None]) -> Proof:
        note_unused_storage(source, [HOST], [options])
        return verify.verify(source, against, options, samples, told)

    return Prover("on host", (*verify.OWN, *against), prove)


def _on_boards(boards: Sequence[Any], arguments: argparse.Namespace) -> Prover:
    from twinfer.bench.measure import embedded
    from twinfer.bench.models.verify import Samples

    need_tools(boards)
    options, samples = _options(arguments), Samples(arguments.samples, arguments.seed)

    def prove(source: Source, told: Callable[[float], None]) -> Proof:
        note_unused_storage(source, [board.target for board in boards], [options])
        return embedded.verify_on(source, boards, options, samples, told)

    runs = product(boards, embedded.MODES, embedded.ways(options))
    where = f"on {', '.join(board.name for board in boards)}"
    return Prover(where, [embedded.engine_on(*run) for run in runs], prove)


COMMAND = Command("verify", ABOUT, EXAMPLES, add_arguments, run, more=STATUS)
