"""SignalDelay: a stream, as many values late. Source: TFLM signal/micro/kernels/delay.cc."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, tensor
from twinfer.runtime.ops.signal._custom import LARGEST, arity, custom, first_run, rows, state, typed, whole, zeros
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    arity(node, 1)
    count, _ = rows(node, node.input(0), "INT16")
    typed(node, node.output, "INT16")
    whole(node, "delay_length", 0, LARGEST // count)
    return [node.input(0).shape]


def _held(node: Node) -> Shape:
    x = node.input(0)
    return x.size // x.shape[-1], whole(node, "delay_length")


def fresh(node: Node) -> list[Array]:
    return zeros((_held(node), "int16"))


def step(node: Node, x: Array, held: list[Array]) -> list[Array]:
    size = x.shape[-1]
    stream = np.concatenate([held[0], x.reshape(-1, size)], axis=1)
    held[0] = stream[:, size:]
    return [stream[:, :size].reshape(x.shape)]


def lower(node: Node, target: Target) -> Call:
    count, delay = _held(node)
    params = {"rows": count, "size": node.input(0).shape[-1], "delay": delay}
    return Call("tw_delay", params, node.inputs, (node.output, state(node, "past", "INT16", (count, delay))))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for shape, delay in (((8,), 3), ((8,), 8), ((4,), 11), ((2, 3, 5), 7), ((2, 6), 2), ((3, 1), 1), ((5,), 0)):
        x, y = (tensor(shape, "INT16", name=name) for name in "xy")
        yield Case(Node("CUSTOM:SignalDelay", (x,), (y,), extra=custom(delay_length=delay)))


OP = Op("CUSTOM:SignalDelay", infer, first_run(fresh, step), lower, cases, keeps_state=True)
