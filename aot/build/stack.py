"""How deep the stack of a run or a reset of a model can get, in the builds of a card's compiler.

``depth.py`` reads that from a linked program: it is also in every folder that twinfer writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from twinfer.aot.build.depth import StackBound, address_taken, deepest, functions, with_pointers
from twinfer.aot.build.firmware import Firmware, firmware_sources, run_function
from twinfer.aot.build.sizes import image_sources, image_words
from twinfer.aot.build.targets import Card
from twinfer.aot.build.toolchain import NO_ASM
from twinfer.aot.print.chain_tables import called_by_chains
from twinfer.aot.print.emit import Project
from twinfer.aot.print.layer_functions import kernel_counts
from twinfer.aot.print.run import entries
from twinfer.runtime.errors import ToolError

#: Of a program whose compiler was not asked.
NO_FRAMES: Mapping[str, int | None] = {}


def stack_bound(project: Project, card: Card, build: Sequence[str] = ()) -> StackBound:
    """The bound of all functions of a model that callers see, built by a card's compiler with the flags of a program.

    ``build`` is one of the toolchain's ``builds``, in place of the program's level. ToolError if a tool fails, or if
    nothing is known of the instructions.
    """
    sources, words, tools = image_sources(project, card), image_words(project, card, build), card.toolchain
    roots = entries(project.plan, project.name)
    if project.plan.fed:  # else a model's image has them all
        words = (*words, *(f"-Wl,--undefined={root}" for root in roots))
    program = tools.link(sources, words)
    found = _deeper(read_bound(program, root, card) for root in roots)
    if not found.unknown:
        return found
    try:
        frames = tools.frames(sources, words)
    except ToolError as error:
        return StackBound(None, found.chain, (*found.unknown, str(error)))
    return _deeper(read_bound(program, root, card, frames) for root in roots)


def worst_bounds(project: Project, card: Card) -> dict[str, StackBound]:
    """For every key of the toolchain's ``builds``, at least "", the largest bound of its builds; none if one has none.

    ToolError if a tool fails.
    """
    asm = any(NO_ASM.removeprefix("-D") in text for text in project.files.values())
    wanted = {
        key: [build if asm else tuple(word for word in build if word != NO_ASM) for build in builds]
        for key, builds in (card.toolchain.builds or {"": ((),)}).items()
    }
    every = list(dict.fromkeys(build for builds in wanted.values() for build in builds))
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        found = dict(zip(every, pool.map(lambda build: stack_bound(project, card, build), every), strict=True))
    return {key: _deeper(found[build] for build in builds) for key, builds in wanted.items()}


def _deeper(bounds: Iterable[StackBound]) -> StackBound:
    return max(bounds, key=lambda bound: (bound.bytes is None, bound.bytes or 0))


def firmware_bound(firmware: Firmware, model: int = 0) -> StackBound:
    """The bound of a model's run within a program, to compare with its measured stack.

    It may differ from ``stack_bound``: the rest of a program changes what gcc inlines. Unknown, with the reason, where
    the toolchain or the board folder cannot tell.
    """
    project, card = firmware.projects[model], firmware.card
    try:
        frames = card.toolchain.frames(firmware_sources(firmware.projects, card), firmware.words)
    except ToolError:
        frames = {}  # read_bound says which ones it lacks
    pointed = {f"{project.name}_{kernel}" for kernel in kernel_counts(project.plan)}
    pointed |= called_by_chains(project.plan, project.name)
    try:
        return read_bound(firmware.elf, run_function(project), card, frames, pointed.__contains__)
    except ToolError as error:
        return StackBound(None, (), (str(error),))


def read_bound(
    path: Path,
    root: str,
    card: Card,
    frames: Mapping[str, int | None] = NO_FRAMES,
    pointed: Callable[[str], bool] = lambda _: True,
) -> StackBound:
    """The bound of function ``root`` in a linked program for a card.

    ``frames`` are what the compiler says; ``pointed`` says whether ``root`` may call a function through a pointer, if
    its address is taken.
    """
    architecture, tools = card.architecture, card.toolchain
    if architecture.instructions is None:
        raise ToolError(f"{architecture.folder} reads no instructions, so that no stack is known")
    image = tools.image(path, architecture.tag)
    taken = address_taken(image, architecture.tag)
    code = with_pointers(functions(tools.listing(path), frames, architecture.instructions), taken)
    return deepest(code, root, frozenset(filter(pointed, taken)), machine=image.machine)
