"""How deep the stack of ``<name>_run`` can get: every function's frame, added up along the deepest chain of calls.

Frames of the model's functions are the compiler's own word (gcc -fcallgraph-info=su); those of library functions, and
of all where the compiler does not say, are read from their instructions. Calls are read from the linked image, so none
is missed that the compiler or the linker added. A pointer that is called may lead to any function whose address lies
in the image. Interrupts are not counted: they come on top of any program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinfer.aot.build.firmware import COMPILER, Firmware, firmware_sources
from twinfer.aot.build.sizes import SECTIONS, image, image_sources, named_symbols, open_elf, section_kind
from twinfer.aot.build.tools import Files, built, compiler_version, run_tool
from twinfer.aot.print.emit import Project
from twinfer.aot.print.layers import kernel_counts

_NODE = re.compile(r'node: \{ title: "(?:[^":]*:)?([^"]+)" label: "[^"]*\\n(\d+) bytes \(([^)]*)\)')
_FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]*)>:$")
_TARGET = re.compile(r"<([^+>]+)(?:\+0x[0-9a-f]+)?>")
_REGISTERS = re.compile(r"([a-z]+)(\d+)-[a-z]+(\d+)")

#: Reads the bytes that an instruction takes off the stack pointer; None if they are not to be told from it.
Reader = Callable[[str, str], int | None]


@dataclass(frozen=True)
class Function:
    """A function of the image: bytes of its frame (None: not known), and the functions that it may call."""

    name: str
    frame: int | None
    calls: frozenset[str]
    indirect: bool


@dataclass(frozen=True)
class StackBound:
    """``bytes`` that a call can need at most, along ``chain``; None if ``unknown`` says why there is no bound."""

    bytes: int | None
    chain: tuple[str, ...]
    unknown: tuple[str, ...] = ()


def stack_bound(project: Project, compiler: str, flags: Sequence[str]) -> StackBound:
    """The bound of ``<name>_run`` as that compiler, a gcc, makes it with those flags. ToolError if a tool fails."""
    told = callgraph(image_sources(project), compiler, (*flags, *SECTIONS))
    return read_bound(image(project, compiler, flags), f"{project.name}_run", compiler, told)


def firmware_bound(firmware: Firmware, model: int = 0) -> StackBound:
    """The bound of a model's run within a program: what its marks are held against.

    It may differ from ``stack_bound``: what else is in a program changes what gcc inlines.
    """
    project = firmware.projects[model]
    sources = firmware_sources(firmware.projects, firmware.card)
    told = callgraph(sources, COMPILER, (*firmware.flags, *SECTIONS))
    shared = {f"{project.name}_{kernel}" for kernel in kernel_counts(project.plan)}
    return read_bound(firmware.elf, f"{project.name}_run", COMPILER, told, shared.__contains__)


def callgraph(sources: Files, compiler: str, flags: Sequence[str]) -> str:
    """What gcc says of the functions of library.c: the content of its .ci file."""
    command = (compiler, *flags, "-fcallgraph-info=su", "-c", "library.c", "-o", "library.o")
    return built(sources, command, "library.ci", compiler_version((compiler,))).read_text(encoding="utf-8")


def read_bound(
    path: Path, root: str, compiler: str, told: str = "", pointed: Callable[[str], bool] = lambda _: True
) -> StackBound:
    """The bound of function ``root`` in a linked ELF.

    ``told`` is what the compiler said of the frames in it; ``pointed`` tells which of the functions whose address is
    taken ``root`` may call by a pointer.
    """
    with path.open("rb") as file:
        arm = open_elf(file)["e_machine"] == "EM_ARM"
    listing = run_tool([f"{compiler.removesuffix('gcc')}objdump", "-d", "--no-show-raw-insn", str(path)])
    found = functions(listing, compiler_frames(told), stack_taken if arm else lambda *_: None)
    return deepest(found, root, frozenset(filter(pointed, address_taken(path))))


def compiler_frames(told: str) -> dict[str, int | None]:
    """Function -> bytes of its frame from a .ci file; None for one that depends on its arguments."""
    found = _NODE.findall(told)
    return {name: int(size) if kind in ("static", "dynamic,bounded") else None for name, size, kind in found}


def functions(listing: str, frames: Mapping[str, int | None], reader: Reader) -> dict[str, Function]:
    """The functions of objdump's listing by name; ``reader`` gives the frames of those that are not in ``frames``."""
    found: dict[str, Function] = {}
    name, lines = "", list[tuple[str, str]]()
    for line in [*listing.splitlines(), "0 <>:"]:
        if head := _FUNCTION.match(line):
            if name:
                found[name] = _function(name, lines, frames, reader)
            name, lines = head[1], []
        elif "\t" in line:
            mnemonic, _, operands = " ".join(re.split(r"[;@]", line)[0].split()[1:]).partition(" ")
            lines.append((mnemonic, operands))
    return found


