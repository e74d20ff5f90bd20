"""SignalWindow: rows of audio times a window in fixed point. Source: TFLM signal/src/window.cc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor
from twinfer.runtime.ops.signal._custom import arity, custom, length, rows, typed, whole
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    arity(node, 2)
    x, window = node.input(0), node.input(1)
    rows(node, x, "INT16")
    size = length(node, window, "INT16")
    typed(node, node.output, "INT16")
    need(x.size % size == 0, node, f"{x} cannot be cut into parts of the window's length {size}")
    _shift(node)
    return [x.shape]


def _shift(node: Node) -> int:
    return whole(node, "shift", 0, 31)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x, window = (value.astype(np.int32) for value in inputs)
    products = (x.reshape(-1, window.size) * window) >> _shift(node)
    return [np.clip(products, -32768, 32767).astype(np.int16).reshape(x.shape)]


def lower(node: Node, target: Target) -> Call:
    x, window = node.input(0), node.input(1)
    params = {"rows": x.size // window.size, "size": window.size, "shift": _shift(node)}
    return Call("tw_signal_window", params, (x, window), node.outputs, inplace=(0,))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for shape, size, shift in (((1, 480), 480, 12), ((7,), 7, 0), ((3, 5), 5, 31), ((2, 3, 4), 4, 15), ((2, 6), 3, 14)):
        for constant in (True, False):
            values = rng.integers(-32768, 32768, size) if constant else None
            window = tensor((size,), "INT16", data=values, name="window")
            inputs = (tensor(shape, "INT16", name="x"), window)
            node = Node("CUSTOM:SignalWindow", inputs, (tensor(shape, "INT16", name="y"),), extra=custom(shift=shift))
            yield Case(node)


OP = Op("CUSTOM:SignalWindow", infer, reference, lower, cases)
