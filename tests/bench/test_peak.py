"""The floor of a model: what the peak of this machine and its constants allow."""

from __future__ import annotations

import pytest
import tiny

from twinfer.bench.host.peak import Peak, peak
from twinfer.bench.models.source import load
from twinfer.runtime.plan.make import make_plan


def test_the_floor_is_the_longer_of_both() -> None:
    plan = make_plan(load("digits_int8").graph)
    fast = 1e12
    assert Peak(2.0, fast, fast).floor_us(plan) == pytest.approx(plan.macs / 2e3)
    assert Peak(fast, fast, 4.0).floor_us(plan) == pytest.approx(plan.constant_bytes / 4e3)
    assert Peak(fast, 2.0, fast).floor_us(plan) < 1
    assert Peak(fast, 2.0, fast).floor_us(make_plan(load("digits_float32").graph)) == pytest.approx(plan.macs / 2e3)


def test_this_machine_has_rates() -> None:
    rates = peak()
    assert rates is peak()
    assert rates.int8 > rates.float32 > 0
    assert rates.l2 > 1
    assert rates.floor_us(tiny.dense()) > 0