def _function(name: str, lines: list[tuple[str, str]], frames: Mapping[str, int | None], reader: Reader) -> Function:
    targets = [_TARGET.search(operands) for mnemonic, operands in lines if _branches(mnemonic)]
    again = any(mnemonic in ("bl", "call") and operands.endswith(f"<{name}>") for mnemonic, operands in lines)
    calls = frozenset(target[1] for target in targets if target) - (frozenset() if again else {name})
    taken = [] if name in frames else [reader(*line) for line in lines]
    known = [size for size in taken if size is not None]
    frame = frames[name] if name in frames else sum(known) if len(known) == len(taken) else None
    return Function(name, frame, calls, any(_indirect(*line) for line in lines))


def _branches(mnemonic: str) -> bool:
    """Whether it goes elsewhere; ``bf…`` only names the place of a branch to come, or clears bits (``bfc``)."""
    return mnemonic.startswith(("b", "cb", "call", "jmp")) and not mnemonic.startswith("bf")


def _indirect(mnemonic: str, operands: str) -> bool:
    """A call or a jump to where a register says, a return aside."""
    arm = mnemonic.startswith(("blx", "bx")) and operands != "lr" and "<" not in operands
    return arm or (mnemonic.startswith(("call", "jmp")) and operands.startswith("*"))


def stack_taken(mnemonic: str, operands: str) -> int | None:
    """Bytes by which an Arm instruction lowers the stack pointer; None if that is not to be told from it."""
    base = mnemonic.split(".")[0]
    if base in ("push", "vpush") or (base in ("stmdb", "vstmdb") and operands.startswith("sp!")):
        return _register_bytes(operands[operands.find("{") :])
    if base in ("str", "strd") and (pushed := re.search(r"\[sp, #-(\d+)\]!", operands)):
        return int(pushed[1])
    if base in ("sub", "subw", "subs") and operands.startswith("sp,"):
        amount = re.search(r"#(\d+)$", operands)
        return int(amount[1]) if amount else None
    if base in ("add", "addw") and operands.startswith("sp,"):
        return 0 if "#" in operands else None
    return 0


def _register_bytes(names: str) -> int:
    """Bytes of a register list such as {r4, r5, lr} or {d8-d11}."""
    total = 0
    for part in names.strip("{} ").split(","):
        reach = _REGISTERS.match(part.strip())
        count = int(reach[3]) - int(reach[2]) + 1 if reach else 1
        total += count * (8 if part.strip().startswith("d") else 4)
    return total


def address_taken(path: Path) -> frozenset[str]:
    """The functions whose address is a word of the image's constants, data or code (literal pools)."""
    with path.open("rb") as file:
        elf = open_elf(file)
        sections = [s for s in elf.iter_sections() if section_kind(s) in ("code", "constants", "data")]
        width, order = elf.elfclass // 8, "little" if elf.little_endian else "big"
        thumb = elf["e_machine"] == "EM_ARM"
        names = {at | thumb: name for s in sections if s["sh_flags"] & 4 for at, _, name in named_symbols(elf, s)}
        taken = set[str]()
        for section in sections:
            data = section.data()
            for i in range(-section["sh_addr"] % width, len(data) - width + 1, width):
                taken.add(names.get(int.from_bytes(data[i : i + width], order), ""))  # type: ignore[arg-type]
    return frozenset(taken - {""})


def deepest(found: Mapping[str, Function], root: str, pointed: frozenset[str] = frozenset()) -> StackBound:
    """The chain of calls from ``root`` that takes most."""
    done: dict[str, tuple[int, tuple[str, ...]]] = {}
    unknown: dict[str, None] = {}

    def visit(name: str, above: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        if name in above:
            unknown[f"{name} calls itself"] = None
            return 0, ()
        if name not in done:
            function = found.get(name)
            if function is None or function.frame is None:
                unknown[f"{name}: " + ("not in the image" if function is None else "its frame is not known")] = None
                return 0, ()
            if function.indirect and not pointed:
                unknown[f"{name} calls what a pointer says"] = None
            calls = function.calls | (pointed if function.indirect else frozenset())
            size, chain = max((visit(call, (*above, name)) for call in sorted(calls)), default=(0, ()))
            done[name] = function.frame + size, (name, *chain)
        return done[name]

    size, chain = visit(root, ())
    return StackBound(None if unknown else size, chain, tuple(unknown))
