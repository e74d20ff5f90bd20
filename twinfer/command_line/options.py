"""Options that several subcommands share: how they are read and described, what changes nothing, and JSON."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.run.limits import DEFAULTS as LIMITS

if TYPE_CHECKING:
    from twinfer.bench.models.source import Source
    from twinfer.runtime.options import Options
    from twinfer.runtime.plan.plan import Plan
    from twinfer.runtime.target import Target


GUARD = "watch every step, and name one that reads or writes memory that is not its own (slow)"
TARGET = "host, cortex-m4 (or m4), …, a board (twinfer boards), or a .toml file that describes one"
OPTIMIZE = "fewest instructions (speed), least flash (size), or what lies between (balanced, the default)"
OPERATORS = "a folder with operators of your own, Python modules and headers; may be given several times"
MODEL = "a .tflite file, or the name of a built-in model; FILE#KEY is its signature KEY"


def natural(text: str) -> int:
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 0")
    return int(text)


def positive(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def check(text: str) -> Any:
        with suppress(ValueError):
            value = kind(text)
            if 0 < value < math.inf:
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is no {'whole ' if kind is int else ''}number above 0")

    return check


def add_optimize(command: argparse.ArgumentParser, about: str) -> None:
    command.add_argument("--optimize", choices=["speed", "balanced", "size"], default="balanced", help=about)


def add_memory(command: argparse.ArgumentParser) -> None:
    """How tensors share memory, for every command that plans one."""
    about = (
        "one layer after the other (layers), row by row wherever that needs less RAM (rows), or on a microcontroller "
        "by rows as far as that costs at most 5 %% more instructions, estimated (auto, the default)"
    )
    command.add_argument("--memory", choices=["auto", "layers", "rows"], default="auto", help=about)
    about = "bytes that arena and state may take: the plan with the fewest calls that fits, or an error"
    command.add_argument("--ram", type=natural, default=0, metavar="BYTES", help=about)
    about = "the input is given row by row (NAME_begin, NAME_push_row, NAME_finish) and need not be in RAM as a whole"
    command.add_argument("--input-rows", action="store_true", help=about)
    about = (
        "the input is read where the caller has it, in flash or a buffer of a camera, and takes no memory of the arena"
    )
    command.add_argument("--input-in-place", action="store_true", help=about)


def memory_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that ``add_memory`` took, by the names that ``Options`` has for them."""
    names = ("memory", "ram", "input_rows", "input_in_place")
    return {name: getattr(arguments, name) for name in names}


def add_float(command: argparse.ArgumentParser) -> None:
    """How products of floats are added, for every command that plans a model."""
    about = (
        "how convolutions and fully connected layers of float32 add products: product and sum are both rounded, as in "
        "TFLM (exact, the default), or only the sum, by an instruction that not every target has (fused)"
    )
    command.add_argument("--float", dest="floats", choices=["exact", "fused"], default="exact", help=about)


def add_threads(command: argparse.ArgumentParser, about: str) -> None:
    """Over how many threads large layers are split."""
    command.add_argument("--threads", type=positive(int), default=1, metavar="N", help=f"{about} (default: 1)")


def add_apart(command: argparse.ArgumentParser) -> None:
    """Where constants lie, for every command that shows or writes memory as C has it."""
    about = (
        "where the constants lie: in arrays of the program (linked, the default), in a block whose address the program "
        "gives, so that new weights need no new program (blob), or in such a block in memory without addresses, of "
        "which the code fetches what it needs (paged)"
    )
    command.add_argument("--weights-as", choices=["linked", "blob", "paged"], default="linked", help=about)
    about = "with --weights-as paged: bytes that a fetch brings at most, where a layer can be cut (default: 4096)"
    command.add_argument("--page-bytes", type=positive(int), default=4096, metavar="BYTES", help=about)


