"""Constants apart from the code: what depends on scales and zero points becomes data, too.

A model that is trained anew has other weights, scales and zero points. Only if the code holds none of these does it run
the new model as it is: so params that depend on them are a further input of their call, word for word, and emitted C
reads them there. Params that come from shapes stay in the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.graph import LIMITS, Node
from twinfer.runtime.params import Param, members, struct_of
from twinfer.runtime.plan.lower import Lowered
from twinfer.runtime.program import Call, Step
from twinfer.runtime.walks import with_calls, with_steps

#: Integer members of params that depend on scales and zero points, the ends of the names of others, and floating ones.
#: ``last`` does in a softmax alone; the bounds of floats are those of an activation.
_WORDS = frozenset(
    re.findall(
        r"\w+",
        """zero mult shift right offset rounding low high reciprocal exponent a_start b_start a_scale b_scale clip
        proj_clip cell seen bits""",
    )
)
_ENDS = ("_zero", "_mult", "_shift")
_FLOATS = frozenset({"scale", "a_scale", "b_scale", "step"})
_OF_FLOATS = ("scales", "forward_scales", "backward_scales")

#: Bounds that bound nothing: they stay in the code, where instructions saturate.
_WHOLE = frozenset(number for pair in LIMITS.values() for number in pair)

#: Kernels whose table of 256 values ends where the scale makes them 0.
_SOFTMAX = frozenset({"tw_softmax_s8", "tw_softmax_s8_s16"})

#: A member of params: the names and numbers that lead to it.
Path = tuple[str | int, ...]


def quantized_apart(lowered: Lowered) -> Lowered:
    """The same where the params of every call that depend on scales and zero points are an input of it."""
    return replace(lowered, program=with_steps(lowered.program, _apart), start=tuple(map(_apart, lowered.start)))


def _apart(step: Step) -> Step:
    new = {call: _with_quant(call, step.node) for call in step.calls}

    return replace(step, call=new[step.call], body=with_calls(step.body, new.__getitem__))


def _with_quant(call: Call, node: Node) -> Call:
    rows = _with_quant(call.rows_call, node) if call.rows_call else None
    if call.kernel in _SOFTMAX and isinstance(table := call.inputs[1], Constant):
        whole = np.pad(table.array, (0, 256 - table.array.size))
        call = replace(call, inputs=(call.inputs[0], replace(table, array=whole)))
    words = [_word(call.params, path) for path in quant_paths(call)]
    if not words:
        return replace(call, rows_call=rows)
    name = f"scales of operator {node.index} {node.op}"
    constant = Constant(np.array(words, np.uint32).view(np.int32), Role.QUANT, name=name)
    return replace(call, inputs=(*call.inputs, constant), rows_call=rows, quant=len(call.inputs))


def quant_paths(call: Call) -> list[Path]:
    """The members of a call's params that depend on scales and zero points, in the order of their words."""
    return [path for path, _ in _members(call.kernel) if value_of(call.params, path) not in _bounds(path)]


def is_float(kernel: str, path: Path) -> bool:
    """Whether a member is a float, whose bits its word has."""
    return dict(_members(kernel))[path] == "float"


def value_of(params: Any, path: Path) -> Any:
    """A member of params."""
    for name in path:
        params = params[name]
    return params


def _bounds(path: Path) -> frozenset[int]:
    return _WHOLE if path[-1] in ("low", "high") else frozenset()


def _word(params: Any, path: Path) -> int:
    value: Param = value_of(params, path)
    return int(np.float32(value).view(np.uint32)) if isinstance(value, float) else int(np.uint32(value & 0xFFFFFFFF))  # type: ignore[operator]


@cache
def _members(kernel: str) -> tuple[tuple[Path, str], ...]:
    """The members that may depend on scales, with their types in C."""
    softmax = {"last"} if kernel in _SOFTMAX else set[str]()
    return () if kernel.startswith("tw_decode_") else tuple(_quantized(struct_of(kernel), (), _WORDS | softmax))


def _quantized(struct: Any, path: Path, words: frozenset[str]) -> Iterator[tuple[Path, str]]:
    for name, type in members(struct):
        if type.kind == "struct":
            yield from _quantized(type, (*path, name), words)
            continue
        item = type.item if type.kind == "array" else type
        if item.cname == "float":
            wanted = name in _FLOATS or any(each in _OF_FLOATS for each in path)
        else:
            wanted = name in words or name.endswith(_ENDS)
        if wanted and type.kind == "array":
            yield from (((*path, name, i), item.cname) for i in range(type.length))
        elif wanted:
            yield (*path, name), item.cname
