"""Tiny models that use all of the emitter; ``python tiny.py`` prints a hash of everything that is emitted."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import get_args

import numpy as np
from flows import Sub

from twinfer.aot.build.project import project_files
from twinfer.aot.print.emit import emit
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.op import tensor
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Extent, Plan, Region
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import GENERIC, HOST

ODD_FLOATS = np.array(
    [0x7FC00000, 0xFFC00001, 0x7F800001, 0x7F800000, 0xFF800000, 0x80000000, 0x00000001, 0x7F7FFFFF, 0x3DCCCCCD], "<u4"
).view("<f4")


def passing() -> Plan:
    """Values that are only passed on: an input and a constant that are outputs, odd floats, hostile names."""
    x = tensor((1, 6, 5), "INT8", 0.5, 3, name='*/ x \\ "??/\n/* é')
    odd = tensor((3, 3), data=ODD_FLOATS, name="odd floats")
    y, z = tensor((30,), "INT8", 0.5, 3, name="y"), tensor((9,), name="z")
    first = Node("RESHAPE", (x,), (y,), {"new_shape": (30,)})
    second = Node("RESHAPE", (odd,), (z,), {"new_shape": (9,)}, index=1)
    return make_plan(Graph("passing", (x, odd, y, z), (first, second), (x,), (y, z, x, odd)), HOST)


def _dense(rng: np.random.Generator, x: Tensor, index: int) -> Node:
    w = tensor((6, 6), "INT8", 0.01, data=rng.integers(-127, 128, (6, 6)), name=f"w{index}")
    b = tensor((6,), "INT32", 0.001, data=rng.integers(-500, 500, 6), name=f"b{index}")
    y = tensor((1, 6), "INT8", 0.1, -3, name=f"y{index}")
    activation = "RELU" if index else "RELU6"
    return Node("FULLY_CONNECTED", (x, w, b), (y,), {"fused_activation_function": activation}, index=index)


def dense() -> Plan:
    """Three layers for a small target, the last two with equal params."""
    rng = np.random.default_rng(1)
    x = tensor((1, 6), "INT8", 0.05, 7, name="x")
    nodes: list[Node] = []
    for i in range(3):
        nodes.append(_dense(rng, nodes[-1].output if nodes else x, i))
    tensors = tuple(dict.fromkeys(t for n in nodes for t in (*n.inputs, *n.outputs) if t is not None))
    return make_plan(Graph("dense", tensors, tuple(nodes), (x,), nodes[-1].outputs), GENERIC)


def conv() -> Plan:
    """A float convolution for the host: packed weights, scratch, float params."""
    rng = np.random.default_rng(2)
    x, y = tensor((1, 4, 4, 2), name="x"), tensor((1, 2, 2, 3), name="y")
    w = tensor((3, 3, 3, 2), data=rng.standard_normal((3, 3, 3, 2)).round(2), name="w")
    b = tensor((3,), data=np.array([0.5, -1, 0]), name="b")
    options = {"padding": "SAME", "stride_w": 2, "stride_h": 2, "fused_activation_function": "RELU6"}
    return make_plan(Graph("conv", (x, w, b, y), (Node("CONV_2D", (x, w, b), (y,), options),), (x,), (y,)), HOST)


def rows() -> Plan:
    """Layers that run by rows: a convolution whose rows a sum and a pool take, and one that lies over its input."""
    b = Builder("rows")
    x, rng = b.input("x", "FLOAT32", (1, 6, 5, 2)), np.random.default_rng(4)
    w, v = (rng.standard_normal(shape).round(2).astype(np.float32) for shape in ((4, 3, 3, 2), (4, 3, 1, 4)))
    options = {"stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"}
    y = b.op("CONV_2D", [x, w, np.zeros(4, np.float32)], padding="SAME", **options)
    z = b.op("ADD", [y, b.op("CONV_2D", [y, v, np.ones(4, np.float32)], padding="SAME", **options)])
    pool = b.op("MAX_POOL_2D", [z], padding="VALID", filter_height=2, filter_width=2, **options)
    last = b.op("AVERAGE_POOL_2D", [pool], padding="SAME", filter_height=3, filter_width=1, **options)
    return make_plan(b.graph([last]), GENERIC, Options(memory="rows"))


def state() -> Plan:
    """Variables that are only read."""
    values = [tensor((2, 3), "INT8", 0.5, -7, name="state"), tensor((5,), name="more")]
    variables = [Tensor(t.name, t.type, t.shape, t.quant, variable=True) for t in values]
    outputs = [tensor((6,), "INT8", 0.5, -7, name="y"), tensor((5,), name="z")]
    pairs = zip(variables, outputs, strict=True)
    nodes = tuple(Node("RESHAPE", (v,), (y,), {"new_shape": y.shape}, index=i) for i, (v, y) in enumerate(pairs))
    return make_plan(Graph("state", (*variables, *outputs), nodes, (), tuple(outputs)), GENERIC)


def classifier() -> Graph:
    """float [1, 8] -> dense [1, 4] -> softmax."""
    rng = np.random.default_rng(3)
    b = Builder("tiny")
    x = b.input("x", "FLOAT32", (1, 8))
    weights, bias = rng.standard_normal((4, 8)).astype(np.float32), rng.standard_normal(4).astype(np.float32)
    return b.graph([b.op("SOFTMAX", [b.op("FULLY_CONNECTED", [x, weights, bias], shape=(1, 4))], beta=1.0)])


def flow() -> Plan:
    """A variable with a first value, a branch that reads and writes it, and a loop whose variables are swapped."""
    init, then, orelse, test, body, main = (Sub(name) for name in ("init", "then", "orelse", "test", "body", "main"))
    init.assign(init.handle(), init.constant([1, 2]))
    old, h, _ = then.input((2,)), then.handle(), orelse.input((2,))
    then.assign(h, then.add(then.read(h, (2,)), old))
    graphs = [init.graph([]), then.graph([old]), orelse.graph([orelse.read(orelse.handle(), (2,))])]
    for sub in (test, body):
        for shape in ((1,), (2,), (2,)):
            sub.input(shape)
    i, x, y = body.inputs
    graphs += [test.graph([test.less(test.inputs[0], np.array([3], np.float32))])]
    graphs += [body.graph([body.add(i, np.array([1], np.float32)), body.mul(x, y), x])]
    main.once(1)
    x, c = main.input((2,)), main.input(type="BOOL")
    (y,) = main.branch(c, 2, 3, [x], [x])
    outputs = main.loop(4, 5, [main.constant([0]), x, y])
    return make_plan(main.graph(outputs[1:], *graphs), GENERIC)


#: One for which guard mode plans layer by layer.
BY_ROWS = {"rows": rows}

MODELS = {"passing": passing, "dense": dense, "conv": conv, "state": state, "flow": flow}


def project(name: str, mode: Mode = "compiled") -> dict[str, str]:
    """The files of a project without the kernel headers, which are in this repository, and the list of files."""
    plan = {**MODELS, **BY_ROWS}[name]()
    files = project_files(emit(plan.printed(mode=mode), name, sha256="0" * 64), random_inputs(plan.graph))
    return {path: text for path, text in files.items() if not path.startswith(("kernels/", "twinfer.json"))}


if __name__ == "__main__":
    everything = repr([project(name, mode) for name in MODELS for mode in get_args(Mode)])
    print(hashlib.sha256(everything.encode()).hexdigest())  # noqa: T201


def sized(plan: Plan, arena_bytes: int) -> Plan:
    """The plan, as if its arena took so many bytes."""
    return replace(plan, regions={**plan.regions, Region.ARENA: Extent(0, arena_bytes)})
