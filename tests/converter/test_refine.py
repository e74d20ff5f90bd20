"""Refining a quantised graph: held-out samples gain, at no cost, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import outputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import random_graph, random_samples

from twinfer.bench.peers.engines import open_peer
from twinfer.converter.build import Builder
from twinfer.converter.convert import convert
from twinfer.converter.quantize.calibrate import calibrate
from twinfer.converter.quantize.fit import fitted
from twinfer.converter.quantize.quantize import Options, quantize
from twinfer.converter.quantize.recipe import DEFAULT, Choice, Recipe, Rule
from twinfer.converter.quantize.refine import Judge, gain, ratio, refine
from twinfer.converter.quantize.samples import samples_of
from twinfer.converter.quantize.walk import Walk
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write

RNG = np.random.default_rng(5)


def net(*, wake: bool = False) -> tuple[Graph, dict[str, Any], dict[str, Any]]:
    """Convolutions whose inputs are alike, as neighbouring pixels are; samples to fit to, and others. ``wake``: one
    probability comes of it."""
    rng = np.random.default_rng(1)

    def weights(*shape: int) -> Any:
        return (rng.standard_normal(shape) * rng.uniform(0.2, 2, (*shape[:1], 1, 1, 1))).astype(np.float32)

    b = Builder("net")
    x = b.input("x", "FLOAT32", (1, 10, 10, 3))
    bias = rng.standard_normal(8).astype(np.float32)
    relu: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "fused_activation_function": "RELU"}
    y = b.op("CONV_2D", [x, weights(8, 3, 3, 3), bias], **relu)
    y = b.op("DEPTHWISE_CONV_2D", [y, weights(1, 3, 3, 8), bias], stride_h=1, stride_w=1, depth_multiplier=1)
    y = b.op("CONV_2D", [y, weights(8, 1, 1, 8), bias], **relu)
    if wake:
        flat = b.op("RESHAPE", [y, np.array([1, 800], np.int32)])
        y = b.op("LOGISTIC", [b.op("FULLY_CONNECTED", [flat, weights(1, 800, 1, 1)[:, :, 0, 0] / 30])])
        y = b.op("RESHAPE", [y, np.array([1], np.int32)])
    graph = b.graph([y])
    smooth = np.cumsum(np.cumsum(rng.standard_normal((48, 1, 10, 10, 3)), 2), 3) / 10
    data = smooth.astype(np.float32)
    return graph, {"x": data[:32]}, {"x": data[32:]}


@pytest.mark.parametrize(("precision", "gain"), [("int8", 0.4), ("int16x8", 1), ("int4", 3)])
def test_other_samples_gain_and_nothing_costs_more(precision: str, gain: float) -> None:
    graph, known, others = net()
    recipe = Recipe(default=Choice(precision))
    refined = refine(graph, seen := calibrate(graph, known), recipe, samples=known)
    plain, judge = quantize(graph, seen, recipe), Judge(graph, list(samples_of(graph, others)))
    assert judge.db(refined.graph) > judge.db(plain) + gain
    assert [n.op for n in refined.graph.nodes] == [n.op for n in plain.nodes]
    assert len(write(refined.graph)) <= len(write(plain)) + 16, "no more than what alignment may cost"


def test_the_same_data_give_the_same_bytes_which_litert_runs() -> None:
    graph, known, _ = net()
    files = [write(convert(graph, quantize="int8", calibration=known, refine=True)) for _ in range(2)]
    assert files[0] == files[1]
    made = convert(graph, quantize="int8", calibration=known, refine=True)
    values = random_inputs(made, 3)
    ours = outputs_of(Session(make_plan(made)), values)
    for name in ("litert-ref", "tflm"):
        for got, want in zip(ours, open_peer(name, files[0], 1)(values), strict=True):
            np.testing.assert_array_equal(got, want.reshape(got.shape))


def test_what_does_not_gain_stays_as_it_was() -> None:
    b = Builder("relu")
    graph = b.graph([b.op("RELU", [b.input("x", "FLOAT32", (1, 4))])])
    data = {"x": np.tile(np.array([-1.0, 0, 0.5, 1], np.float32), (8, 1, 1))}
    seen = calibrate(graph, [{"x": row} for row in RNG.uniform(-1, 1, (8, 1, 4)).astype(np.float32)])
    refined = refine(graph, seen, DEFAULT, samples=data)
    assert write(refined.graph) == write(quantize(graph, seen))
    assert not refined.fitted


def test_weights_that_several_layers_share_stay_shared() -> None:
    b = Builder("twice")
    y = b.input("x", "FLOAT32", (1, 6))
    weights = b.constant(RNG.standard_normal((6, 6)).astype(np.float32))
    for _ in range(2):
        y = b.op("FULLY_CONNECTED", [y, weights, np.zeros(6, np.float32)])
    graph = b.graph([y])
    data = list(samples_of(graph, {"x": RNG.standard_normal((8, 1, 6)).astype(np.float32)}))
    plain = quantize(graph, calibrate(graph, [{"x": next(iter(s.values()))} for s in data]))
    first, second = (n.input(1).data for n in fitted(graph, plain, data)[0].nodes if n.op == "FULLY_CONNECTED")
    np.testing.assert_array_equal(first, second)


@settings(max_examples=20, deadline=None)
@given(
    layers=st.lists(st.sampled_from(["conv", "depthwise", "dense", "relu", "add"]), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_a_walk_gives_what_a_run_gives(layers: list[str], seed: int) -> None:
    graph = random_graph(seed, layers)
    data = list(samples_of(graph, random_samples(seed, graph, 3)))
    walk, session = Walk(graph, data), Session(make_plan(graph))
    for node in graph.nodes:
        walk.run(node)
    assert set(walk.values) <= {*graph.inputs, *graph.outputs}
    for i, sample in enumerate(data):
        for want, tensor in zip(outputs_of(session, list(sample.values())), graph.outputs, strict=True):
            np.testing.assert_array_equal(walk.values[tensor][i], want)


def test_a_stream_keeps_its_state() -> None:
    """SVDF remembers samples; it is not fitted, what reads it is."""
    rng = np.random.default_rng(3)
    b = Builder("stream")
    features, time = (rng.standard_normal((12, n)).astype(np.float32) for n in (16, 8))
    x, state = b.input("x", "FLOAT32", (1, 16)), b.variable("state", "FLOAT32", (1, 96))
    inputs: list[Any] = [x, features, time, None, state]
    y = b.op("SVDF", inputs, rank=2, fused_activation_function="RELU")
    graph = b.graph([b.op("FULLY_CONNECTED", [y, rng.standard_normal((4, 6)).astype(np.float32)])])
    data = (0.1 * np.cumsum(rng.standard_normal((160, 1, 16)), axis=0)).astype(np.float32)
    known = list(samples_of(graph, {"x": data[:64]}))
    plain, judge = quantize(graph, calibrate(graph, {"x": data[:80]})), Judge(graph, known)
    assert judge.db(fitted(graph, plain, known)[0]) > judge.db(plain) + 1
    session, few = Session(make_plan(graph)), list(samples_of(graph, {"x": data[:20]}))
    walk = Walk(graph, few)
    for node in graph.nodes:
        walk.run(node)
    for i, sample in enumerate(few):
        np.testing.assert_array_equal(walk.values[graph.outputs[0]][i], stepped(session, sample))


def stepped(session: Session, sample: Any) -> Any:
    """The output of one more sample of a stream."""
    session.feed(list(sample.values()))
    session.run()
    return session.outputs()[0]


def test_an_iterator_is_refused() -> None:
    graph, known, _ = net()
    with pytest.raises(InvalidArgumentError, match="more than once"):
        refine(graph, calibrate(graph, known), DEFAULT, samples=iter([]))


def test_a_gain_must_be_sure() -> None:
    """Every sample gains a little, which is sure; or half of them gain and half lose, which is luck."""
    signal, before = np.full((16, 2), 100.0), np.ones((16, 2))
    luck = np.where(np.arange(16)[:, None] % 2, 0.2, 1.7) * before
    assert gain(signal, before, 0.9 * before) == pytest.approx(-10 * np.log10(0.9))
    assert ratio(signal.sum(0), luck.sum(0)) > ratio(signal.sum(0), before.sum(0)) + 0.1
    assert gain(signal, before, luck) < 0
    assert gain(signal[:1], before[:1], luck[:1]) == 0, "one sample says nothing"


@pytest.mark.parametrize(("border", "type"), [("FLOAT32", "FLOAT32"), ("INT8", "INT8"), (None, "INT8")])
def test_a_last_function_is_a_float_where_the_outputs_are(border: str | None, type: str) -> None:
    """In integers a LOGISTIC has steps of 1/256, far too wide for results from 0.5 to 0.51."""
    b, rng = Builder("answer"), np.random.default_rng(2)
    y = b.op("FULLY_CONNECTED", [b.input("x", "FLOAT32", (1, 4)), np.full((1, 4), 0.01, np.float32)])
    graph = b.graph([b.op("LOGISTIC", [y])])
    data = {"x": rng.uniform(0, 1, (16, 1, 4)).astype(np.float32)}
    refined = refine(graph, seen := calibrate(graph, data), DEFAULT, Options(border), data)
    plain, judge = quantize(graph, seen, DEFAULT, Options(border)), Judge(graph, list(samples_of(graph, data)))
    (last,) = [node for node in refined.graph.nodes if node.op == "LOGISTIC"]
    assert last.output.type == type
    assert refined.graph.nodes[-1].op == ("LOGISTIC" if type == "FLOAT32" else last.op)
    assert (judge.db(refined.graph) > judge.db(plain) + 10) == (border == "FLOAT32")


def test_probabilities_that_are_nearly_all_0_or_1_are_judged_by_what_they_come_from() -> None:
    """Else the few samples in between would decide, whatever the layers give for the others."""
    graph, known, others = net(wake=True)
    seen, options = calibrate(graph, known), Options("FLOAT32")
    plain, refined = quantize(graph, seen, DEFAULT, options), refine(graph, seen, DEFAULT, options, known)
    held = list(samples_of(graph, others))
    logits, outputs = Judge(graph, held, inner=True), Judge(graph, held)
    assert np.sum((outputs.signal > 0.01) & (outputs.signal < 0.98)) <= 4
    assert logits.db(refined.graph) > logits.db(plain) + 3


def normalised(inputs: int = 512) -> tuple[Graph, dict[str, Any], dict[str, Any]]:
    """Dense layers with layer normalisation between them; samples to fit to, and others."""
    rng, b = np.random.default_rng(6), Builder("normalised")
    x = y = b.input("x", "FLOAT32", (1, inputs))
    for _ in range(2):
        y = b.op("FULLY_CONNECTED", [y, rng.standard_normal((32, y.shape[1])).astype(np.float32)])
        y = b.op("SUB", [y, b.op("MEAN", [y, np.array([1], np.int32)], keep_dims=True)])
        variance = b.op("MEAN", [b.op("MUL", [y, y]), np.array([1], np.int32)], keep_dims=True)
        y = b.op("MUL", [y, b.op("RSQRT", [b.op("ADD", [variance, np.array(1e-5, np.float32)])])])
        y = b.op("MUL", [y, rng.uniform(0.2, 1, 32).astype(np.float32)])
        y = b.op("ADD", [y, np.full(32, 0.3, np.float32)], fused_activation_function="RELU")
    graph = b.graph([b.op("FULLY_CONNECTED", [y, rng.standard_normal((4, 32)).astype(np.float32)])])
    data = (rng.standard_normal((64, *x.shape)) * rng.uniform(0.8, 1.2, (64, 1, 1))).astype(np.float32)
    return graph, {"x": data[:32]}, {"x": data[32:]}


def test_normalisation_has_16_bits_inside_which_tflm_computes_alike() -> None:
    graph, known, others = normalised()
    refined = refine(graph, seen := calibrate(graph, known), DEFAULT, samples=known)
    plain, judge = quantize(graph, seen), Judge(graph, list(samples_of(graph, others)))
    assert judge.db(refined.graph) > judge.db(plain) + 2.5
    layers = [n for n in refined.graph.nodes if n.op in ("FULLY_CONNECTED", "RSQRT", "MEAN", "SUB")]
    assert [n.output.type for n in layers if n.op == "FULLY_CONNECTED"] == ["INT8"] * 3
    assert {n.output.type for n in layers if n.op != "FULLY_CONNECTED"} == {"INT16"}
    values = random_inputs(refined.graph, 3)
    ours = outputs_of(Session(make_plan(refined.graph)), values)
    for got, want in zip(ours, open_peer("tflm", write(refined.graph), 1)(values), strict=True):
        np.testing.assert_array_equal(got, want.reshape(got.shape))


@pytest.mark.parametrize("what", ["a rule", "no RSQRT", "the cost", "int16x8"])
def test_a_chain_stays_as_it_is(what: str) -> None:
    """Where a rule of the recipe sets its precision, nothing is magnified, 16 bits would cost much, or are there."""
    graph, known, _ = net() if what == "no RSQRT" else normalised(8 if what == "the cost" else 512)
    rule, default = Rule(operator="RSQRT", precision="float"), Choice("int16x8" if what == "int16x8" else "int8")
    recipe = Recipe((rule,) if what == "a rule" else (), default)
    refined = refine(graph, calibrate(graph, known), recipe, samples=known)
    assert not any(rule.precision == "int16x8" for rule in refined.recipe.rules)
