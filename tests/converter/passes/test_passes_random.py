"""Random graphs: passes in any order keep integers bit by bit and floats within rounding. A second time changes
nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from chains import chain
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but
from pairs import pairs
from passes_tools import assert_same

from twinfer.converter.build import Builder
from twinfer.converter.passes import PASSES, PIPELINE, Pass, run
from twinfer.converter.passes.common_subexpressions import common_subexpressions
from twinfer.converter.passes.equalize import equalize
from twinfer.converter.passes.horizontal_merge import horizontal_merge
from twinfer.converter.text import text
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators
from twinfer.runtime.target import GENERIC

#: All passes that keep the interface.
EVERY = tuple(p for name, p in PASSES.items() if name != "nhwc_io")

CLIPS = ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
FUSED = ("NONE", "NONE", "RELU", "RELU6")


class Growing:
    """A growing chain of operators, chosen by ``draw``: float, or int8 with two quantisations."""

    #: What all elements of a constant are; None: random ones.
    numbers: st.SearchStrategy[float | None] = st.sampled_from([None, 0.0, 1.0, 6.0, -1.0])

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], type: str) -> None:
        self.draw, self.type = draw, type
        self.builder = Builder("random")
        self.rng = np.random.default_rng(draw(st.integers(0, 99)))
        self.quant = {"scale": 0.05, "zero": draw(st.sampled_from([-128, 3]))} if type == "INT8" else {}
        self.tensors = [self.builder.input(f"x{i}", type, (1, 4, 4, 2), **self.quant) for i in range(2)]

    def pick(self, shape: Sequence[int] | None = None, rank: int = 0) -> Tensor | None:
        """A tensor so far, later ones more often; None if none has the shape or rank."""
        fit = [t for t in self.tensors if shape is None or t.shape == tuple(shape)]
        fit = [t for t in fit if not rank or len(t.shape) == rank]
        return self.draw(st.sampled_from([*fit, *fit[-1:] * (2 * len(fit))])) if fit else None

    def op(self, op: str, inputs: Sequence[Any], **options: Any) -> None:
        self.tensors.append(self.builder.op(op, inputs, **options))

    def constant(self, shape: Sequence[int], **quant: Any) -> Tensor:
        one = self.draw(self.numbers)
        value = self.rng.normal(size=shape) if one is None else np.full(shape, one)
        if self.type == "FLOAT32":
            return self.builder.constant(value.astype(np.float32))
        quant = quant or self.quant
        stored = np.clip(np.round(value / quant["scale"]) + quant.get("zero", 0), -128, 127).astype(np.int8)
        return self.builder.constant(stored, **quant)

    # -- operators -------------------------------------------------------------------------------------------------

    def clip(self) -> None:
        other = {"scale": 0.03, "zero": -20} if self.quant and self.draw(st.booleans()) else {}
        self.op(self.draw(st.sampled_from(CLIPS)), [self.pick()], **other)

    def bound(self) -> None:
        x = self.pick()
        number = self.constant(())
        self.op(self.draw(st.sampled_from(["MAXIMUM", "MINIMUM"])), self.draw(st.permutations([x, number])))

    def arithmetic(self) -> None:
        """An operator with a constant: one number, one per channel, or one per row."""
        x = self.pick()
        forms = [(), x.shape[-1:], (*x.shape[:-1], 1)] if len(x.shape) > 1 else [(), x.shape]
        operands = [x, self.constant(self.draw(st.sampled_from(forms)))]
        op = self.draw(st.sampled_from(["ADD", "SUB", "MUL", "ADD", "MUL"]))
        self.op(op, self.draw(st.permutations(operands)), fused_activation_function=self.draw(st.sampled_from(FUSED)))

    def binary(self) -> None:
        x = self.pick()
        self.op(self.draw(st.sampled_from(["ADD", "SUB", "MAXIMUM"])), [x, self.pick(x.shape)])

    def transpose(self) -> None:
        x = self.pick()
        order = self.draw(st.permutations(range(len(x.shape))))
        orders = [order, (0, 2, 3, 1), (0, 3, 1, 2)] if len(x.shape) == 4 else [order]
        self.op("TRANSPOSE", [x, np.array(self.draw(st.sampled_from(orders)), np.int32)])

    def reshape(self) -> None:
        x = self.pick()
        shapes = [x.shape, (1, x.size), (*x.shape[:-1], 1, x.shape[-1]), (1, *x.shape)]
        shape = self.draw(st.sampled_from([s for s in shapes if len(s) <= 5]))
        self.op("RESHAPE", [x, np.array(shape, np.int32)], new_shape=shape)

    def move(self) -> None:
        x = self.pick()
        rank, axis = len(x.shape), self.draw(st.integers(0, len(x.shape) - 1))
        kind = self.draw(st.sampled_from(["PAD", "CONCATENATION", "SLICE", "MEAN", "CAST", "REQUANTIZE"]))
        if kind == "PAD":
            pads = self.rng.integers(0, 2, (rank, 2)) * self.draw(st.integers(0, 1))
            self.op("PAD", [x, pads.astype(np.int32)])
        elif kind == "CONCATENATION":
            self.op("CONCATENATION", [x] * self.draw(st.integers(1, 2)), axis=axis)
        elif kind == "SLICE":
            begin = np.minimum([d == axis for d in range(rank)], np.array(x.shape) - 1) * self.draw(st.integers(0, 1))
            self.op("SLICE", [x, begin.astype(np.int32), (np.array(x.shape) - begin).astype(np.int32)])
        elif kind == "MEAN":
            self.op("MEAN", [x, np.array([axis], np.int32)], keep_dims=rank < 2 or self.draw(st.booleans()))
        elif self.type == "INT8":
            self.op("QUANTIZE", [x], **self.draw(st.sampled_from([self.quant, {"scale": 0.08, "zero": 5}])))

    def there_and_back(self) -> None:
        x = self.pick()
        if self.type == "INT8":
            real = self.builder.op("DEQUANTIZE", [x], type="FLOAT32")
            self.op("QUANTIZE", [real], type="INT8", scale=x.scale, zero=x.zero)

    def layer(self) -> None:
        x = self.pick(rank=4)
        if x is None:
            return
        kind = self.draw(st.sampled_from(["CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D"]))
        size = self.draw(st.integers(1, min(3, x.shape[1], x.shape[2])))
        padding, stride = self.draw(st.sampled_from(["SAME", "VALID"])), self.draw(st.integers(1, 2))
        options = {"padding": padding, "stride_h": stride, "stride_w": stride}
        if padding == "VALID" and self.draw(st.booleans()):
            x = self.padded(x)
        if kind.endswith("POOL_2D"):
            return self.op(kind, [x], filter_height=size, filter_width=size, **options)
        depth = x.shape[3]
        shape = (2, size, size, depth) if kind == "CONV_2D" else (1, size, size, depth)
        w = self.constant(shape, scale=0.02)
        more = {} if kind == "CONV_2D" else {"depth_multiplier": 1}
        return self.op(kind, [x, w, self.bias(2 if kind == "CONV_2D" else depth)], **options, **more)

    def padded(self, x: Tensor) -> Tensor:
        pads = np.array([(0, 0), *[(self.draw(st.integers(0, 1)), 1)] * 2, (0, 0)], np.int32)
        value = self.draw(st.sampled_from(["PAD", "least", "number"]))
        if value == "PAD":
            return self.builder.op("PAD", [x, pads])
        least = np.float32(-np.inf) if self.type == "FLOAT32" else np.int8(-128)
        quant = {} if x.quant is None else {"scale": x.scale, "zero": x.zero}
        lowest = self.builder.constant(np.array(least), **quant)
        number = lowest if value == "least" else self.constant((), **quant)
        return self.builder.op("PADV2", [x, pads, number])

    def dense(self) -> None:
        x = self.pick()
        for _ in range(self.draw(st.integers(1, 2))):
            rows = self.draw(st.sampled_from([x.shape[-1], x.size]))
            self.op("FULLY_CONNECTED", [x, self.constant((3, rows), scale=0.02), self.bias(3)])

    def bias(self, channels: int) -> Tensor | None:
        if self.draw(st.booleans()):
            return None
        kind = np.float32 if self.type == "FLOAT32" else np.int32
        return self.builder.constant(self.rng.integers(-9, 9, channels).astype(kind))

    def again(self) -> None:
        if self.builder.nodes and len(self.builder.nodes[-1].outputs) == 1:
            node = self.builder.nodes[-1]
            y = Tensor(f"again_{len(self.builder.nodes)}", node.output.type, node.output.shape, node.output.quant)
            self.tensors += self.builder.node(node.op, node.inputs, [y], node.options)


KINDS = (
    "clip", "bound", "arithmetic", "arithmetic", "binary", "transpose", "transpose", "reshape", "move", "move",
    "there_and_back", "layer", "layer", "layer", "dense", "dense", "clip", "again",
)  # fmt: skip


@st.composite
def graphs(draw: Callable[[st.SearchStrategy[Any]], Any], type: str) -> Graph:
    g = Growing(draw, type)
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=14)):
        getattr(g, kind)()
    usable = [t for node in g.builder.nodes for t in node.outputs if t.type == type] or g.tensors[:1]
    ends = [usable[-1], *draw(st.lists(st.sampled_from(usable), max_size=2))]
    return g.builder.graph(list(dict.fromkeys(ends)))


PIPELINES = st.one_of(st.just(PIPELINE), st.lists(st.sampled_from(EVERY), min_size=1, max_size=6))


@settings(max_examples=80, deadline=None)
@given(graphs("INT8"), PIPELINES)
def test_any_passes_keep_integers_bit_by_bit(graph: Graph, pipeline: Sequence[Pass]) -> None:
    assert_same(graph, run(graph, pipeline))


@settings(max_examples=80, deadline=None)
@given(graphs("FLOAT32"), PIPELINES)
def test_any_passes_keep_floats_within_rounding(graph: Graph, pipeline: Sequence[Pass]) -> None:
    assert_same(graph, run(graph, pipeline))


#: Operators whose result may have any scale.
SCALED = ("ADD", "SUB", "MUL", "QUANTIZE", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", *CLIPS)


@st.composite
def twins(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Graph:
    """Two operators over one input that differ in one thing at most: scale, an option, one number; others read them."""
    g = Growing(draw, draw(st.sampled_from(["INT8", "INT8", "FLOAT32"])))
    g.numbers = st.none()
    while not g.builder.nodes:
        getattr(g, draw(st.sampled_from(["clip", "arithmetic", "layer", "dense", "move", "transpose", "bound"])))()
    node = g.builder.nodes[-1]
    inputs, options, quant = [*node.inputs], dict(node.options), node.output.quant
    constants = [i for i, t in enumerate(inputs) if t is not None and t.data is not None and t.type != "INT32"]
    fused = options.get("fused_activation_function")
    others = ["nothing"] + ["scale", "zero"] * (quant is not None and node.op in SCALED)
    others += ["number"] * bool(constants) + ["option"] * (fused is not None and node.op != "CONCATENATION")
    others += ["constant's scale"] * (quant is not None and bool(constants) and node.op in SCALED)
    other = draw(st.sampled_from(others))
    if other in ("scale", "zero"):
        quant = replace(
            quant, **{"scale": {"scale": quant.scale * 2}, "zero": {"zero_point": quant.zero_point + 9}}[other]
        )
    if other == "number":
        changed = np.array(inputs[constants[-1]].data)
        changed.reshape(-1)[-1] += 1 if changed.reshape(-1)[-1] < 100 else -1
        of = inputs[constants[-1]].quant
        inputs[constants[-1]] = g.builder.constant(
            changed, *((of.scale.tolist(), of.zero_point.tolist()) if of else ())
        )
    if other == "constant's scale" and (of := inputs[constants[0]].quant):
        same = np.asarray(inputs[constants[0]].data)
        inputs[constants[0]] = g.builder.constant(same, (2 * of.scale).tolist(), of.zero_point.tolist())
    if other == "option":
        options["fused_activation_function"] = "RELU" if fused == "NONE" else "NONE"
    twin = replace(node.output, name="twin", quant=quant)
    g.builder.node(node.op, inputs, [twin], options)
    ends = [
        g.builder.op("NEG" if t.type == "FLOAT32" else "DEQUANTIZE", [t], type="FLOAT32") for t in (node.output, twin)
    ]
    return g.builder.graph(ends)


@settings(max_examples=60, deadline=None)
@given(twins(), PIPELINES)
def test_operators_that_differ_in_one_thing(graph: Graph, pipeline: Sequence[Pass]) -> None:
    assert_same(graph, run(graph, pipeline))
    assert_same(graph, run(graph, [common_subexpressions]))


@st.composite
def siblings(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Graph, int]:
    """Layers over one input, and how many become one: all that differ in channels and values alone."""
    g = Growing(draw, draw(st.sampled_from(["INT8", "FLOAT32"])))
    g.numbers, ends, alike = st.none(), list[Tensor](), 0
    dense = draw(st.booleans())
    x = g.tensors[0]
    oddness = draw(
        st.sampled_from(["", "bias", "option", "scale", "zero", "shared", "weights", "per channel", "other"])
    )
    shared = g.constant((3, 2) if dense else (3, 1, 1, 2), scale=0.02)
    biased, many = draw(st.booleans()), draw(st.booleans()) and bool(g.quant)
    for i in range(3):
        odd = oddness if i == 2 else ""
        n = draw(st.integers(2, 4))
        w = g.constant((n, 2) if dense else (n, 1, 1, 2), scale=0.05 if odd == "weights" else 0.02)
        if many != (odd == "per channel") and g.quant:
            scales = [0.01 * (k + 1 + i) for k in range(n)]
            w = g.builder.constant(np.asarray(w.data), scales, [0] * n)
        w = shared if oddness == "shared" else w
        kind = np.float32 if g.type == "FLOAT32" else np.int32
        bias = g.builder.constant(g.rng.integers(-9, 9, w.shape[0]).astype(kind)) if biased != (odd == "bias") else None
        fused = "RELU" if odd == "option" else "NONE"
        more = {} if dense else {"padding": "SAME", "stride_h": 1, "stride_w": 1}
        quant = {"scale": 0.1 if odd == "scale" else 0.3, "zero": 5 if odd == "zero" else 2} if g.quant else {}
        source = g.tensors[1] if odd == "other" else x
        op = "FULLY_CONNECTED" if dense else "CONV_2D"
        own = {"keep_num_dims": True} if dense else {}
        shape = (*source.shape[:-1], w.shape[0])
        ends.append(g.builder.op(op, [source, w, bias], shape, fused_activation_function=fused, **more, **own, **quant))
        apart = odd in ("bias", "option", "other") or (
            odd in ("scale", "zero", "per channel", "weights") and bool(g.quant)
        )
        apart &= not (odd == "weights" and many)
        alike += not apart and oddness != "shared"
    return g.builder.graph(ends), alike


@settings(max_examples=60, deadline=None)
@given(siblings())
def test_layers_over_one_input_become_one(drawn: tuple[Graph, int]) -> None:
    graph, alike = drawn
    merged = horizontal_merge(graph)
    assert_same(graph, merged)
    count = sum(node.op in ("CONV_2D", "FULLY_CONNECTED") for node in merged.nodes)
    assert count == (4 - alike if alike > 1 else 3)


@st.composite
def neighbours(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Graph, bool]:
    """Two layers, and whether channels may be scaled between them."""
    g = Growing(draw, "FLOAT32")
    g.numbers = st.none()
    first, second = (draw(st.sampled_from(["CONV_2D", "DEPTHWISE_CONV_2D"])) for _ in "ab")
    fused, between = (
        draw(st.sampled_from(["NONE", "RELU", "RELU", "RELU6"])),
        draw(st.sampled_from(["", "", "RELU", "ABS"])),
    )
    odd, x = draw(st.sampled_from(["", "", "read twice", "output", "shared", "bias", "bias", "times"])), g.tensors[0]

    def layer(op: str, x: Tensor, fused: str, times: int) -> tuple[Tensor, Tensor]:
        depth = x.shape[3] * times if op == "DEPTHWISE_CONV_2D" else 3
        shape = (1, 2, 2, depth) if op == "DEPTHWISE_CONV_2D" else (depth, 2, 2, x.shape[3])
        w = g.builder.constant((g.rng.normal(size=shape) * g.rng.uniform(0.1, 9, shape[-1])).astype(np.float32))
        bias = g.builder.constant(g.rng.normal(size=depth).astype(np.float32)) if draw(st.booleans()) else None
        if odd == "bias":
            bias = g.builder.op("MEAN", [x, np.int32([0, 1, 2])], keep_dims=False) if depth == x.shape[3] else bias
        more = {"depth_multiplier": times} if op == "DEPTHWISE_CONV_2D" else {}
        own = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": fused, **more}
        return g.builder.op(op, [x, w, bias], **own), w

    y, w = layer(first, x, fused, 1)
    middle = g.builder.op(between, [y]) if between else y
    times = 2 if odd == "times" else 1
    end, _ = layer(second, middle, "RELU6", times)
    ends = [end, *([g.builder.op("ABS", [y])] if odd == "read twice" else []), *([y] if odd == "output" else [])]
    if odd == "shared":
        ends.append(g.builder.op("ABS", [w]))
    free = fused in ("NONE", "RELU") and between in ("", "RELU") and odd in ("", "times", "bias")
    known = all(
        t is None or t.data is not None for node in g.builder.nodes if "CONV" in node.op for t in node.inputs[1:]
    )
    return g.builder.graph(ends), free and known and not (odd == "times" and second == "DEPTHWISE_CONV_2D")


@settings(max_examples=60, deadline=None)
@given(neighbours())
def test_equalised_layers_have_ranges_alike(drawn: tuple[Graph, bool]) -> None:
    """The function stays; where it may, the greatest weights of each channel agree on both sides of it."""
    graph, free = drawn
    even = equalize(graph)
    assert_same(graph, even)
    first, second = (node for node in even.nodes if "CONV" in node.op)
    peaks = []
    for node, into in ((first, False), (second, True)):
        axis = 3 if node.op == "DEPTHWISE_CONV_2D" or into else 0
        w = np.abs(np.asarray(node.input(1).data))
        peaks.append(w.max(tuple(d for d in range(4) if d != axis)))
    if free:
        np.testing.assert_allclose(peaks[0], peaks[1], rtol=0.01)
    else:
        pairs = [
            pair for x, y in zip(graph.nodes, even.nodes, strict=True) for pair in zip(x.inputs, y.inputs, strict=True)
        ]
        assert all(a is b or (a is not None and np.array_equal(a.data, b.data)) for a, b in pairs)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["INT8", "FLOAT32"]).flatmap(graphs), st.sampled_from(EVERY))
def test_every_pass_finds_nothing_behind_itself(graph: Graph, step: Pass) -> None:
    once = step(graph)
    assert text(step(once)) == text(once)


@pytest.mark.parametrize("count", deep_but([6, 20], 6))
@pytest.mark.parametrize("op", operators())
def test_pairs_of_operators_keep_their_meaning(op: str, count: int) -> None:
    """One of the operator's cases and one of another's, joined, through the whole pipeline."""
    ran = 0
    for graph in pairs(op, count):
        try:
            make_plan(graph, GENERIC)
        except TwinferError:
            continue  # as an output that another operator's quantisation does not fit
        ran += 1
        assert_same(graph, run(graph))
    assert ran or op.startswith("CUSTOM:SignalFilterBank"), "only for filter banks no other has what they read"


@pytest.mark.parametrize("first", deep_but(range(0, 1500, 100), 0, 100, 200, 300))
def test_chains_of_operators_with_constants_keep_their_meaning(first: int) -> None:
    graphs = [chain(seed) for seed in range(first, first + 100)]
    results = [run(graph) for graph in graphs]
    for graph, result in zip(graphs, results, strict=True):
        assert_same(graph, result)
    fewer = [len(result.nodes) < len(graph.nodes) for graph, result in zip(graphs, results, strict=True)]
    assert sum(fewer) > 40
