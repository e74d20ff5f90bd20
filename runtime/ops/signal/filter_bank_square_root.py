"""SignalFilterBankSquareRoot: rounded square roots of channels, shifted right by what the FFT's values were scaled.

Source: TFLM signal/src/square_root_32.cc, square_root_64.cc.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, tensor
from twinfer.runtime.ops.signal._custom import arity, length, typed
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    arity(node, 2)
    size = length(node, node.input(0), "UINT64")
    typed(node, node.input(1), "INT32", 0)
    typed(node, node.output, "UINT32")
    return [(size,)]


def _root(x: int) -> int:
    """To the nearest; values of 32 bits have a root of 16."""
    root = math.isqrt(x)
    most = 0xFFFFFFFF if x >> 32 else 0xFFFF
    return root + (x - root * root > root and root != most)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """The shift is a value of the model's: of one outside of 0..31 the low 5 bits count."""
    x, shift = inputs
    return [np.array([_root(v) >> (int(shift) & 31) for v in x.tolist()], np.uint32)]


def lower(node: Node, target: Target) -> Call:
    return Call("tw_filter_bank_square_root", {"size": node.output.size}, node.inputs, node.outputs)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    squares = [r * r + d for r in (1, 2, 181, 65535, 65536, 3037000499, 2**32 - 1) for d in (-1, 0, 1, r, r + 1)]
    values = [0, 1, 2, 3, 2**32 - 1, 2**32, 2**64 - 1, *squares, *(1 << b for b in range(64))]
    values += [int(v) >> int(s) for v, s in zip(rng.integers(0, 2**63, 80), rng.integers(0, 60, 80), strict=True)]
    inputs = np.array([v for v in values if v < 2**64], np.uint64)
    x, y = tensor(inputs.shape, "UINT64", name="x"), tensor(inputs.shape, "UINT32", name="y")
    for shift in (0, 1, 7, 31):
        node = Node("CUSTOM:SignalFilterBankSquareRoot", (x, tensor((), "INT32", name="shift")), (y,))
        yield Case(node, (inputs, np.array(shift, np.int32)))
    yield Case(node, (inputs, np.array(-27, np.int32)), "none", "a shift by a negative number is undefined in C++")


OP = Op("CUSTOM:SignalFilterBankSquareRoot", infer, reference, lower, cases)