def apart_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that ``add_apart`` took, by the names that ``Options`` has for them."""
    return {"weights_as": arguments.weights_as, "page_bytes": arguments.page_bytes}


def add_io(command: argparse.ArgumentParser) -> None:
    """Of which type inputs and outputs are, for every command that runs a model or writes it as C."""
    about = (
        "a float input that the model quantises first is given as int8 (int16) instead, and a float output that it "
        "dequantises last is: by scale and zero point of their tensors (default: float, as they are)"
    )
    command.add_argument("--io", choices=["float", "int8", "int16"], default="float", help=about)


def add_targets(command: argparse.ArgumentParser) -> None:
    """One target or several."""
    about = f"where, one or several with commas: {TARGET} (default: host)"
    command.add_argument("--target", metavar="TARGETS", default="host", help=about)


def add_limits(command: argparse.ArgumentParser) -> None:
    """What a run may take: for every command."""
    for name, of in (
        ("bytes", "of memory that a model may take on this computer"),
        ("rounds", "of its loops in a run"),
    ):
        about = f"the most {name} {of} (default: {LIMITS[variable(name)]}; {variable(name)} in the environment)"
        command.add_argument(f"--max-{name}", type=positive(int), metavar=name.upper(), help=about)


def variable(name: str) -> str:
    """The environment variable of a limit, which processes that a command starts see, too."""
    return f"TWINFER_MAX_{name.upper()}"


@contextmanager
def limit(arguments: argparse.Namespace) -> Iterator[None]:
    """Inside, the limits hold that ``add_limits`` took."""
    before = dict(os.environ)
    given = {variable(name): getattr(arguments, f"max_{name}") for name in ("bytes", "rounds")}
    os.environ.update({name: str(value) for name, value in given.items() if value is not None})
    try:
        yield
    finally:
        for name in given:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if name in given})


def add_operators(command: argparse.ArgumentParser) -> None:
    """Folders with the user's own operators: for every command that loads models."""
    command.add_argument("--operators", action="append", default=[], metavar="FOLDER", help=OPERATORS)


def register_operators(arguments: argparse.Namespace) -> None:
    """Register the folders that ``add_operators`` took."""
    if arguments.operators:
        from twinfer.runtime.registry import register

        for folder in arguments.operators:
            register(folder)


def source_of(model: Any) -> Any:
    """What to convert: a framework's model, opened or its path, else the graph of a file or built-in model."""
    from twinfer.bench.models.source import load
    from twinfer.converter import TO_CONVERT

    return model if not isinstance(model, str) or model.lower().endswith(TO_CONVERT) else load(model).graph


def files_read(name: str, model: Any) -> list[Any]:
    """The files that an ``opened`` model is read from: the one that its name says, without a signature behind a #, and
    those beside it."""
    from twinfer.bench.models.source import file_of
    from twinfer.converter.source import files_of

    return [file_of(name), *files_of(model)]


