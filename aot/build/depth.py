# SPDX-License-Identifier: Apache-2.0
"""How deep the stack can get below functions of a linked program: frames, added up along the deepest chain of calls.

    python3 stack.py firmware.elf kws_run --usage build --pointers-to kws_ tw_

Calls are read from the instructions, as objdump prints them, so those that compiler or linker added are there. Frames
are read from instructions, too (Thumb, RISC-V); elsewhere, and where these do not say, from the compiler's files
(gcc's or clang's -fstack-usage). A call through a pointer may lead to any function whose address lies in the program,
or to those whose names begin as said. Interrupts are not counted: they come on top of any program.

This file needs Python 3.8 and nothing else: twinfer uses it, and a copy is in every folder that it writes.
"""

from __future__ import annotations

import argparse
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

# -- instructions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Instructions:
    """How the lines of objdump's listing are read: a mnemonic and its operands, without comments.

    ``branches``: whether it may branch. ``calls``: the mnemonics of calls. ``indirect``: whether it branches to an
    address in a register, except returns. ``stack_taken``: bytes by which it lowers the stack pointer, None if unknown.
    ``comments``: the characters that begin a comment. ``stays``: whether the last of some lines branches to a place of
    its own function that is counted from it.
    """

    branches: Callable[[str], bool]
    calls: frozenset[str]
    indirect: Callable[[str, str], bool]
    stack_taken: Callable[[str, str], int | None]
    comments: str = ""
    stays: Callable[[Sequence[tuple[str, str]]], bool] = lambda lines: False


def thumb_taken(mnemonic: str, operands: str) -> int | None:
    """Bytes by which a Thumb instruction lowers the stack pointer; None if unknown."""
    base = mnemonic.split(".")[0]
    if base in ("push", "vpush") or (base in ("stmdb", "vstmdb") and operands.startswith("sp!")):
        return register_bytes(operands[operands.find("{") :])
    if base in ("str", "strd"):
        pushed = re.search(r"\[sp, #-(\d+)\]!", operands)
        return int(pushed[1]) if pushed else 0
    if base in ("sub", "subw", "subs") and operands.startswith("sp,"):
        amount = re.search(r"#(\d+)$", operands)
        return int(amount[1]) if amount else None
    if base in ("add", "addw") and operands.startswith("sp,"):
        return 0 if "#" in operands else None
    return 0


def register_bytes(names: str) -> int:
    """Bytes of a list of Arm's registers such as {r4, r5, lr} or {d8-d11}."""
    total = 0
    for part in names.strip("{} ").split(","):
        reach = re.match(r"[a-z]+(\d+)-[a-z]+(\d+)", part.strip())
        count = int(reach[2]) - int(reach[1]) + 1 if reach else 1
        total += count * (8 if part.strip().startswith("d") else 4)
    return total


def riscv_taken(mnemonic: str, operands: str) -> int | None:
    """The same for RISC-V."""
    if not operands.startswith("sp,") or mnemonic.startswith(("b", "s")):  # compares or stores it
        return None if mnemonic == "sub" and operands.startswith("sp,") else 0
    taken = re.fullmatch(r"sp,sp,(-?\d+)", operands)
    return max(0, -int(taken[1])) if mnemonic in ("addi", "add") and taken else None


def riscv_stays(lines: Sequence[tuple[str, str]]) -> bool:
    """Whether RISC-V's last line jumps to the pc and a sum, as picolibc's memset does into its row of stores."""
    register, before = lines[-1][1], lines[-5:-1]
    sums = {operands for mnemonic, operands in before if mnemonic == "add"}
    bases = {operands.split(",")[0] for mnemonic, operands in before if mnemonic == "auipc"}
    return any(f"{register},{register},{base}" in sums for base in bases)


#: ``bf…`` only announces a branch, or clears bits (``bfc``).
THUMB = Instructions(
    lambda mnemonic: mnemonic.startswith(("b", "cb")) and not mnemonic.startswith("bf"),
    frozenset(["bl"]),
    lambda mnemonic, operands: mnemonic.startswith(("blx", "bx")) and operands != "lr" and "<" not in operands,
    thumb_taken,
    comments=";@",
)

