"""Pruning and clustering: what they promise of the values, and models that still run."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from cases import outputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import random_graph, random_samples

from twinfer.bench.models.builtin import float_model
from twinfer.bench.peers.engines import open_peer
from twinfer.converter.build import Builder
from twinfer.converter.compress.blocks import Block, block, budgets, energies, mask, zeros
from twinfer.converter.compress.cluster import codebook, snap
from twinfer.converter.compress.layers import footprints, layers_of
from twinfer.converter.compress.prune import prune
from twinfer.converter.convert import conversion, convert
from twinfer.converter.quantize.recipe import Choice, Recipe, Rule, recipe
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC
from twinfer.runtime.write.tflite import write

WINDOW: dict[str, Any] = {"padding": "SAME", "stride_h": 1, "stride_w": 1}

seeds = st.integers(0, 2**32 - 1)
shapes = st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 9))
squares = st.builds(lambda seed, shape: np.random.default_rng(seed).random(shape), seeds, shapes)
blocks = st.builds(Block, st.integers(1, 5), st.integers(1, 5))


# -- which weights go --------------------------------------------------------------------------------------------------


@given(values=squares, shape=blocks, data=st.data())
def test_blocks_go_as_a_whole_and_as_few_as_will_do(values: Any, shape: Block, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, values.size))
    gone = ~mask(values, count, shape)
    sums, sizes = energies(gone.astype(float), shape)
    assert np.isin(sums, [0]).sum() + (sums == sizes).sum() == sums.size
    assert gone.sum() >= count
    means = (energies(values, shape)[0] / sizes)[sums > 0]
    if means.size:  # without the last block it would have been too few
        last = sizes[sums > 0][means.argmax()]
        assert gone.sum() - last < count
        assert means.max() <= (energies(values, shape)[0] / sizes)[sums == 0].min(initial=np.inf)


@given(values=squares, many=st.integers(2, 5), data=st.data())
def test_n_of_m(values: Any, many: int, data: st.DataObject) -> None:
    keep = data.draw(st.integers(1, many - 1))
    kept = mask(values, 0, Block(1, many, keep))
    for first in range(0, values.shape[2], many):
        part, held = values[..., first : first + many], kept[..., first : first + many]
        assert (held.sum(2) == min(keep, part.shape[2])).all()
        assert (np.where(held, part, np.inf).min(2) >= np.where(held, 0, part).max(2)).all()


@given(layers=st.lists(st.tuples(squares, blocks), min_size=1, max_size=4), share=st.floats(0.01, 0.99))
def test_layers_share_the_zeros_and_none_is_emptied(layers: Any, share: float) -> None:
    total = sum(values.size for values, _ in layers)
    counts = budgets(layers, zeros(share, total))
    assert sum(counts) >= zeros(share, total)
    greatest = max(int(energies(values, shape)[1].max()) for values, shape in layers)
    assert sum(counts) - greatest < zeros(share, total)
    for (values, shape), count in zip(layers, counts, strict=True):
        assert (~mask(values, count, shape)).sum() == count
        assert count < values.size or zeros(share, total) > total - greatest * len(layers)


@pytest.mark.parametrize("text", ["", "1", "0x4", "4x", "axb", "4:2", "2:2", "1x4x1", "1×4"])
def test_shapes_of_blocks(text: str) -> None:
    assert block("1x4") == Block(1, 4)
    assert block("2:4") == Block(1, 4, 2)
    with pytest.raises(InvalidArgumentError, match="N:M"):
        block(text)


# -- clusters ----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.integers(-5, 5), min_size=1, max_size=12),
    count=st.integers(1, 4),
    keep_zero=st.booleans(),
    seed=seeds,
)
def test_the_codebook_is_the_best_there_is(values: list[int], count: int, keep_zero: bool, seed: int) -> None:
    stored = np.array(values, np.float64)
    importance = np.random.default_rng(seed).uniform(0.1, 2, stored.size)

    def cost(book: Any) -> float:
        return float((importance * (stored - snap(stored, np.asarray(book, np.float64))) ** 2).sum())

    best = codebook(stored, importance, count, keep_zero)
    assert len(best) <= count
    assert set(best) <= set(range(-5, 6))
    fixed = keep_zero and 0 in values
    assert 0 in best or not fixed
    every = [c for c in combinations(range(-5, 6), min(count, 11)) if 0 in c or not fixed]
    assert cost(best) <= min(map(cost, every)) + 1e-9


# -- graphs ------------------------------------------------------------------------------------------------------------

LAYERS = ["conv", "depthwise", "transpose_conv", "dense"]


def float_graph(seed: int = 1) -> Graph:
    return random_graph(seed, LAYERS)


def outputs(graph: Graph, values: list[Any]) -> list[Any]:
    return outputs_of(Session(make_plan(graph)), values)


@pytest.mark.filterwarnings("ignore:the int.* model:twinfer.runtime.errors.ModelWarning")
@pytest.mark.parametrize("mode", [None, "int8", "int4"])
@pytest.mark.filterwarnings("ignore:the int4 model's outputs:twinfer.runtime.errors.ModelWarning")
def test_pruned_graphs_have_the_zeros(mode: str | None) -> None:
    graph = float_graph()
    if mode:
        graph = convert(graph, quantize=mode, calibration=random_samples(3, graph, 4))
    rules = (Rule(operator="TRANSPOSE_CONV", prune=0.3), Rule(operator="DEPTHWISE_CONV_2D", prune=0.0))
    wanted = Recipe(rules, Choice(prune=0.75))
    pruned = prune(graph, wanted)
    before, after = layers_of(graph), layers_of(pruned)
    rest = [0, 0]
    for old, new in zip(before, after, strict=True):
        gone = (new.stored() == 0) & (old.stored() != 0)
        np.testing.assert_array_equal(new.stored()[~gone], old.stored()[~gone])
        count = int((new.stored() == 0).sum())
        if old.node.op == "TRANSPOSE_CONV":
            assert count == max(zeros(0.3, old.tensor.size), int((old.stored() == 0).sum()))
        elif old.node.op == "DEPTHWISE_CONV_2D":
            assert new.tensor is old.tensor
        else:
            rest = [rest[0] + count, rest[1] + old.tensor.size]
    assert rest[0] >= zeros(0.75, rest[1])
    by_layer = layers_of(prune(graph, Recipe(default=Choice(prune=0.5)), scope="layer"))
    assert all((w.stored() == 0).sum() >= zeros(0.5, w.tensor.size) for w in by_layer)


def test_depthwise_layers_are_pruned_if_a_recipe_says_so() -> None:
    """What ``prune=`` spares is a default: any rule of the user's counts more, in a file or not."""
    rng, b = np.random.default_rng(3), Builder("spared")
    x = b.input("x", "FLOAT32", (1, 4, 4, 8))
    y = b.op("DEPTHWISE_CONV_2D", [x, rng.normal(size=(1, 3, 3, 8)).astype(np.float32)], **WINDOW, depth_multiplier=1)
    y = b.op("CONV_2D", [y, rng.normal(size=(8, 1, 1, 8)).astype(np.float32)], **WINDOW)
    graph = b.graph([y])
    for rules, wanted in (
        ((), (0, 0.5)),
        ((Rule(operator="DEPTHWISE_CONV_2D", prune=0.25),), (0.25, 0.5)),
        ((Rule(".*", prune=0.25),), (0.25, 0.25)),
        ((Rule(operator="CONV_2D", prune=0.75),), (0, 0.75)),
        ((Rule(operator="CONV_2D", prune=0.0), Rule(operator="DEPTHWISE_CONV_2D", prune=0.5)), (0.5, 0)),
    ):
        pruned = convert(graph, prune=0.5, prune_scope="layer", recipe=Recipe(rules))
        assert tuple((w.stored() == 0).mean() for w in layers_of(pruned)) == wanted