def shapes_of(given: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """NAME=1,2,3 -> name and shape."""
    from twinfer.runtime.errors import InvalidArgumentError

    shapes = {}
    for text in given:
        name, equals, shape = text.rpartition("=")
        try:
            shapes[name] = tuple(int(d) for d in shape.split(",") if d)
        except ValueError:
            equals = ""
        if not equals:
            raise InvalidArgumentError(f"--shape {text}: it should look like NAME=1,28,28,1")
    return shapes


def write_json(path: str, value: Any) -> None:
    import json

    text = json.dumps(value, indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        from twinfer.runtime.read.files import write_text

        write_text(path, text)


# How constant weights are stored, and when coded ones are decoded.

WEIGHTS = {
    "file": "as in the model's file: INT4 in 4 bits on microcontrollers, all others plain (the default)",
    "plain": "as kernels read them",
    "auto": "the smallest coding per layer, where that saves flash",
    "lut": "1 to 7 bits in a table of values",
    "huffman": "Huffman codes",
    "bitmap": "a bitmap of what is not zero",
}
DECODE = {"layer": "right before their layer, in every run (the default)", "start": "once, to memory of their own"}


def _choices(choices: dict[str, str]) -> str:
    return "; ".join(f"{name}: {about}" for name, about in choices.items())


def add_storage(command: argparse.ArgumentParser) -> None:
    """Add the options for one way to store weights."""
    about = f"how constant weights are stored, with the same results. {_choices(WEIGHTS)}"
    command.add_argument("--weights", choices=list(WEIGHTS), default="file", help=about)
    about = f"when coded weights are decoded. {_choices(DECODE)}"
    command.add_argument("--decode", choices=list(DECODE), default="layer", help=about)


def add_storages(command: argparse.ArgumentParser) -> None:
    """Add the options for several ways, to compare them on microcontrollers."""
    about = f"on microcontrollers, one or several with commas: how constant weights are stored. {_choices(WEIGHTS)}"
    command.add_argument("--weights", metavar="HOW", default="file", help=about)
    about = f"on microcontrollers, one or both with a comma: when they are decoded. {_choices(DECODE)}"
    command.add_argument("--decode", metavar="WHEN", default="layer", help=about)


def unused_storage(plan: Plan) -> Iterator[str]:
    """A line for an option of storage that changes nothing for this plan."""
    how = plan.options
    if plan.decoding_bytes:
        return
    if how.weights not in ("file", "plain"):
        fewer = "that are smaller so" if how.weights == "auto" else "that can be stored so"
        yield f"--weights {how.weights} changes nothing: no layer has weights {fewer}"
    elif how.decode != "layer":
        yield f"--decode {how.decode} changes nothing: no weights are stored coded (--weights)"


def note_unused_storage(source: Source, targets: Iterable[Target], options: Iterable[Options]) -> None:
    """Note each way to store this model's weights that changes nothing on any target; the usual way is never noted."""
    from twinfer.command_line.terminal import note
    from twinfer.runtime.options import USUAL, Options
    from twinfer.runtime.plan.make import make_plan

    every, lines = list(targets), list[str]()
    for way in dict.fromkeys(Options(weights=how.weights, decode=how.decode) for how in options):
        told = [list(unused_storage(make_plan(source.graph, target, way))) for target in every if way != USUAL]
        lines += told[0] if told and all(told) else []
    for line in dict.fromkeys(lines):
        note(f"{source.name}: {line}")


def storages(weights: str, decode: str) -> tuple[tuple[Any, Any], ...]:
    """Pairs of how to store weights and when to decode them, each once; plain weights are never decoded.

    InvalidArgumentError for a word that is no option.
    """
    from twinfer.runtime.options import Options

    pairs: list[Any] = list(product(*([name.strip() for name in names.split(",")] for names in (weights, decode))))
    for how, when in pairs:
        Options(weights=how, decode=when)
    return tuple(dict.fromkeys((how, "layer" if how == "plain" else when) for how, when in pairs))


# Programs that are measured whole: explain, report and diff.


def add_programs(command: argparse.ArgumentParser) -> None:
    """How programs are planned, printed and measured."""
    add_optimize(command, f"of compiled code, {OPTIMIZE}")
    add_storage(command)
    add_memory(command)
    add_float(command)
    add_io(command)
    about = "time to measure on this computer (default: 5)"
    command.add_argument("--seconds", type=positive(float), default=5.0, help=about)
    command.add_argument("--seed", type=natural, default=0, help="seed of the inputs (default: 0)")


def options_of(arguments: argparse.Namespace) -> Options:
    """The options of plan and C that ``add_programs`` took; InvalidArgumentError for inputs that are not whole."""
    from twinfer.runtime.options import Options

    if arguments.input_rows or arguments.input_in_place:
        raise InvalidArgumentError("the programs that are compared take a whole input: leave out the option")
    memory = memory_of(arguments)
    return Options(arguments.optimize, arguments.weights, arguments.decode, floats=arguments.floats, **memory)


def share(text: str) -> float:
    """1% and 0.01 as the same number."""
    try:
        return float(Decimal(text.rstrip("% ")) / (100 if "%" in text else 1))
    except ArithmeticError:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: write 1% or 0.01") from None


def byte_count(text: str) -> int:
    """65536, 64K and 64k as the same number; 1M is 1024K."""
    units = {"K": 1 << 10, "M": 1 << 20}
    digits = text.upper().removesuffix("B")
    unit = units.get(digits[-1:], 1)
    try:
        return round(float(digits.rstrip("KM")) * unit)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes: write 65536 or 64K") from None
