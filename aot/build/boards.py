"""What a project's folder needs to build for a machine and to run its self-test there: values of the templates."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from twinfer.aot.build.firmware import COMPILER, COMPILER_PACKAGES, LEVELS, flags_for, linker_script, vectors_in_flash
from twinfer.aot.build.qemu import QEMU, SILENT
from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.stack import stack_bound
from twinfer.aot.build.targets import BOARD, Card
from twinfer.aot.build.tools import need_tool
from twinfer.aot.print.emit import Project
from twinfer.aot.print.literals import comment, in_cmake, in_makefile, in_recipe
from twinfer.runtime.errors import ToolError, ToolWarning
from twinfer.runtime.plan.planner import Plan
from twinfer.runtime.target import Target

_SOURCES = ("start.c", "semihost.c", "stdio.c")

#: CMake's word for a machine without an operating system.
_CROSS = f"-DCMAKE_SYSTEM_NAME=Generic -DCMAKE_C_COMPILER={COMPILER} -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"


def sources(card: Card) -> dict[str, str]:
    """The files of ``board/``: from reset to main, a console, the linker's script."""
    files = {f"board/{name}": (BOARD / name).read_text(encoding="utf-8") for name in (*_SOURCES, "semihost.h")}
    return {**files, "board/link.ld": linker_script(card)}


def worst_stack(project: Project, card: Card) -> int | None:
    """Bytes of stack that a run needs at most there; None, with a ToolWarning that says why, if that cannot be told."""
    try:
        need_tool(COMPILER, COMPILER_PACKAGES)
        bound = stack_bound(project, COMPILER, flags_for(card, project))
    except ToolError as error:
        why = str(error)
    else:
        why = "; ".join(bound.unknown)
        if bound.bytes is not None:
            return bound.bytes
    left_out = f"the stack is not measured, {project.name.upper()}_STACK_BYTES is left out"
    warnings.warn(f"{left_out}: {why}", ToolWarning, stacklevel=3)
    return None


def check_flash(project: Project, card: Card) -> None:
    """ToolError if the model, linked alone, needs more flash than the machine has, as far as tools tell."""
    try:
        need_tool(COMPILER, COMPILER_PACKAGES)
        needed = sizes(project, COMPILER, flags_for(card, project)).flash_bytes
    except ToolError:  # of which ``worst_stack`` has warned
        return
    vectors = vectors_in_flash(card)
    if needed + vectors > card.flash_bytes:
        raise ToolError(
            f"{project.name} needs {needed:,} B of flash for code, weights and other constants, {card.name} has "
            f"{card.flash_bytes:,} B, of them {vectors} B for the vectors; --optimize size takes less"
        )


def building(card: Card | None, plan: Plan) -> Mapping[str, str]:
    """How to compile, link and run: for a board, or for the machine that make runs on."""
    level = LEVELS[plan.options.optimize]
    return {"level": level, "slim": "" if level == "-O3" else f" {level}", **_machine(card, plan.target)}


def _machine(card: Card | None, target: Target) -> Mapping[str, str]:
    if card is None:
        return {
            "tools": "CC ?= cc\nAR ?= ar",
            **_arch(("-march=native",) if target.wide else ()),
            "portable": "ARCH= for a portable build.",
            "board": "",
            "link": "",
            "run": "./",
            "where": "",
            "also": " and ctest",
            "cmake": "cmake -B build . && cmake --build build && ctest --test-dir build",
        }
    quiet = (word for word in SILENT if word != "-nodefaults")  # or QEMU warns of a network that is not there
    return {
        "tools": f"CC = {COMPILER}\nAR = {COMPILER.removesuffix('gcc')}ar",
        **_arch((*card.flags, "-ffunction-sections", "-fdata-sections")),
        "portable": "ARCH chooses the core.",
        "board": "".join(f" build/board/{name.removesuffix('.c')}.o" for name in _SOURCES),
        "link": " -nostartfiles -Wl,--gc-sections -T board/link.ld",
        "run": f"{in_recipe([QEMU, '-machine', card.machine, *quiet])} -kernel ",
        "where": f" in QEMU's {comment(card.machine)}",
        "also": "",
        "cmake": f"cmake -B build {_CROSS} . && cmake --build build",
    }


def _arch(flags: tuple[str, ...]) -> Mapping[str, str]:
    """The flags that choose the machine, for either build system."""
    return {"arch": in_makefile(flags), "cmake_arch": in_cmake(flags)}
