"""Emitted models linked with the start-up code and the harness of ``board/`` to a program for a microcontroller."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinfer.aot.build.library import library_sources
from twinfer.aot.build.targets import BOARD, Card
from twinfer.aot.build.tools import built, compiler_version, need_tool
from twinfer.aot.print.emit import Project
from twinfer.aot.print.literals import comment
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.options import Optimize
from twinfer.runtime.plan.planner import Plan, Step
from twinfer.runtime.run.poison import perishable

COMPILER, COMPILER_PACKAGES = "arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib-arm-none-eabi"

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
FLAGS = ("-std=c11", "-g", "-ffp-contract=off", "-fno-trapping-math", *WARNINGS)

#: The compiler's level. At -Os loops over tiles that carry no "#pragma GCC unroll" keep their sums in memory: on
#: Cortex-M4 the SMLAD kernels take 2 to 8 % more instructions, plain kernels up to 40 %, for 4 to 8 % less code.
LEVELS: Mapping[Optimize, str] = {"speed": "-O3", "balanced": "-O3", "size": "-Os"}

_LINK = ("-ffunction-sections", "-fdata-sections", "-nostartfiles", "-Wl,--gc-sections", "-Wl,--fatal-warnings")
_BOARD_SOURCES = ("start.c", "semihost.c", "harness.c")
_VECTORS_BYTES = 0x40
_OVERFLOW = re.compile(r"region `(\w+)' overflowed by (\d+) bytes")


@dataclass(frozen=True)
class Firmware:
    """A linked program: its ELF file, the machine it is for, and the models in it, by position; compiled with flags."""

    elf: Path
    card: Card
    projects: tuple[Project, ...]
    flags: tuple[str, ...]


def flags_for(card: Card, *projects: Project) -> tuple[str, ...]:
    """What the compiler is told on that core of models that are optimized for the same; else they are balanced."""
    wanted = {project.plan.options.optimize for project in projects}
    return *card.flags, LEVELS[wanted.pop() if len(wanted) == 1 else "balanced"], *FLAGS


def build(projects: Project | Sequence[Project], card: Card) -> Firmware:
    """One program of any number of models, from the cache if it is there.

    ToolError if the compiler is missing or fails (a warning is an error), or if the models do not fit the machine.
    """
    models = (projects,) if isinstance(projects, Project) else tuple(projects)
    for project in models:
        check_fits(project, card)
    compiler = need_tool(COMPILER, COMPILER_PACKAGES)
    sources = firmware_sources(models, card)
    code = ("library.c", "library_data.c", *_BOARD_SOURCES)
    flags = flags_for(card, *models)
    command = (compiler, *flags, *_LINK, "-T", "link.ld", *code, "-o", "firmware.elf", "-lm")
    try:
        elf = built(sources, command, "firmware.elf", compiler_version((compiler,)))
    except ToolError as error:
        raise _explained(error, models, card) from None
    return Firmware(elf, card, models, flags)


def firmware_sources(projects: Sequence[Project], card: Card) -> dict[str, str | bytes]:
    """Everything that the compiler reads, by path."""
    files = library_sources(projects, _entries)
    arena = max((p.plan.arena_bytes for p in projects), default=0)
    models = ",\n".join([*(f"    {{{', '.join(_members(p))}}}" for p in projects), "    {0}"])
    table = [
        f"const tw_model tw_models[] = {{\n{models}\n}};",
        f"const uint32_t tw_model_count = {len(projects)};",
        f'__attribute__((section(".arena"), aligned(16))) unsigned char tw_arena[{max(arena, 1)}];',
    ]
    files["library.c"] = f'#include "harness.h"\n\n{files["library.c"]!s}\n' + "\n".join(table) + "\n"
    for name in (*_BOARD_SOURCES, "semihost.h", "harness.h"):
        files[name] = (BOARD / name).read_text(encoding="utf-8")
    return {**files, "link.ld": linker_script(card)}


def _entries(project: Project) -> str:
    """What the harness needs of one model beside its functions."""
    name, graph, offsets = project.name, project.plan.graph, project.plan.offsets

    def spans(tensors: Sequence[Tensor]) -> str:
        return ", ".join(f"{{{offsets[t]}, {t.nbytes}}}" for t in tensors if t.data is None) or "{0, 0}"

    perishables = ", ".join(f"{{{begin}, {end - begin}}}" for begin, end in perishable(project.plan)) or "{0, 0}"

    return f"""{project.wrappers}
