"""Quantisation: results run in the public runtimes with our integers, and keep TFLite's rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import outputs_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from needs import deep_but
from random_graphs import LAYERS, random_graph, random_samples

from twinfer.bench.models.builtin import float_model, samples
from twinfer.bench.models.topologies import NETS
from twinfer.bench.peers.engines import open_peer
from twinfer.converter.build import Builder
from twinfer.converter.convert import convert
from twinfer.converter.passes.equalize import equalize
from twinfer.converter.quantize.calibrate import calibrate
from twinfer.converter.quantize.methods import METHODS
from twinfer.converter.quantize.quantize import Options, quantize
from twinfer.converter.quantize.recipe import Choice, Recipe
from twinfer.converter.quantize.rounding import WINDOWS, adaptive, grams
from twinfer.converter.quantize.weights import Layer, integers, weight_quant, with_weights
from twinfer.converter.table import parameters_of, row_of
from twinfer.runtime.affine import dequantize
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Node, Quant
from twinfer.runtime.options import Options as PlanOptions
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operator, operators
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write

layer_lists = st.lists(st.sampled_from(list(LAYERS)), min_size=1, max_size=5)

#: TFLM rounds ties of LEAKY_RELU as its compiler divides the scales (LiteRT and we: as float32), shifts too far in DIV,
#: and has no int8 kernels for EXP, LOG and SQRT.
TFLM = sorted(set(LAYERS) - {"leaky", "exp", "log", "sqrt", "div"})
tflm_lists = st.lists(st.sampled_from(TFLM), min_size=1, max_size=5)
seeds = st.integers(0, 2**32 - 1)


def ours(graph: Graph, values: list[Any]) -> list[Any]:
    return outputs_of(Session(make_plan(graph, options=PlanOptions(preserve_all=True))), values)


@contextmanager
def finite_values() -> Iterator[None]:
    """Leaves out random graphs that overflow floats, such as EXP of EXP."""
    try:
        yield
    except InvalidArgumentError as error:
        assume("takes the value inf" not in str(error))
        raise


def quantized(graph: Graph, seed: int = 0, recipe: Recipe | None = None, options: Options | None = None) -> Graph:
    with finite_values():
        seen = calibrate(graph, random_samples(seed, graph, 4))
    return quantize(graph, seen, recipe or Recipe(), options or Options())


def snr_db(want: list[Any], got: list[Any]) -> float:
    x, y = (np.concatenate([np.asarray(v, np.float64).reshape(-1) for v in side]) for side in (want, got))
    return float(10 * np.log10((x @ x) / max((x - y) @ (x - y), 1e-30)))


def assert_same(got: list[Any], want: list[Any]) -> None:
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, np.asarray(w).reshape(g.shape))


# -- whatever the graph ------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(layers=tflm_lists, seed=seeds, border=st.sampled_from([None, "FLOAT32"]), corrected=st.booleans())
def test_tflm_has_our_integers_and_litert_runs_it(
    layers: list[str], seed: int, border: str | None, corrected: bool
) -> None:
    integer = quantized(random_graph(seed, layers), seed, options=Options(border, corrected))
    content, values = write(integer), random_inputs(integer, seed)
    assert_same(ours(integer, values), open_peer("tflm", content, len(integer.outputs))(values))
    for got, tensor in zip(
        open_peer("litert-ref", content, len(integer.outputs))(values), integer.outputs, strict=True
    ):
        assert got.dtype == tensor.dtype


@pytest.mark.filterwarnings("ignore:the int. model.s output:twinfer.runtime.errors.ModelWarning")
@settings(max_examples=40, deadline=None)
@given(layers=tflm_lists, seed=seeds, mode=st.sampled_from(["int8", "int4"]))
def test_passes_and_quantisation_together(layers: list[str], seed: int, mode: str) -> None:
    graph = random_graph(seed, layers)
    data = random_samples(seed, graph, 4)
    converted = convert(graph, quantize=mode, calibration=data, bias_correction=True, adaptive_rounding=True)
    values = random_inputs(converted, seed)
    assert_same(ours(converted, values), open_peer("tflm", write(converted), len(converted.outputs))(values))


def of_whole_steps(graph: Graph) -> Graph:
    """The graph with weights that are whole 127ths of the greatest one in their channel."""
    rounded = {}
    for node in graph.nodes:
        at = parameters_of(node)
        if at is not None:
            weights = node.input(at.weights)
            others = tuple(a for a in range(len(weights.shape)) if a != at.axis)
            step = np.abs(weights.data).max(axis=others, keepdims=True) / 127
            rounded[weights] = replace(weights, data=np.rint(weights.data / step) * step)
    nodes = (replace(n, inputs=tuple(t and rounded.get(t, t) for t in n.inputs)) for n in graph.nodes)
    return replace(graph, nodes=tuple(nodes), tensors=tuple(rounded.get(t, t) for t in graph.tensors))


#: Steps of 16 bits by which an operator may be off from the floats of the integers that it reads; one where none is
#: said: half for the result, half for what is rounded before. LOGISTIC, TANH and SOFTMAX have tables of 513 values,
#: RSQRT a root of 20 bits. The converter keeps other functions in float where they are off by 1/1000 (33 steps).
#: Weights of RESIZE_BILINEAR are whole 1024ths, two of them in a product.
STEPS = {"LOGISTIC": 3, "TANH": 3, "SOFTMAX": 3, "RSQRT": 3, "EXP": 33, "LOG": 33, "GELU": 33, "RESIZE_BILINEAR": 33}


def as_float(node: Node) -> Node:
    """The node with floats in place of integers that have a scale."""
    inputs, outputs = (
        tuple(t if t is None or t.quant is None else replace(t, type="FLOAT32", quant=None, data=None) for t in ends)
        for ends in (node.inputs, node.outputs)
    )
    return replace(node, inputs=inputs, outputs=outputs)


@settings(max_examples=30, deadline=None)
@given(layers=layer_lists, seed=seeds)
def test_int16x8_loses_only_rounding(layers: list[str], seed: int) -> None:
    """Every operator of int16 gives what floats give for the same inputs, to a step or a few; LiteRT gives our bits.

    A whole graph may lose more: what RSQRT, LOG or DIV reads is rounded to steps of its range, which are coarse near 0.
    """
    graph = of_whole_steps(random_graph(seed, layers))
    integer = quantized(graph, seed, Recipe(default=Choice("int16x8")), Options("FLOAT32"))
    sample = list(random_samples(seed, graph, 1)[0].values())
    session = Session(make_plan(integer, options=PlanOptions(preserve_all=True)))
    session.feed(sample)
    session.run()
    for node in (n for n in integer.nodes if n.output.type == "INT16" and n.op != "QUANTIZE"):
        read = [None if t is None else session.view(t) if t.data is None else t.data for t in node.inputs]
        values = [
            v if t is None or t.quant is None else dequantize(v, t.quant).astype(np.float32)
            for t, v in zip(node.inputs, read, strict=True)
        ]
        for y, want in zip(node.outputs, operators()[node.op].reference(as_float(node), values), strict=True):
            steps = (want.astype(np.float64) / y.scale).clip(-32768, 32767).reshape(y.shape)
            np.testing.assert_allclose(
                session.view(y), steps, rtol=0, atol=STEPS.get(node.op, 1) + 0.01, err_msg=str(y)
            )
    own = {n.op for n in integer.nodes if n.output.type == "INT16"}
    if "RSQRT" in own:  # LiteRT's is a table, TFLM's and ours are not
        return
    peer = "litert" if "SUM" in own else "litert-ref"  # whose SUM of int16 adds stored bits
    theirs, got = open_peer(peer, write(integer), len(integer.outputs))(sample), session.outputs()
    if "FULLY_CONNECTED" in own:  # whose sums LiteRT scales in float64, so that a step may differ, which others amplify
        assert snr_db(got, theirs) > 60
    else:
        assert_same(theirs, got)


@pytest.mark.parametrize(
    ("op", "low", "high", "type"),
    [
        ("EXP", -1, 1, "INT16"), ("EXP", -15, 4, "FLOAT32"), ("LOG", 0.5, 4, "INT16"), ("LOG", 0.01, 4, "FLOAT32"),
        ("GELU", -8, 8, "INT16"), ("RSQRT", 0.01, 4, "INT16"), ("LOGISTIC", -99, 99, "INT16"),
    ],
)  # fmt: skip
def test_functions_that_int16_holds_badly_stay_float(op: str, low: float, high: float, type: str) -> None:
    """What int16 adds to the rounding of the input is at most 1/1000 of the largest output; else it is float."""
    b = Builder("function")
    graph = b.graph([b.op(op, [b.input("x", "FLOAT32", (1, 999))])], signature="serving_default")
    x = np.linspace(low, high, 999, dtype=np.float32)[None]
    integer = quantize(graph, calibrate(graph, [{"x": x}]), Recipe(default=Choice("int16x8")), Options("FLOAT32"))
    (node,) = [node for node in integer.nodes if node.op == op]
    assert node.input(0).type == type
    seen = x if type == "FLOAT32" else np.rint(x / np.float32(node.input(0).scale)) * np.float32(node.input(0).scale)
    (want,), (got,) = ours(graph, [seen.astype(np.float32)]), ours(integer, [x])
    assert np.abs(got - want).max() <= 1.1e-3 * np.abs(want).max()


@settings(max_examples=60, deadline=None)
@given(layers=layer_lists, seed=seeds)
def test_fixed_and_same_scales_and_bias_scales(layers: list[str], seed: int) -> None:
    integer = quantized(random_graph(seed, layers), seed)
    for node in integer.nodes:
        row = row_of(node)
        if not row.types or node.output.type != "INT8":
            continue
        if row.scales.fixed8:
            assert (node.output.scale, node.output.zero) == row.scales.fixed8
        if row.scales.same:
            assert all(node.input(i).quant == node.output.quant for i in row.scaled(node))
        if row.parameters is not None:
            weights, bias = node.input(row.parameters.weights), node.input(row.parameters.bias or 0)
            assert weights.quant is not None
            assert bias.quant is not None
            assert not weights.quant.zero_point.any()
            product = np.float64(node.input(row.first).scale) * weights.quant.scale.astype(np.float64)
            np.testing.assert_array_equal(bias.quant.scale, product.astype(np.float32))


@pytest.mark.parametrize(
    "ops", [("SOFTMAX", "TANH"), ("TANH", "SOFTMAX"), ("LOGISTIC", "TANH"), ("SOFTMAX", "SOFTMAX")]
)
@pytest.mark.parametrize("precision", ["int8", "int16x8"])
def test_what_is_joined_keeps_the_scales_that_are_fixed(ops: tuple[str, str], precision: str) -> None:
    b = Builder("joined")
    ends = [b.op(op, [b.input(name, "FLOAT32", (1, 8))]) for op, name in zip(ops, "xy", strict=True)]
    graph = b.graph([b.op("CONCATENATION", ends, axis=1, fused_activation_function="NONE")])
    data = [
        {name: 3 * np.random.default_rng(i).normal(size=(1, 8)).astype(np.float32) for name in "xy"} for i in (1, 2)
    ]
    integer = quantize(graph, calibrate(graph, data), Recipe(default=Choice(precision)), Options("FLOAT32"))
    for sample in data:
        values = list(sample.values())
        assert np.abs(ours(integer, values)[0] - ours(graph, values)[0]).max() < 0.012


def test_an_output_has_its_own_range_though_something_wider_is_joined_to_it() -> None:
    b = Builder("joined")
    x = b.input("x", "FLOAT32", (1, 8))
    small, large = b.op("RELU", [x]), b.op("MUL", [x, np.float32([1000])])
    graph = b.graph([small, b.op("CONCATENATION", [small, large], axis=1, fused_activation_function="NONE")])
    integer = quantized(graph)
    high = max(value.max() for sample in random_samples(0, graph, 4) for value in sample.values())
    assert integer.outputs[0].scale == pytest.approx(high / 255, rel=1e-3)
    assert integer.outputs[1].scale > 100 * integer.outputs[0].scale


# -- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("method", deep_but(METHODS, "mse", "moving-average"))
def test_models_keep_their_outputs(name: str, method: str) -> None:
    graph, data = float_model(name), samples(name, 12)
    seen = calibrate(graph, {"input": np.concatenate(data)})
    integer = quantize(graph, seen, Recipe(default=Choice(method=method)), Options("FLOAT32"))
    least = {"moving-average": 5.0}.get(method, 12.0)
    want = [ours(graph, [x])[0] for x in data]
    assert snr_db(want, [ours(integer, [x])[0] for x in data]) > least


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_bias_correction_centres_the_outputs_of_a_layer(precision: str) -> None:
    rng = np.random.default_rng(5)
    b = Builder("layer")
    x = b.input("x", "FLOAT32", (1, 6, 6, 4))
    weights = rng.standard_normal((8, 3, 3, 4)).astype(np.float32)
    y = b.op("CONV_2D", [x, weights, np.zeros(8, np.float32)], padding="SAME", stride_h=1, stride_w=1)
    graph = b.graph([y])
    data = [{"x": rng.uniform(1, 2, (1, 6, 6, 4)).astype(np.float32)} for _ in range(20)]
    seen = calibrate(graph, data)

    def offset(corrected: bool) -> float:
        integer = quantize(graph, seen, Recipe(default=Choice(precision)), Options("FLOAT32", corrected))
        off = [ours(integer, list(s.values()))[0] - ours(graph, list(s.values()))[0] for s in data]
        return float(np.abs(np.mean(off, axis=(0, 1, 2, 3))).max())

    assert offset(True) < 0.4 * offset(False)


@settings(max_examples=25, deadline=None)
@given(layers=layer_lists, seed=seeds, layer=st.sampled_from(["conv", "depthwise", "dense"]))
def test_adaptive_rounding_never_changes_a_layer_more(layers: list[str], seed: int, layer: str) -> None:
    graph = random_graph(seed, [*layers, layer])
    data = random_samples(seed, graph, 6)
    with finite_values():
        matrices = grams(graph, data)
    for node, gram in matrices.items():
        at = parameters_of(node)
        assert at is not None
        work = Layer(node, at, 4)
        quant = weight_quant(work, 0.1)
        change = [_change(work, quant, q, data, graph) for q in (adaptive(work, quant, gram), integers(work, quant))]
        assert change[0] <= change[1] * (1 + 1e-6)


def _change(layer: Layer, quant: Quant, q: Any, data: list[Any], graph: Graph) -> float:
    """The change of the layer's outputs by the rounding of its weights, by the operator's reference."""
    session, total = Session(make_plan(graph, options=PlanOptions(preserve_all=True))), 0.0
    error = (dequantize(q, quant) - layer.values()).astype(np.float32)
    plain = with_weights(layer, error)
    for sample in data:
        session.view(graph.inputs[0])[...] = sample["x"]
        session.run()
        inputs = [session.view(layer.node.input(0)), error, np.zeros(layer.channels, np.float32)]
        (out,) = operator(plain).reference(plain, inputs)
        total += float((out.astype(np.float64) ** 2).sum())
    return total


@pytest.mark.parametrize("most", [WINDOWS, 64])
def test_adaptive_rounding_helps_weights_of_four_bits(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over few of the windows, which are drawn, will do."""
    monkeypatch.setattr("twinfer.converter.quantize.rounding.WINDOWS", most)
    graph, data = float_model("kws"), samples("kws", 24)
    known = {"input": np.concatenate(data[:12])}
    seen = calibrate(graph, known)
    want = [ours(graph, [x])[0] for x in data[12:]]

    def gained(options: Options) -> float:
        integer = quantize(graph, seen, Recipe(default=Choice("int4")), options)
        return snr_db(want, [ours(integer, [x])[0] for x in data[12:]])

    assert gained(Options("FLOAT32", grams=grams(graph, known))) > gained(Options("FLOAT32")) + 3


def test_equalisation_leaves_what_is_not_homogeneous() -> None:
    rng = np.random.default_rng(3)
    b = Builder("two")
    x = b.input("x", "FLOAT32", (1, 4))
    y = b.op("FULLY_CONNECTED", [x, np.eye(4, dtype=np.float32)], fused_activation_function="RELU6")
    z = b.op("FULLY_CONNECTED", [y, rng.standard_normal((3, 4)).astype(np.float32)])
    graph = b.graph([z])
    assert write(equalize(graph)) == write(graph)


def test_adaptive_rounding_needs_data_that_last() -> None:
    with pytest.raises(InvalidArgumentError, match="more than once"):
        grams(random_graph(1, ["conv"]), iter([]))
