"""Sections and symbols of a linked file, read by pyelftools."""

from __future__ import annotations

from typing import Any

from twinfer.runtime.errors import ToolError


def open_elf(file: Any) -> Any:
    """The file as pyelftools sees it; ToolError if that is not installed."""
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        raise ToolError("sizes are read by pyelftools: pip install 'twinfer[embedded]'") from error
    return ELFFile(file)


def section_kind(section: Any) -> str:
    """code, constants, data or bss; empty for a section that takes no memory when the program runs."""
    flags, size = section["sh_flags"], section["sh_size"]
    if not flags & 2 or not size:  # SHF_ALLOC
        return ""
    if flags & 1:  # SHF_WRITE
        return "bss" if section["sh_type"] == "SHT_NOBITS" else "data"
    return "code" if flags & 4 else "constants"  # SHF_EXECINSTR


def named_symbols(elf: Any, section: Any, tag: int = 0) -> list[tuple[int, int, str]]:
    """Address, size and name of every function and object in a section, by address; of aliases one, preferably global.

    The bits of ``tag``, which a function's value in the table may have set, are taken off its address.
    """
    table = elf.get_section_by_name(".symtab")
    begin, end = section["sh_addr"], section["sh_addr"] + section["sh_size"]
    named: dict[int, tuple[int, bool, str]] = {}
    for symbol in table.iter_symbols() if table else ():
        kind, size = symbol["st_info"]["type"], symbol["st_size"]
        at = symbol["st_value"] & ~tag if kind == "STT_FUNC" else symbol["st_value"]
        if kind in ("STT_FUNC", "STT_OBJECT") and size and begin <= at < end:
            own = (size, symbol["st_info"]["bind"] == "STB_GLOBAL", symbol.name)
            named[at] = max(named.get(at, own), own)
    return [(at, size, name) for at, (size, _, name) in sorted(named.items())]
