"""Ends of sums by the upper half of one product: the outputs of two roundings, for every sum."""

from __future__ import annotations

import numpy as np
import pytest

from twinfer.runtime.graph import Array
from twinfer.runtime.ops.core.requantize import Channels, fast_channels
from twinfer.runtime.ops.isa.tiles import Ends, ends_of, packed_s8
from twinfer.runtime.variant import Declined


def outputs(sums: Array, ends: Ends, c: int) -> Array:
    """What tw_tiles_output of kernels_c/isa/tiles/tile_s8.h gives; no part of it may leave 32 bits."""
    wide = sums << ends.end["up"]
    high = (wide * int(ends.mult[c])) >> 32
    if ends.end["dips"]:
        high = high - np.where(high < 0, int(ends.dip[c]), 0)
    high = high + int(ends.rounding[c])
    assert max(np.abs(wide).max(), np.abs(high).max()) < 1 << 31
    return (high >> ends.end["right"]).clip(ends.end["low"], ends.end["high"])


def drawn(rng: np.random.Generator, spread: int, *, alike: bool) -> Channels | None:
    """Channels whose shifts differ by up to ``spread``, with one multiplier if they are ``alike``."""
    out, k = int(rng.integers(1, 6)), int(rng.integers(1, 24))
    w = rng.integers(-128, 128, (out, k)).astype(np.int8)
    mult = rng.integers(1 << 30, 1 << 31, out)
    shift = rng.integers(-14, 0) - rng.integers(0, spread + 1, out)
    if alike:
        mult[:], shift[:] = mult[0], shift[0]
    if rng.random() < 0.2:
        w[0] = 0
    zero = int(rng.choice([-128, 127, 0, rng.integers(-128, 128)]))
    low, high = (zero, 127) if rng.random() < 0.4 else (-128, 127)
    bias = rng.integers(-5000, 5000, out)
    return fast_channels(
        Channels(w, bias.astype(np.int32), mult.astype(np.int32), shift.clip(-22, -1).astype(np.int8), zero, low, high)
    )


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("spread", [0, 3])
def test_all_sums_have_the_outputs_of_two_roundings(spread: int, alike: bool) -> None:
    rng, checked, dips = np.random.default_rng([spread, alike]), 0, set[int]()
    for _ in range(40):
        channels = drawn(rng, spread, alike=alike)
        if channels is None:
            continue
        ends = ends_of(channels)
        assert not alike or ends.mults == 1 or not channels.weights.any(axis=1).all()
        dips.add(ends.end["dips"])
        for c, (least, most) in enumerate(zip(*channels.ends(), strict=True)):
            sums = np.arange(least, most + 1, max(1, (most - least) // 9973))
            want = channels.part(c, c + 1).outputs(sums[:, None])[:, 0]
            moved = int(ends.bias[c]) - int(channels.bias[c])  # of channels without weights
            assert np.array_equal(outputs(sums + moved, ends, c), want)
            checked += 1
    assert checked > 80
    assert dips == {0, 1}


def test_sums_that_a_product_cannot_tell_apart_are_declined() -> None:
    """A second channel whose multiplier is 2^20 times as small keeps few bits of it."""
    w = np.full((2, 400), 127, np.int8)
    mult, shift = np.array([1 << 30, (1 << 31) - 1], np.int32), np.array([-1, -21], np.int8)
    channels = fast_channels(Channels(w, np.zeros(2, np.int32), mult, shift, 0, -128, 127))
    assert channels is not None
    with pytest.raises(Declined, match="upper half"):
        ends_of(channels)


def test_weights_lie_four_channels_by_four() -> None:
    w = np.arange(10, dtype=np.int8).reshape(5, 2)
    assert packed_s8(w).reshape(-1).tolist() == [0, 2, 4, 6, 1, 3, 5, 7, 8, 0, 0, 0, 9, 0, 0, 0]
