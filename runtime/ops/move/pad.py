"""PAD and PADV2: a tensor surrounded by one value: the zero point, or the value given.

Source of the rules: LiteRT kernels/pad.cc, TFLM kernels/pad_common.cc. Neither compares the scales of input and output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Border, Case, Op, Shape, need, tensor, unsupported
from twinfer.runtime.ops.core.loops import LOOPS, filled
from twinfer.runtime.ops.move._move import case, copy_call, example, index, indices, mover, same_meaning, steps
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.rows import Rows
from twinfer.runtime.target import Target

#: An axis: extent of the input, padding before, padding after.
Padded = tuple[int, int, int]


def _axes(node: Node) -> list[Padded]:
    x = node.input(0)
    flat = indices(node, 1, 2 * len(x.shape))
    return list(zip(x.shape, flat[::2], flat[1::2], strict=True))


def infer(node: Node) -> list[Shape]:
    x, axes = mover(node, 2 if node.op == "PAD" else 3), _axes(node)
    need(node.input(1).shape == (len(x.shape), 2), node, f"{node.input(1)} must be [{len(x.shape)}, 2]")
    need(all(before >= 0 <= after for _, before, after in axes), node, "negative padding; use SLICE to cut")
    if node.op == "PADV2":
        value, y = node.input(2), node.output
        need(value.type == y.type and value.size == 1, node, f"{value} is not a single value of the output's type")
        if not same_meaning(value, y):
            raise unsupported(node, f"{value} must be quantised as {y} is")
    else:
        zero_of(node)
    return [tuple(sum(axis) for axis in axes)]


def zero_of(node: Node) -> Array:
    """What stands for 0: the output's zero point, as one element of its type."""
    y = node.output
    quantised = y.quant is not None and y.dtype.kind in "iu" and y.dtype.itemsize <= 2
    zero = y.zero if quantised else 0
    if quantised:
        info = np.iinfo(y.dtype)
        need(info.min <= zero <= info.max, node, f"zero point {zero} is outside the type of {y}")
    return np.array([zero], y.dtype)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    value = inputs[2].reshape(()) if node.op == "PADV2" else zero_of(node)[0]
    return [np.pad(inputs[0], inputs[1], constant_values=value)]


def border(node: Node) -> Border | None:
    """The border around images; None if it is computed at run time or has batches or channels."""
    x, value = node.input(0), node.input(2).data if node.op == "PADV2" else zero_of(node)
    if node.input(1).data is None or value is None or len(x.shape) != 4 or x.quant != node.output.quant:
        return None
    (_, *batches), (_, *rows), (_, *columns), (_, *channels) = _axes(node)
    return None if any((*batches, *channels)) else Border((rows[0], rows[1]), (columns[0], columns[1]), value.item())


def _merged(axes: list[Padded]) -> list[Padded]:
    """The axes, as few as possible: an axis without padding becomes part of the one before it."""
    merged: list[Padded] = []
    for n, before, after in axes:
        if merged and not before and not after:
            merged[-1] = tuple(part * n for part in merged[-1])  # type: ignore[assignment]
        elif (n, before, after) != (1, 0, 0):
            merged.append((n, before, after))
    return merged


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    axes, size = _merged(_axes(node)), y.dtype.itemsize
    if x.size == y.size:
        return copy_call(node)
    if len(axes) > LOOPS + 1:
        raise unsupported(node, f"{len(axes)} axes with padding, {LOOPS + 1} are the limit")
    step = steps(tuple(sum(axis) for axis in axes), size)
    params: dict[str, Param] = {
        "start": sum(before * s for (_, before, _), s in zip(axes, step, strict=True)),
        "run": axes[-1][0] * size, "size": size, "total": y.nbytes,
        "n": filled([n for n, _, _ in axes[:-1]], 1), "steps": filled(step[:-1], 0),
    }  # fmt: skip
    value = node.input(2) if node.op == "PADV2" else Constant(zero_of(node), Role.INDEX, name="padding")
    return Call("tw_pad", params, (x, value), (y,), rows=_rows(x, y, len(axes) - 1))


def _rows(x: Tensor, y: Tensor, loops: int) -> Rows | None:
    """How rows of an image are padded one by one: no rows are put before or behind them."""
    one = len(x.shape) == 4 and x.shape[:2] == y.shape[:2] and x.shape[0] == 1
    return Rows(counts=("total", f"n.{LOOPS - loops}")) if one and loops else None


def _case(type: str, shape: Shape, paddings: tuple[int, ...], value: float | None = None, oracle: str = "tflm") -> Case:
    x = example(type, shape)
    out = [n + b + a for n, b, a in zip(shape, paddings[::2], paddings[1::2], strict=True)]
    inputs = [x, index(paddings, shape=(len(shape), 2))]
    if value is not None:
        inputs.append(Tensor("value", type, (1,), x.quant, np.array([value], x.dtype)))
    return case("PAD" if value is None else "PADV2", inputs, [tuple(out)], oracle)


FORMS = (
    ((5,), (2, 3)), ((1,), (0, 1)), ((4, 3), (1, 2, 0, 0)), ((4, 3), (0, 0, 3, 1)), ((4, 3), (0, 0, 0, 0)),
    ((2, 3, 4), (0, 1, 2, 0, 1, 1)), ((1, 5, 7, 3), (0, 0, 1, 1, 1, 1, 0, 0)),
    ((2, 3, 2, 3), (0, 0, 0, 1, 0, 1, 0, 0)), ((2, 3, 2, 1), (0, 0, 0, 0, 0, 0, 0, 3)),
    ((2, 3, 2, 3), (1, 0, 0, 2, 3, 1, 1, 2)), ((2, 1, 2, 3, 2), (1, 0, 0, 0, 0, 1, 1, 1, 2, 0)),
    ((2, 3, 2, 1, 2), (1, 1, 2, 0, 0, 1, 1, 1, 2, 1)),
)  # fmt: skip


def _types(value: float | None) -> Iterator[Case]:
    for type in ("INT16", "INT32", "FLOAT32"):
        yield _case(type, (2, 3, 4), (0, 1, 2, 0, 1, 1), value)
        yield _case(type, (1, 5, 7, 3), (0, 0, 1, 1, 1, 1, 0, 0), value)
    for type in ("UINT8", "INT64"):
        yield _case(type, (3, 4), (0, 1, 2, 0), value, "litert")


def pad_cases(rng: np.random.Generator) -> Iterator[Case]:
    yield from (_case("INT8", shape, paddings) for shape, paddings in FORMS)
    yield from _types(None)


def padv2_cases(rng: np.random.Generator) -> Iterator[Case]:
    yield from (_case("INT8", shape, paddings, 93) for shape, paddings in FORMS)
    yield from _types(5)
    fed = tensor((), name="value")
    paddings = index((1, 0, 0, 2), shape=(2, 2))
    yield case("PADV2", (tensor((2, 3), name="x"), paddings, fed), [(3, 5)])


OPS = (
    Op("PAD", infer, reference, lower, pad_cases, border=border, uint8="moves", keeps_channels=True),
    Op("PADV2", infer, reference, lower, padv2_cases, border=border, uint8="moves"),
)
