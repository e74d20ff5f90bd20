"""Edge cases of reports: a difference that is just allowed, a figure at its limit, values that are NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tiny

from twinfer.bench.measure import compare as host
from twinfer.bench.measure.embedded import agree
from twinfer.bench.measure.limits import INSTRUCTIONS, Standing, Verdict, mean
from twinfer.bench.measure.report import bits, number
from twinfer.bench.measure.turns import Timing
from twinfer.bench.models.difference import Difference, compare
from twinfer.bench.models.verify import Line, Proof


def difference(within: bool) -> Difference:
    return Difference(0, (0,), 1.0, 2.0, 1.0, within)


def test_differences_of_what_is_no_number() -> None:
    for kind in ("U1", "c8"):
        value = np.zeros(2, kind)
        assert host.max_difference([value], [value]) is None
    assert host.max_difference([np.array([1, -3], np.int8)], [np.array([1, 5], np.int8)]) == 8


def test_layers_have_their_shortest_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sessions take turns until the time is over, here after two turns."""
    clock = iter([0.0, 0.1, 0.2, 9.0])
    monkeypatch.setattr(host.time, "perf_counter", lambda: next(clock))

    class Fake:
        plan = tiny.dense()

        def __init__(self, *times: list[int]) -> None:
            self.times: Iterator[list[int]] = iter(times)

        def profile(self, runs: int) -> list[int]:
            return next(self.times)

    sessions: list[Any] = [Fake([9, 2, 5], [4, 3, 5], [8, 8, 1]), Fake([1, 1, 1], [2, 2, 2], [3, 0, 3])]
    rows = host._layers(sessions, 1.0)
    assert [[round(1e3 * row["min_us"]) for row in layers] for layers in rows] == [[4, 2, 1], [1, 0, 1]]


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 2.5), (0.9, 3.7), (1.0, 4)])
def test_quantiles_lie_between(share: float, value: float) -> None:
    assert Timing((4, 1, 3, 2)).quantile(share) == pytest.approx(value)


def test_a_difference_that_is_just_allowed() -> None:
    ours, other = np.array([2.0, 1.0], np.float32), np.array([2.0, 1.5], np.float32)
    for tolerance, within in ((0.25, True), (0.2499, False)):
        difference = compare(0, ours, other, tolerance)
        assert difference is not None
        assert difference.within is within
        assert difference.element == (1,)


def test_the_element_that_is_named_is_the_guilty_one() -> None:
    ours = np.array([4.0, 1.0, 1.0], np.float32)
    difference = compare(0, ours, ours + np.array([0.1, 0, 2], np.float32), 0.1)
    assert difference is not None
    assert difference.element == (2,)


def test_a_fault_is_not_covered_by_what_is_allowed() -> None:
    line = Line(tiny.dense().graph.outputs[0], None)
    for within in (True, False, True):
        line.add("compiled", difference(within))
    worst = line.differences["compiled"]
    assert worst is not None
    assert not worst.within
    line.add("tflm", None)
    line.add("tflm", difference(False))
    assert line.differences["tflm"] is not None


def test_litert_judges_where_tflm_cannot() -> None:
    graph = tiny.dense().graph
    line = Line(graph.outputs[0], None, {"litert-ref": difference(False)})
    for notes in ({"tflm": "no kernel"}, {}):  # TFLM could not run it, or was not asked
        without = Proof("m", graph, [line], 1, notes)
        assert "litert-ref" in without.judges
        assert not without.proven
    line.add("tflm", None)
    assert Proof("m", graph, [line], 1).proven


@pytest.mark.parametrize(
    ("value", "text"),
    [(1000, "1,000"), (999.96, "1,000.0"), (99.9, "99.90"), (100, "100.0"), (10, "10.00"), (9.9, "9.900")],
)
def test_four_digits(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("engine", "agrees", "style"),
    [("compiled on cortex-m4", True, "yellow"), ("compiled on cortex-m4", False, "bold red"), ("tflm", None, "yellow")],
)
def test_colour_of_a_difference(engine: str, agrees: bool | None, style: str) -> None:
    row = {"engine": engine, "same_bits": False, "max_difference": 1e-6, "agrees": agrees}
    assert str(bits(row).style) == style


def test_integers_agree_bit_by_bit_and_floats_nearly() -> None:
    value = np.array([100.0, 1.0], np.float32)
    assert agree(value, value + np.float32(1e-6))
    assert not agree(value, value + np.float32(1))
    assert agree(value.astype(np.int8), value.astype(np.int8))
    assert not agree(value.astype(np.int8), value.astype(np.int8) + np.int8(1))


def test_a_figure_that_is_its_limit_is_within() -> None:
    assert Verdict(1.1, 1.1).good is True
    assert Verdict(1.1001, 1.1).good is False
    assert Verdict(5.0).good is None


def test_the_mean_s_limit_is_that_of_the_fastest_code() -> None:
    ratios = {"speed": Verdict(0.5), "size": Verdict(2.0)}
    nothing = Verdict(1.0)
    standing = [Standing("kws", "cortex-m4", ratios, {}, nothing, nothing, nothing)]
    for setting, most in (("speed", INSTRUCTIONS["cortex-m4"][0]), ("size", None)):
        average = mean(standing, setting)
        assert average is not None
        assert average[0].value == pytest.approx(ratios[setting].value)
        assert (average[0].most, average[1]) == (most, 1)


@pytest.mark.parametrize("seed", range(6))
def test_differences_of_random_values(seed: int) -> None:
    """Element by element: bits, NaN like NaN, the tolerance of the largest finite value, and which element is named."""
    rng = np.random.default_rng(seed)
    for kind in ("f4", "i1", "f4", "i4"):
        ours = (rng.standard_normal((2, 5)) * rng.choice([1e-6, 1, 1e4])).astype(kind)
        other = ours.copy()
        for at in rng.integers(0, 10, rng.integers(0, 4)):
            step = rng.choice([1e-7, 1e-4, 2]) * (np.abs(ours).max() if kind == "f4" else 4)
            other.reshape(-1)[at] += np.asarray(step).astype(kind)
        if kind == "f4":
            for at in rng.integers(0, 10, rng.integers(0, 3)):
                ours.reshape(-1)[at] = other.reshape(-1)[at] = rng.choice([np.nan, np.inf, -np.inf, -0.0])
        tolerance = float(rng.choice([0, 1e-5]))
        found = compare(7, ours, other.reshape(10) if seed % 2 else other, tolerance)
        pairs = list(zip(ours.reshape(-1).tolist(), other.reshape(-1).tolist(), strict=True))
        apart = [i for i, (a, b) in enumerate(pairs) if not (a != a and b != b) and (a != b)]
        if not apart:
            assert found is None
            continue
        largest = max(abs(pairs[i][0] - pairs[i][1]) for i in apart)
        allowed = tolerance * max((abs(a) for a, _ in pairs if np.isfinite(a)), default=0)
        far = [i for i in apart if abs(pairs[i][0] - pairs[i][1]) > allowed]
        named = (far or apart)[0]
        assert found is not None
        assert (found.sample, found.element) == (7, divmod(named, 5))
        assert (found.interpreted, found.other) == pairs[named]
        assert found.largest == pytest.approx(largest)
        assert found.within == (kind == "f4" and tolerance > 0 and not far)
