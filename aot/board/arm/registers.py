"""Lists of registers in the operands of Arm's instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator

_REGISTERS = re.compile(r"([a-z]+)(\d+)-[a-z]+(\d+)")


def register_bytes(names: str) -> int:
    """Bytes of a register list such as {r4, r5, lr} or {d8-d11}."""
    return sum(count * (8 if double else 4) for count, double in _parts(names))


def register_count(operands: str) -> int:
    """Words that a list such as {r4, r5, lr} has at the end of operands; a d register has two."""
    return register_bytes(operands[operands.find("{") :]) // 4


def _parts(names: str) -> Iterator[tuple[int, bool]]:
    """Every part of a list: its registers, and whether each has 64 bits."""
    for part in names.strip("{} ").split(","):
        reach = _REGISTERS.match(part.strip())
        yield int(reach[3]) - int(reach[2]) + 1 if reach else 1, part.strip().startswith("d")
