"""Quantisation: what it refuses, what it keeps, and its report."""

from __future__ import annotations

import re

import numpy as np
import pytest
from flows import Sub
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import LAYERS, random_graph, random_samples
from test_quantize import assert_same, ours, quantized
from test_quantize_states import lstm_graph, svdf_graph

from twinfer.bench.models.builtin import builtin
from twinfer.bench.peers.engines import open_peer
from twinfer.converter.build import Builder
from twinfer.converter.quantize.affine import to_stored
from twinfer.converter.quantize.calibrate import calibrate
from twinfer.converter.quantize.compare import Sums, alone, compare, noises, sensitivity
from twinfer.converter.quantize.quantize import Options, quantize
from twinfer.converter.quantize.recipe import Choice, Recipe, Rule
from twinfer.converter.quantize.rounding import grams
from twinfer.converter.quantize.samples import samples_of
from twinfer.converter.stream.convert import stream
from twinfer.runtime.errors import InvalidArgumentError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options as PlanOptions
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write


def test_what_overflows_is_named() -> None:
    graph = random_graph(1, ["exp", "exp", "exp", "dense"])
    data = [{"x": np.full((1, 4, 3, 2), 9, np.float32)}]
    for look in (calibrate, grams):
        with pytest.raises(InvalidArgumentError, match=r"tensor '.*' FLOAT32.* takes the value inf on"):
            look(graph, data)


def test_branches_and_variables_are_refused() -> None:
    main, then, other = Sub("main"), Sub("then"), Sub("else")
    x, a, b = main.input(), then.input(), other.input()
    (y,) = main.branch(main.less(x, np.float32([2])), 1, 2, [x], [x])
    graph = main.graph([y], then.graph([then.add(a, np.float32([1]))]), other.graph([other.mul(b, b)]))
    with pytest.raises(UnsupportedOperatorError, match="it has IF x1: convert it without quantisation"):
        calibrate(graph, {"x": np.ones((2, *x.shape), np.float32)})
    kept = stream(builtin()["tcn_float32"]()).graph
    with pytest.raises(UnsupportedOperatorError, match=r"it has CALL_ONCE x1, VAR_HANDLE x\d+, READ_VARIABLE"):
        calibrate(kept, [np.zeros(kept.inputs[0].shape, np.float32)])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("op", ["MUL", "FULLY_CONNECTED", "SQUARE"])
def test_results_that_no_scale_reaches_stay_float(op: str, sign: int) -> None:
    b = Builder("product")
    x = b.input("x", "FLOAT32", (1, 4))
    graph = b.graph([b.op(op, [x] if op == "SQUARE" else [x, np.full((1, 4), sign * 1e18, np.float32)])])
    far = 1e16 if op == "SQUARE" else 1e12
    data = [{"x": np.float32([row]) * np.float32(far)} for row in ([1, 0.5, 0, 0.1], [0, 0, 1, 0])]
    integer = quantize(graph, calibrate(graph, data), Recipe(), Options("FLOAT32"))
    assert [node.output.type for node in integer.nodes if node.op == op] == ["FLOAT32"]
    for sample in data:
        (got,), (want,) = ours(integer, [sample["x"]]), ours(graph, [sample["x"]])
        np.testing.assert_allclose(got, want, atol=0.01 * np.abs(want).max())


@pytest.mark.parametrize(
    ("precision", "granularity", "scales"),
    [("int8", None, 8), ("int16x8", None, 8), ("int4", None, 1), ("int8", "tensor", 1), ("int4", "channel", 8)],
)
def test_scales_of_fully_connected(precision: str, granularity: str | None, scales: int) -> None:
    """One per channel, but a single one for INT4, as TFLM needs; a recipe may change that."""
    graph = random_graph(1, ["dense"])
    integer = quantized(graph, recipe=Recipe(default=Choice(precision, granularity)))
    (node,) = [n for n in integer.nodes if n.op == "FULLY_CONNECTED"]
    assert node.input(1).quant is not None
    assert node.input(1).quant.scale.size == node.input(2).quant.scale.size == scales  # type: ignore[union-attr]
    if (precision, scales) != ("int4", 8):
        values = random_inputs(integer, 1)
        assert_same(ours(integer, values), open_peer("tflm", write(integer), 1)(values))


#: Operators whose kernels in TFLM take weights of four bits.
FOUR_BITS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


