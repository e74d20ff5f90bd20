"""Programs for a microcontroller: emitted models, the harness, and the start-up code of a board folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinfer.aot.build.architecture import HARNESS
from twinfer.aot.build.banks import memory_lines, section_lines
from twinfer.aot.build.blocks import arenas_of, block, in_blocks, input_at, places
from twinfer.aot.build.fits import check_fits, overflow, vectors_in_flash
from twinfer.aot.build.library import LIBRARY, library_sources
from twinfer.aot.build.targets import Card
from twinfer.aot.print.emit import Project
from twinfer.aot.print.feed import Feeding
from twinfer.aot.print.literals import comment
from twinfer.aot.print.memory import Memory
from twinfer.kernels_c.ffi_build import ARITHMETIC
from twinfer.runtime.errors import ToolError
from twinfer.runtime.options import Optimize
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.run.poison import perishable
from twinfer.runtime.tools import built

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
FLAGS = (*ARITHMETIC, "-g", *WARNINGS)

#: The compiler's level. At -Os loops over tiles that carry no "#pragma GCC unroll" keep their sums in memory: on
#: Cortex-M4 the SMLAD kernels take 2 to 8 % more instructions, plain kernels up to 40 %, for 4 to 8 % less code.
LEVELS: Mapping[Optimize, str] = {"speed": "-O3", "balanced": "-O3", "size": "-Os"}

#: One section per symbol, so that the linker can drop what is not used.
SECTIONS = ("-ffunction-sections", "-fdata-sections")


@dataclass(frozen=True)
class Firmware:
    """A linked program: its ELF file, the card it is for, the models in it in order, and the compiler's flags."""

    elf: Path
    card: Card
    projects: tuple[Project, ...]
    flags: tuple[str, ...]


def flags_for(card: Card, *projects: Project) -> tuple[str, ...]:
    """The compiler's flags for these models on that core; balanced unless all are optimized for the same."""
    wanted = {project.plan.options.optimize for project in projects}
    return *card.flags, LEVELS[wanted.pop() if len(wanted) == 1 else "balanced"], *FLAGS


def build(projects: Project | Sequence[Project], card: Card) -> Firmware:
    """One program of any number of models, from the cache if there.

    ToolError if the compiler is missing or fails (a warning is an error), or if the models do not fit the machine.
    """
    models = (projects,) if isinstance(projects, Project) else tuple(projects)
    for project in models:
        check_fits(project, card)
    compiler, sources, flags = card.toolchain.need(), firmware_sources(models, card), flags_for(card, *models)
    linking = (*SECTIONS, *card.architecture.linking(), "-Wl,--fatal-warnings")
    code = (*LIBRARY, "harness.c", *card.architecture.program)
    command = (compiler, *flags, *linking, *code, "-o", "firmware.elf", "-lm")
    try:
        elf = built(sources, command, "firmware.elf", card.toolchain.version)
    except ToolError as error:
        raise overflow(error, models, card) from None
    return Firmware(elf, card, models, flags)


def firmware_sources(projects: Sequence[Project], card: Card) -> dict[str, str | bytes]:
    """Everything that the compiler reads, by path."""
    files = library_sources(projects, _model)
    models = ",\n".join([*(f"    {p.name}_MODEL" for p in projects), "    {0}"])
    table = [
        f"const tw_model tw_models[] = {{\n{models}\n}};",
        f"const uint32_t tw_model_count = {len(projects)};",
    ]
    arenas = arenas_of(projects)
    declared = "".join(f"extern unsigned char tw_{arena}[];\n" for arena in arenas if arena != Region.ARENA.value)
    table += [
        f'__attribute__((section(".{arena}"), aligned(16))) unsigned char tw_{arena}[{max(nbytes, 1)}];'
        for arena, nbytes in arenas.items()
    ]
    files["library.c"] = f'#include "harness.h"\n{declared}\n{files["library.c"]!s}\n' + "\n".join(table) + "\n"
    architecture = card.architecture
    files |= {name: architecture.read(name) for name in (*HARNESS, *architecture.program)}
    return {**files, **linker_scripts(card)}


