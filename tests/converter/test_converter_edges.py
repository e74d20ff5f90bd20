"""Edge cases of ranges, scales and clips in the converter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cases import graph_of

from twinfer.converter.build import Builder
from twinfer.converter.facts import Parameters
from twinfer.converter.passes._clip import both
from twinfer.converter.quantize.affine import activation
from twinfer.converter.quantize.calibrate import calibrate
from twinfer.converter.quantize.methods import METHODS, method, mse
from twinfer.converter.quantize.observed import Observed
from twinfer.converter.quantize.quantize import quantize
from twinfer.converter.quantize.recipe import Recipe, Rule
from twinfer.converter.quantize.states import _cell
from twinfer.converter.quantize.weights import Layer, weight_quant
from twinfer.converter.search.journal import Journal
from twinfer.converter.search.loss import Goal
from twinfer.converter.search.space import Space
from twinfer.converter.search.strategy import Ledger
from twinfer.converter.search.trial import Trial
from twinfer.converter.table import version_of
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.plan.make import make_plan


@pytest.mark.parametrize("limits", [(1.0, 2.0), (-3.0, -1.0), (-4.0, 1.0), (0.0, 0.0), (0.0, 6.0)])
@pytest.mark.parametrize(("type", "least", "most"), [("INT8", -128, 127), ("INT16", -32767, 32767)])
def test_a_range_holds_its_ends_and_zero(limits: tuple[float, float], type: str, least: int, most: int) -> None:
    quant = activation(limits, type)
    scale, zero = float(quant.scale[0]), int(quant.zero_point[0])
    assert least <= zero <= most
    reach = (least - zero) * scale, (most - zero) * scale
    assert reach[0] <= min(limits[0], 0.0) + scale
    assert reach[1] >= max(limits[1], 0.0) - scale
    if type == "INT16":
        assert zero == 0
        assert scale == pytest.approx(max(-limits[0], limits[1]) / most) or limits == (0.0, 0.0)


def observed(*samples: list[float]) -> Observed:
    seen = Observed()
    for sample in samples:
        seen.add(np.array(sample, np.float32))
    return seen


def test_ranges_grow_with_what_is_seen() -> None:
    b = Builder("tanh")
    graph = b.graph([b.op("TANH", [b.input("x", "FLOAT32", (2,))])])
    seen = calibrate(graph, {"x": np.array([[-1, 1]], np.float32)})
    assert quantize(graph, seen).inputs[0].scale == pytest.approx(2 / 255)
    seen[graph.inputs[0]].add(np.array([-3, 3], np.float32))
    assert quantize(graph, seen).inputs[0].scale == pytest.approx(6 / 255)


def test_totals_are_of_all_samples() -> None:
    seen = observed([1, 2], [10, 20], [100, 200])
    assert seen.total is not None
    assert seen.total.tolist() == [111, 222]
    assert (seen.count, seen.low, seen.high) == (3, 1, 200)


@pytest.mark.parametrize("sign", [1, -1])
def test_mse_shrinks_either_end(sign: int) -> None:
    values = np.random.default_rng(0).uniform(0, 1, 20_000)
    seen = observed([*(sign * values).tolist(), sign * 3.0])
    low, high = mse(seen, "INT8")
    assert (low, high) != (seen.low, seen.high)
    assert max(-low, high) < 2.99


def test_mse_looks_at_the_first_end_again() -> None:
    values = np.concatenate([np.random.default_rng(0).normal(size=1_000_000), [-10.0] * 6, [20.0]])
    low, high = mse(observed(values.tolist()), "INT8")

    def error(low: float) -> float:
        scale = (high - low) / 255
        zero = np.round(-128 - low / scale)
        steps = np.clip(np.round(values / scale) + zero, -128, 127)
        return float(np.mean(((steps - zero) * scale - values) ** 2))

    assert error(low) <= 1.01 * min(map(error, np.linspace(-10, 0, 50)))


@pytest.mark.parametrize(("kept", "right"), [("100", True), ("50.1", True), ("50", False), ("100.1", False)])
def test_what_a_percentile_may_keep(kept: str, right: bool) -> None:
    if right:
        assert isinstance(method(f"percentile-{kept}"), Callable)  # type: ignore[arg-type]
        return
    with pytest.raises(InvalidArgumentError, match="50 < P <= 100"):
        method(f"percentile-{kept}")
    assert "minmax" in METHODS


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [((0, 6), (-1, 1), (0, 1)), ((0, 1), (2, 3), (2, 2)), ((4, 6), (-1, 1), (1, 1)), ((-9, 9), (0, 6), (0, 6))],
)
def test_one_clip_behind_another(first: tuple[float, float], second: tuple[float, float], want: object) -> None:
    assert both(first, second) == want
    for value in np.linspace(-10, 10, 41):
        assert np.clip(np.clip(value, *first), *second) == np.clip(value, *both(first, second))


def test_a_scale_that_the_kernel_would_refuse_is_widened() -> None:
    """Numbers around 100, minus 100: steps of the result would be far finer than the inputs' steps."""
    b = Builder("sub")
    graph = b.graph([b.op("SUB", [b.input("x", "FLOAT32", (1, 2)), np.full((1, 2), 100, np.float32)])])
    samples = {"x": np.array([[99.999, 100.001]], np.float32)}
    forced = Recipe((Rule(operator="SUB", precision="int8"),))
    (node,) = (n for n in quantize(graph, calibrate(graph, samples), forced).nodes if n.op == "SUB")
    make_plan(graph_of(node))
    assert node.output.scale == pytest.approx(100.001 / 4096 / 255, rel=1e-3)


