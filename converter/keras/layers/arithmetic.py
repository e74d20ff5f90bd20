"""Functions and arithmetic that other front ends share: see ``converter/emit/elementary.py`` and ``arithmetic.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twinfer.converter.emit import arithmetic, elementary
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.keras.call import Call, Importer
from twinfer.runtime.graph import DTYPES, Tensor


def _function(run: Callable[[Emitter, Tensor], Tensor]) -> Importer:
    return lambda g, call: run(g, g.cast(call.input(), call.type))


def _pair(g: Emitter, call: Call, names: tuple[str, str] = ("x1", "x2")) -> tuple[Tensor, Tensor]:
    """Both operands in the type of the result, numbers as constants."""
    values = [call.argument(i, name) for i, name in enumerate(names)]
    kind = call.type
    x, y = (g.cast(v, kind) if isinstance(v, Tensor) else g.known(np.asarray(v, DTYPES[kind])) for v in values)
    return x, y


def _of_two(run: Callable[[Emitter, Tensor, Tensor], Tensor], *names: str) -> Importer:
    def of_two(g: Emitter, call: Call) -> Tensor:
        x, y = _pair(g, call, (names[0], names[1]) if names else ("x1", "x2"))
        return run(g, x, y)

    return of_two


def _whole(op: str) -> Callable[[Emitter, Tensor, Tensor], Tensor]:
    """FLOOR_DIV and FLOOR_MOD, which have the sign of the divisor; small integers in wider ones."""
    return lambda g, x, y: arithmetic.widely(g, lambda g, x, y: g.binary(op, x, y), x, y)


def arctan2(g: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """ATAN2 does not broadcast."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    return g.emit("ATAN2", [g.repeat(x, shape), g.repeat(y, shape)], shape)


def _bits(op: str) -> Importer:
    return _of_two(lambda g, x, y: arithmetic.bitwise(g, op, x, y), "x", "y")


def _shift(left: bool) -> Importer:
    return _of_two(lambda g, x, y: arithmetic.shift(g, x, y, left), "x", "y")


def cumulative(run: Callable[[Emitter, Tensor, int], Tensor]) -> Importer:
    """Along an axis, or over all elements in order."""

    def along(g: Emitter, call: Call) -> Tensor:
        axis, x = call.layer.axis, g.cast(call.input(), call.type)
        return run(g, g.reshape(x, (x.size,)), 0) if axis is None else run(g, x, axis % len(x.shape))

    return along


def cumulative_sum(g: Emitter, x: Tensor, axis: int) -> Tensor:
    return g.emit("CUMSUM", [x, np.array(axis, np.int32)], x.shape, exclusive=False, reverse=False)


FUNCTIONS: dict[str, Callable[[Emitter, Tensor], Tensor]] = {
    "Arccos": elementary.acos, "Arccosh": elementary.acosh, "Arcsin": elementary.asin, "Arcsinh": elementary.asinh,
    "Arctan": elementary.atan, "Arctanh": elementary.atanh, "BitwiseInvert": arithmetic.complement,
    "BitwiseNot": arithmetic.complement, "Cosh": elementary.cosh, "Erf": elementary.erf, "Log1p": elementary.log1p,
    "Sinh": elementary.sinh, "Tan": elementary.tan,
}  # fmt: skip

IMPORTERS: dict[str, Any] = {
    **{f"ops.{name}": _function(run) for name, run in FUNCTIONS.items()},
    "ops.Arctan2": _of_two(arctan2),
    **{f"ops.Bitwise{name}": _bits(name.upper()) for name in ("And", "Or", "Xor")},
    **dict.fromkeys(("ops.BitwiseLeftShift", "ops.LeftShift"), _shift(True)),
    **dict.fromkeys(("ops.BitwiseRightShift", "ops.RightShift"), _shift(False)),
    "ops.Cumprod": cumulative(arithmetic.cumulative_product),
    "ops.Cumsum": cumulative(cumulative_sum),
    "ops.FloorDivide": _of_two(_whole("FLOOR_DIV")),
    "ops.Fmod": _of_two(arithmetic.remainder),
    "ops.Mod": _of_two(_whole("FLOOR_MOD")),
}
