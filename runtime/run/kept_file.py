"""The form of a kept plan's file: parts, one of them a pickle of what a plan is made of."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Sequence
from enum import EnumType
from types import MappingProxyType
from typing import Any

#: What a file begins with: how many parts follow, whose sizes come next. Every part begins at a multiple of ALIGN: what
#: it was planned for, the model's bytes, the pickle, and the arrays in it.
HEAD, SIZE, ALIGN = struct.Struct("<Q"), "Q", 64

#: What values of NumPy are made with.
_KNOWN = {("numpy", name) for name in ("dtype", "ndarray", "_frombuffer", "_reconstruct", "scalar")}


def parts_of(data: memoryview) -> Iterator[memoryview]:
    """The parts of a file's content."""
    (count,) = HEAD.unpack_from(data)
    sizes = struct.unpack_from(f"<{count}{SIZE}", data, HEAD.size)
    at = HEAD.size + count * struct.calcsize(SIZE)
    for size in sizes:
        at += -at % ALIGN
        yield data[at : at + size]
        at += size


def joined(parts: Sequence[bytes | memoryview]) -> bytearray:
    """The content of a file of these parts."""
    sizes = [memoryview(part).nbytes for part in parts]
    content = bytearray(HEAD.pack(len(parts)) + struct.pack(f"<{len(parts)}{SIZE}", *sizes))
    for part in parts:
        content += bytes(-len(content) % ALIGN)
        content += part
    return content


def _read_only(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    """Makes a read-only mapping again, which pickle does not do by itself."""
    return MappingProxyType(values)


class Saver(pickle.Pickler):
    """Pickles read-only mappings, too."""

    def reducer_override(self, value: Any) -> Any:
        return (_read_only, (dict(value),)) if isinstance(value, MappingProxyType) else NotImplemented


class Loader(pickle.Unpickler):
    """Makes dataclasses and enums of twinfer, and values of NumPy, nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        of_numpy = (module.partition(".")[0], name) in _KNOWN
        if of_numpy or (module.startswith("twinfer.runtime.") and "." not in name):
            value = super().find_class(module, name)
            if of_numpy or value is _read_only or _is_ours(value, module):
                return value
        raise pickle.UnpicklingError(f"{module}.{name} is no value of a plan")


def _is_ours(value: object, module: str) -> bool:
    """Whether it is a dataclass or an enum of that module."""
    if not isinstance(value, type) or value.__module__ != module:
        return False
    return isinstance(value, EnumType) or any("__dataclass_fields__" in vars(base) for base in value.__mro__)