static tw_step_fn *const {name}_steps[] = {{{", ".join((*project.layers, "NULL"))}}};
static const tw_span {name}_inputs[] = {{{spans(graph.inputs)}}};
static const tw_span {name}_outputs[] = {{{spans(graph.outputs)}}};
static const tw_span {name}_perishable[] = {{{perishables}}};
"""


def _members(project: Project) -> list[str]:
    """The initialiser of a model's tw_model."""
    name, plan = project.name, project.plan
    counts = [len(project.layers), *(sum(t.data is None for t in ts) for ts in (plan.graph.inputs, plan.graph.outputs))]
    reset = f"{name}_reset" if plan.resets else "NULL"
    counts.append(len(list(perishable(plan))))
    tables = [f"{name}_{what}" for what in ("steps", "inputs", "outputs", "perishable")]
    return [f"{name}_run", reset, *tables, *map(str, counts), str(plan.arena_bytes)]


def linker_script(card: Card) -> str:
    """The vector table stands before the program or, if the core wants that, elsewhere."""
    before = vectors_in_flash(card)
    numbers = {
        "vectors": card.flash_origin if card.vectors is None else card.vectors,
        "vectors_bytes": _VECTORS_BYTES,
        "flash_origin": card.flash_origin + before,
        "flash_bytes": card.flash_bytes - before,
        "ram_origin": card.ram_origin,
        "ram_bytes": card.ram_bytes,
        "stack_bytes": card.stack_bytes,
    }
    text = (BOARD / "link.ld").read_text(encoding="utf-8").replace("@name@", comment(card.name))
    for key, value in numbers.items():
        text = text.replace(f"@{key}@", hex(value))
    return text


def check_fits(project: Project, card: Card) -> None:
    """ToolError if the arena and the stack need more RAM, or the constants alone more flash, than the machine has."""
    name, plan, constants, vectors = project.name, project.plan, project.constants.nbytes, vectors_in_flash(card)
    if plan.arena_bytes + card.stack_bytes > card.ram_bytes:
        raise ToolError(
            f"{name} needs {plan.arena_bytes:,} B of arena, {card.name} has {card.ram_bytes:,} B of RAM, of them "
            f"{card.stack_bytes:,} B for the stack; {largest_step(plan)}"
        )
    if constants + vectors > card.flash_bytes:
        raise ToolError(
            f"{name} needs at least {constants:,} B of flash for weights and other constants, {card.name} has "
            f"{card.flash_bytes:,} B, of them {vectors} B for the vectors"
        )


def vectors_in_flash(card: Card) -> int:
    """Bytes that stand before the program."""
    return _VECTORS_BYTES if card.vectors is None else 0


def largest_step(plan: Plan) -> str:
    """Which step has the most live bytes, in words."""
    if not plan.steps:
        return "it has no steps"
    live = [live_bytes(plan, step) for step in plan.steps]
    i = live.index(max(live))
    step = plan.steps[i]
    of_it = f", {step.call.scratch:,} B of them scratch" if step.call.scratch else ""
    return f"the largest step is {i}, {step.node.op.lower()}: {live[i]:,} B are live{of_it}"


def live_bytes(plan: Plan, step: Step) -> int:
    """Bytes of the arena that hold a value while ``step`` runs, its scratch included; shared bytes count once."""
    at = step.node.index
    spans = {(plan.offsets[t], t.nbytes) for t, (first, last) in plan.lives.items() if first <= at <= last}
    end = total = 0
    for offset, size in sorted(spans):
        total += max(0, offset + size - max(end, offset))
        end = max(end, offset + size)
    return total + step.call.scratch


def _explained(error: ToolError, projects: Sequence[Project], card: Card) -> ToolError:
    found = _OVERFLOW.search(str(error))
    if not found:
        return error
    region, missing = found.group(1), int(found.group(2))
    total, what = (card.ram_bytes, "RAM") if region == "RAM" else (card.flash_bytes, "flash")
    names = ", ".join(p.name for p in projects)
    constants = sum(p.constants.nbytes for p in projects)
    arena = max(p.plan.arena_bytes for p in projects)
    return ToolError(
        f"{names}: needs {total + missing:,} B of {what}, {card.name} has {total:,} B; weights and other constants "
        f"take {constants:,} B, the arena {arena:,} B, the stack {card.stack_bytes:,} B"
    )
