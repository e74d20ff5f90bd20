"""Attention masks in integers: as good as without a mask that wide, here and in LiteRT."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRT
from hypothesis import given, settings
from hypothesis import strategies as st

import twinfer
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion
from twinfer.converter.quantize.compare import compare
from twinfer.converter.quantize.masks import depth
from twinfer.runtime.graph import Graph, Signature
from twinfer.runtime.write.tflite import write

KEYS, WIDTH = 12, 16
RNG = np.random.default_rng(5)
U, V = (RNG.normal(0, 1, (KEYS, WIDTH)).astype(np.float32) for _ in range(2))
X = RNG.normal(0, 0.6, (40, 1, 3, WIDTH)).astype(np.float32)
HIDDEN = np.arange(KEYS) >= RNG.integers(3, KEYS + 1, (40, 1, 1, 1))

#: Ways to write a mask: (builder, scores, the mask's input, its value) -> what SOFTMAX reads. The input is truth
#: values, except in "sum", where it holds the mask's value or 0.
FORMS: dict[str, Any] = {
    "select": lambda b, s, m, v: b.op("SELECT_V2", [m, np.float32([v]), s], shape=s.shape, type="FLOAT32"),
    "select moved": lambda b, s, m, v: b.op(
        "RESHAPE", [b.op("SELECT_V2", [m, np.float32([v]), s], shape=s.shape, type="FLOAT32"), np.int32([3, KEYS])],
        new_shape=(3, KEYS),
    ),
    "select, then sum": lambda b, s, m, v: b.op(
        "ADD", [s, b.op("SELECT_V2", [m, np.float32([v]), np.float32([0])], shape=m.shape, type="FLOAT32")]
    ),
    "sum": lambda b, s, m, v: b.op("ADD", [s, m]),
    "scaled sum": lambda b, s, m, v: b.op("MUL", [b.op("ADD", [s, m]), np.float32([0.5])]),
    "product": lambda b, s, m, v: b.op(
        "ADD", [s, b.op("MUL", [b.op("CAST", [m], type="FLOAT32"), np.float32([v])])]
    ),
    "difference": lambda b, s, m, v: b.op(
        "SUB", [s, b.op("MUL", [b.op("CAST", [m], type="FLOAT32"), np.float32([-v])])]
    ),
}  # fmt: skip


def attention(form: str, value: float) -> Graph:
    b = Builder(form)
    x = b.input("x", "FLOAT32", (1, 3, WIDTH))
    m = b.input("m", "FLOAT32" if "sum" in form and "select" not in form else "BOOL", (1, 1, KEYS))
    scores = b.op("FULLY_CONNECTED", [x, U], shape=(1, 3, KEYS), keep_num_dims=True)
    weights = b.op("SOFTMAX", [FORMS[form](b, scores, m, value)], beta=1.0)
    return b.graph(
        [b.op("FULLY_CONNECTED", [weights, V.T.copy()], shape=(*weights.shape[:-1], WIDTH), keep_num_dims=True)]
    )


def fed(graph: Graph, value: float) -> dict[str, Any]:
    mask = HIDDEN if graph.inputs[1].type == "BOOL" else np.where(HIDDEN, np.float32(value), np.float32(0))
    return {"x": X, "m": mask}


@cache
def expected(scale: float) -> Any:
    scores = X.astype(float) @ U.astype(float).T * scale
    e = np.exp(scores - scores.max(-1, keepdims=True)) * ~HIDDEN
    return e / e.sum(-1, keepdims=True) @ V.astype(float)


def by_litert(graph: Graph, data: dict[str, Any], rows: range) -> Any:
    peer = LiteRT(model_content=write(graph))
    peer.allocate_tensors()
    results = []
    for i in rows:
        for name, (detail, tensor) in zip("xm", zip(peer.get_input_details(), graph.inputs, strict=True), strict=True):
            value = data[name][i].astype(np.float64)
            if tensor.quant is not None:
                limits = np.iinfo(detail["dtype"])
                value = np.clip(np.rint(value / tensor.scale) + tensor.zero, limits.min, limits.max)
            peer.set_tensor(detail["index"], value.astype(detail["dtype"]).reshape(tensor.shape))
        peer.invoke()
        detail, tensor = peer.get_output_details()[0], graph.outputs[0]
        results.append((peer.get_tensor(detail["index"]).astype(float) - tensor.zero) * tensor.scale)
    return np.array(results)


def ratio(want: Any, got: Any) -> float:
    return float(10 * np.log10(np.square(want).sum() / np.square(want - got.reshape(want.shape)).sum()))


@pytest.mark.parametrize(("mode", "least"), [("int8", 27), ("int16x8", 33)])
@pytest.mark.parametrize(
    ("form", "value"),
    [
        (form, value)
        for form in FORMS
        for value in (-np.inf, -1e9, -1e4)
        if value > -np.inf or form not in ("product", "difference")  # 0 times infinity is no mask
    ],
)
def test_masks_cost_nothing(form: str, value: float, mode: str, least: float) -> None:
    graph = attention(form, value)
    data = fed(graph, value)
    integer = twinfer.convert(graph, quantize=mode, calibration={k: v[:24] for k, v in data.items()})
    assert not [n for n in integer.nodes if n.op not in ("CAST", "DEQUANTIZE") and n.output.type == "FLOAT32"]
    got = by_litert(integer, data, range(24, 40))
    assert ratio(expected(0.5 if form == "scaled sum" else 1.0)[24:, 0], got) > least


#: Steps from scores to SOFTMAX: what is built, and the same in numpy on scores (and where they are hidden).
STEPS: dict[str, Any] = {
    "scale": (lambda b, t, c: b.op("MUL", [t, np.float32([c])]), lambda t, c: t * c),
    "scale from the left": (lambda b, t, c: b.op("MUL", [np.float32([c]), t]), lambda t, c: c * t),
    "shift": (lambda b, t, c: b.op("ADD", [np.float32([c]), t]), lambda t, c: t + c),
    "take away": (lambda b, t, c: b.op("SUB", [t, np.float32([c])]), lambda t, c: t - c),
    "take from": (lambda b, t, c: b.op("SUB", [np.float32([c]), t]), lambda t, c: c - t),
    "move": (lambda b, t, c: b.op("RESHAPE", [t, np.int32(t.shape)], new_shape=t.shape), lambda t, c: t),
}
FACTORS = st.sampled_from([-1.5, -1.0, -0.5, 0.5, 1.0, 1.5])


@settings(max_examples=25, deadline=None)
@given(
    before=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), FACTORS), max_size=2),
    after=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), FACTORS), max_size=3),
    way=st.sampled_from(["ADD", "SUB", "SUB from", "PRODUCT"]),
    mode=st.sampled_from(["int8", "int16x8"]),
    far=st.sampled_from([1e9, np.inf]),
)
def test_masks_by_way_of_any_arithmetic(before: Any, after: Any, way: str, mode: str, far: float) -> None:
    """Sums, differences, and factors of either sign, before the mask and behind it, in any order."""
    b = Builder("steps")
    x, m = b.input("x", "FLOAT32", (1, 3, WIDTH)), b.input("m", "FLOAT32", (1, 1, KEYS))
    t = b.op("FULLY_CONNECTED", [x, U], shape=(1, 3, KEYS), keep_num_dims=True)
    want, turned = X.astype(float) @ U.astype(float).T, 1.0  # the sign with which the mask comes to SOFTMAX
    for name, c in before:
        t, want = STEPS[name][0](b, t, c), STEPS[name][1](want, c)
    if way == "PRODUCT":
        t = b.op("ADD", [b.op("MUL", [m, np.float32([-0.25])]), t])
    else:
        t = b.op(way[:3], [m, t] if way == "SUB from" else [t, m])
    want, turned = -want if way == "SUB from" else want, -1.0 if way in ("SUB", "PRODUCT") else 1.0
    for name, c in after:
        t, want = STEPS[name][0](b, t, c), STEPS[name][1](want, c)
        turned *= -1 if name == "take from" or ("scale" in name and c < 0) else 1
    graph = b.graph([b.op("FULLY_CONNECTED", [b.op("SOFTMAX", [t], beta=1.0), V.T.copy()], keep_num_dims=True)])
    data = {"x": X, "m": np.where(HIDDEN, np.float32(-far * turned), np.float32(0))}
    integer = twinfer.convert(graph, quantize=mode, calibration={k: v[:24] for k, v in data.items()})
    e = np.exp(want - want.max(-1, keepdims=True)) * ~HIDDEN
    want = e / e.sum(-1, keepdims=True) @ V.astype(float)
    assert ratio(want[24:, 0], by_litert(integer, data, range(24, 40))) > 20


@settings(max_examples=10, deadline=None)
@given(value=st.floats(-(2.0**120), -5001, width=32), form=st.sampled_from(sorted(FORMS)))
def test_the_value_of_a_mask_does_not_matter(value: float, form: str) -> None:
    scales = []
    for graph, mask in ((attention(form, mask), mask) for mask in (value, -1e9)):
        integer = twinfer.convert(graph, quantize="int8", calibration={k: v[:4] for k, v in fed(graph, mask).items()})
        scales.append([t.scale for t in integer.tensors if t.name.startswith("fully") and t.data is None])
    assert scales[0]
    assert scales[0] == scales[1]


@pytest.mark.parametrize("value", [-np.inf, -1e4])
@pytest.mark.parametrize("form", ["select", "select, then sum", "sum"])
@pytest.mark.parametrize("method", ["minmax", "percentile", "mse", "entropy"])
def test_it_does_not_matter_which_sample_is_masked(form: str, value: float, method: str) -> None:
    graph = attention(form, value)
    files = set()
    for order in (range(8), reversed(range(8)), [3, 4, 5, 6, 7, 0, 1, 2]):
        order, data = [*order], fed(graph, value)
        shown = np.zeros_like(data["m"][:8])
        shown[2] = data["m"][np.flatnonzero(HIDDEN.any((1, 2, 3)))[0]]
        masked = {"x": X[:8][order], "m": shown[order]}
        files.add(write(twinfer.convert(graph, quantize="int8", calibration=masked, method=method)))
    assert len(files) == 1


def test_what_a_signature_gives_out_keeps_its_range() -> None:
    b = Builder("signature")
    x = b.input("x", "FLOAT32", (1, 8))
    masked = b.op("ADD", [x, np.float32([0, 0, 0, 0, 0, 0, 0, -1e4])])
    graph = b.graph([b.op("SOFTMAX", [masked], beta=1.0)])
    graph = replace(graph, signatures=(Signature("s", {"x": x}, {"y": graph.outputs[0], "masked": masked}),))
    with pytest.warns(twinfer.ModelWarning, match="worst"):
        integer = twinfer.convert(graph, quantize="int8", calibration=RNG.normal(0, 2, (8, 1, 8)).astype(np.float32))
    assert integer.signatures[0].outputs["masked"].scale * 255 > 1e4


@pytest.mark.parametrize(("form", "value"), [("sum", -1e9), ("select", -1e9), ("select", -4000.0)])
def test_a_row_that_is_masked_whole_leaves_the_range_alone(form: str, value: float) -> None:
    graph = attention(form, value)
    data = fed(graph, value)
    some = {"x": data["x"], "m": data["m"].copy()}
    some["m"][3] = value
    both = [twinfer.convert(graph, quantize="int8", calibration=d) for d in (data, some)]
    one, other = (node.input(0).scale for each in both for node in each.nodes if node.op == "SOFTMAX")
    assert 255 * one < 100
    assert other == pytest.approx(one, rel=0.2)


def test_the_report_looks_at_scores_only() -> None:
    graph = attention("select", -np.inf)
    data = fed(graph, -np.inf)
    converted = conversion(graph, quantize="int8", calibration=data)
    report = compare(converted.source, converted.graph, data, converted.seen)
    masked = next(t for t in report.tensors if t.operator == "SELECT_V2")
    assert masked.snr_db > 35
    assert masked.saturated == 0


@given(st.integers(1, 4000), st.sampled_from([8, 16]), st.floats(0.1, 4))
def test_all_masks_together_weigh_less_than_half_a_step(columns: int, bits: int, beta: float) -> None:
    b = Builder("n")
    node = b.graph([b.op("SOFTMAX", [b.input("x", "FLOAT32", (1, columns))], beta=beta)]).nodes[0]
    assert columns * np.exp(-beta * depth(node, bits)) <= 0.5 / 2**bits
    assert columns * np.exp(-beta * depth(node, bits)) > 0.05 / 2**bits


def test_rows_that_are_masked_whole_by_infinity_are_told() -> None:
    """Floats give NaN there."""
    graph = attention("select", -np.inf)
    data = fed(graph, -np.inf)
    with pytest.raises(twinfer.InvalidArgumentError, match="masked whole"):
        twinfer.convert(graph, quantize="int8", calibration={**data, "m": np.ones_like(data["m"])})
