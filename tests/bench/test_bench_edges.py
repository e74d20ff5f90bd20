"""Edge cases of reports: a difference that is just allowed, a figure at its limit, values that are NaN."""

from __future__ import annotations

import numpy as np
import pytest

from twinfer.bench.measure.embedded import agree
from twinfer.bench.models.verify import Difference, compare


def difference(within: bool) -> Difference:
    return Difference(0, (0,), 1.0, 2.0, 1.0, within)


def test_integers_agree_bit_by_bit_and_floats_nearly() -> None:
    value = np.array([100.0, 1.0], np.float32)
    assert agree(value, value + np.float32(1e-6))
    assert not agree(value, value + np.float32(1))
    assert agree(value.astype(np.int8), value.astype(np.int8))
    assert not agree(value.astype(np.int8), value.astype(np.int8) + np.int8(1))


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


def test_differences_at_their_limits() -> None:
    """One that is just allowed; the first that is not is named; a NaN of other bits is a NaN, a number is none."""
    ours = np.array([4.0, 1.0, 1.0], np.float32)
    for tolerance, within, element in ((0.5, True, 0), (0.4999, False, 2), (0.1, False, 2)):
        found = compare(0, ours, ours + np.array([0.1, 0, 2], np.float32), tolerance)
        assert found is not None
        assert (found.within, found.element) == (within, (element,))
    odd = np.array([np.nan, 1.0], np.float32)
    payload = odd.copy()
    payload.view(np.uint32)[0] = 0xFFC12345
    assert compare(0, odd, payload, 0) is None
    for a, b in ((np.nan, 0.0), (0.0, np.nan)):
        found = compare(0, np.array([1, a], np.float32), np.array([1, b], np.float32), 1e-5)
        assert found is not None
        assert (found.within, found.element, found.largest) == (False, (1,), np.inf)
