"""Random small graphs: random nodes of any operators, joined to the values before them by what fits both together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twinfer.bench.fuzz.model import JUDGES, Model, Rng, Trial, runs
from twinfer.bench.fuzz.mutate import random_trial
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.op import Case, tensor

#: Types that values are turned into; inputs of others are fed from outside.
FLOWING = ("INT8", "INT16", "FLOAT32")

#: A value that is smaller than this share of what is wanted is not repeated.
MOST_TIMES = 8

#: Tensors that graphs begin with: type, scale, zero point.
KINDS = (("INT8", 0.05, -3), ("INT8", 0.5, 10), ("INT16", 0.001, 0), ("FLOAT32", None, 0))


class Growth:
    """A graph while it grows.

    ``pool``: values that later nodes may read. ``given``: values of inputs that matter. ``oracles`` and ``tolerance``
    are of its nodes.
    """

    def __init__(self, rng: Rng, name: str, refused: Counter[str]) -> None:
        self.rng, self.builder = rng, Builder(name)
        self.pool: list[Tensor] = []
        self.given: dict[Tensor, Array] = {}
        self.oracles = set[str]()
        self.tolerance: float | None = 0.0
        self._refused = refused

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def begin(self) -> Tensor:
        """An input of a random kind and shape."""
        kind, scale, zero = KINDS[int(self.rng.integers(len(KINDS)))]
        shape = tuple(int(d) for d in self.rng.integers(1, 7, int(self.rng.integers(1, 5))))
        return self.enter(tensor(shape, kind, scale, zero))

    def enter(self, like: Tensor) -> Tensor:
        """An input like another tensor."""
        added = replace(like, name=f"x{len(self.builder.inputs)}", data=None, variable=False)
        self.builder.add(added)
        self.builder.inputs.append(added)
        self.pool.append(added)
        return added

    def add(self, op: str) -> None:
        """A random node of the operator over values of the pool."""
        trial = random_trial(self.rng, op, self._refused, self._suits)
        trial = trial.swap({t: replace(t) for t in trial.tensors if t.data is None})  # others may be of its case
        swap = {t: self._source(trial, t) for t in trial.tensors if t not in trial.node.outputs}
        trial = trial.swap({t: s for t, s in swap.items() if s is not t})
        node = trial.node
        for t in trial.tensors:
            if t not in node.outputs:
                self.builder.add(t)
        self.builder.node(node.op, node.inputs, node.outputs, node.options, version=node.version, extra=node.extra)
        self.oracles.add(trial.oracle)
        if trial.tolerance:
            self.tolerance = None
        self.pool += [t for t in node.outputs if flows(t)]

    def _suits(self, case: Case) -> bool:
        """Whether the case may be a node of this graph; those with inexact floats rarely are."""
        return case.oracle != "none" and (not case.tolerance or bool(self.rng.random() < 0.02))

    def _source(self, trial: Trial, want: Tensor) -> Tensor:
        """Where a node takes an input from: the pool, a constant, or outside."""
        if want.data is not None or want.variable or want not in trial.node.inputs:
            return want
        if want in trial.given or not flows(want):
            return self._outside(want, trial.given.get(want))
        x = self.pick()
        return self.adapt(x, want) if want.size <= MOST_TIMES * x.size else self._outside(want, None)

    def _outside(self, want: Tensor, fed: Array | None) -> Tensor:
        """An input, with a value that matters or a random one."""
        entered = self.enter(want)
        self.pool.pop()
        if fed is not None:
            self.given[entered] = fed
        return entered

    def pick(self) -> Tensor:
        """A value of the pool, mostly a late one."""
        tail = self.pool[-3:] if self.rng.random() < 0.7 else self.pool
        return tail[int(self.rng.integers(len(tail)))]

    def fitting(self, want: Tensor) -> Tensor:
        """The last value that is large enough to become another tensor."""
        return next(t for t in reversed(self.pool) if want.size <= MOST_TIMES * t.size)

    def join(self) -> None:
        """Two values, as of a residual or a concatenation."""
        a = self.pick()
        b = self.adapt(self.fitting(a) if self.rng.random() < 0.5 else a, a)
        if self.rng.random() < 0.4 and a.shape:
            shape = (*a.shape[:-1], 2 * a.shape[-1])
            self.pool.append(self.op("CONCATENATION", [a, b], a, shape, axis=-1))
            return
        op = str(self.rng.choice(["ADD", "SUB", "MUL", "MAXIMUM"]))
        activation = {} if op == "MAXIMUM" else {"fused_activation_function": str(self.rng.choice(["NONE", "RELU"]))}
        self.pool.append(self.op(op, [a, b], a, a.shape, **activation))

    # -- what fits values together -------------------------------------------------------------------------------------

    def adapt(self, x: Tensor, want: Tensor) -> Tensor:
        """A value in the type, quantisation and shape of another tensor."""
        if (x.type, x.quant) != (want.type, want.quant):
            x = self.op("DEQUANTIZE" if want.quant is None else "QUANTIZE", [x], want, x.shape)
        if x.shape == want.shape:
            return x
        if x.size != want.size:
            x = self._cut(x if len(x.shape) == 1 else self._reshape(x, (x.size,)), want.size)
        return x if x.shape == want.shape else self._reshape(x, want.shape)

    def _cut(self, x: Tensor, size: int) -> Tensor:
        """The first elements of a row, which is repeated before if it has too few."""
        times = -(-size // x.size)
        if times > 1:
            x = self.op("CONCATENATION", [x] * times, x, (x.size * times,), axis=0)
        bounds = [np.array([n], np.int32) for n in (0, size)]
        return x if x.size == size else self.op("SLICE", [x, *bounds], x, (size,))

    def _reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return self.op("RESHAPE", [x, np.array(shape, np.int32)], x, shape, new_shape=tuple(shape))

    def op(
        self, op: str, inputs: list[Tensor | Array], like: Tensor, shape: Sequence[int], **options: object
    ) -> Tensor:
        out = Tensor(f"t{len(self.builder.tensors)}", like.type, tuple(shape), like.quant)
        return self.builder.node(op, inputs, [out], options)[0]

    # -- the end -------------------------------------------------------------------------------------------------------

    def outputs(self) -> list[Tensor]:
        """What nobody reads, and sometimes another value."""
        read = {t for node in self.builder.nodes for t in node.inputs}
        written = [t for node in self.builder.nodes for t in node.outputs]
        ends = [t for t in written if t not in read and not t.variable]
        more = [t for t in written if t in self.pool and t not in ends and self.rng.random() < 0.2]
        return [*ends, *more]


def flows(tensor: Tensor) -> bool:
    """Whether a value can be turned into this tensor, and this tensor into others."""
    if tensor.type not in FLOWING or not tensor.size or tensor.variable:
        return False
    return (
        tensor.quant is None if tensor.type == "FLOAT32" else tensor.quant is not None and not tensor.quant.per_channel
    )


def random_graph(rng: Rng, name: str, ops: Sequence[str], refused: Counter[str]) -> Model:
    """A graph of the first operator and up to five others; the peers that may judge every node judge it."""
    growth = Growth(rng, name, refused)
    for _ in range(int(rng.integers(1, 3))):
        growth.begin()
    growth.add(ops[0])
    for _ in range(int(rng.integers(1, 6))):
        if rng.random() < 0.7:
            growth.add(str(rng.choice(np.array(ops))))
        else:
            growth.join()
    graph = growth.builder.graph(growth.outputs())
    judges = JUDGES["litert" if "litert" in growth.oracles else "tflm"]
    return Model(name, graph, runs(rng, graph, growth.given), judges, growth.tolerance)
