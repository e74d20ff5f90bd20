"""Damage to graphs at random: shapes, options, constants, types, quantisation, connections."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from cases import COMMON, cases_of, graph_of

from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import DTYPES, Graph, Node, Quant, Tensor
from twinfer.runtime.shapes import infer_node

SCALES = (0.0, -1.0, 1e-45, 1e-30, 3e38, 1e10, np.inf, np.nan, 0.5, 1 / 256, 0.1, 1e-3, 100.0)
ZEROS = (0, 1, -128, 127, 128, -129, 32767, 2**31 - 1, -(2**31), 2**40, -(2**63))
NUMBERS = (0, 1, -1, 2, 3, 5, 8, -2, -4, 127, 256, 65536, 2**20, 2**30, 2**31 - 1, -(2**31))
EXTENTS = (0, 1, 1, 2, 3, 4, 5, 8, 17, 33, 2**16, 2**30, 2**31 - 1)
TYPES = (*DTYPES, "INT4", "STRING", "INT8", "FLOAT32", "INT32")


class Damage:
    """A graph while it is changed."""

    def __init__(self, graph: Graph, rng: random.Random) -> None:
        self.graph, self.rng = graph, rng

    def put(self, old: Tensor, new: Tensor) -> None:
        """Puts ``new`` in the place of ``old`` everywhere."""

        def swap(tensors: Any) -> tuple[Any, ...]:
            return tuple(new if t is old else t for t in tensors)

        g = self.graph
        nodes = tuple(replace(n, inputs=swap(n.inputs), outputs=swap(n.outputs)) for n in g.nodes)
        tensors = tuple(dict.fromkeys(swap(g.tensors)))
        self.graph = replace(g, tensors=tensors, nodes=nodes, inputs=swap(g.inputs), outputs=swap(g.outputs))

    def with_(self, old: Tensor, new: Tensor) -> Graph:
        self.put(old, new)
        return self.graph

    def any(self, constant: bool | None = None) -> Tensor:
        fit = [t for t in self.graph.tensors if constant is None or (t.data is not None) == constant]
        return self.rng.choice(fit or self.graph.tensors)

    def node(self, **changes: Callable[[Node], Any]) -> None:
        if not self.graph.nodes:
            return
        old = self.rng.choice(self.graph.nodes)
        new = replace(old, **{name: change(old) for name, change in changes.items()})
        self.graph = replace(self.graph, nodes=tuple(new if n is old else n for n in self.graph.nodes))

    # -- what may be damaged ---------------------------------------------------------------------------------------

    def shape(self) -> None:
        t, shape = self.any(), []
        for extent in t.shape:
            shape.append(self.rng.choice(EXTENTS) if self.rng.random() < 0.3 else extent)
        if self.rng.random() < 0.3:
            shape.insert(self.rng.randint(0, len(shape)), self.rng.choice(EXTENTS[:6]))
        data = t.data
        if data is not None:
            small = np.prod(shape, dtype=object) < 1 << 16 and max((1, *shape)) < 1 << 16 and data.size
            stored = shape if t.type in DTYPES else (replace(t, shape=tuple(shape)).nbytes,)
            data = np.resize(data, stored) if small else None
        self.put(t, replace(t, shape=tuple(shape), data=data))

    def option(self) -> None:
        def changed(node: Node) -> dict[str, Any]:
            options = dict(node.options)
            for key in options and [self.rng.choice(list(options))]:
                options[key] = self._like(options[key])
            return options

        self.node(options=changed)

    def _like(self, value: Any) -> Any:
        """Another value of an option's type, which the reader guarantees."""
        if isinstance(value, tuple):
            return tuple(self.rng.choice(NUMBERS) for _ in range(self.rng.randint(0, 4)))
        choices = {bool: (not value,), int: NUMBERS, float: SCALES, str: ("SAME", "VALID", "NONE", "TANH", "RELU6")}
        return self.rng.choice(choices.get(type(value), (value,)))

    def constant(self) -> None:
        t = self.any(constant=True)
        if t.data is None or not t.data.size or t.data.dtype.kind not in "iuf":
            return
        data = np.array(t.data)
        limits = np.finfo(data.dtype) if data.dtype.kind == "f" else np.iinfo(data.dtype)
        value = self.rng.choice((*NUMBERS, limits.min, limits.max))
        data.flat[self.rng.randrange(data.size)] = min(max(value, limits.min), limits.max)
        self.put(t, replace(t, data=data))

    def type(self) -> None:
        t, type = self.any(), self.rng.choice(TYPES)
        convert = t.data is not None and type in DTYPES and t.type in DTYPES and t.dtype.kind in "iu"
        self.put(t, replace(t, type=type, data=t.data.astype(DTYPES[type]) if convert and t.data is not None else None))

    def quant(self) -> None:
        t, count = self.any(), self.rng.choice((1, 1, 2, 3, 8))
        scales = np.array([self.rng.choice(SCALES) for _ in range(count)], np.float32)
        zeros = np.array([self.rng.choice(ZEROS) for _ in range(count)], np.int64)
        self.put(t, replace(t, quant=self.rng.choice((None, Quant(scales, zeros, self.rng.randint(0, 3))))))

    def inputs(self) -> None:
        def changed(node: Node) -> tuple[Tensor | None, ...]:
            inputs = list(node.inputs) or [None]
            inputs[self.rng.randrange(len(inputs))] = self.rng.choice((None, *self.graph.tensors))
            return tuple(inputs[: self.rng.choice((9, 9, len(inputs) - 1))])

        self.node(inputs=changed)

    def outputs(self) -> None:
        self.node(outputs=lambda n: self.rng.choice((n.outputs[:-1], (self.any(),), n.outputs * 2)))

    def ends(self) -> None:
        g, t = self.graph, self.any()
        self.graph = self.rng.choice((replace(g, inputs=(*g.inputs, t)), replace(g, outputs=(*g.outputs, t))))

    def fed(self) -> None:
        t = self.any(constant=True)
        self.put(t, without_data := replace(t, data=None))
        self.graph = replace(self.graph, inputs=(*self.graph.inputs, without_data))

    def variable(self) -> None:
        t = self.any()
        self.put(t, replace(t, variable=True))

    def merge(self) -> None:
        self.put(self.any(), self.any())

    def operator(self) -> None:
        self.node(op=lambda _: self.rng.choice(COMMON))


KINDS = ("shape", "shape", "option", "option", "constant", "constant", "type", "quant", "inputs", "outputs", "ends",
         "fed", "variable", "merge", "operator")  # fmt: skip


def damaged(graph: Graph, rng: random.Random) -> Graph:
    """The graph with a few changes; outputs mostly get the shapes that they should have then."""
    damage = Damage(graph, rng)
    for kind in rng.choices(KINDS, k=rng.choice((1, 1, 2, 3))):
        getattr(damage, kind)()
    for node in damage.graph.nodes if rng.random() < 0.8 else ():
        try:
            for t, shape in zip(node.outputs, infer_node(node), strict=True):
                if t.data is None:
                    damage.put(t, replace(t, shape=shape))
        except TwinferError:
            break
    return damage.graph


@cache
def victims(op: str) -> list[Graph]:
    graphs = [graph_of(case.node) for case in cases_of(op).values()]
    return [g for g in graphs if sum(t.size for t in g.tensors) < 4000]
