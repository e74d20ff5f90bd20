"""Which instruction-set level of the kernels this process uses, and which features it plans for."""

from __future__ import annotations

import os

from twinfer.kernels_c import LEVELS, lib
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.target import FEATURES, NATIVE, Target, computer

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
    return usable(min(best, LEVELS.index(wanted)) if wanted else best)


def usable(at: int) -> int:
    """The level, an index of ``kernels_c.LEVELS``.

    InvalidArgumentError unless this CPU has its instructions, and the kernels are built for it: an editable install has
    those of one CPU.
    """
    best = lib.tw_level()
    if not 0 <= at <= best:
        raise InvalidArgumentError(f"level {at} of the kernels does not run here; there are 0 to {best}")
    if not lib.tw_built(at):
        how = "in the checkout, python setup.py build_ext --inplace builds all levels"
        raise InvalidArgumentError(f"the kernels are not built for the level {LEVELS[at]}: {how}")
    return at


def this_computer() -> Target:
    """The target ``HOST`` with the features of this CPU, as far as its level of the kernels has them."""
    return computer(NATIVE, *features(level()))


def features(at: int) -> list[str]:
    """The features that this CPU has of those which kernels of that level use."""
    return [name for name in FEATURES if lib.tw_has(at, name.encode())]