@pytest.mark.parametrize(("limits", "exponent"), [((-9.0, 1.0), -11), ((-1.0, 9.0), -11), ((0.0, 4.0), -12)])
def test_a_cell_s_scale_reaches_either_end(limits: tuple[float, float], exponent: int) -> None:
    assert _cell(limits).scale.tolist() == [2.0**exponent]


def layer(weights: list[list[float]], bias: list[float]) -> Layer:
    b = Builder("dense")
    w, c = np.array(weights, np.float32), np.array(bias, np.float32)
    b.op("FULLY_CONNECTED", [b.input("x", "FLOAT32", (1, w.shape[1])), w, c])
    return Layer(b.nodes[0], Parameters(weights=1, bias=2))


def test_a_channel_without_weights_takes_another_s_scale() -> None:
    assert weight_quant(layer([[0, 0], [127, 1], [254, 0]], [0] * 3), 1.0).scale.tolist() == [2, 1, 2]
    assert weight_quant(layer([[0, 0]], [0]), 1.0).scale.tolist() == [1]


def test_a_large_bias_widens_the_scale_until_it_fits() -> None:
    """A bias of 1000 takes 2.7e11 steps of 2^-8 * 2^-20."""
    (scale,) = weight_quant(layer([[127 * 2.0**-20]], [1000.0]), 2.0**-8).scale.tolist()
    assert 2**29 < 1000 / (scale * 2.0**-8) <= 2**30


@pytest.mark.parametrize(("loss", "chosen"), [(0.1, True), (0.1000001, False)])
def test_a_loss_that_is_just_allowed(loss: float, chosen: bool) -> None:
    (setting, *_) = Space(("minmax",), ("int8",)).grid()
    ledger = Ledger(
        lambda what, asked: iter([(s, Trial(s, cost=1, loss=loss)) for s in asked]),
        Journal(None, "m", "d", {}),
        1,
        Goal(0.1),
    )
    ledger.attempt([setting])
    assert (ledger.chosen() is not None) is chosen


@pytest.mark.parametrize(("scale", "version"), [(0.25, 3), (0.2500001, 2), (0.125, 3)])
def test_a_product_that_is_not_scaled_down_has_a_version_of_its_own(scale: float, version: int) -> None:
    b = Builder("mul")
    x = b.input("x", "INT8", (2,), 0.5)
    b.op("MUL", [x, x], scale=scale)
    assert version_of(b.nodes[0]) == version
