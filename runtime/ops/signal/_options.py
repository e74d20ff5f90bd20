"""Options of TFLM's custom operators: a flexbuffer, which maps names to whole numbers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Node
from twinfer.runtime.op import need

INT32 = np.iinfo(np.int32)

#: What reading a damaged flexbuffer may raise.
_DAMAGE = (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, struct.error)


def whole(node: Node, name: str, least: int = INT32.min, most: int = INT32.max) -> int:
    """The option ``name``; ModelError where it is missing, no whole number or outside of ``least`` to ``most``."""
    data = node.extra.get("custom_options") or b""
    try:
        root = flexbuffers.GetRoot(bytes(data))
        value = root.AsMap[name] if root.IsMap else None
        number = int(value.AsInt) if value is not None and (value.IsInt or value.IsBool) else None
    except _DAMAGE:
        number = None
    if number is None:
        raise ModelError(f"{node}: option {name!r} is no whole number in its {len(data)} bytes of custom options")
    need(least <= number <= most, node, f"option {name!r} is {number}, it must be {least} to {most}")
    return number


def custom(**options: int) -> Mapping[str, Any]:
    """``Node.extra`` with these options, for ``cases`` and tests."""
    return {"custom_options": bytes(flexbuffers.Dumps(options))}