#: ``jalr`` with a comment has a target that objdump knows; ``ret`` does not count.
RISCV = Instructions(
    lambda mnemonic: mnemonic.startswith(("b", "j")),
    frozenset(["jal", "jalr"]),
    lambda mnemonic, operands: mnemonic in ("jalr", "jr") and operands != "ra" and "<" not in operands,
    riscv_taken,
    stays=riscv_stays,
)

#: x86, AArch64, s390x, PowerPC, MIPS, Xtensa: only the compiler says what a frame is.
OTHERS = Instructions(
    lambda mnemonic: mnemonic.startswith(("call", "j", "b", "cb", "tb")),
    frozenset(["call", "callq", "bl", "jal", "brasl", "call0", "call8"]),
    lambda mnemonic, operands: (
        mnemonic in ("blr", "basr", "bctrl", "jalr", "callx0", "callx8")
        or (mnemonic == "br" and operands not in ("%r14", "lr"))
        or (mnemonic.startswith(("call", "jmp")) and operands.startswith("*"))
    ),
    lambda mnemonic, operands: None,
)

#: By an ELF file's machine; and the bits that are set in the address of every function.
MACHINES = {40: THUMB, 243: RISCV}
TAGS = {40: 1}

#: Bytes below the stack pointer that a function may use without lowering it: x86-64, PowerPC64.
RED_ZONES = {62: 128, 21: 288}


# -- ELF files ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """A part of a linked program: ``kind`` is code, constants, data or bss. ``content`` is empty for bss.

    ``symbols``: address, size and name of every function and object in it, by address, of aliases one.
    """

    kind: str
    begin: int
    end: int
    content: bytes
    symbols: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class Image:
    """The sections of a linked program that take memory, and how its words are stored; ``machine`` is ELF's number."""

    sections: tuple[Section, ...]
    word_bytes: int
    order: str
    machine: int = 0


def read_image(path: Path, tag: int | None = None) -> Image:
    """Sections and symbols of an ELF file; the bits of ``tag`` (None: the machine's), which a function's value may have
    set, are taken off. ValueError if it is none."""
    data = path.read_bytes()
    if data[:4] != b"\x7fELF":
        raise ValueError(f"{path} is no ELF file")
    wide, order = data[4] == 2, "<" if data[5] == 1 else ">"
    machine, offset = struct.unpack_from(order + ("18xH20xQ" if wide else "18xH12xI"), data)
    size, count, _ = struct.unpack_from(order + "3H", data, 58 if wide else 46)
    # Of every section: type, flags, address, offset, size, link.
    form = order + ("4xI4QI" if wide else "4x6I")
    heads = [struct.unpack_from(form, data, offset + i * size) for i in range(count)]
    symbols = [symbol for head in heads if head[0] == 2 for symbol in _symbols(data, order, wide, head, heads)]
    bits = TAGS.get(machine, 0) if tag is None else tag
    sections = []
    for type, flags, begin, at, length, _ in heads:
        if not flags & 2 or not length:  # SHF_ALLOC
            continue
        nobits = type == 8
        kind = ("bss" if nobits else "data") if flags & 1 else "code" if flags & 4 else "constants"
        content = b"" if nobits else data[at : at + length]
        sections.append(Section(kind, begin, begin + length, content, _named(symbols, begin, begin + length, bits)))
    return Image(tuple(sections), 8 if wide else 4, "little" if order == "<" else "big", machine)


def _symbols(
    data: bytes, order: str, wide: bool, table: Sequence[int], heads: Sequence[Sequence[int]]
) -> Iterator[tuple[str, int, int, int]]:
    """Name, value, size and info of every symbol of a table."""
    names, form = heads[table[5]][3], order + ("IB3xQQ" if wide else "IIIB3x")
    for entry in struct.iter_unpack(form, data[table[3] : table[3] + table[4]]):
        name, info, value, size = entry if wide else (entry[0], entry[3], entry[1], entry[2])
        begin = names + name
        yield data[begin : data.index(b"\0", begin)].decode("utf-8", "replace"), value, size, info


def _named(
    symbols: Sequence[tuple[str, int, int, int]], begin: int, end: int, tag: int
) -> tuple[tuple[int, int, str], ...]:
    """Address, size and name of the functions and objects of a section, by address; of aliases one, best global."""
    named: dict[int, tuple[int, bool, str]] = {}
    for name, value, size, info in symbols:
        at = value & ~tag if info & 15 == 2 else value
        if info & 15 in (1, 2) and size and begin <= at < end:  # STT_OBJECT, STT_FUNC
            own = (size, info >> 4 == 1, name)
            named[at] = max(named.get(at, own), own)
    return tuple((at, size, name) for at, (size, _, name) in sorted(named.items()))