def _model(project: Project) -> str:
    """The C that the harness needs for one model; the macro NAME_MODEL initialises its tw_model."""
    name, plan = project.name, project.plan
    spans = {
        "inputs": places(plan, plan.graph.inputs),
        "outputs": places(plan, plan.graph.outputs),
        "perishable": [*in_blocks(plan, perishable(plan))],
        "memory": [(block(plan, region), extent.nbytes) for region, extent in plan.regions.items()],
    }
    functions = _functions(project)
    steps = ", ".join((*functions.layers, "NULL"))
    lines = [project.wrappers, functions.text, f"static tw_step_fn *const {name}_steps[] = {{{steps}}};"]
    for what, pairs in spans.items():
        listed = ", ".join(f"{{{address}, {size}}}" for address, size in pairs) or "{NULL, 0}"
        lines.append(f"static const tw_span {name}_{what}[] = {{{listed}}};")
    tables = [f"{name}_{what}" for what in ("steps", *spans)]
    counts = [len(project.layers), *map(len, spans.values())]
    entries = [functions.run, functions.reset, *tables, *map(str, counts)]
    lines.append(f"#define {name}_MODEL {{{', '.join(entries)}}}\n")
    return "\n".join(lines)


def run_function(project: Project) -> str:
    """The function of a program that runs a model over one buffer for all memory."""
    return _functions(project).run


@dataclass(frozen=True)
class _Functions:
    """The names of a model's functions that take one buffer for all memory; ``text`` defines those that it lacks."""

    run: str
    reset: str
    layers: tuple[str, ...]
    text: str = ""


def _functions(project: Project) -> _Functions:
    """Those of a model with one block of memory, whose input lies there, are its own."""
    name, plan, memory = project.name, project.plan, Memory(project.plan)
    apart = plan.fed is not None or plan.borrowed is not None
    if not plan.state_bytes and not apart and not plan.target.banks:
        return _Functions(f"{name}_run", "NULL", project.layers)
    blocks = ", ".join(block(plan, region, "base") for region in memory.regions)
    layers = tuple(f"{name}_{i}_at" for i in range(len(project.layers)))
    given = ", ".join(block(plan, region, "base") for region in memory.blocks)
    inputs = _staged(plan) if apart else "inputs"
    lines = [
        f"static int {name}_run_at(void *arena, const void *const *inputs, void *const *outputs) {{",
        "    unsigned char *const base = (unsigned char *)arena;",
        "    (void)base;",
        *([f"    const void *const staged[] = {{{inputs}}};", "    (void)inputs;"] if apart else []),
        f"    return {name}_run({given}, {'staged' if apart else 'inputs'}, outputs);",
        "}",
        *(_reset_at(name, memory) if plan.state_bytes else []),
        *(
            f"static void {name}_{i}_at(unsigned char *base) {{ (void)base; {_load(project, i)}{layer}({blocks}); }}"
            for i, layer in enumerate(project.layers)
        ),
    ]
    return _Functions(f"{name}_run_at", f"{name}_reset_at" if plan.state_bytes else "NULL", layers, "\n".join(lines))


def _reset_at(name: str, memory: Memory) -> list[str]:
    """The reset over one buffer."""
    reset = ", ".join(block(memory.plan, region, "base") for region in memory.start_regions)
    return [
        f"static void {name}_reset_at(void *arena) {{",
        "    unsigned char *const base = (unsigned char *)arena;",
        f"    {name}_reset({reset});",
        "}",
    ]


def _staged(plan: Plan) -> str:
    """The inputs of a model that takes one row by row, or in place, in C."""
    values = ("NULL" if tensor.data is not None else f"base + {input_at(plan)}" for tensor in plan.graph.inputs)
    return ", ".join(values)


def _load(project: Project, i: int) -> str:
    """The statement that gives the rows of the input before layer ``i``: that which computes with the last row."""
    chain = project.plan.fed
    if chain is None or i != max(len(chain.layers) - 1, 0):
        return ""
    feeding = Feeding(project.plan, project.name)
    arena = block(project.plan, feeding.region, "base")
    own = f"unsigned char *const {feeding.base} = {arena}; " if feeding.region.bank else ""
    return f"{own}{feeding.everything(f'base + {input_at(project.plan)}')}; "


def linker_scripts(card: Card, folder: str = "") -> dict[str, str]:
    """Path in ``folder`` -> text of the script that links programs for a card; empty with an operating system.

    The vector table stands before the program, unless the card says where else.
    """
    if not card.architecture.bare:
        return {}
    before = vectors_in_flash(card)
    numbers = {
        "vectors": card.flash_origin if card.vectors is None else card.vectors,
        "vectors_bytes": card.architecture.vector_bytes,
        "flash_origin": card.flash_origin + before,
        "flash_bytes": card.flash_bytes - before,
        "ram_origin": card.ram_origin,
        "ram_bytes": card.ram_bytes,
        "stack_bytes": card.stack_bytes,
    }
    text = card.architecture.read("link.ld").replace("@name@", comment(card.name))
    for key, value in numbers.items():
        text = text.replace(f"@{key}@", hex(value))
    text = text.replace("@banks@", memory_lines(card.banks)).replace("@arenas@", section_lines(card.banks))
    return {f"{folder}link.ld": text}
