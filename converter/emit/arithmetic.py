"""Arithmetic of integers and floats that TFLite has for some types only, or by another name."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from twinfer.converter.emit.emitter import Emitter, Operand
from twinfer.converter.emit.functions import number
from twinfer.runtime.graph import Tensor

#: Types that most of TFLite's operators do not compute in as plain numbers, and those that stand in.
WIDENED = {"INT8": "INT32", "INT16": "INT32", "UINT8": "INT32", "UINT16": "INT32", "UINT32": "INT64"}

#: Operators whose integer results fit int32.
_INT32 = ("ARG_MAX", "ARG_MIN", "SHAPE", "TOPK_V2")


def widely(g: Emitter, run: Callable[..., Tensor], *operands: Tensor) -> Tensor:
    """``run`` on operands in the type that TFLite computes in, and its result in theirs."""
    kind = operands[0].type
    wide = WIDENED.get(kind, kind)
    return g.cast(run(g, *(g.cast(x, wide) for x in operands)), kind)


def absolute(g: Emitter, x: Tensor) -> Tensor:
    if x.type == "INT64":
        return g.binary("MAXIMUM", x, g.unary("NEG", x))
    return x if x.type[0] == "U" else g.unary("ABS", x)


def sign(g: Emitter, x: Tensor) -> Tensor:
    if x.type in ("FLOAT32", "INT32"):
        return g.unary("SIGN", x)
    return g.binary("MAXIMUM", g.binary("MINIMUM", x, np.array(1, x.dtype)), np.array(-1 * (x.type[0] != "U"), x.dtype))


def choose(g: Emitter, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """SELECT_V2; unsigned types run in wider ones."""
    wide = {"UINT16": "INT32", "UINT32": "INT64"}.get(x.type, x.type)
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    return g.cast(g.emit("SELECT_V2", [condition, g.cast(x, wide), g.cast(y, wide)], shape, wide), x.type)


def narrow(g: Emitter, x: Tensor) -> Tensor | None:
    """64-bit integers as int32; None if they may not fit."""
    if x.data is not None:
        fits = bool((x.data == x.data.astype(np.int32)).all())
        return g.cast(x, "INT32") if fits else None
    node = next((n for n in reversed(g.builder.nodes) if x in n.outputs), None)
    if node is not None and node.op == "CAST" and node.input(0).type in ("BOOL", "INT8", "INT16", "INT32", "UINT8"):
        return g.cast(node.input(0), "INT32")
    return g.cast(x, "INT32") if node is not None and node.op in _INT32 else None


def divide(g: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """x / y; integers are cut towards zero, as in C."""
    if x.type not in ("INT64", "UINT32"):
        return g.binary("DIV", x, y)
    short = [narrow(g, each) for each in (x, y)]
    if x.type == "INT64" and short[0] is not None and short[1] is not None:
        return g.cast(g.binary("DIV", short[0], short[1]), "INT64")
    return widely(g, _divide_wide, x, y)


def _divide_wide(g: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """int64, of which TFLite has remainders, but no quotients: x without its remainder is y times the quotient."""
    return _factor(g, g.binary("SUB", x, remainder(g, x, y)), y)


def _factor(g: Emitter, product: Tensor, y: Tensor) -> Tensor:
    """What was multiplied by y, in int64. Floats find it in three rounds, each of which adds more than 20 bits."""
    by, parts = g.cast(y, "FLOAT32"), list[Tensor]()
    for _ in range(3):
        parts.append(g.cast(g.unary("ROUND", g.binary("DIV", g.cast(product, "FLOAT32"), by)), "INT64"))
        product = g.binary("SUB", product, g.binary("MUL", parts[-1], y))
    return reduce(lambda a, b: g.binary("ADD", a, b), parts)


def remainder(g: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """x - y * trunc(x / y), as fmod and C's %: it has the sign of x."""
    if x.type in WIDENED:
        return widely(g, remainder, x, y)
    rest = g.binary("FLOOR_MOD", absolute(g, x), absolute(g, y))
    if g.nonnegative(x):
        return rest
    below = g.binary("LESS", x, np.array(0, x.dtype), type="BOOL")
    return choose(g, below, g.unary("NEG", rest), rest)


