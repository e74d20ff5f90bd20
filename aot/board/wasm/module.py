"""Reads how many bytes the parts of a WebAssembly module take: the core specification, chapter 5, binary format."""

from __future__ import annotations

from collections.abc import Iterator

from twinfer.aot.build.depth import Section

_CUSTOM, _IMPORT, _CODE, _DATA = 0, 2, 10, 11
_FUNCTION_NAMES, _SEGMENT_NAMES = 1, 9


class _Reader:
    """Goes through bytes; ``at`` is where it is."""

    def __init__(self, content: bytes, at: int = 0) -> None:
        self.content, self.at = content, at

    def number(self) -> int:
        """An unsigned LEB128; the low 7 bits of each byte count, the highest says whether more follow."""
        value, shift = 0, 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def take(self, size: int) -> bytes:
        self.at += size
        return self.content[self.at - size : self.at]


def read_sections(module: bytes) -> Iterator[Section]:
    """The code and the data of a module, with the names that its "name" section gives to their parts.

    A part's bytes are those that it takes in the module. Data that is zero takes none.
    """
    found = dict(_sections(module))
    functions, segments = _names(module, [place for kind, place in _sections(module) if kind == _CUSTOM])
    if place := found.get(_CODE):
        imported = _imported(module, found[_IMPORT]) if _IMPORT in found else 0
        parts = [(at, size, functions.get(imported + i, "")) for i, (at, size) in enumerate(_bodies(module, place))]
        yield Section("code", place[0], place[1], module[slice(*place)], tuple(part for part in parts if part[2]))
    if place := found.get(_DATA):
        parts = [(at, size, segments.get(i, "")) for i, (at, size) in enumerate(_segments(module, place))]
        named = tuple((at, size, name.removeprefix(".rodata.")) for at, size, name in parts if name)
        yield Section("constants", place[0], place[1], module[slice(*place)], named)


def _sections(module: bytes) -> Iterator[tuple[int, tuple[int, int]]]:
    """The number of every section, and where it begins and ends; eight bytes of magic and version come first."""
    reader = _Reader(module, 8)
    while reader.at < len(module):
        kind, size = reader.take(1)[0], reader.number()
        yield kind, (reader.at, reader.at + size)
        reader.at += size


def _bodies(module: bytes, place: tuple[int, int]) -> Iterator[tuple[int, int]]:
    reader = _Reader(module, place[0])
    for _ in range(reader.number()):
        begin, size = reader.at, reader.number()
        reader.at += size
        yield begin, reader.at - begin


def _segments(module: bytes, place: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Where the segments of data lie; an active one says by i32.const VALUE end where its bytes go."""
    reader = _Reader(module, place[0])
    for _ in range(reader.number()):
        begin = reader.at
        if reader.number() == 0:
            reader.take(1)
            reader.number()
            reader.take(1)
        reader.take(reader.number())
        yield begin, reader.at - begin


def _imported(module: bytes, place: tuple[int, int]) -> int:
    """How many functions are imported: their numbers come before those of the module's own."""
    reader, functions = _Reader(module, place[0]), 0
    for _ in range(reader.number()):
        for _ in range(2):
            reader.take(reader.number())
        kind = reader.take(1)[0]
        functions += kind == 0
        for _ in range({0: 1, 3: 2}.get(kind, 0)):
            reader.number()
        if kind in (1, 2):  # a table, a memory: limits
            reader.at += kind == 1
            for _ in range(1 + reader.number()):
                reader.number()
    return functions


def _names(module: bytes, customs: list[tuple[int, int]]) -> tuple[dict[int, str], dict[int, str]]:
    """Number -> name, of functions and of segments of data."""
    tables: dict[int, dict[int, str]] = {}
    for begin, end in customs:
        reader = _Reader(module, begin)
        if reader.take(reader.number()) != b"name":
            continue
        while reader.at < end:
            kind, size = reader.take(1)[0], reader.number()
            if kind in (_FUNCTION_NAMES, _SEGMENT_NAMES):
                own = _Reader(module, reader.at)
                tables[kind] = {own.number(): own.take(own.number()).decode() for _ in range(own.number())}
            reader.at += size
    return tables.get(_FUNCTION_NAMES, {}), tables.get(_SEGMENT_NAMES, {})