def address_taken(image: Image, tag: int = 0) -> frozenset[str]:
    """The functions whose address, with ``tag``, is a word of the image's constants, data or code (literal pools)."""
    code = [section for section in image.sections if section.kind == "code"]
    names = {at | tag: name for section in code for at, _, name in section.symbols}
    order = "<" if image.order == "little" else ">"
    words = (word for section in image.sections for word in _words(section, image.word_bytes, order))
    return frozenset(names[word] for word in words if word in names)


def _words(section: Section, width: int, order: str) -> Iterator[int]:
    """The words of a section that lie at multiples of their width."""
    first = -section.begin % width
    count = max(0, len(section.content) - first) // width
    yield from struct.unpack_from(f"{order}{count}{'Q' if width == 8 else 'I'}", section.content, first if count else 0)


# -- functions, and the deepest chain of calls -------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """A function of the image: bytes of its frame (None: not known), and the functions that it may call."""

    name: str
    frame: int | None
    calls: frozenset[str]
    indirect: bool


@dataclass(frozen=True)
class StackBound:
    """``bytes`` that a call can need at most, along ``chain``; None if there is no bound, and ``unknown`` says why.

    ``without`` are functions of libraries that are called and whose stack comes on top.
    """

    bytes: int | None
    chain: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


_FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$", re.MULTILINE)
_TARGET = re.compile(r"<([^+>]+)(?:\+0x[0-9a-f]+)?>")
_CLONE = re.compile(r"\..*$")
_X86 = (3, 62)


def usage_of(text: str, machine: int = 0) -> dict[str, int | None]:
    """Function -> bytes of its frame, from a file that -fstack-usage wrote; None for a frame of variable size.

    Lines of gcc are ``file:line:column:name``, those of clang ``file:line:name``. clang leaves out the return address
    that a call on x86 (``machine``) pushes.
    """
    frames: dict[str, int | None] = {}
    for line in text.splitlines():
        place, size, kind = line.rsplit("\t", 2)
        numbers, _, name = place.rpartition(":")
        column = re.search(r":\d+:\d+$", numbers)
        pushed = 0 if column or machine not in _X86 else 8 if machine == 62 else 4
        known = kind in ("static", "dynamic,bounded")
        before = frames.get(name, 0)
        frames[name] = max(before, int(size) + pushed) if known and before is not None else None
    return frames


def functions(listing: str, frames: Mapping[str, int | None], instructions: Instructions) -> dict[str, Function]:
    """The functions of objdump's listing by name; a frame that its instructions do not tell is that of ``frames``."""
    heads = [*_FUNCTION.finditer(listing)]
    ends = [head.start() for head in heads[1:]] + [len(listing)]
    bodies = {head[1]: listing[head.end() : end] for head, end in zip(heads, ends)}  # noqa: B905
    return {name: _function(name, body, frames, instructions) for name, body in bodies.items()}


def _function(name: str, body: str, frames: Mapping[str, int | None], instructions: Instructions) -> Function:
    lines = [_instruction(line, instructions) for line in body.splitlines() if "\t" in line]
    targets = [_TARGET.search(operands) for mnemonic, operands in lines if instructions.branches(mnemonic)]
    again = any(mnemonic in instructions.calls and operands.endswith(f"<{name}>") for mnemonic, operands in lines)
    calls = frozenset(target[1] for target in targets if target) - (frozenset() if again else {name})
    taken = [instructions.stack_taken(*line) for line in lines]
    known = [size for size in taken if size is not None]
    told = frames.get(name, frames.get(_CLONE.sub("", name)))
    frame = sum(known) if len(known) == len(taken) else told
    indirect = (i for i, line in enumerate(lines) if instructions.indirect(*line))
    return Function(name, frame, calls, any(not instructions.stays(lines[: i + 1]) for i in indirect))


def with_pointers(code: Mapping[str, Function], taken: frozenset[str]) -> dict[str, Function]:
    """The functions, without calls through pointers if no address of a function is anywhere: then all are NULL."""
    return {name: replace(function, indirect=function.indirect and bool(taken)) for name, function in code.items()}


