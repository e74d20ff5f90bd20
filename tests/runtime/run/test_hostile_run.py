"""Damaged graphs on the whole way to a run: only TwinferError may come out, and no byte outside a block changes.

Every operator's cases and some real models are changed in a few places: shapes, options, constants, types,
quantisation, connections. If the graph can still be planned, it runs in guard mode, where every step may touch only its
own memory, and with all tensors in separate memory: both must give the same outputs.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from cases import graph_of
from damage import Damage, damaged, victims
from limits import cpu_below
from needs import deep_but

from twinfer.runtime.check import check
from twinfer.runtime.errors import InvalidArgumentError, ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Node, Quant, Tensor
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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rounds", deep_but([40, 250], 40))
@pytest.mark.parametrize("op", operators())
def test_damaged_graphs(op: str, rounds: int) -> None:
    rng = random.Random(op)
    ran = 0
    for seed in range(rounds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = damaged(rng.choice(victims(op)), rng)
        try:
            ran += runs(graph, seed)
        except TwinferError as error:
            assert len(str(error)) > 20  # noqa: PT017
            assert "do not fit together" not in str(error), "it deserves a message of its own"  # noqa: PT017
    assert 0 < ran < rounds


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
