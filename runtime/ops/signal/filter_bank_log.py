"""SignalFilterBankLog: natural logarithms in fixed point. Source: TFLM signal/src/filter_bank_log.cc, log.cc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.constant import table
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, tensor
from twinfer.runtime.ops.signal._custom import arity, custom, length, typed, whole
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: By how much log2(1 + i / 128) exceeds i / 128, in units of 2^-16.
EXCESS = np.array([round(65536 * (math.log2(1 + i / 128) - i / 128)) for i in range(129)], np.uint16)

LN_2 = 45426  # in units of 2^-16


def infer(node: Node) -> list[Shape]:
    arity(node, 1)
    size = length(node, node.input(0), "UINT32")
    typed(node, node.output, "INT16")
    _options(node)
    return [(size,)]


def _options(node: Node) -> tuple[int, int]:
    """The shift of the input, and the scale of the output as uint32."""
    return whole(node, "input_correction_bits", 0, 31), whole(node, "output_scale") % 2**32


def _log2(x: int) -> int:
    """In units of 2^-16, by straight lines between the table's places."""
    bits = x.bit_length() - 1
    part = (x - (1 << bits)) << 16 >> bits
    first, then = (int(EXCESS[(part >> 9) + i]) for i in (0, 1))
    return (bits << 16) + part + first + ((then - first) * (part & 511) >> 16)


def _log(x: int, scale: int) -> int:
    if x <= 1:
        return 0
    natural = (LN_2 * _log2(x) + 32768) >> 16
    return min((scale * natural + 32768) % 2**32 >> 16, 32767)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    shift, scale = _options(node)
    return [np.array([_log((v << shift) % 2**32, scale) for v in inputs[0].tolist()], np.int16)]


def lower(node: Node, target: Target) -> Call:
    shift, scale = _options(node)
    params = {"size": node.output.size, "shift": shift, "scale": scale}
    return Call("tw_filter_bank_log", params, (node.input(0), table(EXCESS)), node.outputs)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    powers = [(1 << b) + d for b in range(32) for d in (-1, 0, 1)]
    few = [*powers, 2**32 - 1, *(int(v) >> int(s) for v, s in rng.integers((0, 0), (2**32, 31), (200, 2)))]
    values = np.array(few, np.uint32)
    x, y = tensor(values.shape, "UINT32", name="x"), tensor(values.shape, "INT16", name="y")
    for shift, scale in ((0, 1 << 12), (3, 64), (7, 1600), (31, 1 << 20), (0, -5), (1, 0)):
        options = custom(input_correction_bits=shift, output_scale=scale)
        yield Case(Node("CUSTOM:SignalFilterBankLog", (x,), (y,), extra=options), (values,))


OP = Op("CUSTOM:SignalFilterBankLog", infer, reference, lower, cases)
