"""Reads untrusted FlatBuffers into plain values: everything is checked before it is used.

A table becomes a dict with every field of its row in ``schema.TABLES``: scalars as int, float or bool, enums as
names, strings as str, vectors as tuples (bytes: a memoryview on the file, or None if absent), tables as dicts or None,
unions as ``(table name, dict)`` or None. Anything wrong raises ``Damage`` with the place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from twinfer.runtime.read.schema import IDENTIFIER, TABLES, UNIONS, Field, Table

Values = dict[str, Any]

#: Tables that messages call otherwise.
_LABELS = {
    "SubGraph": "subgraph", "SignatureDef": "signature", "OperatorCode": "operator code", "TensorMap": "entry",
    "DimensionMetadata": "dimension", "Metadata": "metadata", "VariantSubType": "variant",
}  # fmt: skip


class Damage(Exception):
    """Something in the file is wrong: ``place``, from the outside in, and the reason. It becomes a ModelError."""

    def __init__(self, reason: str, *place: str) -> None:
        super().__init__(reason)
        self.place = list(place)

    def __str__(self) -> str:
        return ": ".join(filter(None, (", ".join(self.place), str(self.args[0]))))


def label(kind: str, index: int, name: object = None) -> str:
    """The name of an element of a vector of tables in messages: "tensor 3 'bias'", "subgraph 0"."""
    known = f"{_LABELS.get(kind, kind.lower())} {index}"
    if not isinstance(name, str) or not name or kind == "SubGraph":
        return known
    return f"{known} {name if len(name) <= 100 else name[:99] + '…'!r}"


@contextmanager
def at(place: str) -> Iterator[None]:
    """Adds a place to the damage inside."""
    try:
        yield
    except Damage as damage:
        damage.place.insert(0, place)
        raise


class Stored(NamedTuple):
    """A field that a table has, and where its value lies behind the table's start; ``behind`` is that of the next slot:
    of a union's table (0: absent), whose value itself is the type code."""

    field: Field
    offset: int
    behind: int