@pytest.mark.parametrize("layer", ["conv", "depthwise", "dense", "transpose_conv", "prelu", "leaky", "batch_matmul"])
def test_int4_is_int8_where_there_are_no_kernels_for_it(layer: str) -> None:
    b, rng = Builder("layer"), np.random.default_rng(4)
    x = b.input("x", "FLOAT32", (1, 4, 4, 3))
    if layer == "transpose_conv":
        w = rng.normal(size=(2, 3, 3, 3)).astype(np.float32)
        more = {"padding": "SAME", "stride_h": 2, "stride_w": 2}
        y = b.op("TRANSPOSE_CONV", [np.int32([1, 8, 8, 2]), w, x], shape=(1, 8, 8, 2), type="FLOAT32", **more)
    elif layer == "batch_matmul":
        y = b.op("BATCH_MATMUL", [x, rng.normal(size=(1, 4, 3, 2)).astype(np.float32)], shape=(1, 4, 4, 2))
    else:
        y = LAYERS[layer](b, x, rng)
    four, eight = (quantized(b.graph([y]), recipe=Recipe(default=Choice(mode))) for mode in ("int4", "int8"))
    for small, node in zip(four.nodes, eight.nodes, strict=True):
        kinds = [t and t.type for t in (*node.inputs, *node.outputs)]
        kinds[1:2] = ["INT4"] if node.op in FOUR_BITS else kinds[1:2]
        assert [t and t.type for t in (*small.inputs, *small.outputs)] == kinds, node.op
        if node.op in FOUR_BITS:  # one scale for each channel, but for dense layers
            channels = small.input(1).shape[3 if node.op == "DEPTHWISE_CONV_2D" else 0]
            assert small.input(1).quant.scale.size == (1 if node.op == "FULLY_CONNECTED" else channels)  # type: ignore[union-attr]
    values = random_inputs(four, 1)
    if layer not in ("leaky", "prelu"):
        assert_same(ours(four, values), open_peer("tflm", write(four), 1)(values))


METHOD = st.sampled_from([None, "minmax", "mse", "percentile-90", "moving-average"])


@settings(max_examples=12, deadline=None)
@given(
    methods=st.lists(METHOD, min_size=4, max_size=4),
    default=st.sampled_from(["mse", "percentile-80"]), precision=st.sampled_from(["int8", "int16x8"]),
    operators=st.booleans(),
)  # fmt: skip
def test_every_tensor_has_the_range_of_its_own_rule(
    methods: list[str | None], default: str, precision: str, operators: bool
) -> None:
    """The input, too: each scale is that of a model whose only method is the tensor's; what was before is no matter."""
    rng, b = np.random.default_rng(8), Builder("rules")
    x = b.input("x", "FLOAT32", (1, 200))
    dense = b.op("FULLY_CONNECTED", [x, rng.normal(size=(5, 200)).astype(np.float32), np.ones(5, np.float32)])
    graph = b.graph([b.op("MUL", [b.op("ADD", [dense, rng.normal(size=5).astype(np.float32)]), np.float32([3])])])
    names = ["x", *(node.output.name for node in graph.nodes)]
    kinds = ["INPUT", "FULLY_CONNECTED", "ADD", "MUL"]
    data = {"x": rng.standard_t(3, (70, 1, 200)).astype(np.float32)}
    seen = calibrate(graph, data)
    rules = tuple(Rule(None if operators else re.escape(name), kind, method=method)
                  for name, kind, method in zip(names, kinds, methods, strict=True) if method)  # fmt: skip

    def quants(*rules: Rule, method: str) -> dict[str, object]:
        integer = quantize(graph, seen, Recipe(rules, Choice(precision, None, method)))
        return {t.name: (t.scale, t.zero) for t in integer.tensors if t.name in names}

    alone = {method: quants(method=method) for method in {default, "mse", "minmax", *filter(None, methods)}}
    assert (alone["mse"]["x"] == alone["minmax"]["x"]) == (precision == "int16x8"), "16 bits are not clipped"
    seen = calibrate(graph, data)
    for other in ("int8", "int16x8"):
        quantize(graph, seen, Recipe(rules, Choice(other, None, default)))
    assert quants(*rules, method=default) == {
        name: alone[own or default][name] for name, own in zip(names, methods, strict=True)
    }


