"""Programs for a microcontroller: emitted models, the harness, and the start-up code of a board folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinfer.aot.build.architecture import HARNESS
from twinfer.aot.build.banks import memory_lines, section_lines
from twinfer.aot.build.fits import check_fits, overflow, vectors_in_flash
from twinfer.aot.build.library import LIBRARY, library_sources
from twinfer.aot.build.targets import Card
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.emit import Project
from twinfer.aot.print.feed import Feeding
from twinfer.aot.print.literals import comment
from twinfer.aot.print.slow import slow_memory
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.run.poison import Span, perishable


@dataclass(frozen=True)
class Firmware:
    """A linked program: its file, the card it is for, the models in it in order, and the words of its linking."""

    elf: Path
    card: Card
    projects: tuple[Project, ...]
    words: tuple[str, ...]


def flags_for(card: Card, *projects: Project) -> tuple[str, ...]:
    """The compiler's flags for these models on that core; balanced unless all are optimized for the same."""
    wanted = {project.plan.options.optimize for project in projects}
    return *card.flags, *card.toolchain.flags(wanted.pop() if len(wanted) == 1 else "balanced")


def build(projects: Project | Sequence[Project], card: Card) -> Firmware:
    """One program of any number of models, from the cache if there.

    ToolError if the compiler is missing or fails (a warning is an error), or if the models do not fit the machine.
    """
    models = (projects,) if isinstance(projects, Project) else tuple(projects)
    for project in models:
        check_fits(project, card)
    code = (*LIBRARY, "harness.c", *card.architecture.program)
    words = (*flags_for(card, *models), *card.architecture.linking(card.toolchain), "-Wl,--fatal-warnings", *code)
    try:
        elf = card.toolchain.link(firmware_sources(models, card), words)
    except ToolError as error:
        raise overflow(error, models, card) from None
    return Firmware(elf, card, models, words)


def firmware_sources(projects: Sequence[Project], card: Card) -> dict[str, str | bytes]:
    """Everything that the compiler reads, by path."""
    files = library_sources(projects, _model, included=card.toolchain.included)
    models = ",\n".join([*(f"    {p.name}_MODEL" for p in projects), "    {0}"])
    table = [f"const tw_model tw_models[] = {{\n{models}\n}};", f"const uint32_t tw_model_count = {len(projects)};"]
    arenas = arenas_of(projects)
    declared = "".join(f"extern unsigned char tw_{arena}[];\n" for arena in arenas if arena != Region.ARENA.value)
    most = max([16, *(project.plan.target.alignment for project in projects)])
    table += [
        f'__attribute__((section(".{arena}"), aligned({most}))) unsigned char tw_{arena}[{max(nbytes, 1)}];'
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
    slow = slow_memory(name) if project.constants.paged else ""
    lines = [slow, project.wrappers, functions.text, f"static tw_step_fn *const {name}_steps[] = {{{steps}}};"]
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
    if not plan.state_bytes and not apart and not plan.target.banks and not memory.weights:
        return _Functions(f"{name}_run", "NULL", project.layers)
    blocks = ", ".join(_given(project, memory.regions))
    layers = tuple(f"{name}_{i}_at" for i in range(len(project.layers)))
    given = ", ".join(_given(project, (*memory.blocks, *memory.weights)))
    inputs = ", ".join("NULL" if t.data is not None else f"base + {input_at(plan)}" for t in plan.graph.inputs)
    lines = [
        f"static int {name}_run_at(void *arena, const void *const *inputs, void *const *outputs) {{",
        "    unsigned char *const base = (unsigned char *)arena;",
        "    (void)base;",
        *([f"    const void *const staged[] = {{{inputs}}};", "    (void)inputs;"] if apart else []),
        f"    return {name}_run({given}, {'staged' if apart else 'inputs'}, outputs);",
        "}",
        *(_reset_at(project, memory) if plan.state_bytes else []),
        *(
            f"static void {name}_{i}_at(unsigned char *base) {{ (void)base; {_load(project, i)}{layer}({blocks}); }}"
            for i, layer in enumerate(project.layers)
        ),
    ]
    return _Functions(f"{name}_run_at", f"{name}_reset_at" if plan.state_bytes else "NULL", layers, "\n".join(lines))


def _given(project: Project, regions: Iterable[Region]) -> list[str]:
    """The addresses of blocks, those in RAM in one buffer."""
    weights = f"{project.name}_weights"
    return [weights if region == Region.WEIGHTS else block(project.plan, region, "base") for region in regions]


def _reset_at(project: Project, memory: Memory) -> list[str]:
    """The reset over one buffer."""
    name, reset = project.name, ", ".join(_given(project, memory.start_regions))
    return [
        f"static void {name}_reset_at(void *arena) {{",
        "    unsigned char *const base = (unsigned char *)arena;",
        f"    {name}_reset({reset});",
        "}",
    ]


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


# -- where the memory of models lies: arrays in RAM and in the card's banks --------------------------------------------


def arenas_of(projects: Sequence[Project]) -> dict[str, int]:
    """The bytes of every array that holds memory of the models, which take turns in them, by the name of the arena.

    The first lies in RAM and also holds states and inputs that come row by row or stay in place, the others in the
    card's banks.
    """
    arenas = {Region.ARENA.value: max((input_at(p.plan) + _staged_bytes(p.plan) for p in projects), default=0)}
    for plan in (project.plan for project in projects):
        for region in plan.arenas if plan.target.banks else ():
            arenas[region.value] = max(plan.regions[region].nbytes, arenas.get(region.value, 0))
    return arenas


def block(plan: Plan, region: Region, base: str = "tw_arena") -> str:
    """Where a block begins; ``base`` is the buffer that holds what lies in no bank."""
    if region == Region.INPUT:
        return f"{base} + {input_at(plan)}"
    if region.bank:
        return f"tw_{region.value}"
    at = 0 if plan.target.banks else plan.regions[region].offset
    return f"{base} + {at}" if at else base


def in_blocks(plan: Plan, spans: Iterable[Span]) -> Iterator[tuple[str, int]]:
    """Spans of one buffer for all memory, as addresses and bytes in the blocks that lie there."""
    for begin, end in spans:
        for region, extent in plan.regions.items():
            first, last = max(begin, extent.offset), min(end, extent.end)
            if first < last:
                yield f"{block(plan, region)} + {first - extent.offset}", last - first


def places(plan: Plan, tensors: Sequence[Tensor]) -> list[tuple[str, int]]:
    """Where the harness writes inputs and reads outputs: addresses and bytes."""
    fed = plan.fed.feed.out if plan.fed and plan.fed.feed else None
    return [
        (f"tw_arena + {input_at(plan)}" if tensor is fed else _address(plan, tensor), tensor.nbytes)
        for tensor in tensors
        if tensor.data is None
    ]


def _address(plan: Plan, tensor: Tensor) -> str:
    place = plan.places[tensor]
    return f"{block(plan, place.region)} + {place.offset}"


def input_at(plan: Plan) -> int:
    """Where the harness keeps an input that the model takes row by row or in place: behind what it has in RAM."""
    return Memory(plan).in_ram


def _staged_bytes(plan: Plan) -> int:
    """How many bytes it has there."""
    if plan.borrowed:
        return plan.borrowed.nbytes
    return plan.fed.feed.out.nbytes if plan.fed and plan.fed.feed else 0
