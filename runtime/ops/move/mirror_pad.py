"""MIRROR_PAD: a tensor surrounded by its mirror image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, unsupported
from twinfer.runtime.ops.core.loops import LOOPS, filled
from twinfer.runtime.ops.move._move import case, copy_call, example, index, indices, mover
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

MODES = {"REFLECT": 0, "SYMMETRIC": 1}


def _edge(node: Node) -> int:
    mode = str(node.options.get("mode", "REFLECT"))
    if mode not in MODES:
        raise unsupported(node, f"mode {mode} is none of {', '.join(MODES)}")
    return MODES[mode]


def _padding(node: Node) -> list[tuple[int, int]]:
    flat = indices(node, 1, 2 * len(node.input(0).shape))
    return list(zip(flat[::2], flat[1::2], strict=True))


def infer(node: Node) -> list[Shape]:
    x, edge = mover(node, 2), _edge(node)
    need(node.input(1).shape == (len(x.shape), 2), node, f"{node.input(1)} must be [{len(x.shape)}, 2]")
    padding = _padding(node)
    for n, (before, after) in zip(x.shape, padding, strict=True):
        fits = min(before, after) >= 0 and max(before, after) <= max(n - 1 + edge, 0)
        need(fits, node, f"padding {padding} is negative, or more than {x} has to mirror")
    if len(_axes(node)[0]) > LOOPS:
        raise unsupported(node, f"{x} is padded along more than {LOOPS} axes")
    return [tuple(n + sum(pad) for n, pad in zip(x.shape, padding, strict=True))]


def _axes(node: Node) -> tuple[list[tuple[int, int, int]], int]:
    """Axes as (extent, output's extent, padding before), and the bytes of an element, which the last axes
    are part of if they have no padding."""
    x, axes = node.input(0), list[tuple[int, int, int]]()
    size = x.dtype.itemsize
    for n, (before, after) in reversed(list(zip(x.shape, _padding(node), strict=True))):
        if not axes and not before and not after:
            size *= n
        else:
            axes.insert(0, (n, n + before + after, before))
    return axes, size


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    return [np.pad(inputs[0], _padding(node), mode="symmetric" if _edge(node) else "reflect")]


def lower(node: Node, target: Target) -> Call:
    axes, size = _axes(node)
    if not axes or not node.output.size:
        return copy_call(node)
    n, m, before = (filled(values, fill) for values, fill in zip(zip(*axes, strict=True), (1, 1, 0), strict=True))
    params: dict[str, Param] = {"size": size, "edge": _edge(node), "n": n, "m": m, "before": before}
    return Call("tw_mirror_pad", params, (node.input(0),), (node.output,))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, tuple[tuple[int, int], ...]], ...] = (
        ((4,), ((3, 2),)), ((3, 5), ((1, 2), (0, 0))), ((3, 5), ((0, 0), (4, 1))),
        ((2, 3, 4), ((1, 0), (2, 1), (0, 3))),
        ((2, 4, 5, 3), ((0, 0), (1, 1), (2, 2), (0, 0))), ((2, 3), ((0, 0), (0, 0))),
    )  # fmt: skip
    for shape, padding in forms:
        out = tuple(n + sum(pad) for n, pad in zip(shape, padding, strict=True))
        at = index(np.array(padding).ravel().tolist(), shape=(len(shape), 2))
        for mode in MODES:
            for type, oracle in (("INT8", "tflm"), ("FLOAT32", "tflm"), ("INT32", "litert")):
                yield case("MIRROR_PAD", (example(type, shape), at), [out], oracle, mode=mode)


OP = Op("MIRROR_PAD", infer, reference, lower, cases, uint8="moves")
