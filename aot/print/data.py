"""The constants of a plan as C arrays: weights, biases, multipliers, tables.

Their values stand in ``<name>_data.c`` and nowhere else, the model's SHA-256 with them. Which arrays there are does not
depend on the values either: an array is kept once for several uses only if they share it for any weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from twinfer.aot.print.decoding import at_start, decoders
from twinfer.aot.print.literals import block_comment, c_type, comment, elements, grouped, wrapped
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Array, Call
from twinfer.runtime.plan.planner import Plan, Step


@dataclass(frozen=True)
class Constant:
    """A constant array, its C symbol, and where it came from (for a comment)."""

    symbol: str
    array: Array
    origin: str

    @property
    def declaration(self) -> str:
        parts = self.array.nbytes // np.dtype(_item(self.array)).itemsize
        return f"const {c_type(self.array.dtype)} {self.symbol}[{parts}]"


def _item(array: Array) -> str:
    return {"c8": "f4", "c16": "f8"}.get(array.dtype.str[1:], array.dtype.str)


class Constants:
    """All constant arrays of a plan in the order of first use; ``symbol(array)`` finds the name of one.

    Equal arrays are one if they were made from the same constants of the model: the same weights used twice, or two
    tables for equal scales; not two biases that happen to be equal.
    """

    def __init__(self, plan: Plan, name: str) -> None:
        self._by_id: dict[int, Constant] = {}
        by_content: dict[tuple[str, bytes, Sources], Constant] = {}
        for use in _uses(plan, name):
            array = use.array
            if id(array) in self._by_id or array.size == 0:
                continue
            content = (c_type(array.dtype), array.tobytes(), use.sources)
            self._by_id[id(array)] = by_content.setdefault(content, Constant(use.symbol, array, use.origin))
        self.all = tuple(by_content.values())

    def symbol(self, array: Array) -> str | None:
        """C name of the array; None for one without elements, which has none."""
        return self._by_id[id(array)].symbol if array.size else None

    @property
    def nbytes(self) -> int:
        return sum(c.array.nbytes for c in self.all)


#: The memory of the model's constants that an array was made from; before it the array's place, if it was made.
Sources = tuple[int, ...]


@dataclass(frozen=True)
class _Use:
    """A place that reads a constant, with a symbol named after it."""

    symbol: str
    array: Array
    sources: Sources
    origin: str


def _uses(plan: Plan, name: str) -> Iterator[_Use]:
    for i, word, call in at_start(plan):
        yield from _coded(plan.steps[i], f"{name}_{i}_{word}", word, call)
    for i, step in enumerate(plan.steps):
        made_from = _made_from(step)
        for word, call in decoders(step):
            yield from _coded(step, f"{name}_{i}_{word}", word, call)
        for j, arg in enumerate(step.call.inputs):
            array = arg.data if isinstance(arg, Tensor) else arg
            if array is not None:
                sources = (_memory(array),) if isinstance(arg, Tensor) else (j, *made_from)
                yield _Use(f"{name}_{i}_in{j}", array, sources, _origin(step.node, array))
    for i, tensor in enumerate(plan.graph.outputs):
        if tensor.data is not None:
            origin = f'"{comment(tensor.name)}", output {i} of the model'
            yield _Use(f"{name}_output_{i}", tensor.data, (_memory(tensor.data),), origin)


def _made_from(step: Step) -> Sources:
    return tuple(_memory(t.data) for t in step.node.inputs if t is not None and t.data is not None)


def _coded(step: Step, symbol: str, word: str, call: Call) -> Iterator[_Use]:
    """What a decoder reads."""
    for j, array in enumerate(call.inputs):
        if array is not None and not isinstance(array, Tensor):
            place = len(step.call.inputs) * (1 + (word == "codes")) + j
            yield _Use(f"{symbol}{j}", array, (place, *_made_from(step)), comment(call.note, 300))


def _memory(array: Array) -> int:
    return int(array.ctypes.data)


def _origin(node: Node, array: Array) -> str:
    """The tensor that the array is, or the operator that it was made for."""
    for tensor in node.inputs:
        if tensor is not None and tensor.data is not None and _same(tensor.data, array):
            return f'"{comment(tensor.name)}"'
    return f"packed for operator {node.index} {comment(node.op)}"


def _same(a: Array, b: Array) -> bool:
    return a is b or (a.dtype == b.dtype and a.nbytes == b.nbytes and a.tobytes() == b.tobytes())


def data_header(constants: Constants, name: str, banner: str) -> str:
    """``<name>_data.h``: declarations of the constants."""
    guard = f"{name.upper()}_DATA_H"
    lines = [banner, f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", ""]
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    lines += [f"extern {c.declaration};" for c in constants.all]
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "#endif", ""]
    return "\n".join(lines)


def data_source(constants: Constants, name: str, banner: str, sha256: str, alignment: int) -> str:
    """``<name>_data.c``: the constants themselves, each aligned to ``alignment`` bytes."""
    lines = [banner, f'#include "{name}_data.h"', f'#include "{name}.h"', "", "#include <stdalign.h>", ""]
    lines.append(f'const char {name}_model_sha256[65] = "{sha256}";')
    for c in constants.all:
        shape = f"{c.array.dtype.name}{list(c.array.shape)}"
        lines += ["", block_comment([f"{c.origin}: {shape}, {grouped(c.array.nbytes)} bytes"])]
        lines += [f"alignas({max(alignment, c.array.itemsize)}) {c.declaration} = {{", wrapped(elements(c.array)), "};"]
    return "\n".join(lines) + "\n"
