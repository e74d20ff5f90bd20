"""Whole networks of uint8, as converters of 2017 to 2019 wrote them, against LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import outputs_of
from unsigned import meaning
from unsigned_nets import NETS, WINDOW, Net, detector, limits, mobilenet

from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.graph import Array, Graph, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.options import Options
from twinfer.runtime.passes.unsigned import make_signed
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, HOST, MVE, Target
from twinfer.runtime.write.tflite import write


def runs(graph: Graph) -> list[Array]:
    rng = np.random.default_rng(7)
    return [rng.integers(0, 256, graph.inputs[0].shape).astype(np.uint8) for _ in range(3)]


@pytest.mark.parametrize("net", [*NETS.values(), limits], ids=lambda net: net.__name__)
@pytest.mark.parametrize("target", [HOST, GENERIC, DSP, MVE], ids=lambda t: t.name)
def test_networks_have_litert_s_bits(net: Callable[[], Graph], target: Target) -> None:
    graph = net()
    peer, session = open_peer("litert-ref", write(graph), len(graph.outputs)), Session(make_plan(graph, target), 0)
    for value in runs(graph):
        wanted, ours = peer([value]), outputs_of(session, [value])
        by_numpy = meaning(graph, {graph.inputs[0]: value})
        for want, got, said in zip(wanted, ours, by_numpy, strict=True):
            assert want.std() > 0
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(said, want)


def test_borders_are_few() -> None:
    """Only the input, the map that is resized (in float32 over bytes) and the outputs are flipped.

    One of these is so in the table of the LOGISTIC before it.
    """
    graph = detector()
    flips = [step for step in make_plan(graph).steps if step.call.kernel == "tw_flip"]
    assert [step.node.input(0).type for step in flips] == ["UINT8", "INT8", "UINT8", "INT8", "INT8"]
    assert make_plan(mobilenet()).graph.inputs[0].type == "UINT8"


def test_weights_that_fit_without_their_zero_point_take_the_fast_kernels() -> None:
    net = Net(3, (1, 5, 5, 4))
    x = net.conv(net.input, (8, 1, 3, 4), 128, "NONE")
    narrow = net.constant(net.rng.integers(60, 170, (8, 1, 1, 8)), "UINT8", 0.01, 100)
    b = net.constant(np.zeros(8), "INT32", float(np.float32(x.scale) * np.float32(0.01)))
    y = net.add("CONV_2D", (x, narrow, b), net.value(x.shape, 0.1, 3), **WINDOW, fused_activation_function="NONE")
    kernels = [step.call.kernel for step in make_plan(net.graph(y), DSP, Options(optimize="size")).steps]
    assert kernels == ["tw_flip", "tw_conv2d_dsp_s8", "tw_conv2d_dsp_s8", "tw_flip"]


def test_every_tensor_can_be_kept() -> None:
    """Intermediate values are uint8 again, as LiteRT gives them."""
    graph = mobilenet()
    ours = Interpreter.from_graph(graph, Options(preserve_all=True))
    ours.allocate_tensors()
    (value,) = runs(graph)[:1]
    ours.set_tensor(0, value)
    ours.invoke()
    from ai_edge_litert.interpreter import Interpreter as Theirs
    from ai_edge_litert.interpreter import OpResolverType

    kind = OpResolverType.BUILTIN_REF
    theirs: Any = Theirs(
        model_content=write(graph), experimental_op_resolver_type=kind, experimental_preserve_all_tensors=True
    )
    theirs.allocate_tensors()
    theirs.set_tensor(0, value)
    theirs.invoke()
    for node in graph.nodes:
        at = graph.tensors.index(node.output)
        np.testing.assert_array_equal(ours.get_tensor(at), theirs.get_tensor(at), err_msg=str(node))


def test_graphs_without_uint8_stay() -> None:
    x, y = tensor((3,), name="x"), tensor((3,), name="y")
    graph = Graph("float", (x, y), (Node("RELU", (x,), (y,)),), (x,), (y,))
    assert make_signed(graph) is graph
    raw = tensor((3,), "UINT8", name="raw")  # no quantisation: just bytes
    moved = Graph("raw", (raw, y), (Node("CAST", (raw,), (y,)),), (raw,), (y,))
    assert make_signed(moved) is moved


@pytest.mark.parametrize("shape", [(), (1,)])
def test_constants_of_one_byte_are_flipped(shape: tuple[int, ...]) -> None:
    """A scalar, too: numpy makes other values of 0-dimensional arrays than arrays."""
    quant = ("UINT8", 0.5, 128)
    x, y = tensor(shape, *quant, name="x"), tensor(shape, *quant, name="y")
    node = Node("MAXIMUM", (x, tensor(shape, *quant, data=np.array(131), name="c")), (y,))
    plan = make_plan(Graph("one", (*node.inputs, y), (node,), (x,), (y,)))  # type: ignore[arg-type]
    for value in (7, 200):
        (got,) = outputs_of(Session(plan, 0), [np.full(shape, value, np.uint8)])
        assert got.tolist() == np.full(shape, max(value, 131)).tolist()
