"""Ranges, scales and clips of the converter at their edges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from twinfer.converter.affine import activation
from twinfer.converter.build import Builder
from twinfer.converter.calibrate import Observed, calibrate
from twinfer.converter.methods import CLIPPED, METHODS, _error, _outside, entropy, method, mse
from twinfer.converter.passes._clip import both
from twinfer.converter.quantize import quantize
from twinfer.converter.search.pareto import front
from twinfer.runtime.errors import InvalidArgumentError


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


def test_totals_are_of_all_samples() -> None:
    seen = observed([1, 2], [10, 20], [100, 200])
    assert seen.total is not None
    assert seen.total.tolist() == [111, 222]
    assert (seen.count, seen.low, seen.high) == (3, 1, 200)


def test_ranges_grow_with_what_is_seen() -> None:
    """What a quantisation has reckoned with does not hold once there are more samples."""
    b = Builder("tanh")
    graph = b.graph([b.op("TANH", [b.input("x", "FLOAT32", (2,))])])
    seen = calibrate(graph, {"x": np.array([[-1, 1]], np.float32)})
    assert quantize(graph, seen).inputs[0].scale == pytest.approx(2 / 255)
    seen[graph.inputs[0]].add(np.array([-3, 3], np.float32))
    assert quantize(graph, seen).inputs[0].scale == pytest.approx(6 / 255)


@pytest.mark.parametrize("sign", [1, -1])
def test_mse_shrinks_either_end(sign: int) -> None:
    """One value far out at one end, thousands around the other."""
    values = np.random.default_rng(0).uniform(0, 1, 20_000)
    seen = observed([*(sign * values).tolist(), sign * 3.0])
    low, high = mse(seen, "INT8")
    assert (low, high) != (seen.low, seen.high)
    assert max(-low, high) < 2.99


def test_mse_looks_at_the_first_end_again() -> None:
    """Narrowed while the other end was far out, it was narrowed too much."""
    values = np.random.default_rng(0).normal(size=1_000_000)
    seen = observed([*values.tolist(), *[-10.0] * 6, 20.0])
    low, high = mse(seen, "INT8")
    least = min(_error(seen, (end, high), "INT8") for end in np.linspace(-10, 0, 50))
    assert _error(seen, (low, high), "INT8") <= 1.01 * least


def test_entropy_clips_few() -> None:
    """Where half of the values lie far out, they are kept, however well a narrow range would tell of the rest."""
    rng = np.random.default_rng(0)
    seen = observed([*rng.normal(0, 0.1, 5000), *rng.normal(8, 0.01, 500)])
    assert _outside(seen, entropy(seen, "INT8")) <= CLIPPED


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


def test_a_point_that_gains_nothing_is_not_on_the_front() -> None:
    assert front([(1, 5), (2, 5), (3, 4), (3, 4), (4, 4), (5, 1)]) == [0, 2, 5]
