"""What several commands have in common: how options are read and described, and JSON."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any

GUARD = "watch every step, and name one that reads or writes memory that is not its own (slow)"
TARGET = "host, cortex-m4 (or m4), … or a .toml file that describes a board"
OPTIMIZE = "fewest instructions (speed), least flash (size), or what lies between (balanced, the default)"
MODEL = "a .tflite file, or the name of a built-in model"


def natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is below 0")
    return value


def positive(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def check(text: str) -> Any:
        value = kind(text)
        if not 0 < value < math.inf:
            raise ValueError
        return value

    check.__name__ = f"positive {getattr(kind, '__name__', 'number')}"
    return check


def add_optimize(command: argparse.ArgumentParser, about: str) -> None:
    command.add_argument("--optimize", choices=["speed", "balanced", "size"], default="balanced", help=about)


def write_json(path: str, value: Any) -> None:
    import json

    text = json.dumps(value, indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        from twinfer.runtime.files import write_text

        write_text(path, text)
