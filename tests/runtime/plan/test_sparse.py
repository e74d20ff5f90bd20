"""Layers of whose weights blocks are zero: kernels that skip these, where it pays, and the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from cases import WARNINGS, assert_exact_on, graph_of, interpreted, outputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but

from twinfer.aot.build.host import FLAGS, compile_plans
from twinfer.runtime.graph import Array, Graph, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.conv import conv2d
from twinfer.runtime.ops.core.layer_cases import Layer
from twinfer.runtime.ops.dense import fully_connected
from twinfer.runtime.options import Options
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operator
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import AVX2, AVX512_VNNI, DSP, GENERIC, HOST, MVE, TILES, Target

#: Targets whose kernels skip blocks, and how many output channels share one.
SKIPPING = {DSP: 1, MVE: 4, HOST: 16, AVX2: 16, AVX512_VNNI: 16}

LAYER = Layer(bound=9000, zeros=0.75)


def pointwise(tall: int = 16, size: int = 32, seed: int = 1) -> Node:
    rng = np.random.default_rng(seed)
    return conv2d._case(rng, (1, 6, 5, size), (size, 1, 1, size), LAYER._replace(tall=tall)).node


def dense(tall: int = 16, depth: int = 96, out: int = 48) -> Node:
    return fully_connected._case(np.random.default_rng(2), (1, depth), out, LAYER._replace(tall=tall)).node


def ran(graph: Graph, target: Target, options: Options | None = None) -> list[Array]:
    session = Session(make_plan(graph, target, options or Options()))
    session.feed(random_inputs(graph, seed=5))
    session.run()
    return [output.copy() for output in session.outputs()]


@pytest.mark.parametrize("target", SKIPPING, ids=lambda target: target.name)
@given(seed=st.integers(0, 2**32 - 1), pixels=st.integers(1, 9), zeros=st.floats(0.5, 1))
@settings(max_examples=25)
def test_any_pattern_gives_the_bits_of_the_reference(target: Target, seed: int, pixels: int, zeros: float) -> None:
    rng = np.random.default_rng(seed)
    k, depth, out = rng.integers(1, 4, 2), int(rng.integers(16, 90)), int(rng.integers(9, 40))
    layer = Layer(zero=int(rng.integers(-128, 128)), zeros=zeros, tall=SKIPPING[target])
    convolution = conv2d._case(rng, (1, 3, pixels, depth), (out, *map(int, k), depth), layer).node
    for node in (convolution, fully_connected._case(rng, (pixels, depth), out, layer).node):
        (x,) = random_inputs(graph_of(node), seed=5)
        (wanted,) = operator(node).reference(node, [x, *(t.data for t in node.inputs[1:] if t is not None)])
        np.testing.assert_array_equal(ran(graph_of(node), target)[0], wanted)


@pytest.mark.parametrize("target", SKIPPING, ids=lambda target: target.name)
@pytest.mark.parametrize("make", [pointwise, dense])
def test_blocks_are_found_by_the_constants(target: Target, make: Callable[[int], Node]) -> None:
    call, choice = lower_node(make(SKIPPING[target]), target, larger=make is dense)
    assert choice.variant.startswith("sparse_")
    assert 0.5 * call.macs <= call.skipped < call.macs


@pytest.mark.parametrize("target", [MVE, HOST, AVX2, AVX512_VNNI], ids=lambda target: target.name)
def test_channels_that_are_multiplied_at_once_must_share_their_zeros(target: Target) -> None:
    call, choice = lower_node(dense(SKIPPING[target] // 4), target)
    said = {name: reason for name, reason in choice.declined if name.startswith("sparse_")}
    assert call.skipped == 0
    assert f"of its blocks of {SKIPPING[target]} x 4 weights are zero, fewer than 50%" in "".join(said.values())


def test_few_zeros_do_not_pay() -> None:
    node = fully_connected._case(np.random.default_rng(2), (1, 64), 32, Layer(zeros=0.3)).node
    (name, reason), *_ = lower_node(node, DSP)[1].declined
    assert name == "sparse_dsp"
    assert reason.endswith("% of its blocks of 1 x 4 weights are zero, fewer than 50%")


def few_blocks() -> list[Node]:
    """Layers of one vector of channels, and of more, that keep 0 to 5 blocks of each channel."""
    nodes = []
    for kept, out, pixels in product(range(6), (16, 40), (1, 3)):
        convolution = conv2d._case(np.random.default_rng(kept), (1, 1, pixels, 64), (out, 1, 1, 64), Layer()).node
        for node in (convolution, fully_connected._case(np.random.default_rng(kept), (pixels, 64), out, Layer()).node):
            w = node.input(1)
            data = np.where(np.arange(64) < 4 * kept, w.data, 0).astype(np.int8)
            nodes.append(replace(node, inputs=(node.inputs[0], replace(w, data=data), *node.inputs[2:])))
    return nodes


@pytest.mark.parametrize("target", [HOST, AVX2], ids=lambda target: target.name)
def test_compilers_say_nothing_about_few_blocks(target: Target) -> None:
    plans = {f"n{i}": make_plan(graph_of(node), target) for i, node in enumerate(few_blocks())}
    assert sum("sparse" in plan.steps[0].call.kernel for plan in plans.values()) > len(plans) / 2
    for name, engine in compile_plans(plans, flags=(*FLAGS, *WARNINGS)).items():
        values = random_inputs(plans[name].graph)
        np.testing.assert_array_equal(
            outputs_of(engine, values)[0], interpreted(plans[name].graph, values, GENERIC, isa.level())[0]
        )


@pytest.mark.parametrize("core", deep_but(["cortex-m4", "cortex-m55"], "cortex-m4"))
def test_few_blocks_on_cores(core: str) -> None:
    assert_exact_on(core, [(node, random_inputs(graph_of(node))) for node in few_blocks()])


@pytest.mark.parametrize("target", [GENERIC, TILES], ids=lambda target: target.name)
def test_cores_without_multiplications_of_several_products_store_zeros(target: Target) -> None:
    assert lower_node(dense(), target)[0].skipped == 0


@pytest.mark.parametrize("target", SKIPPING, ids=lambda target: target.name)
def test_zeros_take_no_flash(target: Target) -> None:
    graph = graph_of(pointwise())
    whole = make_plan(graph, target, Options(weights_as="blob"))
    assert make_plan(graph, target).constant_bytes < 0.8 * whole.constant_bytes


@pytest.mark.parametrize(
    "options",
    [*(Options(weights=coding) for coding in ("auto", "bitmap", "lut")), Options(weights_as="paged")],
    ids=lambda options: f"{options.weights}-{options.weights_as}",
)
def test_coded_weights_and_those_exchanged_later_have_their_zeros(options: Options) -> None:
    for node in (pointwise(), dense()):
        plan = make_plan(graph_of(node), DSP, options)
        assert all(step.call.skipped == 0 for step in plan.steps)
        if options.weights_as == "linked":
            np.testing.assert_array_equal(ran(graph_of(node), DSP, options), ran(graph_of(node), DSP))


def chain() -> Graph:
    """Three pointwise layers, and a dense one that adds up their rows."""
    x = replace(pointwise().input(0), name="x")
    nodes, at = list[Node](), x
    for i in range(3):
        own = pointwise(seed=i)
        y = replace(own.output, name=f"y{i}")
        nodes.append(replace(own, inputs=(at, *own.inputs[1:]), outputs=(y,), index=i))
        at = y
    own = fully_connected._case(np.random.default_rng(4), (1, at.size), 24, LAYER._replace(tall=16)).node
    flat = tensor((1, at.size), "INT8", at.scale, at.zero, name="flat")
    nodes.append(Node("RESHAPE", (at,), (flat,), {"new_shape": [1, at.size]}, index=3))
    nodes.append(replace(own, inputs=(flat, *own.inputs[1:]), index=4))
    tensors = (x, *(t for node in nodes for t in (*node.inputs[1:], *node.outputs) if t is not None))
    return Graph("chain", tensors, tuple(nodes), (x,), nodes[-1].outputs)


@pytest.mark.parametrize("target", [DSP, MVE], ids=lambda target: target.name)
def test_a_dense_layer_needs_scratch_memory_and_is_taken_where_that_is_worth_it(target: Target) -> None:
    graph, kernel = graph_of(dense(4, 640, 64)), f"tw_conv2d_sparse_{target.name}_s8"
    assert make_plan(graph, target).steps[0].call.kernel == kernel
    for options in (Options(memory="rows"), Options(ram=2000)):
        assert make_plan(graph, target, options).steps[0].call.kernel != kernel


@pytest.mark.parametrize("target", [DSP, MVE], ids=lambda target: target.name)
def test_rows_give_the_same_bits(target: Target) -> None:
    graph = chain()
    rows = make_plan(graph, target, Options(memory="rows"))
    assert any(step.call.kernel.startswith("tw_conv2d_sparse_") for step in rows.steps)
    assert rows.arena_bytes < make_plan(graph, target, Options(memory="layers")).arena_bytes
    wanted = ran(graph, GENERIC, Options(memory="layers"))
    for memory in ("rows", "layers"):
        np.testing.assert_array_equal(ran(graph, target, Options(memory=memory)), wanted)
