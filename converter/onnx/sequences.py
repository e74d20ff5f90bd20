"""Sequences of tensors, such as PyTorch's older exporter writes for ``split`` and lists.

They are known while a model is read, so that each tensor is read where it is taken out, and no sequence is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.onnx.node import OnnxNode, positive
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

Tensors = tuple[Tensor, ...]

#: What an operator gives for a sequence (none: it has none) and its node: a sequence or a tensor.
Read = Callable[[Emitter, Tensors, OnnxNode], "Tensors | Tensor"]


def is_of(proto: onnx.NodeProto, known: Mapping[str, Tensors]) -> bool:
    """Whether a node makes or reads a sequence."""
    return not proto.domain and (proto.op_type in OPERATORS or any(name in known for name in proto.input))


def read(g: Emitter, known: dict[str, Tensors], proto: onnx.NodeProto, node: OnnxNode) -> Sequence[Tensor]:
    """What the node gives; its inputs are None where they are sequences. A sequence is added to ``known``.

    UnsupportedOperatorError where something is known at run time only.
    """
    if node.op not in OPERATORS:
        raise UnsupportedOperatorError("a sequence of tensors; take its tensors out (SequenceAt) or put them together")
    given = next((known[name] for name in proto.input if name in known), ())
    result = OPERATORS[node.op](g, given, node)
    if isinstance(result, Tensor):
        return [result]
    known[proto.output[0]] = result
    return []


def _at(node: OnnxNode, i: int, count: int, default: int) -> int:
    """The position that input ``i`` says, counted from the front; ModelError if there is none."""
    given = node.constant(i)
    at = default if given is None else int(given.reshape(()))
    if not -count <= at < count:
        raise ModelError(f"{node}: there is no tensor {at} in a sequence of {count}")
    return at % count


def _split(g: Emitter, _: Tensors, node: OnnxNode) -> Tensors:
    """Parts of so many elements along an axis, or of these sizes; without sizes single elements, whose dimension may
    vanish."""
    x, axis, split = node.input(0), node.axis(0), node.constant(1)
    extent = x.shape[axis]
    if split is None:
        sizes = [1] * extent
    elif split.ndim:
        sizes = [int(n) for n in split]
    else:
        each = max(int(split), 1)
        sizes = [min(each, extent - at) for at in range(0, extent, each)]
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise ModelError(f"{node}: {list(x.shape)} cannot be split along {axis} into {sizes}")
    parts = g.split(x, sizes, axis)
    if split is not None or node.attribute("keepdims", 1):
        return parts
    return tuple(g.reshape(part, (*x.shape[:axis], *x.shape[axis + 1 :])) for part in parts)


def _concat(g: Emitter, given: Tensors, node: OnnxNode) -> Tensor:
    new, rank = bool(node.attribute("new_axis", 0)), len(given[0].shape) if given else 0
    axis = positive(node, int(node.attribute("axis", 0)), rank + new)
    if not given:
        raise ModelError(f"{node}: the sequence is empty")
    parts = [g.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in given] if new else given
    return g.concat(parts, axis)


def _insert(g: Emitter, given: Tensors, node: OnnxNode) -> Tensors:
    """Before the tensor at the position, behind all without one."""
    position, count = node.constant(2), len(given)
    behind = position is None or int(position.reshape(())) == count
    at = count if behind else _at(node, 2, count, 0)
    return (*given[:at], node.input(1), *given[at:])


def _erase(g: Emitter, given: Tensors, node: OnnxNode) -> Tensors:
    at = _at(node, 1, len(given), -1)
    return (*given[:at], *given[at + 1 :])


OPERATORS: Mapping[str, Read] = {
    "ConcatFromSequence": _concat,
    "SequenceAt": lambda g, given, node: given[_at(node, 1, len(given), 0)],
    "SequenceConstruct": lambda g, given, node: tuple(node.input(i) for i in range(len(node.inputs))),
    "SequenceEmpty": lambda g, given, node: (),
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": lambda g, given, node: constant(np.array(len(given), np.int64)),
    "SplitToSequence": _split,
}
