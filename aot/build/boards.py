"""Values of the templates of a project's folder: how it builds for a machine and runs its self-test there."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence

from twinfer.aot.build.depth import StackBound
from twinfer.aot.build.firmware import linker_scripts
from twinfer.aot.build.fits import check_flash
from twinfer.aot.build.runner import runner_of
from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.stack import worst_bounds
from twinfer.aot.build.targets import Card
from twinfer.aot.build.toolchain import LEVELS, SECTIONS
from twinfer.aot.print.emit import Project
from twinfer.aot.print.interface import Stack
from twinfer.aot.print.literals import comment, in_cmake, in_makefile, in_recipe
from twinfer.runtime.errors import ToolError, ToolWarning
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.target import Target


def sources(card: Card) -> dict[str, str]:
    """The files of ``board/``: from reset to main, a console, the linker's script."""
    architecture = card.architecture
    names = (*architecture.selftest, "semihost.h") if architecture.selftest else ()
    return {**{f"board/{name}": architecture.read(name) for name in names}, **linker_scripts(card, "board/")}


def worst_stack(project: Project, card: Card) -> Stack | None:
    """What a call of a model needs at most; None, with a ToolWarning that says why, if that is unknown."""
    try:
        card.toolchain.need()
        compiler = comment(card.toolchain.version.splitlines()[0])
        bounds = worst_bounds(project, card)
    except ToolError as error:
        bounds = {"": StackBound(None, (), (str(error),))}
        compiler = ""
    for key, bound in bounds.items():
        if bound.bytes is None:
            macro = "_".join([project.name.upper(), "STACK_BYTES", *([key] if key else [])])
            what = f"{macro} is left out: {'; '.join(bound.unknown)}"
            warnings.warn(f"the stack is not measured, {what}", ToolWarning, stacklevel=3)
    known = {key: bound.bytes for key, bound in bounds.items() if bound.bytes is not None}
    if "" not in known:
        return None
    return Stack(known.pop(""), (compiler, comment(shlex.join(card.flags))), known)


def check_code(project: Project, card: Card) -> None:
    """ToolError if the model, linked alone, needs more flash than the machine has; nothing if tools fail."""
    try:
        card.toolchain.need()
        needed = sizes(project, card).flash_bytes
    except ToolError:  # ``worst_stack`` has warned
        return
    check_flash(project, card, needed)


def packages(projects: Sequence[Project], card: Card) -> dict[str, str | bytes]:
    """What is built at once of models, by path; nothing, with a ToolWarning that says why, if that fails."""
    files: dict[str, str | bytes] = {}
    try:
        for project in projects:
            files |= card.architecture.package(project, card)
    except ToolError as error:
        warnings.warn(f"there is C alone: {error}", ToolWarning, stacklevel=3)
        return {}
    return files


def building(card: Card | None, plan: Plan) -> Mapping[str, str]:
    """How to compile, link and run, for a card or for the machine that make runs on."""
    level, threaded = LEVELS[plan.options.optimize], plan.options.threads > 1
    where = _board(card) if card else _host(plan.target)
    return {
        "level": level,
        "slim": "" if level == "-O3" else f" {level}",
        "threads": " -pthread" * threaded,
        "cmake_threads": "\nset(THREADS_PREFER_PTHREAD_FLAG ON)\nfind_package(Threads REQUIRED)" * threaded,
        "cmake_link": " Threads::Threads" * threaded,
        **where,
    }


def _host(target: Target) -> Mapping[str, str]:
    return {
        "tools": "CC ?= cc\nAR ?= ar",
        **_arch(("-march=native",) if target.has("simd") else ()),
        "portable": "ARCH= for a portable build.",
        "board": "",
        "link": "",
        "alone": " -nostartfiles -no-pie",
        "run": "./",
        "where": "",
        "also": " and ctest",
        "cmake": "cmake -B build . && cmake --build build && ctest --test-dir build",
    }


def _board(card: Card) -> Mapping[str, str]:
    tools, architecture, runner = card.toolchain, card.architecture, runner_of(card)
    alone = ("-static", *architecture.link_alone) if architecture.bare else ("-no-pie",)
    return {
        "tools": f"CC = {in_makefile([tools.compiler])}\nAR = {in_makefile([tools.archiver])}",
        **_arch((*card.flags, *SECTIONS)),
        "portable": "ARCH chooses the core.",
        "board": "".join(f" build/board/{name.removesuffix('.c')}.o" for name in architecture.selftest),
        "link": "".join(f" {word}" for word in architecture.linking(card.toolchain, "board/")),
        "alone": " -nostartfiles" + "".join(f" {word}" for word in alone),
        "run": _run(runner.command),
        "where": f" in {comment(runner.place)}",
        "also": "",
        "cmake": f"cmake -B build {comment(shlex.join(_cross(card)), 500)} . && cmake --build build",
    }


def _run(command: tuple[str, ...]) -> str:
    """What stands before a program's path in a recipe; Python is the Makefile's, so that the user can name another."""
    if not command:
        return "./"
    if command[0] == "python3":
        return f"$(PYTHON) {in_recipe(command[1:])} "
    return f"{in_recipe(command)} "


def _cross(card: Card) -> list[str]:
    """Options of CMake for a compiler for another machine; "Generic" stands for no operating system."""
    compiler = f"-DCMAKE_C_COMPILER={card.toolchain.compiler}"
    if not card.architecture.bare:
        return [compiler]
    return ["-DCMAKE_SYSTEM_NAME=Generic", compiler, "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"]


def _arch(flags: tuple[str, ...]) -> Mapping[str, str]:
    """The flags that choose the machine, for either build system."""
    return {"arch": in_makefile(flags), "cmake_arch": in_cmake(flags)}
