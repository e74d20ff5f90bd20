"""The level of the kernels that this process uses: which set of instructions they are compiled for."""

from __future__ import annotations

import os

from twinfer.kernels_c import LEVELS, lib
from twinfer.runtime.errors import InvalidArgumentError

#: The environment variable that names a level.
VARIABLE = "TWINFER_ISA"


def level() -> int:
    """An index of ``kernels_c.LEVELS``: the CPU's best, or a lower one named by the environment's TWINFER_ISA.

    InvalidArgumentError if TWINFER_ISA names none.
    """
    best: int = lib.tw_level()
    wanted = os.environ.get(VARIABLE, "")
    if wanted and wanted not in LEVELS:
        raise InvalidArgumentError(f"{VARIABLE}={wanted} is no instruction-set level; there are: {', '.join(LEVELS)}")
    return min(best, LEVELS.index(wanted)) if wanted else best
