"""What TFLM's custom operators share: checks, options, which are a flexbuffer, and states.

An operator that keeps a state of its own from run to run has ``fresh(node)``, the state before the first run, and
``step(node, x, state)``, a run, which changes the state.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Shape, need, need_type

#: Elements that a state or an output may have at most: they and their bytes are counted in int32.
LARGEST = 1 << 28


def arity(node: Node, inputs: int, outputs: int = 1) -> None:
    """ModelError unless the node has so many inputs and outputs."""
    has, wanted = (len(node.inputs), len(node.outputs)), (inputs, outputs)
    need(has == wanted, node, f"it has {has[0]} inputs and {has[1]} outputs, not {inputs} and {outputs}")


def typed(node: Node, tensor: Tensor, type: str, rank: int | None = None) -> Shape:
    """The tensor's shape; an error unless it has the type and, if given, the rank."""
    need_type(node, tensor, type)
    need(rank is None or len(tensor.shape) == rank, node, f"{tensor} must have {rank} dimensions")
    return tensor.shape


def length(node: Node, tensor: Tensor, type: str) -> int:
    """The length of a vector of the type; ModelError for another rank and for an empty one."""
    shape = typed(node, tensor, type, 1)
    need(shape[0] > 0, node, f"{tensor} is empty")
    return shape[0]


def rows(node: Node, tensor: Tensor, type: str) -> tuple[int, int]:
    """How many rows the tensor has along its last dimension, and how long they are; ModelError if there are none."""
    shape = typed(node, tensor, type)
    need(len(shape) > 0 and tensor.size > 0, node, f"{tensor} must have rows of values")
    return tensor.size // shape[-1], shape[-1]


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


Fresh = Callable[[Node], list[Array]]
Step = Callable[[Node, Any, list[Array]], list[Array]]


def state(node: Node, what: str, type: str, shape: Shape) -> Tensor:
    """A tensor that planning keeps from run to run; it begins with zeros. An empty one gets an element."""
    room = shape if 0 not in shape else (1,)
    return Tensor(f"{what} of {node.output.name}", type, room, variable=True)


def first_run(fresh: Fresh, step: Step) -> Callable[[Node, list[Any]], list[Array]]:
    """An operator's ``reference``: its first run."""
    return lambda node, inputs: step(node, inputs[0], fresh(node))


def runs(node: Node, fresh: Fresh, step: Step, values: Sequence[Array]) -> list[list[Array]]:
    """The outputs of a run for every value, one after the other."""
    held = fresh(node)
    return [step(node, value, held) for value in values]


def zeros(*shapes: tuple[Shape, str]) -> list[Array]:
    return [np.zeros(shape, type) for shape, type in shapes]
