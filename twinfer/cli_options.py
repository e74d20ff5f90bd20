"""What several commands have in common: how options are read and described, and JSON."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

GUARD = "watch every step, and name one that reads or writes memory that is not its own (slow)"
TARGET = "host, cortex-m4 (or m4), … or a .toml file that describes a board"
OPTIMIZE = "fewest instructions (speed), least flash (size), or what lies between (balanced, the default)"
MODEL = "a .tflite file, or the name of a built-in model"


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


def write_json(path: str, value: Any) -> None:
    import json

    text = json.dumps(value, indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        from twinfer.runtime.read.files import write_text

        write_text(path, text)
