"""How deep the stack of a run or a reset can get: every function's frame, added up along the deepest chain of calls.

Frames are read from instructions. Where these do not say, the compiler tells those of the model. Calls are read from
the linked image, so those that the compiler or the linker added are there. A call through a pointer may lead to any
function whose address lies in the image.
Interrupts are not counted: they come on top of any program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from twinfer.aot.build.architecture import Instructions
from twinfer.aot.build.firmware import Firmware, firmware_sources, run_function
from twinfer.aot.build.sizes import image_sources, image_words
from twinfer.aot.build.targets import Card
from twinfer.aot.build.toolchain import Image, Section
from twinfer.aot.print.chain_tables import BY_TABLE, called_by_chains
from twinfer.aot.print.emit import Project
from twinfer.aot.print.layer_functions import kernel_counts
from twinfer.runtime.errors import ToolError

_FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$", re.MULTILINE)
_TARGET = re.compile(r"<([^+>]+)(?:\+0x[0-9a-f]+)?>")


@dataclass(frozen=True)
class Function:
    """A function of the image: bytes of its frame (None: not known), and the functions that it may call."""

    name: str
    frame: int | None
    calls: frozenset[str]
    indirect: bool


@dataclass(frozen=True)
class StackBound:
    """``bytes`` that a call can need at most, along ``chain``; None if there is no bound, and ``unknown`` says why."""

    bytes: int | None
    chain: tuple[str, ...]
    unknown: tuple[str, ...] = ()


def stack_bound(project: Project, card: Card, build: Sequence[str] = ()) -> StackBound:
    """The bound of ``<name>_run`` and ``<name>_reset``, built by a card's compiler with the flags of a program.

    ``build`` is one of the toolchain's ``builds``, in place of the program's level. ToolError if a tool fails, or if
    nothing is known of the instructions.
    """
    sources, words, tools = image_sources(project, card), image_words(project, card, build), card.toolchain
    roots = [f"{project.name}_run", *([f"{project.name}_reset"] if project.plan.state_bytes else [])]
    program = tools.link(sources, words)
    found = _deeper(read_bound(program, root, card) for root in roots)
    if not found.unknown:
        return found
    try:
        frames = tools.frames(sources, words)
    except ToolError as error:
        return StackBound(None, found.chain, (*found.unknown, str(error)))
    return _deeper(read_bound(program, root, card, frames) for root in roots)


def worst_bound(project: Project, card: Card) -> StackBound:
    """The largest bound of all builds of the toolchain; none if one of them has none. ToolError if a tool fails."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return _deeper(pool.map(lambda build: stack_bound(project, card, build), card.toolchain.builds or [()]))


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


#: Of a program whose compiler was not asked.
NO_FRAMES: Mapping[str, int | None] = {}


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
    taken = address_taken(tools.image(path, architecture.tag), architecture.tag)
    code = functions(tools.listing(path), frames, architecture.instructions)
    return deepest(code, root, frozenset(filter(pointed, taken)))


def functions(listing: str, frames: Mapping[str, int | None], instructions: Instructions) -> dict[str, Function]:
    """The functions of objdump's listing by name; a frame that is not in ``frames`` is read from its instructions."""
    heads = [*_FUNCTION.finditer(listing)]
    ends = [head.start() for head in heads[1:]] + [len(listing)]
    bodies = {head[1]: listing[head.end() : end] for head, end in zip(heads, ends, strict=True)}
    return {name: _function(name, body, frames, instructions) for name, body in bodies.items()}


def _instruction(line: str, instructions: Instructions) -> tuple[str, str]:
    """The mnemonic and the operands of a line ``address:\tmnemonic\toperands``, without its comment."""
    plain = re.split(f"[{instructions.comments}]", line)[0] if instructions.comments else line
    mnemonic, _, operands = " ".join(plain.split()[1:]).partition(" ")
    return mnemonic, operands


def _function(name: str, body: str, frames: Mapping[str, int | None], instructions: Instructions) -> Function:
    lines = [_instruction(line, instructions) for line in body.splitlines() if "\t" in line]
    targets = [_TARGET.search(operands) for mnemonic, operands in lines if instructions.branches(mnemonic)]
    again = any(mnemonic in instructions.calls and operands.endswith(f"<{name}>") for mnemonic, operands in lines)
    calls = frozenset(target[1] for target in targets if target) - (frozenset() if again else {name})
    taken = [] if name in frames else [instructions.stack_taken(*line) for line in lines]
    known = [size for size in taken if size is not None]
    frame = frames[name] if name in frames else sum(known) if len(known) == len(taken) else None
    return Function(name, frame, calls, any(instructions.indirect(*line) for line in lines))


def address_taken(image: Image, tag: int = 0) -> frozenset[str]:
    """The functions whose address, with ``tag``, is a word of the image's constants, data or code (literal pools)."""
    code = [section for section in image.sections if section.kind == "code"]
    names = {at | tag: name for section in code for at, _, name in section.symbols}
    words = (int.from_bytes(word, image.order) for s in image.sections for word in _words(s, image.word_bytes))
    return frozenset(names[word] for word in words if word in names)


def _words(section: Section, width: int) -> Iterator[bytes]:
    """The words of a section that lie at multiples of their width."""
    for i in range(-section.begin % width, len(section.content) - width + 1, width):
        yield section.content[i : i + width]


def deepest(functions: Mapping[str, Function], root: str, pointed: frozenset[str] = frozenset()) -> StackBound:
    """The chain of calls from ``root`` that takes most stack; a pointer may lead to any function of ``pointed``."""
    search = _Search(functions, pointed)
    size, chain = search.visit(root, ())
    return StackBound(None if search.unknown else size, chain, tuple(search.unknown))


@dataclass
class _Search:
    """Depth first; ``deepest``: bytes and chain of every function that is done. ``unknown``: why there is no bound."""

    functions: Mapping[str, Function]
    pointed: frozenset[str]
    deepest: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)

    def visit(self, name: str, above: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        """Bytes and chain from ``name`` on; ``above`` are those that led to it."""
        function = self.functions.get(name)
        if name in above:
            return self._no_bound(f"{name} calls itself")
        if function is None:
            return self._no_bound(f"{name}: not in the image")
        if function.frame is None:
            return self._no_bound(f"{name}: its frame is not known")
        if name not in self.deepest:
            size, chain = max((self.visit(call, (*above, name)) for call in self._calls(function)), default=(0, ()))
            self.deepest[name] = function.frame + size, (name, *chain)
        return self.deepest[name]

    def _calls(self, function: Function) -> list[str]:
        """The functions that a function may call, directly or through a pointer."""
        if function.indirect and not self.pointed:
            self.unknown[f"{function.name} calls what a pointer says"] = None
        pointed = self.pointed if function.indirect else frozenset[str]()
        return sorted(function.calls | pointed - ({BY_TABLE} if function.name == BY_TABLE else set()))

    def _no_bound(self, why: str) -> tuple[int, tuple[str, ...]]:
        self.unknown[why] = None
        return 0, ()
