"""Plain values -> FlatBuffers bytes: the inverse of ``flatbuffer.py``, on the same rows of ``schema.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import flatbuffers
import numpy as np
from flatbuffers import number_types

from twinfer.runtime.read.flatbuffer import Damage, Values, at
from twinfer.runtime.read.schema import ENUMS, IDENTIFIER, SCALARS, TABLES, UNIONS, Field, Table

#: Scalar type -> what flatbuffers knows of it.
_FLAGS: Mapping[str, Any] = {name: getattr(number_types, f"{name.capitalize()}Flags") for name in SCALARS}

#: Alignment in bytes of the data of every buffer in the file; kernels may read constants in place.
BUFFER_ALIGNMENT = 16


def encode(root: str, values: Values, size_hint: int = 1024) -> bytes:
    """The file whose root table is ``root``. Fields that are None or absent are left out, defaults take no space.

    Damage, with the place, if a value does not fit its field or the file would pass 2 GiB.
    """
    builder = flatbuffers.Builder(size_hint)
    try:
        builder.Finish(_Encoder(builder).table(TABLES[root], values), IDENTIFIER)
    except flatbuffers.builder.BuilderSizeError:
        raise Damage("the file would be larger than 2 GiB, the limit of the format") from None
    return bytes(builder.Output())


#: Tables that are never shared: each stands for a thing of its own, whose place in a list counts.
DISTINCT = frozenset({"Buffer", "Model", "Operator", "OperatorCode", "SubGraph", "Tensor"})


class _Encoder:
    """Writes children before their parents, as the format asks: the file grows from its end to its start."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.written: dict[Any, int] = {}

    def table(self, table: Table, values: Values) -> int:
        if table.name in DISTINCT:
            return self._table(table, values)
        return self._once((table.name, repr(values)), lambda: self._table(table, values))

    def _once(self, key: Any, write: Callable[[], int]) -> int:
        """The offset of what equals something that is in the file already, or is written now."""
        if key not in self.written:
            self.written[key] = write()
        return self.written[key]

    def _table(self, table: Table, values: Values) -> int:
        offsets = {}
        for field in table.fields:
            value = values.get(field.name)
            if value is None or (field.scalar and not field.vector):
                continue
            with nullcontext() if field.vector and field.kind in TABLES else at(f"field {field.name}"):
                offsets[field.name] = self._child(table, field, value)
        last = table.fields[-1] if table.fields else None
        self.builder.StartObject(last.slot + (2 if last.kind in UNIONS else 1) if last else 0)
        for field in table.fields:
            if values.get(field.name) is not None:
                with at(f"field {field.name}"):
                    self._slot(field, values[field.name], offsets.get(field.name))
        return int(self.builder.EndObject())

    def _child(self, table: Table, field: Field, value: Any) -> int:
        """The offset of what a table refers to: a string, vector, table or union member."""
        if field.kind in UNIONS:
            return self.table(TABLES[value[0]], value[1])
        if field.vector and field.kind == "uint8":
            return self._bytes(value, BUFFER_ALIGNMENT if table.name == "Buffer" else 1)
        if field.vector:
            return self._numbers(field, value) if field.scalar else self._tables(field, value)
        if field.kind == "string":
            return int(self.builder.CreateSharedString(value))
        return self.table(TABLES[field.kind], value)

    def _slot(self, field: Field, value: Any, offset: int | None) -> None:
        if offset is None:
            self.builder.PrependSlot(
                _FLAGS[field.enum.scalar if field.enum else field.kind],
                field.slot,
                _scalar(field, value),
                _scalar(field, field.default),
            )
        elif field.kind in UNIONS:
            self.builder.PrependUint8Slot(field.slot, UNIONS[field.kind].index(value[0]), 0)
            self.builder.PrependUOffsetTRelativeSlot(field.slot + 1, offset, 0)
        else:
            self.builder.PrependUOffsetTRelativeSlot(field.slot, offset, 0)

    def _bytes(self, value: Any, alignment: int) -> int:
        """A vector of bytes whose data is aligned in the file (flatbuffers' own CreateByteVector cannot do that)."""
        if not isinstance(value, bytes | memoryview):
            raise Damage(f"{type(value).__name__} instead of bytes")
        data = memoryview(value)
        self.builder.StartVector(1, len(data), alignment)
        self.builder.head -= len(data)
        self.builder.Bytes[self.builder.head : self.builder.head + len(data)] = data
        return int(self.builder.EndVector())

    def _numbers(self, field: Field, values: Any) -> int:
        letter = field.scalar.letter if field.scalar else ""
        array = np.array([_scalar(field, value) for value in values], f"<{letter}")
        return self._once((letter, array.tobytes()), lambda: int(self.builder.CreateNumpyVector(array)))

    def _tables(self, field: Field, values: Any) -> int:
        offsets = []
        for i, value in enumerate(values):
            with at(field.kind, i, value.get("name")):
                offsets.append(self.table(TABLES[field.kind], value))
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())


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