def _instruction(line: str, instructions: Instructions) -> tuple[str, str]:
    """The mnemonic and the operands of a line ``address:\tmnemonic\toperands``, without its comment."""
    plain = re.split(f"[{instructions.comments}]", line)[0] if instructions.comments else line
    mnemonic, _, operands = " ".join(plain.split()[1:]).partition(" ")
    return mnemonic, operands


#: The function that calls kernels for rows of layers that are constants, and nothing else through a pointer.
BY_TABLE = "tw_run_rows"


def deepest(
    functions: Mapping[str, Function],
    root: str,
    pointed: frozenset[str] = frozenset(),
    libraries: frozenset[str] = frozenset(),
    machine: int = 0,
) -> StackBound:
    """The chain of calls from ``root`` that takes most stack.

    A pointer may lead to any function of ``pointed``; the stack of ``libraries`` is not counted.
    """
    search = _Search(functions, pointed, libraries - {root})
    size, chain = search.visit(root, ())
    size += RED_ZONES.get(machine, 0)
    return StackBound(None if search.unknown else size, chain, tuple(search.unknown), tuple(sorted(search.without)))


@dataclass
class _Search:
    """Depth first; ``deepest``: bytes and chain of every function that is done. ``unknown``: why there is no bound."""

    functions: Mapping[str, Function]
    pointed: frozenset[str]
    libraries: frozenset[str]
    deepest: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)
    without: set[str] = field(default_factory=set)

    def visit(self, name: str, above: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        """Bytes and chain from ``name`` on; ``above`` are those that led to it."""
        function = self.functions.get(name)
        if name in self.libraries:
            self.without.add(name)
            return 0, ()
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
        tables = function.name.startswith(BY_TABLE)
        pointed = {name for name in self.pointed if not (tables and name.startswith(BY_TABLE))}
        return sorted(function.calls | pointed if function.indirect else function.calls)

    def _no_bound(self, why: str) -> tuple[int, tuple[str, ...]]:
        self.unknown[why] = None
        return 0, ()


# -- the program -------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the bound of every function and the chain that takes it; 1 if one has none."""
    parser = argparse.ArgumentParser(description="The most stack that functions of a linked program need.")
    parser.add_argument("program", type=Path, help="an ELF file with symbols")
    parser.add_argument("functions", nargs="+", help="such as kws_run")
    parser.add_argument("--objdump", default="objdump", help="that of the compiler")
    parser.add_argument("--usage", type=Path, help="the folder of the .su files that -fstack-usage wrote")
    parser.add_argument("--pointers-to", nargs="*", default=[""], help="how functions begin that pointers lead to")
    options = parser.parse_args(arguments)
    try:
        image = read_image(options.program)
        command = [options.objdump, "-d", "--no-show-raw-insn", str(options.program)]
        listing = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        told = "".join(path.read_text() for path in options.usage.glob("*.su")) if options.usage else ""
        usage = usage_of(told, image.machine)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 2
    taken = address_taken(image, TAGS.get(image.machine, 0))
    code = with_pointers(functions(listing, usage, MACHINES.get(image.machine, OTHERS)), taken)
    pointed = frozenset(name for name in taken if name.startswith(tuple(options.pointers_to)))
    unread = {name for name, function in code.items() if function.frame is None and _CLONE.sub("", name) not in usage}
    found = [
        deepest(code, root, pointed, frozenset(unread if usage else ()), image.machine) for root in options.functions
    ]
    for root, bound in zip(options.functions, found):  # noqa: B905
        libraries = ", ".join(name.replace("@plt", "") for name in bound.without)
        no_bound = "no bound: " + "; ".join(bound.unknown)
        lines = [f"{root}: {no_bound if bound.unknown else f'{bound.bytes} bytes'}"]
        lines += [] if bound.unknown else [f"{code[name].frame:8}  {name}" for name in bound.chain]
        zone = RED_ZONES.get(image.machine, 0)
        lines += [f"{zone:8}  of the red zone below it"] if zone and not bound.unknown else []
        lines += [f"          and what the library takes for {libraries}"] if bound.without else []
        sys.stdout.write("\n".join(lines) + "\n")
    return int(any(bound.unknown for bound in found))


if __name__ == "__main__":
    sys.exit(main())
