"""What an estimate of cycles needs to know of a core's pipeline, and what a fetch from flash costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pipeline:
    """LLVM's scheduling model of a core, and what it leaves out.

    ``triple`` and ``cpu`` name the model to LLVM; ``since`` is the oldest version of LLVM that was tried and has it.
    ``source`` says in words where the cycles come from. ``branch`` (mnemonic) are the cycles that a branch takes longer
    if it is taken. ``floor`` (mnemonic, operands, next mnemonic) is the least that an instruction takes.
    """

    triple: str
    cpu: str
    since: int
    source: str
    branch: Callable[[str], int]
    floor: Callable[[str, str, str], int] = lambda mnemonic, operands, following: 0


def waits(nbytes: int, cycles: float, wait_states: int, fetch_bytes: int) -> float:
    """The cycles that straight code waits for flash, beyond the ``cycles`` of its execution.

    A fetch brings ``fetch_bytes`` in 1 + ``wait_states`` cycles, while what was fetched before is executed; so straight
    code waits only where its fetches take longer than its execution. There is no cache.
    """
    if not wait_states:
        return 0.0
    return max(0.0, nbytes / fetch_bytes * (1 + wait_states) - cycles)
