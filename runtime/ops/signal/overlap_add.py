"""SignalOverlapAdd: a stream from frames that overlap. Source: TFLM signal/micro/kernels/overlap_add.cc."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.signal._custom import arity, custom, first_run, state, typed, whole, zeros
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Type -> suffix of its kernel, and its number in the format, which the option "T" holds.
TYPES = {"INT16": ("s16", 7), "FLOAT32": ("f32", 0)}


def infer(node: Node) -> list[Shape]:
    arity(node, 1)
    x = node.input(0)
    need_type(node, x, *TYPES)
    typed(node, node.output, x.type)
    need(len(x.shape) >= 2 and x.size > 0, node, f"{x} must have frames of values")
    kind = whole(node, "T")
    need(kind == TYPES[x.type][1], node, f"option 'T' is {kind}, of {x} it must be {TYPES[x.type][1]}")
    return [(*x.shape[:-2], x.shape[-2] * _step(node))]


def _step(node: Node) -> int:
    return whole(node, "frame_step", 1, node.input(0).shape[-1])


def _held(node: Node) -> Shape:
    frames, size = node.input(0).shape[-2:]
    return node.input(0).size // (frames * size), size


def fresh(node: Node) -> list[Array]:
    return zeros((_held(node), node.input(0).dtype.str))


def step(node: Node, x: Array, held: list[Array]) -> list[Array]:
    (sums,), done, parts = held, _step(node), []
    for frame in np.moveaxis(x.reshape(len(sums), *x.shape[-2:]), 1, 0):
        total = sums + (frame if x.dtype.kind == "f" else frame.astype(np.int32))
        sums = total if x.dtype.kind == "f" else np.clip(total, -32768, 32767).astype(np.int16)
        parts.append(sums[:, :done])
        sums = np.pad(sums[:, done:], ((0, 0), (0, done)))
    held[0] = sums
    return [np.stack(parts, axis=1).reshape(node.output.shape)]


def lower(node: Node, target: Target) -> Call:
    x, (count, size) = node.input(0), _held(node)
    params = {"rows": count, "frames": x.shape[-2], "size": size, "step": _step(node)}
    sums = state(node, "sums", x.type, (count, size))
    return Call(f"tw_overlap_add_{TYPES[x.type][0]}", params, (x,), (node.output, sums))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for type in TYPES:
        for shape, step in (((1, 8), 5), ((4, 6), 2), ((2, 3, 5), 3), ((2, 2, 2, 7), 7), ((3, 1), 1)):
            x = tensor(shape, type, name="x")
            y = tensor((*shape[:-2], shape[-2] * step), type, name="y")
            yield Case(Node("CUSTOM:SignalOverlapAdd", (x,), (y,), extra=custom(T=TYPES[type][1], frame_step=step)))


OP = Op("CUSTOM:SignalOverlapAdd", infer, first_run(fresh, step), lower, cases, keeps_state=True)