def power(g: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """x ** y in the type of x; squares and square roots, which are common, by exact operators."""
    scalar = y.size == 1 and len(y.shape) <= len(x.shape)
    exponent = float(y.data.reshape(-1)[0]) if y.data is not None and scalar else None
    if exponent == 1:
        return x
    if exponent == 2:
        return g.binary("MUL", x, x)
    if x.type == "FLOAT32":
        if exponent in (0.5, -0.5):
            return g.unary("SQRT" if exponent == 0.5 else "RSQRT", x)
        return g.binary("POW", x, g.cast(y, "FLOAT32"))
    if y.type == "FLOAT32":
        return g.cast(g.binary("POW", g.cast(x, "FLOAT32"), y), x.type)
    if WIDENED.get(x.type, x.type) == "INT32":
        return g.cast(g.binary("POW", g.cast(x, "INT32"), g.cast(y, "INT32")), x.type)
    return widely(g, lambda g, x: _power_wide(g, x, g.cast(y, "INT32")), x)


def _power_wide(g: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """int64 to a power of 0 to 63, bit by bit of the power."""
    result, two = g.binary("ADD", g.binary("MUL", x, np.array(0, x.dtype)), np.array(1, x.dtype)), np.array(2, np.int32)
    for bit in range(6):
        half = g.binary("DIV", y, two)
        odd = g.binary("NOT_EQUAL", y, g.binary("MUL", half, two), type="BOOL")
        result = g.binary("MUL", result, choose(g, odd, x, g.known(np.array(1, x.dtype))))
        x, y = (g.binary("MUL", x, x), half) if bit < 5 else (x, y)
    return result


def root(g: Emitter, x: Tensor) -> Tensor:
    """SQRT; of integers as integers."""
    return g.cast(g.unary("SQRT", g.cast(x, "FLOAT32")), x.type)


def bitwise(g: Emitter, op: str, x: Tensor, y: Tensor) -> Tensor:
    """BitwiseAnd, BitwiseOr or BitwiseXor (``op``: "AND", "OR" or "XOR")."""
    kind, mask = x.type, None if y.data is None or y.size != 1 else int(y.data.reshape(-1)[0])
    if op == "AND" and mask is not None and 0 < mask < 1 << 31 and mask & (mask + 1) == 0:  # all of its bits are last
        return widely(g, lambda g, x: g.binary("FLOOR_MOD", x, np.full(y.shape, mask + 1, x.dtype)), x)
    if kind in ("INT64", "UINT64"):
        return g.cast(_bitwise_wide(g, op, g.cast(x, "INT64"), g.cast(y, "INT64")), kind)
    x, y = (g.cast(each, "INT32") for each in (x, y))
    if op == "XOR":
        return g.cast(_xor(g, x, y), kind)
    both = _and(g, x, y) if kind in ("INT32", "UINT32") else _and_short(g, x, y)
    return g.cast(both if op == "AND" else g.binary("SUB", g.binary("ADD", x, y), both), kind)


def _bitwise_wide(g: Emitter, op: str, x: Tensor, y: Tensor) -> Tensor:
    """64 bits as two times 32, unless both numbers are known to be short."""
    short = [narrow(g, each) for each in (x, y)]
    if short[0] is not None and short[1] is not None:
        return g.cast(bitwise(g, op, short[0], short[1]), "INT64")
    size = g.known(np.array(1 << 32, np.int64))
    low = [g.binary("FLOOR_MOD", each, size) for each in (x, y)]
    high = [_factor(g, g.binary("SUB", each, part), size) for each, part in zip((x, y), low, strict=True)]
    ends = [bitwise(g, op, *(g.cast(each, "UINT32") for each in pair)) for pair in (low, high)]
    return g.binary("ADD", g.cast(ends[0], "INT64"), g.binary("MUL", g.cast(ends[1], "INT64"), size))


def complement(g: Emitter, x: Tensor) -> Tensor:
    """BitwiseNot: -1 - x."""
    return widely(g, lambda g, x: g.binary("SUB", np.array(-1, x.dtype), x), x)


def _xor(g: Emitter, x: Tensor, y: Tensor) -> Tensor:
    return g.emit("BITWISE_XOR", [x, y], np.broadcast_shapes(x.shape, y.shape))


def _and_short(g: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """x & y by x + y = (x ^ y) + 2 * (x & y), which has room for numbers of 16 bits."""
    return _shifted(g, g.binary("SUB", g.binary("ADD", x, y), _xor(g, x, y)))


def _and(g: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """The same of all bits but the lowest, which would overflow, and the lowest."""
    a, b = _shifted(g, x), _shifted(g, y)
    xor = g.emit("BITWISE_XOR", [a, b], np.broadcast_shapes(x.shape, y.shape))
    high = g.binary("SUB", g.binary("ADD", a, b), xor)
    odd = [g.binary("FLOOR_MOD", each, np.array(2, np.int32)) for each in (x, y)]
    return g.binary("ADD", high, g.binary("MUL", odd[0], odd[1]))


def _shifted(g: Emitter, x: Tensor) -> Tensor:
    """x / 2, rounded down."""
    return g.emit("RIGHT_SHIFT", [x, np.full((1,) * len(x.shape), 1, x.dtype)], x.shape)


def shift(g: Emitter, x: Tensor, y: Tensor, left: bool) -> Tensor:
    """x * 2**y, or x / 2**y rounded down. Negative y of signed integers, and y beyond the width, move all bits out."""
    bits = 8 * x.dtype.itemsize
    if y.data is not None:
        far = (y.data < 0) | (y.data >= bits)
        y = g.known(np.where(far, bits if left else bits - 1, y.data).astype(np.int32))
    elif y.type[0] != "U" and not left:
        below = g.binary("LESS", y, np.array(0, y.dtype), type="BOOL")
        y = choose(g, below, g.known(np.array(bits - 1, y.dtype)), y)
    if not left and x.type != "INT64":
        return g.emit("RIGHT_SHIFT", [x, g.cast(y, x.type)], np.broadcast_shapes(x.shape, y.shape))
    y = g.binary("MINIMUM", g.cast(y, "INT32"), np.array(bits, np.int32))
    half = g.binary("DIV", y, np.array(2, np.int32))
    wide = g.cast(x, "INT64")
    for part in (half, g.binary("SUB", y, half)) if bits == 64 else (y,):  # no power of two is beyond int64
        size = g.cast(g.binary("POW", number(2), g.cast(part, "FLOAT32")), "INT64")
        if left:
            wide = g.binary("MUL", wide, size)
        else:
            wide = _factor(g, g.binary("SUB", wide, g.binary("FLOOR_MOD", wide, size)), size)
    return g.cast(wide, x.type)


def cumulative_product(g: Emitter, x: Tensor, axis: int) -> Tensor:
    """Products up to every element, in as many steps as the extent has bits: each multiplies by what lies 1, 2, 4, …
    elements before."""
    step, extent = 1, x.shape[axis]
    while step < extent:
        x, step = g.binary("MUL", x, behind(g, x, axis, step, 1)), 2 * step
    return x


def behind(g: Emitter, x: Tensor, axis: int, step: int, value: Operand | int) -> Tensor:
    """x moved along the axis by ``step``; ``value`` comes in."""
    begin, size = [0] * len(x.shape), list(x.shape)
    size[axis] -= step
    kept = g.part(x, begin, size)
    return g.pad(kept, [(step if i == axis else 0, 0) for i in range(len(size))], value)