#: Pruned and clustered without fitting, outputs are at 16 dB.
POOR = pytest.mark.filterwarnings("ignore:the int8 model's outputs:twinfer.runtime.errors.ModelWarning")


@pytest.mark.filterwarnings("ignore:the int.* model:twinfer.runtime.errors.ModelWarning")
@pytest.mark.parametrize("compensate", [pytest.param(False, marks=POOR), True])
def test_pruned_and_clustered_it_runs_everywhere_with_the_same_bits(compensate: bool) -> None:
    graph = float_graph(7)
    data = random_samples(3, graph, 6)
    converted = conversion(graph, quantize="int8", calibration=data, prune=0.5, cluster=3, compensate=compensate)
    for weights in layers_of(converted.graph):
        assert len(np.unique(weights.stored())) <= 8
    pruned = {w.name: w for w in layers_of(converted.pruned)}
    for weights in layers_of(converted.graph):
        if weights.node.op != "DEPTHWISE_CONV_2D":
            assert not weights.stored()[pruned[weights.name].stored() == 0].any()
    content, values = write(converted.graph), random_inputs(converted.graph, 5)
    again = conversion(graph, quantize="int8", calibration=data, prune=0.5, cluster=3, compensate=compensate)
    assert write(again.graph) == content
    want = outputs(converted.graph, values)
    coded = outputs_of(Session(make_plan(converted.graph, GENERIC, Options(weights="auto"))), values)
    for results in (coded, *(open_peer(peer, content, len(want))(values) for peer in ("tflm", "litert-ref"))):
        for got, expected in zip(results, want, strict=True):
            np.testing.assert_array_equal(got.reshape(expected.shape), expected)


