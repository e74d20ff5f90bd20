"""Compensation: fits the weights that are left and the biases to calibration data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import outputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import random_samples
from test_compress import float_graph, outputs

from twinfer.bench.models.builtin import float_model, int8_model, samples
from twinfer.bench.peers.engines import open_peer
from twinfer.converter.build import Builder
from twinfer.converter.compress.cluster import cluster
from twinfer.converter.compress.layers import layers_of
from twinfer.converter.compress.prune import prune
from twinfer.converter.compress.refit import Fit, Moments
from twinfer.converter.convert import conversion, convert
from twinfer.converter.quantize.recipe import Choice, Recipe
from twinfer.converter.quantize.rounding import inputs_of, windows
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operator
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write

seeds = st.integers(0, 2**32 - 1)


def test_windows_are_what_the_weights_are_multiplied_with() -> None:
    """Also for grouped convolutions, which the random graphs lack."""
    rng, b = np.random.default_rng(2), Builder("windows")
    x = b.input("x", "FLOAT32", (1, 5, 6, 4))
    w = b.constant(rng.normal(size=(6, 3, 2, 2)).astype(np.float32))
    b.op("CONV_2D", [x, w, None], padding="SAME", stride_h=2, stride_w=1, dilation_w_factor=2)
    d = b.constant(rng.normal(size=(1, 2, 3, 8)).astype(np.float32))
    y = b.op("DEPTHWISE_CONV_2D", [x, d, None], padding="VALID", stride_h=1, stride_w=1, depth_multiplier=2)
    for weights in layers_of(b.graph([y])):
        node, value = weights.node, rng.normal(size=x.shape).astype(np.float32)
        (want,) = operator(node).reference(node, [value, weights.tensor.data, None])
        seen = windows(node, value)
        rows = weights.values().reshape(len(seen), -1, int(inputs_of(node)))
        products = np.einsum("gri,gpi->pgr", rows, seen)
        np.testing.assert_allclose(products.reshape(want.shape), want, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(windows(node, value, np.array([1, 4, 8])), seen[:, [1, 4, 8]])


@settings(max_examples=20, deadline=None)
@given(seed=seeds, has_bias=st.booleans())
def test_the_fit_is_the_least_squares_solution(seed: int, has_bias: bool) -> None:
    rng = np.random.default_rng(seed)
    y = rng.normal(1, 1, (40, 6))
    x = np.concatenate([y + rng.normal(0, 0.3, y.shape), np.ones((40, 1))], 1)
    y = np.concatenate([y, np.ones((40, 1))], 1)
    rows, kept = rng.normal(size=(1, 5, 6)), rng.random((1, 5, 6)) < np.linspace(0.1, 0.9, 5)[:, None]
    fit = Fit(Moments((x.T @ x)[None], (x.T @ y)[None]), rows, has_bias)
    fitted = fit.rows(kept)
    change = fit.bias(fitted)
    for row, stays, old, shift in zip(fitted[0], kept[0], rows[0], change[0], strict=True):
        used = [*np.flatnonzero(stays), *([6] if has_bias else [])]
        best = np.zeros(7)
        best[used] = np.linalg.lstsq(x[:, used], y[:, :6] @ old, rcond=None)[0]
        np.testing.assert_allclose([*row, shift], best, atol=1e-7)


def change_db(source: Graph, changed: Graph, values: Any) -> float:
    noise = signal = 0.0
    one, other = Session(make_plan(source)), Session(make_plan(changed))
    for value in values:
        a, b = outputs_of(one, [value])[0].astype(float), outputs_of(other, [value])[0].astype(float)
        signal, noise = signal + float((a * a).sum()), noise + float(((a - b) ** 2).sum())
    return 10 * float(np.log10(signal / noise))


def test_fitting_helps() -> None:
    """On unseen samples, in float and int8, for pruning and clustering."""
    graph, data = convert(float_model("digits")), np.concatenate(samples("digits", 80))
    known, unknown = {"input": data[:60]}, data[60:, None]
    half = Recipe(default=Choice(prune=0.6))
    plain, fitted = prune(graph, half), prune(graph, half, known)
    assert change_db(graph, fitted, unknown) > change_db(graph, plain, unknown) + 6
    for old, new in zip(layers_of(plain), layers_of(fitted), strict=True):
        assert (new.stored() == 0).sum() == (old.stored() == 0).sum()
    small = int8_model("digits")
    (x,) = small.inputs
    own = np.clip(np.round(data[:, None] / x.scale + x.zero), -128, 127).astype(np.int8)
    three = Recipe(default=Choice(cluster=3))
    for step, wanted in ((prune, half), (cluster, three)):
        rough, smooth = step(small, wanted), step(small, wanted, {"input": own[:60]})
        assert change_db(small, smooth, own[60:, None]) > change_db(small, rough, own[60:, None]) + 3


def test_integer_weights_grow_with_their_scales() -> None:
    """Two equal inputs: the weight that is left must serve for both, which exceeds int8 at the old scale."""
    b, rng = Builder("grows"), np.random.default_rng(4)
    x = b.input("x", "INT8", (1, 2), scale=0.5)
    w, bias = np.array([[127, 60], [50, 125]], np.int8), np.array([40, -8000], np.int32)
    y = b.op("FULLY_CONNECTED", [x, b.constant(w, scale=0.25), b.constant(bias, scale=0.125)], shape=(1, 2), scale=9.0)
    graph = b.graph([y])
    one = rng.integers(-100, 100, 200).astype(np.int8)
    data = {"x": np.stack([one, one], 1)}
    pruned = prune(graph, Recipe(default=Choice(prune=0.5)), data, scope="layer")
    (weights,) = layers_of(pruned)
    np.testing.assert_allclose(weights.values().reshape(2, 2), [[0.25 * 187, 0], [0, 0.25 * 175]], rtol=0.02)
    assert (weights.stored() == 0).sum() == 2
    bias_made = pruned.nodes[0].input(2)
    assert bias_made.quant.scale == pytest.approx(0.5 * weights.tensor.quant.scale)
    np.testing.assert_allclose(bias_made.data * bias_made.quant.scale, bias * 0.125, atol=2)
    for value in data["x"][:50, None]:
        (a,), (b_) = outputs(graph, [value]), outputs(pruned, [value])
        np.testing.assert_allclose(a.astype(int), b_[0].astype(int), atol=2)


@pytest.mark.filterwarnings("ignore:the int.* model:twinfer.runtime.errors.ModelWarning")
@pytest.mark.filterwarnings("ignore:the int16x8 model's outputs:twinfer.runtime.errors.ModelWarning")
def test_int16_activations_too() -> None:
    graph = float_graph(3)
    how = {"quantize": "int16x8", "calibration": random_samples(3, graph, 6), "prune": 0.5, "cluster": 2}
    converted = convert(graph, **how, compensate=True)
    assert all(len(np.unique(w.stored())) <= 4 for w in layers_of(converted))
    values = random_inputs(converted, 5)
    want = outputs(converted, values)
    for got, expected in zip(open_peer("litert-ref", write(converted), len(want))(values), want, strict=True):
        np.testing.assert_array_equal(got.reshape(expected.shape), expected)


@pytest.mark.filterwarnings("ignore:the int4 model's outputs:twinfer.runtime.errors.ModelWarning")
def test_adaptive_rounding_leaves_zeros() -> None:
    graph = convert(float_model("digits"))
    data = {"input": np.concatenate(samples("digits", 20))}
    converted = conversion(graph, quantize="int4", calibration=data, prune=0.5, adaptive_rounding=True)
    before = {w.name: w for w in layers_of(converted.pruned)}
    for weights in layers_of(converted.graph):
        assert not weights.stored()[before[weights.name].stored() == 0].any()


@pytest.mark.parametrize("shared", [False, True])
def test_a_bias_of_two_layers_stays(shared: bool) -> None:
    """Fitted to one of them, the other one would be off. A bias of one layer is fitted."""
    rng, b = np.random.default_rng(5), Builder("shared")
    x = b.input("x", "FLOAT32", (1, 8))
    biases = [b.constant(rng.normal(size=8).astype(np.float32), name=f"bias_{i}") for i in range(2)]
    weights = [rng.normal(size=(8, 8)).astype(np.float32) for _ in biases]
    y = b.op("ADD", [b.op("FULLY_CONNECTED", [x, w, biases[i * (not shared)]]) for i, w in enumerate(weights)])
    data = [{"x": row} for row in rng.normal(2, 1, size=(30, 1, 8)).astype(np.float32)]
    graph = convert(b.graph([y]), prune=0.6, compensate=True, calibration=data, passes=[])
    layers = [node for node in graph.nodes if node.op == "FULLY_CONNECTED"]
    same = [np.array_equal(node.constant(2), biases[i * (not shared)].data) for i, node in enumerate(layers)]
    assert same == [shared] * 2
    assert not any(np.array_equal(node.constant(1), w) for node, w in zip(layers, weights, strict=True))


@pytest.mark.parametrize("biased", [(True, False), (False, True), (False, False)])
def test_scales_of_shared_weights_stay_under_a_bias(biased: tuple[bool, bool]) -> None:
    """A bias counts steps of the weights' scale: whichever of the two layers has one."""
    b, rng = Builder("shared"), np.random.default_rng(4)
    x, w = b.input("x", "INT8", (1, 2), scale=0.5), b.constant(np.array([[127, 60], [50, 125]], np.int8), scale=0.25)
    biases = [b.constant(np.array([40, -80], np.int32), scale=0.125) if has else None for has in biased]
    both = [b.op("FULLY_CONNECTED", [x, w, bias], shape=(1, 2), scale=9.0) for bias in biases]
    one = rng.integers(-100, 100, 200).astype(np.int8)
    data = {"x": np.stack([one, one], 1)}  # the weight that is left must serve for both
    graph = b.graph(both)
    pruned = prune(graph, Recipe(default=Choice(prune=0.5)), data, scope="layer")
    (layer,) = layers_of(pruned)
    assert layer.tensor.quant is not None
    assert (float(layer.tensor.quant.scale[0]) > 0.25) == (not any(biased))
