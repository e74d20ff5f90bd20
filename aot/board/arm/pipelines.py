"""What is public of the pipelines of Cortex-M cores: LLVM's scheduling models, and Arm's table of the Cortex-M4.

LLVM's models are written for a compiler that orders instructions. Of the M3, M4 and M33 they say when a result can be
used, but count every load as one cycle, however many registers it fills. For these cores Arm's table says more, and is
the least that an instruction takes here: Cortex-M4 Technical Reference Manual, ARM DDI 0439D, table 3-1 and section
3.3.2. For the M7 and M55 no such table is used: LLVM's models stand alone.
"""

from __future__ import annotations

import re

from twinfer.aot.build.architecture import Pipeline
from twinfer.aot.build.depth import register_bytes
from twinfer.aot.build.targets import Card

_CPU = re.compile(r"-mcpu=([a-z0-9-]+)")
_LISTS = ("ldm", "stm", "push", "pop", "ldrd", "strd", "vldm", "vstm", "vpush", "vpop")
_LOOPS = ("le", "letp")


def floor(mnemonic: str, operands: str, following: str) -> int:
    """The least cycles of an instruction by Arm's table of the M4, without the refill of a branch.

    A list of N registers takes 1 + N. A load takes 2, or 1 if another load of one register follows: both are
    pipelined. A store takes 1: the next instruction runs while it writes. A division takes 2 to 12, here 2.
    """
    if mnemonic.startswith(("ldrd", "strd")):
        return 3
    if mnemonic.startswith(_LISTS):
        return 1 + register_bytes(operands[operands.find("{") :]) // 4
    if mnemonic.startswith(("ldr", "vldr")):
        return 1 if following.startswith(("ldr", "vldr")) and not following.startswith("ldrd") else 2
    if mnemonic.startswith(("vdiv", "vsqrt")):
        return 14
    return 2 if mnemonic.startswith(("sdiv", "udiv", "tbb", "tbh")) else 1


def floor_m3(mnemonic: str, operands: str, following: str) -> int:
    """The same by Arm's table of the M3 (ARM 100165, table 3-1): long products take 3 to 7, here the least."""
    long = {"smull": 3, "umull": 3, "smlal": 4, "umlal": 4, "mla": 2, "mls": 2}
    return long.get(mnemonic.partition(".")[0]) or floor(mnemonic, operands, following)


def branch_cycles(mnemonic: str) -> int:
    """The refill of a branch that is taken: Arm's P of 1 to 3, here 2. The ends of the M55's loops take none."""
    return 0 if mnemonic in _LOOPS else 2


def predicted(mnemonic: str) -> int:
    """The M7 predicts branches: as if always rightly, for how often it fails is not known."""
    return 0


_M4 = "LLVM's model of Cortex-M4, with the load, list and branch cycles of Arm DDI 0439D"
_M3 = "LLVM's model of Cortex-M4 (as LLVM takes it for the M3), with the cycles of Arm 100165 and DDI 0439D"
_THUMB = "thumbv7em-none-eabihf"
PIPELINES = {
    "cortex-m3": Pipeline("thumbv7m-none-eabi", "cortex-m3", 14, _M3, branch_cycles, floor_m3),
    "cortex-m4": Pipeline(_THUMB, "cortex-m4", 14, _M4, branch_cycles, floor),
    "cortex-m7": Pipeline(_THUMB, "cortex-m7", 14, "LLVM's model of Cortex-M7; branches as if predicted", predicted),
    "cortex-m33": Pipeline(
        "thumbv8m.main-none-eabihf", "cortex-m33", 14, f"{_M4} (as LLVM takes it for the M33)", branch_cycles, floor
    ),
    "cortex-m55": Pipeline(
        "thumbv8.1m.main-none-eabihf",
        "cortex-m55",
        19,
        "LLVM's model of Cortex-M55, with the branch cycles of Arm DDI 0439D (M4)",
        branch_cycles,
    ),
}


def pipeline(card: Card) -> Pipeline | None:
    """The pipeline of a card's core; None if nothing is known of it, as of the M0: LLVM has no such model."""
    core = next((match[1] for flag in card.flags if (match := _CPU.fullmatch(flag.split("+")[0]))), "")
    return PIPELINES.get(core)
