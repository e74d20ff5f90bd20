"""Measuring: the order of runs, by a clock that only moves when told, and the report of a comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tiny

from twinfer.aot.build.compiled import CompiledModel
from twinfer.bench.measure import compare as comparing
from twinfer.bench.measure.compare import Comparison, compare, max_difference, same_bits
from twinfer.bench.measure.report import kernel_suffix
from twinfer.bench.measure.turns import BATCH_NS, MAX_BATCH, MIN_ROUNDS, Timing, interleave
from twinfer.bench.models.source import Source, load
from twinfer.bench.peers import engines as peers
from twinfer.bench.peers.engines import installed, isolate, open_peer
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run import session as sessions
from twinfer.runtime.run.session import Session


class World:
    """Runs that take a given time on a clock of their own. ``log`` lists the runs."""

    def __init__(self) -> None:
        self.now = 0
        self.log: list[str] = []

    def clock(self) -> int:
        return self.now

    def run(self, name: str, *ns: int) -> Callable[[], None]:
        times = list(ns)

        def run() -> None:
            self.log.append(name)
            self.now += times.pop(0) if len(times) > 1 else times[0]

        return run


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    against = [peer for peer in ("litert", "tflm") if installed(peer)]
    return compare(Source("tiny", tiny.classifier()), Comparison(against, layers=True, rounds=5))


def test_every_engine_gets_a_batch_a_round_and_the_first_changes() -> None:
    world = World()
    slow = BATCH_NS * 2
    times = interleave({n: world.run(n, slow) for n in "abc"}, rounds=3, clock=world.clock)
    warm_up = world.log[:15]  # for each: once alone, then two tries of a batch of one, which begins with a call
    assert warm_up == [name for name in "abc" for _ in range(5)]
    assert "".join(world.log[15:]) == "aabbcc" + "bbccaa" + "ccaabb"
    assert all(t == Timing((slow,) * 3, 1) for t in times.values())


def test_batches_are_long_enough_for_the_clock() -> None:
    world = World()
    times = interleave(
        {"quick": world.run("quick", 700), "slow": world.run("slow", 10**6)}, rounds=2, clock=world.clock
    )
    assert BATCH_NS <= times["quick"].batch * 700 <= 2 * BATCH_NS
    assert times["slow"].batch == 1
    assert times["quick"].min == times["quick"].median == 700
    assert times["slow"].spread == 0


def test_a_clock_that_stands_still_ends() -> None:
    world = World()
    times = interleave({"instant": world.run("instant", 0)}, rounds=1, clock=world.clock)
    assert times["instant"].batch == MAX_BATCH


def test_time_is_for_all_together_and_a_few_rounds_are_always_made() -> None:
    world = World()
    both = {"a": world.run("a", 10**8), "b": world.run("b", 10**8)}
    assert len(interleave(both, seconds=4, clock=world.clock)["a"].ns) == 10  # two calls of each a round
    assert len(interleave(both, seconds=0.001, clock=world.clock)["b"].ns) == MIN_ROUNDS


def test_first_call_of_a_batch_does_not_count() -> None:
    world = World()
    cold_then_warm = world.run("x", *[10**6] * 5, *[9 * 10**6, 10**6] * 3)
    assert interleave({"x": cold_then_warm}, rounds=3, clock=world.clock)["x"].ns == (10**6,) * 3


def test_progress_and_nothing_to_do() -> None:
    world, told = World(), list[float]()
    interleave({"a": world.run("a", 10**6)}, rounds=4, clock=world.clock, progress=told.append)
    assert told == [0.25, 0.5, 0.75, 1.0]
    assert interleave({}) == {}


def test_quantiles() -> None:
    timing = Timing(tuple(float(i) for i in range(100, -1, -1)))
    assert (timing.min, timing.median, timing.spread, timing.quantile(1)) == (0, 50, 80, 100)
    assert Timing((1.0, 2.0)).median == 1.5


def test_twins_have_the_same_bits(rows: list[dict[str, Any]]) -> None:
    assert rows[1]["same_bits"] is True
    assert rows[1]["max_difference"] == 0
    assert rows[0]["ratio"] == 1


def test_variants() -> None:
    names = {
        "CONV_2D": "tw_conv2d_wide_s8",
        "AVERAGE_POOL_2D": "tw_average_pool_2d_s8",
        "TANH": "tw_table_8",
        "PAD": "tw_pad",
    }
    assert [kernel_suffix(*pair) for pair in names.items()] == ["wide_s8", "s8", "table_8", "pad"]


def test_differences() -> None:
    a, b = [np.array([1, 2], np.int8)], [np.array([1, -3], np.int8)]
    assert (same_bits(a, a), same_bits(a, b), max_difference(a, b)) == (True, False, 5)
    assert not same_bits(a, [a[0].astype(np.int16)])
    assert max_difference(a, [np.zeros(3)]) is None
    assert not same_bits([np.zeros((1, 4))], [np.zeros(4)]), "the same bytes in another shape"
    assert not same_bits(a, [*a, *a])
    for odd in ([np.nan, 1], [np.inf, 1], [1, -np.inf]):
        assert max_difference([np.ones(2)], [np.array(odd)]) is None
        assert max_difference([np.array(odd)], [np.array(odd)]) is None, "no number, even where both have it"
    assert max_difference([np.ones(2), np.array([np.nan])], [np.ones(2) * 9, np.ones(1)]) is None
    assert max_difference([np.zeros(2), np.zeros(1)], [np.array([1.0, -7.0]), np.array([3.0])]) == 7
    assert max_difference([np.array([-128, 0], np.int8)], [np.array([127, 0], np.int8)]) == 255
    assert max_difference([np.zeros((0, 3))], [np.zeros((0, 3))]) == 0
    assert not same_bits([np.array([0.0])], [np.array([-0.0])])
    for kind in ("U1", "c8"):
        assert max_difference([np.zeros(2, kind)], [np.zeros(2, kind)]) is None, "no number"


def test_sources(tmp_path: Any) -> None:
    source = load("digits_int8")
    path = tmp_path / "copy.tflite"
    path.write_bytes(source.content)
    copy = load(str(path))
    assert (copy.name, copy.sha256) == ("copy", source.sha256)
    for wrong in ("no_such_model", str(tmp_path / "absent.tflite"), str(tmp_path)):
        with pytest.raises(InvalidArgumentError):
            load(wrong)


def test_profile_takes_off_what_the_clock_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(make_plan(tiny.classifier()))
    monkeypatch.setattr(sessions, "_clock_ns", lambda: 10**12)
    assert session.profile(2) == [0, 0], "never less than nothing"
    monkeypatch.setattr(sessions, "_clock_ns", lambda: -(10**12))
    assert all(ns > 10**12 for ns in session.profile(2))


class SecondWrong(CompiledModel):
    """A model that is right in its first run only."""

    runs = 0

    def invoke(self) -> None:
        super().invoke()
        self.runs += 1
        if self.runs > 1:
            self.session.view(self.plan.graph.outputs[0])[...] += 1


def test_a_second_inference_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "CompiledModel", SecondWrong)
    compiled = compare(Source("tiny", tiny.classifier()), Comparison(rounds=1))[1]
    assert compiled["same_bits"] is False
    assert compiled["max_difference"] == pytest.approx(1)


@pytest.mark.parametrize("peer", ["tflm", "litert", "litert-ref"])
def test_peers_alone_and_in_a_process_of_their_own(peer: str) -> None:
    if not installed(peer):
        pytest.skip(f"{peer} is not installed")
    source = Source("tiny", tiny.classifier())
    samples = [[np.full((1, 8), i, np.float32)] for i in range(11)]  # more than ten: their order is not that of names
    apart = isolate(peer, source.content, samples, 1)
    runner = open_peer(peer, source.content, 1)
    for sample, (value,) in zip(samples, apart, strict=True):
        np.testing.assert_array_equal(runner(sample)[0], value)


def test_unknown_and_absent_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError, match="there is no peer"):
        installed("nobody")
    monkeypatch.setattr(peers, "installed", lambda peer: False)
    with pytest.raises(ToolError, match="pip install"):
        open_peer("tflm", b"", 1)
