"""How deep the stack of a run or a reset can get: every function's frame, added up along the deepest chain of calls.

Frames are read from instructions. Where these do not say, or an architecture reads none, the compiler tells those of
the model (gcc -fcallgraph-info=su). Calls are read from the linked image, so those that the compiler
or the linker added are there. A call through a pointer may lead to any function whose address lies in the image.
Interrupts are not counted: they come on top of any program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from twinfer.aot.build.architecture import Instructions
from twinfer.aot.build.elf import named_symbols, open_elf, section_kind
from twinfer.aot.build.firmware import FLAGS, SECTIONS, Firmware, firmware_sources, flags_for, run_function
from twinfer.aot.build.sizes import image
from twinfer.aot.build.targets import Card
from twinfer.aot.build.toolchain import Toolchain
from twinfer.aot.print.chain_tables import BY_TABLE, called_by_chains
from twinfer.aot.print.emit import Project
from twinfer.aot.print.layers import kernel_counts
from twinfer.runtime.cache import unsealed
from twinfer.runtime.tools import Files, built, run_tool

#: The compiler's flags that a model's header and README state the stack for.
BUILDS = tuple((level, *lto) for level in ("-O2", "-O3", "-Os") for lto in ((), ("-flto",)))

_NODE = re.compile(r'node: \{ title: "(?:[^":]*:)?([^"]+)" label: "[^"]*\\n(\d+) bytes \(([^)]*)\)')
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

    ``build`` is one of ``BUILDS``, in place of the program's level. ToolError if a tool fails.
    """
    flags = (*card.flags, *build, *FLAGS) if build else flags_for(card, project)
    roots = [f"{project.name}_run", *([f"{project.name}_reset"] if project.plan.state_bytes else [])]
    found = _deeper(read_bound(image(project, card, flags), root, card) for root in roots)
    if not found.unknown:
        return found
    lto = "-flto" in build
    told = (*flags, "-fcallgraph-info=su", *(["-flto-partition=one"] if lto else []))
    frames = image(project, card, told, "image.elf.ltrans0.ltrans.ci" if lto else "image.elf-library.ci")
    text, elf = unsealed(frames).decode(), image(project, card, told)
    return _deeper(read_bound(elf, root, card, text) for root in roots)


def worst_bound(project: Project, card: Card) -> StackBound:
    """The largest bound of all ``BUILDS``; none if one of them has none. ToolError if a tool fails."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return _deeper(pool.map(lambda build: stack_bound(project, card, build), BUILDS))


def _deeper(bounds: Iterable[StackBound]) -> StackBound:
    return max(bounds, key=lambda bound: (bound.bytes is None, bound.bytes or 0))


def firmware_bound(firmware: Firmware, model: int = 0) -> StackBound:
    """The bound of a model's run within a program, to compare with its measured stack.

    It may differ from ``stack_bound``: the rest of a program changes what gcc inlines.
    """
    project, card = firmware.projects[model], firmware.card
    told = callgraph(firmware_sources(firmware.projects, card), card.toolchain, firmware.flags)
    pointed = {f"{project.name}_{kernel}" for kernel in kernel_counts(project.plan)}
    pointed |= called_by_chains(project.plan, project.name)
    return read_bound(firmware.elf, run_function(project), card, told, pointed.__contains__)


def callgraph(sources: Files, toolchain: Toolchain, flags: Sequence[str]) -> str:
    """The content of gcc's .ci file on the functions of library.c."""
    wanted = ("-fcallgraph-info=su", "-c", "library.c", "-o", "library.o")
    command = (toolchain.compiler, *flags, *SECTIONS, *wanted)
    return unsealed(built(sources, command, "library.ci", toolchain.version)).decode()


def read_bound(
    path: Path, root: str, card: Card, told: str = "", pointed: Callable[[str], bool] = lambda _: True
) -> StackBound:
    """The bound of function ``root`` in a linked ELF for a card.

    ``told`` is the compiler's .ci file; ``pointed`` says whether ``root`` may call a function through a pointer, if its
    address is taken.
    """
    listing = run_tool([card.toolchain.tool("objdump"), "-d", "--no-show-raw-insn", str(path)])
    instructions = card.architecture.instructions
    taken = address_taken(path, instructions.tag)
    return deepest(functions(listing, compiler_frames(told), instructions), root, frozenset(filter(pointed, taken)))


def compiler_frames(told: str) -> dict[str, int | None]:
    """Function -> bytes of its frame, from a .ci file; None for a frame of variable size."""
    nodes = _NODE.findall(told)
    return {name: int(size) if kind in ("static", "dynamic,bounded") else None for name, size, kind in nodes}


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


def address_taken(path: Path, tag: int = 0) -> frozenset[str]:
    """The functions whose address, with ``tag``, is a word of the image's constants, data or code (literal pools)."""
    with path.open("rb") as file:
        elf = open_elf(file)
        sections = [s for s in elf.iter_sections() if section_kind(s) in ("code", "constants", "data")]
        width: int = elf.elfclass // 8
        order: Literal["little", "big"] = "little" if elf.little_endian else "big"
        executed = [s for s in sections if s["sh_flags"] & 4]  # SHF_EXECINSTR
        names = {at | tag: name for s in executed for at, _, name in named_symbols(elf, s, tag)}
        words = (int.from_bytes(word, order) for section in sections for word in _words(section, width))
        return frozenset(names[word] for word in words if word in names)


def _words(section: Any, width: int) -> Iterator[bytes]:
    """The words of a section that lie at multiples of their width."""
    data = section.data()
    for i in range(-section["sh_addr"] % width, len(data) - width + 1, width):
        yield data[i : i + width]


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
