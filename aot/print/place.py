"""``<name>_place.h``: macros by which a program says where code and data of a model lie, and what runs between layers.

``kernels_c/core/place.h`` has those of all models, and explains them. A layer's macros take its number, those of a
kernel that layers share its name.
"""

from __future__ import annotations

from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.plan.plan import Plan

#: What a model can have apart from the others, and its default.
_OWN = ("WEIGHTS", "TABLES", "CODE", "HOT_WEIGHTS", "HOT_TABLES", "HOT_CODE", "ARENA", "STATE")

#: Constants that lie with the weights; all others are tables.
_WEIGHTS = frozenset({Role.WEIGHTS, Role.BIAS, Role.CHANNELS, Role.CODES})


def place_header(name: str, banner: str) -> str:
    """The text of ``<name>_place.h``."""
    up = name.upper()
    own = "\n".join(
        f"#ifndef {up}_SECTION_{what}\n#define {up}_SECTION_{what} TW_SECTION_{what}\n#endif" for what in _OWN
    )
    choices = "\n".join(
        f"#define {up}_{what}(of) TW_IF_HOT({up}_HOT_##of, {up}_SECTION_HOT_{what}, {up}_SECTION_{what})"
        for what in ("WEIGHTS", "TABLES", "CODE")
    )
    return f"""{banner}
#ifndef {up}_PLACE_H
#define {up}_PLACE_H
#include "kernels/core/place.h"

/* Sections of this model; kernels/core/place.h explains them. */
{own}
#ifndef {up}_HOOK
#define {up}_HOOK(layer) TW_HOOK(layer)
#endif

/* Of a layer or a kernel. */
{choices}
/* Tables of addresses: position-independent code has them where the loader can write. */
#if defined(__PIC__) || defined(__pic__)
#define {up}_ADDRESSES
#else
#define {up}_ADDRESSES {up}_SECTION_TABLES
#endif

#endif
"""


def code(name: str, of: int | str) -> str:
    """The section of the code of a layer or a kernel, in C."""
    return f"{name.upper()}_CODE({of})"


def tables(name: str, of: int | str) -> str:
    """The section of the params and tables of a layer."""
    return f"{name.upper()}_TABLES({of})"


def section_of(name: str, constant: Constant, of: int | str) -> str:
    """The section of a constant that ``of`` reads first."""
    return f"{name.upper()}_{'WEIGHTS' if constant.role in _WEIGHTS else 'TABLES'}({of})"


def hooked(plan: Plan, name: str, layer: int | str) -> str:
    """The statement before a layer. A run that ends there leaves no fetch behind."""
    hook = f"if ({name.upper()}_HOOK({layer}))"
    if plan.options.weights_as == "paged":
        return f"{hook} {{ {name}_wait(); return TW_CANCELLED; }}"
    return f"{hook} return TW_CANCELLED;"
