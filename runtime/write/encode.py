"""Plain values -> FlatBuffers bytes: the inverse of ``flatbuffer.py``, on the same rows of ``schema.py``.

A file is made of parts: tables, vectors and strings. A part that refers to others stands before them, as the format
asks; parts that refer to none lie anywhere behind, so they fill the gaps before aligned ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from twinfer.runtime.read.flatbuffer import Damage, Values, at
from twinfer.runtime.read.schema import ENUMS, IDENTIFIER, TABLES, UNIONS, Field, Table

#: Alignment in bytes of the data of every buffer in the file; kernels may read constants in place.
BUFFER_ALIGNMENT = 16

#: The most bytes that flatbuffers' offsets reach.
MAX_BYTES = 1 << 31

#: Tables that are never shared: each stands for a thing of its own, whose place in a list counts.
DISTINCT = frozenset({"Buffer", "Model", "Operator", "OperatorCode", "SubGraph", "Tensor"})


def encode(root: str, values: Values) -> bytes:
    """The file whose root table is ``root``. Fields that are None or absent are left out, defaults take no space, equal
    parts are there once.

    Damage, with the place, if a value does not fit its field or the file would pass 2 GiB.
    """
    encoder = _Encoder()
    top = encoder.table(TABLES[root], values)
    vtables, where = bytearray(), dict[bytes, int]()
    for part in encoder.parts:
        if part.vtable is not None and part.vtable not in where:
            where[part.vtable] = 8 + len(vtables)
            vtables += part.vtable
    parts = [part for part in reversed(encoder.parts) if part.refers]  # a part was made after those that it refers to
    end = _in_a_row(parts, -(-(8 + len(vtables)) // 4) * 4)
    leaves = [part for part in encoder.parts if not part.refers]
    end = _packed(leaves, end)
    if end > MAX_BYTES:
        raise Damage("the file would be larger than 2 GiB, the limit of the format")
    file = bytearray(end)
    struct.pack_into("<I4s", file, 0, top.place, IDENTIFIER)
    file[8 : 8 + len(vtables)] = vtables
    for part in (*parts, *leaves):
        place = part.place
        if part.vtable is not None:
            struct.pack_into("<i", file, place, place - where[part.vtable])
        else:
            struct.pack_into("<I", file, place, part.count)
        file[place + 4 : place + 4 + len(part.data)] = part.data
        for offset, child in part.refers:
            struct.pack_into("<I", file, place + offset, child.place - place - offset)
    return bytes(file)


class _Part:
    """A table, vector or string: 4 bytes (where the vtable is, or how many elements), then ``data``, which is aligned.

    ``refers``: positions in it of offsets to other parts. ``place``: where it begins in the file.
    """

    __slots__ = ("alignment", "count", "data", "place", "refers", "vtable")

    def __init__(
        self,
        data: bytes | memoryview,
        alignment: int,
        count: int = 0,
        vtable: bytes | None = None,
        refers: Sequence[tuple[int, _Part]] = (),
    ) -> None:
        self.data, self.alignment, self.count, self.vtable, self.refers = data, alignment, count, vtable, refers
        self.place = 0

    @property
    def size(self) -> int:
        return 4 + -(-len(self.data) // 4) * 4

    def put(self, position: int) -> int:
        """Places the part there or where its data is next aligned; returns where it ends."""
        self.place = position + -(position + 4) % self.alignment
        return self.place + self.size


def _in_a_row(parts: Iterable[_Part], position: int) -> int:
    for part in parts:
        position = part.put(position)
    return position


def _packed(parts: Sequence[_Part], position: int) -> int:
    """Places parts in any order, those with the largest alignment first, others in the gaps before them."""
    small: dict[int, list[_Part]] = {0: [], 4: [], 8: [], 12: []}  # by what they add to a position modulo 16
    for part in reversed(parts):
        if part.alignment <= 4:
            small[part.size % 16].append(part)
    for alignment in (16, 8):
        for part in (each for each in parts if each.alignment == alignment):
            while gap := -(position + 4) % alignment:
                sizes = [size for size in (12, 8, 4) if small[size] and size % alignment]
                fits = [size for size in sizes if size % alignment == gap]
                fits = fits or [size for size in sizes if small[(gap - size) % 16]]
                if not fits:
                    break
                position = small[fits[0]].pop().put(position)
            position = part.put(position)
    return _in_a_row((part for group in small.values() for part in reversed(group)), position)


class _Encoder:
    """Makes the parts of a file, children before their parents."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.known: dict[Any, _Part] = {}

    def table(self, table: Table, values: Values) -> _Part:
        if table.name in DISTINCT:
            return self._table(table, values)
        return self._once((table.name, repr(values)), lambda: self._table(table, values))

    def _once(self, key: Any, make: Callable[[], _Part]) -> _Part:
        """The part that equals something that is in the file already, or is made now."""
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    def _add(self, *values: Any) -> _Part:
        part = _Part(*values)
        self.parts.append(part)
        return part

    def _table(self, table: Table, values: Values) -> _Part:
        """Fields lie by their sizes, so that nothing is between them."""
        stored: list[tuple[int, int, bytes | _Part]] = []  # bytes, slot, value
        for field in table.fields:
            value = values.get(field.name)
            if value is None:
                continue
            with nullcontext() if field.vector and field.kind in TABLES else at(f"field {field.name}"):
                if not field.scalar or field.vector:
                    slot = field.slot
                    if field.kind in UNIONS:
                        stored.append((1, slot, struct.pack("<B", UNIONS[field.kind].index(value[0]))))
                        slot += 1
                    stored.append((4, slot, self._child(table, field, value)))
                elif (number := _scalar(field, value)) != _scalar(field, field.default):
                    packed = struct.pack(f"<{field.scalar.letter}", number)
                    stored.append((len(packed), field.slot, packed))
        stored.sort(key=lambda each: (-each[0], each[1]))
        data, offsets, refers = bytearray(), [0] * (1 + max((slot for _, slot, _ in stored), default=-1)), []
        for size, slot, value in stored:
            offsets[slot] = 4 + len(data)
            if isinstance(value, _Part):
                refers.append((4 + len(data), value))
            data += bytes(size) if isinstance(value, _Part) else value
        vtable = struct.pack(f"<{2 + len(offsets)}H", 4 + 2 * len(offsets), 4 + len(data), *offsets)
        return self._add(bytes(data), max([4, *(size for size, _, _ in stored)]), 0, vtable, refers)

    def _child(self, table: Table, field: Field, value: Any) -> _Part:
        """What a table refers to: a string, vector, table or union member."""
        if field.kind in UNIONS:
            return self.table(TABLES[value[0]], value[1])
        if field.vector and field.kind == "uint8":
            if not isinstance(value, bytes | memoryview):
                raise Damage(f"{type(value).__name__} instead of bytes")
            return self._add(value, BUFFER_ALIGNMENT if table.name == "Buffer" else 4, len(value))
        if field.vector:
            return self._numbers(field, value) if field.scalar else self._tables(field, value)
        if field.kind == "string":
            text = value.encode()
            return self._once(("string", text), lambda: self._add(text + b"\0", 4, len(text)))
        return self.table(TABLES[field.kind], value)

    def _numbers(self, field: Field, values: Any) -> _Part:
        letter = field.scalar.letter if field.scalar else ""
        array = np.array([_scalar(field, value) for value in values], f"<{letter}")
        data = array.tobytes()
        return self._once((letter, data), lambda: self._add(data, max(4, array.itemsize), len(array)))

    def _tables(self, field: Field, values: Any) -> _Part:
        children = []
        for i, value in enumerate(values):
            with at(field.kind, i, value.get("name")):
                children.append(self.table(TABLES[field.kind], value))
        refers = [(4 + 4 * i, child) for i, child in enumerate(children)]
        return self._add(bytes(4 * len(children)), 4, len(children), None, refers)


def _scalar(field: Field, value: Any) -> int | float | bool:
    """The number that is stored; Damage if the value is of another type or out of range."""
    if field.kind in ENUMS:
        enum = ENUMS[field.kind]
        if value not in enum.names:
            raise Damage(f"{value!r} is not a {enum.name} ({enum})")
        return enum.names.index(value)
    kinds = (int, float, np.integer, np.floating) if field.kind == "float32" else (int, np.integer, np.bool_)
    if not isinstance(value, kinds):
        raise Damage(f"{value!r} is not a {field.kind}")
    if field.kind == "float32":
        return float(value)
    if field.scalar and not field.scalar.min_val <= value <= field.scalar.max_val:
        raise Damage(f"{value!r} is out of the range of {field.kind}")
    return bool(value) if field.kind == "bool" else int(value)
