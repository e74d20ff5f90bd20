"""Runs layers over one spatial dimension as layers over two, with a height of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinfer.converter.emit.emitter import Emitter, Shape
from twinfer.runtime.graph import Tensor


def as_image(g: Emitter, x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
    """``run`` on [n, h, w, c], or on [n, w, c] with a height of one, which its result loses again."""
    if len(x.shape) == 4:
        return run(x)
    n, w, c = x.shape
    y = run(g.reshape(x, (n, 1, w, c)))
    return g.reshape(y, (y.shape[0], *y.shape[2:]))


def both(value: Any, rest: int = 1) -> Shape:
    """(height, width) of two numbers or one; ``rest`` is the height if only the width is given."""
    numbers = tuple(int(v) for v in (value if isinstance(value, list | tuple) else (value,)))
    return numbers if len(numbers) == 2 else (rest, *numbers)


def extents(size: Shape, kernel: Shape, strides: Shape, dilations: Shape, padding: str) -> Shape:
    """Height and width of the result, as TFLite's padding makes them."""
    rows = zip(size, kernel, strides, dilations, strict=True)
    if padding == "SAME":
        return tuple(-(-n // s) for n, _, s, _ in rows)
    return tuple((n - (k - 1) * d - 1) // s + 1 for n, k, s, d in rows)
