"""Reads untrusted FlatBuffers into plain values: everything is checked before it is used.

A table becomes a dict with every field of its row in ``schema.TABLES``: scalars as int, float or bool, enums as
names, strings as str, vectors as tuples (bytes: a memoryview on the file, or None if absent), tables as dicts or None,
unions as ``(table name, dict)`` or None. Anything wrong raises ``Damage`` with the place.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from twinfer.runtime.read.schema import IDENTIFIER, TABLES, UNIONS, Enum, Field, Table

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


class at:
    """Adds a place to the damage inside: its name, or the words of ``label``, which are put together only then."""

    __slots__ = ("place",)

    def __init__(self, *place: Any) -> None:
        self.place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Damage):
            error.place.insert(0, self.place[0] if len(self.place) == 1 else label(*self.place))


class Layout(NamedTuple):
    """Where the fields lie in all tables with one vtable, so that one read fetches them all.

    ``names`` and ``packed`` are of every field that is there: a scalar, or the offset to what is no scalar. ``further``
    are those that mean more than the number that is read, with their positions in ``names``. ``unions`` are apart: each
    with the places of its type code and of its table (0: absent).
    """

    packed: struct.Struct
    names: tuple[str, ...]
    offsets: tuple[int, ...]
    further: tuple[tuple[int, Field], ...]
    unions: tuple[tuple[Field, int, int], ...]


class Reader:
    """Bounds-checked access to one file.

    ``budget`` bounds time and memory: every byte may be visited twice on average. Honest files visit each once (a few
    strings are shared), hostile ones let thousands of tables and vectors overlap.
    """

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.budget = 2 * len(data) + 65536
        self._length = len(data)
        self._layouts: dict[tuple[str, int], Layout] = {}

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
        return self._unpack(_struct(form), position)

    def _unpack(self, packed: struct.Struct, position: int) -> tuple[Any, ...]:
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
        return self._target(position, self._unpack(_UINT32, position)[0])

    def _target(self, position: int, offset: int) -> int:
        """Where an offset leads that is stored at a position."""
        if offset < 4:
            raise Damage(f"offset {offset} at byte {position} leads nowhere")
        return position + offset

    def _layout(self, table: Table, position: int) -> Layout:
        """How the fields of the table at a position lie."""
        start = position - self._unpack(_INT32, position)[0]
        known = self._layouts.get((table.name, start))
        if known is None:
            known = self._layouts[table.name, start] = _layout(table, self._vtable(start))
        return known

    def _vtable(self, start: int) -> tuple[int, ...]:
        """The field offsets of the tables whose vtable begins there (0: absent)."""
        length = self._get("<H", start)[0]
        if length < 4 or length % 2:
            raise Damage(f"the vtable at byte {start} has length {length}")
        self.spend(length)
        return self._get(f"<{length // 2}H", start)

    def _table(self, table: Table, position: int) -> Values:
        self.spend(8)
        layout, values, field = self._layout(table, position), table.absent.copy(), None
        numbers = self._unpack(layout.packed, position)
        values.update(zip(layout.names, numbers, strict=True))
        try:
            for i, field in layout.further:
                values[field.name] = self._value(field, numbers[i], position + layout.offsets[i])
            for field, type_at, table_at in layout.unions:
                values[field.name] = self._union(field, position + type_at, table_at and position + table_at)
            return values
        except Damage as damage:
            if field and not (field.vector and damage.place):  # "tensor 3" says more than "field tensors, tensor 3"
                damage.place.insert(0, f"field {field.name}")
            raise

    def _element(self, table: Table, start: int, index: int) -> Values:
        """A table in a vector: damage is reported with its index and name."""
        try:
            return self._table(table, start)
        except Damage as damage:
            damage.place.insert(0, label(table.name, index, self._name(table, start)))
            raise

    def _name(self, table: Table, position: int) -> object:
        """The name of a damaged table, if it has one that can still be read."""
        try:
            layout = self._layout(table, position)
            numbers = self._unpack(layout.packed, position)
            named = ((i, field) for i, field in layout.further if field.name == "name")
            return next((self._value(field, numbers[i], position + layout.offsets[i]) for i, field in named), None)
        except Damage:
            return None

    def _value(self, field: Field, number: int, position: int) -> Any:
        """What a field means whose number lies at a position: the name of an enum, or what an offset leads to."""
        if field.enum and not field.vector:
            return _named(field.enum, number)
        start = self._target(position, number)
        if not field.vector and field.kind != "string":
            return self._table(TABLES[field.kind], start)
        count, start = self._unpack(_UINT32, start)[0], start + 4
        if not field.vector:
            return self._string(start, count)
        size = count * (field.scalar.bytewidth if field.scalar else 4)
        if start + size > self._length:
            raise Damage(f"{count} elements at byte {start} reach outside of the file ({self._length} bytes)")
        if field.kind == "uint8":
            return self.data[start : start + size]
        self.spend(size)
        if field.scalar and field.one:
            form = field.one if count == 1 else _struct(f"<{count}{field.scalar.letter}")
            values, enum = form.unpack_from(self.data, start), field.enum
            return values if enum is None else tuple(_named(enum, value) for value in values)
        table, offsets = TABLES[field.kind], _struct(f"<{count}I").unpack_from(self.data, start)
        places = [(start + 4 * i, offset) for i, offset in enumerate(offsets)]
        return tuple([self._element(table, self._target(*place), i) for i, place in enumerate(places)])

    def _string(self, start: int, size: int) -> str:
        self.spend(size)
        if start + size > self._length:
            raise Damage(f"it reaches outside of the file (byte {start}, {size} bytes, file {self._length})")
        raw = bytes(self.data[start : start + size])
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            raise Damage(f"the string {raw[:40]!r} is not UTF-8") from None

    def _union(self, field: Field, type_at: int, at: int) -> tuple[str, Values] | None:
        """A union by the places of its type code and of its table (0: absent)."""
        names, code = UNIONS[field.kind], self._unpack(_UINT8, type_at)[0]
        if code >= len(names):
            raise Damage(f"type {code} is not one of {field.kind} (0 to {len(names) - 1})")
        if not code:
            return None
        table = TABLES[names[code]]
        return names[code], self._table(table, self._follow(at)) if at else table.defaults


#: A form of ``struct``, compiled once.
_struct = lru_cache(1024)(struct.Struct)

_INT32, _UINT32, _UINT8 = map(struct.Struct, ("<i", "<I", "<B"))


def _layout(table: Table, vtable: Sequence[int]) -> Layout:
    """The layout of tables with these field offsets; Damage if fields overlap."""
    stored = [(field, _offset(vtable, field.slot)) for field in table.fields]
    stored = sorted([(field, offset) for field, offset in stored if offset], key=lambda each: each[1])
    unions = tuple((f, at, _offset(vtable, f.slot + 1)) for f, at in stored if f.kind in UNIONS)
    plain = [(field, offset) for field, offset in stored if field.kind not in UNIONS]
    form, end = "<", 0
    for field, offset in plain:
        if offset < end:
            raise Damage(f"field {field.name} of {table.name} overlaps another one")
        letter = field.scalar.letter if field.scalar and not field.vector else "I"
        form += f"{offset - end}x{letter}"
        end = offset + struct.calcsize("<" + letter)
    further = tuple((i, f) for i, (f, _) in enumerate(plain) if f.vector or f.enum or not f.scalar)
    return Layout(_struct(form), tuple(f.name for f, _ in plain), tuple(at for _, at in plain), further, unions)


def _named(enum: Enum, value: int) -> str:
    if not 0 <= value < len(enum.names):
        raise Damage(f"value {value} is not a {enum.name} ({enum})")
    return enum.names[value]


def _offset(vtable: Sequence[int], slot: int) -> int:
    return vtable[slot + 2] if slot + 2 < len(vtable) else 0