class Reader:
    """Bounds-checked access to one file.

    ``budget`` bounds time and memory: every byte may be visited twice on average. Honest files visit each once (a few
    strings are shared), hostile ones let thousands of tables and vectors overlap.
    """

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.budget = 2 * len(data) + 65536
        self._length = len(data)
        self._stored: dict[tuple[str, int], Sequence[Stored]] = {}

    def root(self, table: str) -> Values:
        """The file's root table."""
        if len(self.data) < 8:
            raise Damage(f"the file has {len(self.data)} bytes, too short for a .tflite model")
        identifier = bytes(self.data[4:8])
        if identifier != IDENTIFIER:
            raise Damage(f"the file is no .tflite model: bytes 4 to 7 are {identifier!r}, not {IDENTIFIER!r}")
        return self._table(TABLES[table], self._follow(0))

    def _get(self, form: str, position: int) -> tuple[Any, ...]:
        """Unpack at a position; Damage if it reaches outside of the file."""
        packed = _struct(form)
        if position < 0 or position + packed.size > self._length:
            reason = f"byte {position}, {packed.size} bytes, file {self._length}"
            raise Damage(f"it reaches outside of the file ({reason})")
        return packed.unpack_from(self.data, position)

    def spend(self, size: int) -> None:
        """Charge work against the budget; Damage if it is used up."""
        self.budget -= size
        if self.budget < 0:
            raise Damage("the parts of the file overlap: it would take far more memory than the file is long")

    def _follow(self, position: int) -> int:
        """Where the offset stored at a position leads."""
        offset: int = self._get("<I", position)[0]
        if offset < 4:
            raise Damage(f"offset {offset} at byte {position} leads nowhere")
        return position + offset

    def _fields(self, table: Table, position: int) -> Sequence[Stored]:
        """The fields that the table at a position has."""
        start = position - self._get("<i", position)[0]
        known = self._stored.get((table.name, start))
        if known is None:
            vtable = self._vtable(start)
            every = (Stored(f, _offset(vtable, f.slot), _offset(vtable, f.slot + 1)) for f in table.fields)
            known = self._stored[table.name, start] = [each for each in every if each.offset]
        return known

    def _vtable(self, start: int) -> tuple[int, ...]:
        """The field offsets of the tables whose vtable begins there (0: absent)."""
        length = self._get("<H", start)[0]
        if length < 4 or length % 2:
            raise Damage(f"the vtable at byte {start} has length {length}")
        self.spend(length)
        return self._get(f"<{length // 2}H", start)

    def _table(self, table: Table, position: int) -> Values:
        field, values = None, {**table.absent}
        try:
            self.spend(8)
            for stored in self._fields(table, position):
                field = stored.field
                values[field.name] = self._field(stored, position)
            return values
        except Damage as damage:
            if field and not (field.vector and damage.place):  # "tensor 3" says more than "field tensors, tensor 3"
                damage.place.insert(0, f"field {field.name}")
            raise

    def _element(self, table: Table, position: int, index: int) -> Values:
        """A table in a vector: damage is reported with its index and name."""
        start = self._follow(position)
        try:
            return self._table(table, start)
        except Damage as damage:
            damage.place.insert(0, label(table.name, index, self._name(table, start)))
            raise

    def _name(self, table: Table, position: int) -> object:
        """The name of a damaged table, if it has one that can still be read."""
        try:
            named = (each for each in self._fields(table, position) if each.field.name == "name")
            return next((self._field(each, position) for each in named), None)
        except Damage:
            return None

    def _field(self, stored: Stored, table: int) -> Any:
        field, at = stored.field, table + stored.offset
        if field.kind in UNIONS:
            return self._union(field, at, stored.behind and table + stored.behind)
        if field.scalar and not field.vector:
            return self._values(field, at, 1)[0]
        start = self._follow(at)
        if field.kind == "string":
            return self._string(start)
        return self._vector(field, start) if field.vector else self._table(TABLES[field.kind], start)

    def _values(self, field: Field, position: int, count: int) -> tuple[Any, ...]:
        """Scalars or enums at a position."""
        values, enum = self._get(f"<{count}{field.format}", position), field.enum
        if enum is None:
            return values
        for value in values:
            if not 0 <= value < len(enum.names):
                raise Damage(f"value {value} is not a {enum.name} ({enum})")
        return tuple(enum.names[value] for value in values)

    def _vector(self, field: Field, start: int) -> tuple[Any, ...] | memoryview:
        count = self._get("<I", start)[0]
        size = count * (field.scalar.bytewidth if field.scalar else 4)
        start += 4
        if start + size > len(self.data):
            raise Damage(f"{count} elements at byte {start} reach outside of the file ({len(self.data)} bytes)")
        if field.kind == "uint8":
            return self.data[start : start + size]
        self.spend(size)
        if field.scalar:
            return self._values(field, start, count)
        table = TABLES[field.kind]
        return tuple(self._element(table, start + 4 * i, i) for i in range(count))

    def _string(self, start: int) -> str:
        size = self._get("<I", start)[0]
        self.spend(size)
        raw = self._get(f"<{size}s", start + 4)[0]
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            raise Damage(f"the string {raw[:40]!r} is not UTF-8") from None

    def _union(self, field: Field, type_at: int, at: int) -> tuple[str, Values] | None:
        """A union by the places of its type code and of its table (0: absent)."""
        names, code = UNIONS[field.kind], self._get("<B", type_at)[0]
        if code >= len(names):
            raise Damage(f"type {code} is not one of {field.kind} (0 to {len(names) - 1})")
        if not code:
            return None
        table = TABLES[names[code]]
        return names[code], self._table(table, self._follow(at)) if at else table.defaults


#: A form of ``struct``, compiled once.
_struct = lru_cache(1024)(struct.Struct)


def _offset(vtable: tuple[int, ...], slot: int) -> int:
    return vtable[slot + 2] if slot + 2 < len(vtable) else 0