# -- flash -------------------------------------------------------------------------------------------------------------


def test_footprints() -> None:
    """Bytes of the look-up table, the bitmap and Huffman's code of a few values, counted by hand."""
    stored = np.array([[0] * 60 + [5, 5, -7, 1]], np.int8)
    b = Builder("one")
    x = b.input("x", "INT8", (1, 64), scale=0.1)
    y = b.op("FULLY_CONNECTED", [x, b.constant(stored, scale=0.1), None], shape=(1, 1), scale=0.1)
    (row,) = footprints(b.graph([y]))
    assert (row.weights, row.distinct, row.sparsity, row.plain) == (64, 4, 60 / 64, 64)
    assert row.entropy_bits == pytest.approx((60 * np.log2(64 / 60) + 2 * 5 + 2 * 6) / 64)
    assert 16 + 4 <= row.lut <= 16 + 4 + 4
    assert 8 + 4 <= row.bitmap <= 8 + 4 + 4
    assert -(-(60 + 2 * 2 + 3 + 3) // 8) + 4 + 3 <= row.huffman <= 32
    assert row.least == row.bitmap


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"prune": 1.0}, "prune 1.0: the share"),
        ({"prune": -0.1}, "from 0 to below 1"),
        ({"prune": float("nan")}, "from 0 to below 1"),
        ({"prune": 0.5, "prune_block": "4"}, "'4' is no block"),
        ({"prune": 0.7, "prune_block": "2:4"}, "2:4 makes 0.5 of the weights zero, not 0.7"),
        ({"prune": 0.5, "prune_scope": "tensor"}, "'tensor' is no scope"),
        ({"prune_block": "1x4"}, "mean nothing without prune"),
        ({"prune_scope": "layer"}, "mean nothing without prune"),
        ({"cluster": 1}, "cluster 1: .* of 2 to 7 bits"),
        ({"cluster": 8}, "cluster 8: .* of 2 to 7 bits"),
        ({"cluster": 4}, "nothing to cluster: .*quantise"),
        ({"compensate": True}, "compensate means nothing without prune"),
        ({"compensate": True, "prune": 0.5}, "give calibration="),
        ({"compensate": True, "prune": 0.5, "calibration": iter([])}, "read more than once"),
        ({"prune": 0.5, "calibration": {}}, "without quantize"),
        ({"recipe": Recipe((Rule("nowhere", prune=0.5),))}, "nothing to prune"),
    ],
)
def test_arguments_that_do_not_fit(how: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        convert(float_model("digits"), **how)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"prune": "half"}, "prune must be a number"),
        ({"prune": True}, "prune must be a number"),
        ({"prune": 2}, "rule 1: prune 2"),
        ({"cluster": 2.5}, "cluster must be a whole number"),
        ({"cluster": 9}, "rule 1: cluster 9"),
        ({"prune_block": "x"}, "rule 1: 'x' is no block"),
    ],
)
def test_recipes_that_do_not_fit(rule: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        recipe({"rule": [{"operator": "CONV_2D", **rule}]})


@pytest.mark.parametrize("read", ["by ADD", "as an output"])
def test_what_another_operator_reads_is_left_alone(read: str) -> None:
    b = Builder("shared")
    x = b.input("x", "FLOAT32", (4, 4))
    w = b.constant(np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32))
    y = b.op("FULLY_CONNECTED", [x, w, None], shape=(4, 4))
    graph = b.graph([b.op("ADD", [y, w], shape=(4, 4))] if read == "by ADD" else [y, w])
    assert layers_of(graph) == []
    with pytest.raises(InvalidArgumentError, match=r"nothing to prune: .*FULLY_CONNECTED"):
        prune(graph, Recipe(default=Choice(prune=0.5)))
