"""Damaged graphs on the whole way to a run: only TwinferError may come out, and no byte outside a block changes.

Every operator's cases and some real models are changed in a few places: shapes, options, constants, types,
quantisation, connections. If the graph can still be planned, it runs in guard mode, where every step may touch only its
own memory, and with all tensors in separate memory: both must give the same outputs.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from cases import cases_of, graph_of
from limits import cpu_below

from twinfer.runtime.check import check
from twinfer.runtime.errors import InvalidArgumentError, ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, Graph, Node, Quant, Tensor
from twinfer.runtime.op import tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators
from twinfer.runtime.run.guard import Guard, spread
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.shapes import infer_node, infer_shapes
from twinfer.runtime.target import GENERIC, HOST, TARGETS

ROUNDS = 250

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
        return self.rng.choice(choices[type(value)])

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
        self.node(op=lambda _: self.rng.choice(list(operators())))


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


def runs(graph: Graph, seed: int) -> bool:
    """Plans the graph, and runs it twice if it is small. Returns whether it ran."""
    target = HOST if seed % 3 else GENERIC
    plan = make_plan(graph, target)
    if plan.macs > 1 << 22 or plan.arena_bytes > 1 << 20:
        return False
    shared, apart = Session(spread(plan)), Session(make_plan(graph, target, options=Options(preserve_all=True)))
    for engine in (shared, apart):
        values = random_inputs(engine.plan.graph, seed)
        for t, value in zip(engine.plan.graph.inputs, values, strict=True):
            if t.data is None:
                engine.view(t)[...] = value
    Guard(shared).run()
    apart.run()
    pairs = zip(shared.plan.graph.outputs, apart.plan.graph.outputs, strict=True)
    assert all(shared.view(a).tobytes() == apart.view(b).tobytes() for a, b in pairs)
    return True


@cache
def victims(op: str) -> list[Graph]:
    graphs = [graph_of(case.node) for case in cases_of(op).values()]
    return [g for g in graphs if sum(t.size for t in g.tensors) < 4000]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("op", operators())
def test_damaged_graphs(op: str) -> None:
    rng = random.Random(op)
    ran = 0
    for seed in range(ROUNDS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = damaged(rng.choice(victims(op)), rng)
        try:
            ran += runs(graph, seed)
        except TwinferError as error:
            assert len(str(error)) > 20  # noqa: PT017
            assert "do not fit together" not in str(error), "it deserves a message of its own"  # noqa: PT017
    assert 0 < ran < ROUNDS


def refused(graph: Graph, message: str, error: type[TwinferError] = ModelError) -> None:
    for target in TARGETS:
        with pytest.raises(error, match=message):
            make_plan(graph, target)


def dense(rows: int = 1, **weights: Any) -> Graph:
    """FULLY_CONNECTED int8 8 -> 4; ``weights`` changes the tensor of its weights."""
    x, y = tensor((rows, 8), "INT8", 0.5, 3, name="x"), tensor((rows, 4), "INT8", 0.5, 3, name="y")
    w = tensor((4, 8), "INT8", 0.5, data=np.ones((4, 8)), name="w")
    return graph_of(Node("FULLY_CONNECTED", (x, replace(w, **weights)), (y,)))


def relu(x: Tensor, y: Tensor) -> Node:
    return Node("RELU", (x,), (y,))


def test_a_node_may_not_write_what_it_reads_or_what_is_given() -> None:
    x, y = tensor((4,), name="x"), tensor((4,), name="y")
    with pytest.raises(ModelError, match=r"writes tensor 'y' .* which is an input of the graph"):
        check(Graph("g", (x, y), (relu(x, y),), (x, y), (y,)))
    state = replace(y, variable=True)
    with pytest.raises(ModelError, match=r"writes tensor 'y' .* which it reads, too"):
        check(Graph("g", (state,), (relu(state, state),), (), (state,)))
    with pytest.raises(ModelError, match=r"'y' .* is a variable and a constant"):
        check(Graph("g", (replace(state, data=np.zeros(4, np.float32)),), (), (), ()))
    with pytest.raises(ModelError, match=r"input tensor 'x' .* is not in the graph"):
        check(Graph("g", (y,), (), (x,), ()))


def test_constants_that_are_not_what_their_tensor_says() -> None:
    sparse = MappingProxyType({"sparsity": {"traversal_order": (0, 1)}})
    refused(dense(extra=sparse, data=np.zeros(3, np.int8)), "'w' .* is stored sparsely, but .* incomplete .*block_map")
    refused(dense(data=np.zeros((4, 7), np.int8)), r"the value of tensor 'w' INT8\[4, 8\] is int8\[4, 7\]")
    refused(dense(data=np.zeros((4, 8), np.int16)), "is int16")


def test_a_constant_input_cannot_be_resized() -> None:
    """It would be read beyond its end."""
    x, y = tensor((2,), data=np.ones(2), name="x"), tensor((2,), name="y")
    graph = Graph("g", (x, y), (relu(x, y),), (x,), (y,))
    with pytest.raises(InvalidArgumentError, match=r"'x' .* is a constant of the model and cannot be resized"):
        Interpreter.from_graph(graph).resize_tensor_input(0, [1000])
    with pytest.raises(InvalidArgumentError, match=r"'x' .* is a constant of the model and cannot be resized"):
        infer_shapes(graph, {x: (1000,)})


@pytest.mark.parametrize("zero", [-129, 128, 2**40, -(2**63)])
def test_zero_points_outside_of_their_type(zero: int) -> None:
    refused(dense(quant=Quant.per_tensor(0.5, zero)), "'w' .* has zero points outside of its type")
    graph = dense()
    x = graph.inputs[0]
    refused(Damage(graph, random.Random(0)).with_(x, replace(x, quant=Quant.per_tensor(0.5, zero))), "'x' .* outside")
    state = Tensor("state", "INT8", (4,), Quant.per_tensor(0.5, zero), variable=True)
    with pytest.raises(ModelError, match=r"'state' .*: zero point .* is outside its type"):
        Session(make_plan(Graph("g", (state,), (), (), (state,))))


def test_a_bias_of_any_rank() -> None:
    """TFLite only counts its elements."""
    (node,) = dense(rows=2).nodes
    for shape in ((4,), (1, 4), (4, 1)):
        bias = tensor(shape, "INT32", 0.25, data=np.arange(4).reshape(shape) * 100, name="b")
        for target in TARGETS:
            engine = Session(make_plan(graph_of(replace(node, inputs=(*node.inputs, bias))), target))
            engine.run()
            assert engine.view(node.output)[1].tolist() == [-9, 41, 91, 127]


def test_absurd_extents_take_neither_time_nor_memory() -> None:
    wide = tensor((1 << 25, 8), "INT8", 0.5, name="w")
    x = tensor((1, 8), "INT8", 0.5, name="x")
    y = tensor((1, 1 << 25), "INT8", 0.5, name="y")
    refused(graph_of(Node("FULLY_CONNECTED", (x, wide), (y,))), "33554432 output channels", UnsupportedOperatorError)
    size = tensor((1 << 20, 1 << 20, 0), "INT32", data=np.zeros((1 << 20, 1 << 20, 0)), name="size")
    image = tensor((1, 2, 2, 1), name="x")
    with pytest.raises(ModelError, match=r"the new size \(tensor 'size'"):
        infer_node(Node("RESIZE_BILINEAR", (image, size), (replace(image, name="y"),)))
    empty = tensor((2**31 - 1, 2**31 - 1, 0), name="x")
    refused(graph_of(relu(empty, replace(empty, name="y"))), "takes 2 GiB or more")
    long = tensor((1, 1 << 28, 1, 2), "INT8", 0.5, name="x")
    k = tensor((1, 3, 1, 2), "INT8", 0.5, data=np.ones((1, 3, 1, 2)), name="k")
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"}
    valid = Node("DEPTHWISE_CONV_2D", (long, k), (replace(long, name="y"),), options)
    assert make_plan(graph_of(valid), HOST).steps[0].call.kernel == "tw_depthwise_conv2d_s8"


def test_index_arguments_of_odd_types() -> None:
    x, y = tensor((2, 3), name="x"), tensor((3,), name="y")
    axes = tensor((1,), "COMPLEX64", data=np.zeros(1), name="axes")
    for op in ("MEAN", "RESHAPE", "EXPAND_DIMS"):
        refused(graph_of(Node(op, (x, axes), (y,))), "'axes' COMPLEX64.* supported: INT32", UnsupportedOperatorError)


def test_a_transpose_of_nothing() -> None:
    order = tensor((3,), "INT32", data=np.array([2, 0, 1]), name="order")
    node = Node("TRANSPOSE", (tensor((0, 20, 30), "INT8"), order), (tensor((30, 0, 20), "INT8"),))
    for target in TARGETS:
        assert make_plan(graph_of(node), target).steps == ()


def test_missing_options_are_named() -> None:
    x = tensor((1, 2, 2, 1), name="x")
    refused(graph_of(Node("MAX_POOL_2D", (x,), (replace(x, name="y"),))), "its option 'filter_height' is missing")


def test_scales_that_float32_cannot_divide() -> None:
    """The fused activation then has the range of the type."""
    x, y = (tensor((4,), "INT8", 1e-45, name=name) for name in "xy")
    node = Node("ADD", (x, x), (y,), {"fused_activation_function": "RELU6"})
    assert make_plan(graph_of(node)).steps[0].call.params["high"] == 127


def test_thousands_of_tensors_are_placed_quickly() -> None:
    x = tensor((2,), name="x")
    results = [tensor((2,), name=f"y{i}") for i in range(1500)]
    nodes = tuple(replace(relu(x, y), index=i) for i, y in enumerate(results))
    with cpu_below(4):
        size = make_plan(Graph("fan", (x, *results), nodes, (x,), tuple(results))).arena_bytes
    assert size == 16 * 1500 - 8  # the last takes over x