@pytest.mark.parametrize("precision", ["int8", "int16x8"])
def test_the_report_is_what_numpy_says(precision: str) -> None:
    """Ratio, cosine, histogram, and what no integer stands for: what lies up to half a step beyond the ends rounds."""
    graph = random_graph(2, ["conv", "relu6", "mean"])
    data = random_samples(2, graph, 30)
    seen = calibrate(graph, data)
    integer = quantize(graph, seen, Recipe(default=Choice(precision, None, "percentile-97")))
    report = compare(graph, integer, data, seen)
    twins = {t.name: t for t in integer.tensors}
    floats, integers = (Session(make_plan(g, options=PlanOptions(preserve_all=True))) for g in (graph, integer))
    values: dict[str, list[np.ndarray]] = {t.name: [] for t in report.tensors}
    stored: dict[str, list[np.ndarray]] = {t.name: [] for t in report.tensors}
    for sample in data:
        x = np.asarray(next(iter(sample.values())))
        for session, value in ((floats, x), (integers, to_stored(x, integer.inputs[0]))):
            session.feed([value])
            session.run()
        for name in values:
            values[name].append(np.array(floats.view(next(t for t in graph.tensors if t.name == name)), np.float64))
            stored[name].append(np.array(integers.view(twins[name]), np.float64))
    assert any(t.saturated > 0.01 for t in report.tensors)
    for t in report.tensors:
        x, quant = np.stack(values[t.name]), twins[t.name]
        y = (np.stack(stored[t.name]) - quant.zero) * quant.scale
        limit = 128 if precision == "int8" else 32768
        beyond = (x / quant.scale + quant.zero < -limit - 0.5) | (x / quant.scale + quant.zero > limit - 0.5)
        assert t.saturated == pytest.approx(beyond.mean(), abs=0.5 / x.size)
        assert (t.type, t.scale, t.zero_point) == (quant.type, quant.scale, quant.zero)
        assert t.snr_db == pytest.approx(10 * np.log10(np.square(x).sum() / np.square(x - y).sum()), abs=0.01)
        assert t.cosine == pytest.approx((x * y).sum() / np.sqrt(np.square(x).sum() * np.square(y).sum()), abs=1e-9)
        edges = np.linspace(x.min(), x.max(), 33)
        np.testing.assert_allclose(t.edges, edges, rtol=1e-6)
        for counts, each in ((t.counts, x), (t.quantized_counts, y)):
            assert counts == tuple(np.histogram(each.clip(edges[0], edges[-1]), t.edges)[0])


@pytest.mark.parametrize(
    ("real", "near", "cosine"),
    [([0, 0], [0, 0], 1), ([0, 0], [0, 2], 0), ([3, 0], [0, 0], 0), ([3, 1], [1, np.inf], 0), ([3, 4], [-4, 3], 0)],
)
def test_directions_of_values_that_have_none(real: list[float], near: list[float], cosine: float) -> None:
    sums = Sums()
    sums.add(np.array(real, np.float32), np.array(near, np.float64))
    assert sums.cosine == cosine


def _chain() -> Graph:
    b, rng = Builder("chain"), np.random.default_rng(8)
    x = b.input("x", "FLOAT32", (1, 6, 6, 2))
    for layer in ("conv", "leaky", "add", "depthwise", "abs"):
        x = LAYERS[layer](b, x, rng)
    return b.graph([x])


def _fork() -> Graph:
    """Two outputs, to the second of which steps of the first layers are large."""
    b, rng = Builder("fork"), np.random.default_rng(8)
    y = LAYERS["conv"](b, b.input("x", "FLOAT32", (1, 6, 6, 2)), rng)
    z = b.op("SUB", [y, np.float32([0.9] * y.shape[3])])
    return b.graph([LAYERS["depthwise"](b, y, rng), b.op("MUL", [z, z])])


@pytest.mark.parametrize(
    "graph",
    [
        _chain(),
        _fork(),
        svdf_graph(np.random.default_rng(3), "RELU"),
        lstm_graph(np.random.default_rng(3), (1, 6, 5, 7), 0.4),
        lstm_graph(np.random.default_rng(3), (1, 3, 5, 7), 0.9, before="RELU"),
    ],
    ids=["chain", "fork", "stream", "lstm", "before lstm"],
)
def test_sensitivity_is_what_the_outputs_lose_to_one_layer(graph: Graph) -> None:
    """Every layer's figure equals that of a whole graph whose recipe quantises only this layer, if layers share no
    scale. Dequantised values may differ in the last bit."""
    data = {"x": np.random.default_rng(5).normal(0, 1, (5, *graph.inputs[0].shape)).astype(np.float32)}
    seen = calibrate(graph, data)
    costs = sensitivity(graph, quantize(graph, seen), data)
    assert len(costs) == len(graph.nodes)
    for cost in costs:
        alone = Recipe((Rule(".*", precision="float"), Rule(re.escape(cost.name), cost.operator, "int8")))
        integer = quantize(graph, seen, alone, Options("FLOAT32"))
        assert cost.snr_db == pytest.approx(compare(graph, integer, data, seen).outputs_snr_db, abs=1e-4)


def test_noise_of_several_precisions_is_about_that_of_each_by_itself() -> None:
    graph = _chain()
    data = {"x": np.random.default_rng(5).normal(0, 1, (5, *graph.inputs[0].shape)).astype(np.float32)}
    seen = calibrate(graph, data)
    both = [quantize(graph, seen, Recipe(default=Choice(precision))) for precision in ("int8", "int16x8")]
    for found, integer in zip(noises(graph, both, list(samples_of(graph, data)), 1000), both, strict=True):
        for node, sums in alone(graph, integer, data):
            share = sum(total.noise / total.signal for total in sums)
            assert found[node] == pytest.approx(share, rel=1.0), "estimates may be off by a factor of two"


def test_unknown_inference_type_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="inference type"):
        Options("UINT8").border(Recipe())
