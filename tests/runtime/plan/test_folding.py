"""PAD folded into the windows behind it: the same bits as with a padded image, which then is nowhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import SEED, compiled_together, outputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but
from pad_nets import CONVOLUTIONS, KINDS, network, padded
from unsigned_nets import Net

from twinfer.aot.print.emit import emit
from twinfer.bench.peers.engines import open_peer
from twinfer.command_line.show.description import planned_nodes
from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.conv._layer import geometry
from twinfer.runtime.ops.core.layer_cases import Layer
from twinfer.runtime.ops.pool import pool_2d
from twinfer.runtime.options import Memory, Mode, Options
from twinfer.runtime.passes.folding import FOLDED
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, HOST, TARGETS, Target
from twinfer.runtime.write.tflite import write


def folds(plan: Plan) -> int:
    """How many layers have taken a border."""
    return sum(FOLDED in step.node.options for step in plan.steps)


def ran(plan: Plan, seed: int = 1) -> list[Array]:
    return outputs_of(Session(plan), random_inputs(plan.graph, seed))


def apart(graph: Graph, target: Target = HOST) -> list[Array]:
    """The outputs with the padded image in memory."""
    plan = make_plan(graph, target, Options(preserve_all=True))
    assert not folds(plan)
    assert len(plan.steps) > 1
    return ran(plan)


def same(got: list[Array], want: list[Array]) -> None:
    for mine, other in zip(got, want, strict=True):
        assert mine.tobytes() == other.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", CONVOLUTIONS)
@given(seed=st.integers(0, 1 << 20), target=st.sampled_from(TARGETS), memory=st.sampled_from(["layers", "rows"]))
@settings(max_examples=60, deadline=None)
def test_interpreted(op: str, kind: str, seed: int, target: Target, memory: Memory) -> None:
    graph = network(seed, op, kind)
    plan = make_plan(graph, target, Options(memory=memory))
    assert folds(plan) == len(plan.steps) == 1 or graph.nodes[0].input(0).shape == graph.nodes[0].output.shape
    same(ran(plan), apart(graph, target))


def graphs(count: int) -> dict[str, Graph]:
    return {f"n{i}": network(SEED + i, CONVOLUTIONS[i % 2], KINDS[i // 2 % 4]) for i in range(count)}


@pytest.mark.parametrize("mode", deep_but(["compiled", "interpreted"], "compiled"))
def test_compiled(mode: Mode) -> None:
    models, options = graphs(20), Options(mode=mode)
    plans = {
        name: make_plan(graph, TARGETS[i % len(TARGETS)], options) for i, (name, graph) in enumerate(models.items())
    }
    for name, session in compiled_together(plans).items():
        same(outputs_of(session, random_inputs(models[name], 1)), apart(models[name]))


@pytest.mark.parametrize("op", CONVOLUTIONS)
def test_litert_gives_the_same(op: str) -> None:
    for seed in range(20):
        graph = network(seed, op, "INT8")
        inputs = random_inputs(graph, 1)
        same(ran(make_plan(graph)), open_peer("litert-ref", write(graph), 1)(inputs))


def one(value: float | None = None, **options: Any) -> Graph:
    """A 3x3 convolution of int8 behind one pixel of padding on every side."""
    case = Layer().case(
        np.random.default_rng(1), "CONV_2D", ((1, 8, 9, 4), (4, 3, 3, 4)), lambda n: geometry(n).shape,
        {"padding": "VALID", "stride_h": 1, "stride_w": 1, **options},
    )  # fmt: skip
    return padded(case.node, (1, 1, 1, 1), value)


@pytest.mark.parametrize("target", [GENERIC, DSP, HOST], ids=lambda target: target.name)
@pytest.mark.parametrize("side", range(4))
@pytest.mark.parametrize("width", [2, 3, 4, 5])
def test_every_window_sees_the_image(width: int, side: int, target: Target) -> None:
    """A border as wide as a window, before or behind the image, along rows or columns, stays in memory."""
    case = Layer().case(
        np.random.default_rng(side), "CONV_2D", ((1, 8, 9, 4), (4, 3, 4, 4)), lambda n: geometry(n).shape,
        {"padding": "VALID", "stride_h": 1, "stride_w": 1},
    )  # fmt: skip
    graph = padded(case.node, (*(0,) * side, width, *(0,) * (3 - side)))  # type: ignore[arg-type]
    plan = make_plan(graph, target)
    assert folds(plan) == (width < (3 if side < 2 else 4))
    same(ran(plan), apart(graph, target))


def test_what_is_folded_is_in_the_plan() -> None:
    plan = make_plan(one(), DSP)
    (node,) = plan.graph.nodes
    assert (node.op, node.options["padding"], node.options[FOLDED]) == ("CONV_2D", ((1, 1), (1, 1)), 0)
    assert plan.arena_bytes < make_plan(one(), DSP, Options(preserve_all=True)).arena_bytes
    pad, conv = (each for each, _ in planned_nodes(one(), make_plan(one())))
    assert (pad.op, pad.options[FOLDED], conv.index) == ("PAD", 1, 1)
    files = emit(plan, "m").files
    assert any("the padding is operator 0 of the model" in text for text in files.values())


def test_padding_same_without_padding_of_its_own_is_valid() -> None:
    assert folds(make_plan(one(padding="SAME"))) == 0  # the convolution adds a border to the border
    small = Layer().case(
        np.random.default_rng(1), "CONV_2D", ((1, 3, 3, 4), (4, 3, 3, 4)), lambda n: geometry(n).shape,
        {"padding": "SAME", "stride_h": 3, "stride_w": 3},
    )  # fmt: skip
    graph = padded(small.node, (1, 0, 1, 0))
    assert folds(make_plan(graph)) == 1
    same(ran(make_plan(graph)), apart(graph))


def reads(graph: Graph, tensor: Tensor) -> Graph:
    """The graph with a RELU that reads a tensor, too."""
    y = replace(tensor, name="y2")
    node = Node("RELU", (tensor,), (y,), {}, index=2)
    return replace(graph, tensors=(*graph.tensors, y), nodes=(*graph.nodes, node), outputs=(*graph.outputs, y))


def test_two_convolutions_take_one_border() -> None:
    graph = one()
    pad, conv = graph.nodes
    y = replace(conv.output, name="y2")
    twin = replace(conv, outputs=(y,), index=2)
    two = replace(graph, tensors=(*graph.tensors, y), nodes=(pad, conv, twin), outputs=(*graph.outputs, y))
    plan = make_plan(two)
    assert folds(plan) == 2
    same(ran(plan), apart(two))


def deeper() -> Graph:
    """PAD of rows and of channels before a convolution of two groups."""
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    shapes, rng = ((1, 5, 5, 8), (4, 3, 3, 4)), np.random.default_rng(2)
    graph = padded(Layer().case(rng, "CONV_2D", shapes, lambda n: geometry(n).shape, options).node, (1, 1, 1, 1))
    pad, conv = graph.nodes
    x, around = replace(pad.input(0), shape=(1, 3, 3, 4)), pad.input(1)
    wide = replace(around, data=np.array([[0, 0], [1, 1], [1, 1], [2, 2]], np.int32))
    tensors = (x, *(wide if t is around else t for t in graph.tensors[1:]))
    return replace(graph, inputs=(x,), tensors=tensors, nodes=(replace(pad, inputs=(x, wide)), conv))


def test_what_must_stay() -> None:
    """A border of channels, of another value or scale than the image, with another reader, or that is an output."""
    graph = one()
    pad, conv = graph.nodes
    rescaled = replace(pad.input(0), quant=tensor((1,), "INT8", 0.1, 3).quant)
    other_scale = replace(
        graph, inputs=(rescaled,), tensors=(rescaled, *graph.tensors[1:]),
        nodes=(replace(pad, inputs=(rescaled, pad.input(1))), conv),
    )  # fmt: skip
    stay = [
        deeper(),
        one(value=4),
        reads(graph, pad.output),
        other_scale,
        replace(graph, outputs=(*graph.outputs, pad.output)),
    ]
    for each in stay:
        assert folds(make_plan(each)) == 0
        same(ran(make_plan(each)), apart(each))
    assert folds(make_plan(one(value=3))) == 1


def pool(op: str, zero: int, kind: str = "INT8") -> Graph:
    x = tensor((1, 8, 9, 4), kind, *((0.05, zero) if kind != "FLOAT32" else ()), name="padded")
    options = {"filter_height": 3, "filter_width": 3, "stride_h": 2, "stride_w": 2, "padding": "VALID"}
    node = Node(op, (x,), (), {**options, "fused_activation_function": "NONE"})
    y = replace(x, name="y", shape=pool_2d.geometry(node).shape)
    return padded(replace(node, outputs=(y,)), (1, 1, 1, 1))


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_the_maximum_takes_a_border_of_the_least_value(target: Target) -> None:
    graph = pool("MAX_POOL_2D", -128)
    plan = make_plan(graph, target)
    assert folds(plan) == 1
    same(ran(plan), apart(graph, target))


@pytest.mark.parametrize(
    "graph", [pool("MAX_POOL_2D", -127), pool("AVERAGE_POOL_2D", -128), pool("MAX_POOL_2D", 0, "FLOAT32")]
)
def test_other_pools_see_the_border(graph: Graph) -> None:
    assert folds(make_plan(graph)) == 0


def test_uint8_is_folded_as_int8_is() -> None:
    """The zero point of uint8 is 128 more; the node becomes one of int8 afterwards."""
    net = Net(3, (1, 8, 9, 4))
    y = net.conv(net.input, (8, 3, 3, 4), 120, "NONE")
    (node,) = net.nodes
    valid = replace(node, options={**node.options, "padding": "VALID"}, outputs=(replace(y, shape=(1, 6, 7, 8)),))
    graph = padded(valid, (1, 1, 0, 2))
    assert folds(make_plan(graph)) == 1
    same(ran(make_plan(graph)), apart(graph))


@pytest.mark.parametrize("weight", [np.inf, np.nan])
def test_weights_that_are_no_numbers_see_the_border(weight: float) -> None:
    """0 * inf is no number."""
    graph = network(3, "CONV_2D", "FLOAT32")
    pad, conv = graph.nodes
    values = np.array(conv.input(1).data)
    values.flat[0] = weight
    w = replace(conv.input(1), data=values)
    changed = replace(conv, inputs=(conv.input(0), w, *conv.inputs[2:]))
    tensors = tuple(w if t is conv.input(1) else t for t in graph.tensors)
    assert folds(make_plan(replace(graph, tensors=tensors, nodes=(pad, changed)))) == 0
