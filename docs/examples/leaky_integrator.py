"""LeakyIntegrator: y[t] = leak * y[t - 1] + x[t], channel by channel, from run to run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    """x [steps, channels] and the constant leak [channels], both float32 -> y [steps, channels]."""
    need(len(node.inputs) == 2 and len(node.outputs) == 1, node, "it takes x and leak, and gives y")
    x, leak = node.input(0), node.input(1)
    for each in (x, leak, node.output):
        need_type(node, each, "FLOAT32")
    need(len(x.shape) == 2 and x.size > 0, node, f"{x} is not [steps, channels]")
    need(leak.shape == x.shape[1:], node, f"{leak} is not one number per channel of {x}")
    need(leak.data is not None and bool(np.all((leak.data >= 0) & (leak.data <= 1))), node, f"{leak} is not 0 to 1")
    return [x.shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """The first run: levels begin with 0."""
    x, leak = inputs
    y, level = np.empty_like(x), np.zeros(x.shape[1], np.float32)
    for step, value in enumerate(x):
        y[step] = level = leak * level + value
    return [y]


def lower(node: Node, target: Target) -> Call:
    steps, channels = node.input(0).shape
    state = Tensor(f"levels of {node.output.name}", "FLOAT32", (channels,), variable=True)  # lasts from run to run
    params = {"steps": steps, "channels": channels}
    return Call("leaky_integrator_f32", params, node.inputs, (node.output, state))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for steps, channels in ((1, 1), (4, 3), (10, 40), (3, 17)):
        x, y = tensor((steps, channels), name="x"), tensor((steps, channels), name="y")
        leak = tensor((channels,), data=rng.uniform(0, 1, channels), name="leak")
        why = "no other runtime has it"
        yield Case(Node("CUSTOM:LeakyIntegrator", (x, leak), (y,)), oracle="none", why=why)


OP = Op("CUSTOM:LeakyIntegrator", infer, reference, lower, cases, keeps_state=True)
