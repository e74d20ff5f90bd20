"""The parts of a search: front, loss, data, journal, settings, and the order of trials."""

from __future__ import annotations

import functools
import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.converter.build import Builder
from twinfer.converter.quantize.recipe import Rule
from twinfer.converter.search.data import gather
from twinfer.converter.search.journal import Journal
from twinfer.converter.search.loss import CONFIDENCE, Goal, judge, student
from twinfer.converter.search.space import CORRECTIONS, PRECISIONS, Setting, Space
from twinfer.converter.search.strategy import Ledger, choices, explore, front, mix
from twinfer.converter.search.trial import Trial
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Tensor

# -- front -------------------------------------------------------------------------------------------------------------

COORDINATE = st.integers(-4, 4) | st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(COORDINATE, COORDINATE), max_size=40))
def test_the_front_is_the_set_of_points_that_nothing_beats(points: list[tuple[float, float]]) -> None:
    chosen = front(points)
    own = [points[i] for i in chosen]
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(own))
    for i, (cost, loss) in enumerate(points):
        beaten = any((c <= cost and v < loss) or (c < cost and v <= loss) for c, v in points)
        assert ((cost, loss) in own) == (not beaten)
        assert i not in chosen or points.index((cost, loss)) == i


# -- loss --------------------------------------------------------------------------------------------------------------

SCORES = (Tensor("y", "FLOAT32", (1, 3)),)
FLOATS = np.array([[[5, 1, 1]], [[1, 5, 1]], [[1, 1, 5]], [[5, 1, 1]]], np.float32)


@given(st.integers(0, 2**32 - 1), st.sampled_from([(3,), (1, 3), (2, 3), (1, 4, 5)]), st.booleans())
def test_every_answer_counts_also_where_a_sample_has_several(seed: int, shape: tuple[int, ...], labelled: bool) -> None:
    rng = np.random.default_rng(seed)
    floats, outputs = rng.integers(0, 9, (2, 7, *shape)).astype(np.float32) + rng.random((2, 7, *shape), np.float32)
    labels = rng.integers(0, shape[-1], (7, *shape[:-1])) if labelled else None
    judgement = judge((Tensor("y", "FLOAT32", shape),), [floats], labels, "auto")
    wanted = floats.argmax(-1) if labels is None else labels
    right, own = (
        [bool(a == b) for a, b in zip(y.argmax(-1).flat, wanted.flat, strict=True)] for y in (outputs, floats)
    )
    assert judgement.score([outputs]) == sum(right) / len(right)
    assert judgement.float_score == sum(own) / len(own)
    assert judgement.loss([outputs]) == (sum(own) - sum(right)) / len(right)
    assert judgement.step == 1 / len(right)


ONE = (Tensor("y", "FLOAT32", (1, 1)),)


@pytest.mark.parametrize(
    ("outputs", "floats", "labels", "metric", "message"),
    [
        (SCORES, FLOATS, np.array([0, 1, 2, 3]), "auto", r"labels are 0 to 3.*classes 0 to 2"),
        (SCORES, FLOATS, np.array([0, 1, 2, -1]), "auto", "labels are -1 to 2"),
        (SCORES, FLOATS, np.zeros((4, 2), np.int64), "auto", r"labels \[4, 2\].*1 per sample"),
        (SCORES, FLOATS, np.zeros(4), "auto", "3 targets per sample; classes must be whole numbers"),
        (SCORES, FLOATS, np.zeros(4, np.int64), "error", "whole numbers, which are classes"),
        (SCORES, FLOATS, np.zeros((4, 3)), "answers", "floats, which are targets"),
        (SCORES, FLOATS, None, "speed", "'speed' is no metric"),
        (SCORES, FLOATS * np.nan, None, "auto", "'y'.*not finite"),
        (ONE, FLOATS[..., :1], None, "answers", "arg-max"),
        (ONE, np.ones((4, 1, 1), np.float32), None, "auto", "the same on every judged sample"),
        (SCORES * 2, FLOATS, np.zeros(4, np.int64), "auto", "models of one output"),
    ],
)
def test_what_cannot_be_judged(outputs: Any, floats: Any, labels: Any, metric: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        judge(outputs, [floats] * len(outputs), labels, metric)


def test_what_is_sure_holds_for_other_samples_about_as_often_as_it_says() -> None:
    """Noise whose energy falls exponentially from sample to sample, as often as not far above its mean."""
    rng, held, trials = np.random.default_rng(8), 0, 300
    tensor = Tensor("y", "FLOAT32", (1, 30))
    for _ in range(trials):
        floats = rng.normal(size=(24, 1, 30)).astype(np.float32)
        noise = rng.normal(size=floats.shape) * np.sqrt(rng.exponential(0.01, (24, 1, 1)))
        judgement, outputs = judge([tensor], [floats], None, "error"), [(floats + noise).astype(np.float32)]
        assert judgement.sure_db(outputs) < judgement.snr_db(outputs)
        held += judgement.sure_db(outputs) <= 20
    assert held / trials > CONFIDENCE - 0.03
    assert judgement.sure_db([floats]) == judgement.snr_db([floats])
    lone = judgement.first(1)
    assert lone.sure_db([outputs[0][:1]]) == pytest.approx(lone.snr_db([outputs[0][:1]]))


@pytest.mark.parametrize(("freedom", "value"), [(3, 2.353), (7, 1.895), (11, 1.796), (23, 1.714), (1000, 1.646)])
def test_student(freedom: int, value: float) -> None:
    assert student(freedom) == pytest.approx(value, rel=0.02)


def test_a_mix_that_meets_the_goal_is_thinned_towards_the_cheaper_one_that_misses_it() -> None:
    """Each of eight layers costs one more in float, and the goal needs that of the third and the fourth."""
    names = [f"layer{i}" for i in range(8)]

    def run(what: str, settings: Sequence[Setting]) -> Iterator[tuple[Setting, Any]]:
        for setting in settings:
            if what == "mixes":
                yield setting, [[[n, "int8"] for n in names], [[n, "float"] for n in names]]
            else:
                own = [setting.of(name) == "float" for name in names]
                yield setting, Trial(setting, 10 + sum(own), loss=0.0 if own[2] and own[3] else 1.0, sha256="0")

    ledger = Ledger(run, Journal(None, *ABOUT), 40, Goal(0.05))
    ledger.attempt([Setting("int8", "minmax")])
    mix(ledger, Space(), names)
    chosen = ledger.chosen()
    assert chosen is not None
    assert dict(chosen.setting.layers) == {"layer2": "float", "layer3": "float"}


# -- data --------------------------------------------------------------------------------------------------------------


def net(layers: int = 3) -> Graph:
    b, rng = Builder("net"), np.random.default_rng(5)
    x = b.input("x", "FLOAT32", (1, 4))
    for _ in range(layers):
        weights = [rng.normal(size=shape).astype(np.float32) for shape in ((4, 4), (4,))]
        x = b.op("FULLY_CONNECTED", [x, *weights], fused_activation_function="NONE")
    return b.graph([x])


ROWS = np.random.default_rng(6).normal(size=(40, 4)).astype(np.float32)


def test_the_split_is_seeded_and_disjoint() -> None:
    labels = np.arange(40) % 4
    one, same, other = (gather(net(), {"x": ROWS, "labels": labels}, seed=seed) for seed in (1, 1, 2))
    assert [len(d.calibration["x"]) for d in (one, other)] == [10, 10]
    assert one.sha256 == same.sha256 == other.sha256
    for name in ("calibration", "judged"):
        np.testing.assert_array_equal(getattr(one, name)["x"], getattr(same, name)["x"])
        assert not np.array_equal(getattr(one, name)["x"], getattr(other, name)["x"])
    where = [int(np.flatnonzero((row == ROWS).all(1))[0]) for row in one.judged["x"][:, 0]]
    assert one.labels is not None
    assert labels[where].tolist() == one.labels.tolist()
    both = np.concatenate([one.calibration["x"], one.judged["x"]])
    np.testing.assert_array_equal(np.sort(both[:, 0], axis=0), np.sort(ROWS, axis=0))


def test_samples_that_equal_a_calibration_sample_do_not_judge(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=ROWS[:3])
    samples = gather(net(), {"x": ROWS, "labels": np.arange(40)}, tmp_path / "own.npz")
    np.testing.assert_array_equal(samples.judged["x"][:, 0], ROWS[3:])
    assert samples.labels is not None
    assert samples.labels.tolist() == list(range(3, 40))
    assert samples.sha256 != gather(net(), {"x": ROWS, "labels": np.arange(40)}).sha256
    twice = gather(net(), {"x": np.concatenate([ROWS, ROWS])})
    calibrated = {row.tobytes() for row in twice.calibration["x"]}
    assert not calibrated & {row.tobytes() for row in twice.judged["x"]}


def test_an_input_called_labels_is_an_input() -> None:
    b = Builder("b")
    graph = b.graph([b.op("ADD", [b.input("labels", "FLOAT32", (1, 4)), b.input("x", "FLOAT32", (1, 4))])])
    samples = gather(graph, {"labels": ROWS, "x": ROWS})
    assert samples.labels is None
    assert set(samples.judged) == {"labels", "x"}


@pytest.mark.parametrize(
    ("data", "how", "message"),
    [
        ({"x": ROWS, "labels": np.zeros(39)}, {}, "40 samples but 39 labels"),
        ({"x": ROWS, "labels": np.float32(3)}, {}, "40 samples but 0 labels"),
        ({"x": ROWS, "labels": ["a"] * 40}, {}, "labels of dtype <U1"),
        ({"x": ROWS, "labels": np.full((40, 2), np.nan)}, {}, r"label at \[0, 0\] is nan"),
        ({"x": np.full((4, 4), np.inf, np.float32)}, {}, "sample 0, input 'x'.*inf"),
        ({"y": ROWS, "z": ROWS}, {}, "the model's inputs 'x', not 'y', 'z'"),
        ({"x": ROWS[:1]}, {}, "cannot calibrate on 1 of 1 samples"),
        ({"x": ROWS[:0]}, {}, "empty"),
        ({"x": ROWS}, {"count": 40}, "cannot calibrate on 40 of 40"),
        ({"x": ROWS}, {"count": 0}, "cannot calibrate on 0 of 40"),
        (
            {"x": ROWS},
            {"calibration": {"x": ROWS}},
            r"all 40 samples \(40 distinct\) are calibration samples: judging needs others",
        ),
        (
            {"x": np.zeros_like(ROWS)},
            {},
            r"all 40 samples \(1 distinct\) are calibration samples: judging needs others",
        ),
        ("none.npz", {}, "none.npz: cannot be read"),
    ],
)
def test_data_that_do_not_fit(data: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        gather(net(), data, how.pop("calibration", None), **how)


# -- journal -----------------------------------------------------------------------------------------------------------

ABOUT = ("m" * 64, "d" * 64, {"seed": 1})


def test_a_journal_remembers_and_drops_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    first = Journal(path, *ABOUT)
    first.add({"trial": {"a": (1, 2)}}, {"loss": 0.1 + 0.2})
    first.add({"trial": {"a": (1, 3)}}, {"loss": -1.5e-7})
    whole = path.read_bytes()
    for end in range(whole.index(b"\n") + 1, len(whole), 9):
        path.write_bytes(whole[:end])
        again = Journal(path, *ABOUT)
        assert again.get({"trial": {"a": [1, 2]}}) == {"loss": 0.1 + 0.2}
        assert again.get({"trial": {"a": (1, 3)}}) is None
        again.add({"trial": {"a": (1, 3)}}, {"loss": -1.5e-7})
        assert path.read_bytes() == whole
    path.write_bytes(whole[:7])
    assert Journal(path, *ABOUT).get({"trial": {"a": (1, 2)}}) is None
    assert path.read_bytes() == b""


def test_a_journal_may_hold_other_searches_but_not_of_other_files(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    Journal(path, *ABOUT).add({"trial": 1}, 2)
    other = Journal(path, *ABOUT[:2], {"seed": 2})
    assert other.get({"trial": 1}) is None
    other.add({"trial": 1}, 3)
    assert [Journal(path, *ABOUT[:2], {"seed": seed}).get({"trial": 1}) for seed in (1, 2)] == [2, 3]
    for what, about in (("model", ("x" * 64, *ABOUT[1:])), ("data", (ABOUT[0], "x" * 64, ABOUT[2]))):
        with pytest.raises(
            InvalidArgumentError, match=rf"j.jsonl, line 1: the journal of other {what} \(SHA-256 [md]{{12}}"
        ):
            Journal(path, *about)
    for text in ("not JSON\n", "[]\n", '{"model": 1}\n', "\n", "[" * 100_000 + "\n", '{"chosen": 1}', "no line end"):
        path.write_text(text)
        with pytest.raises(InvalidArgumentError, match="line 1: this is no line of a search's journal"):
            Journal(path, *ABOUT)
        assert path.read_text() == text
    with pytest.raises(InvalidArgumentError, match="cannot be used as a journal"):
        Journal(tmp_path, *ABOUT)


# -- settings ----------------------------------------------------------------------------------------------------------


# -- strategy ----------------------------------------------------------------------------------------------------------

Outcome = Callable[[Setting], Trial]


def by_layers(needed: int) -> Outcome:
    """The loss falls with every raised layer of an int4 model, and is 0 from ``needed`` on; nothing else matters."""

    def outcome(setting: Setting) -> Trial:
        cost = 100 * PRECISIONS.index(setting.precision) + 10 * len(setting.layers)
        loss = 0.0 if setting.precision != "int4" else max(0.0, 0.1 * (needed - len(setting.layers)))
        return Trial(setting, cost, loss=loss, snr_db=-loss, sha256="0")

    return outcome


def tried(outcome: Outcome, space: Space, graph: Graph, *, limit: int = 200, seed: int = 0, shuffle: int = 0) -> Ledger:
    """A search with invented outcomes, which arrive in another order for every ``shuffle``. Mixes have 0, 1, 2, … of
    the layers, from the last one on, in the second precision."""
    names = [node.output.name for node in graph.nodes][::-1]
    mixed = [[(n, space.precisions[i < count]) for i, n in enumerate(names)] for count in range(len(names) + 1)]

    def run(what: str, settings: Sequence[Setting]) -> Iterator[tuple[Setting, Any]]:
        order = random.Random(shuffle).sample(list(settings), len(settings))
        yield from ((s, outcome(s) if what == "trial" else mixed) for s in order)

    ledger = Ledger(run, Journal(None, *ABOUT), limit, Goal(0.05))
    explore(ledger, space, graph, seed)
    return ledger


@pytest.mark.parametrize("needed", [1, 2, 3, 6, 7, 11, 12])
def test_the_cheapest_mix_that_meets_the_goal_is_found(needed: int) -> None:
    ledger = tried(by_layers(needed), Space(("minmax",), ("int4", "int8")), net(12), limit=18)
    chosen = ledger.chosen()
    assert chosen is not None
    want = 10 * needed if needed < 10 else 100  # from there on the whole model in int8 is as cheap
    assert chosen.cost == want
    raised = [name for name, _ in chosen.setting.layers]
    last = [node.output.name for node in net(12).nodes][::-1]  # what ``mixes`` puts first
    assert set(raised) == (set(last[:needed]) if needed < 10 else set())


@pytest.mark.parametrize("limit", [1, 5, 18, 30])
def test_no_more_trials_than_allowed_and_none_twice(limit: int) -> None:
    ledger = tried(by_layers(99), Space(("minmax", "mse")), net(4), limit=limit)
    assert len(ledger.trials) == limit
    assert list(ledger.trials) == list(tried(by_layers(99), Space(("minmax", "mse")), net(4)).trials)[:limit]


@pytest.mark.parametrize("seed", range(12))
def test_each_round_starts_from_the_best_of_every_precision_and_recipe(seed: int) -> None:
    """Least loss, then least noise, of those that did not fail: corrections, then mixes for every recipe."""

    def outcome(setting: Setting) -> Trial:
        rng = random.Random(f"{seed} {json.dumps(setting.json())}")
        loss, error = rng.choice([0.05, 0.1, 0.2]), "no" if rng.random() < 0.2 else ""
        snr_db = rng.choice([1.0, 2.0, 3.0])
        return Trial(setting, rng.randrange(99), loss=loss, snr_db=snr_db, sha256="0", error=error)

    recipes = {"a": (Rule("nothing"),), "b": (Rule(operator="CONV_2D", precision="int8"),)}
    methods, precisions, graph = ("minmax", "mse", "entropy"), PRECISIONS[seed % 3 :], net(3)
    done = [*tried(outcome, Space(methods, precisions, recipes), graph).trials.values()]
    bases = [p for p in precisions if p != "float"]

    def best(trials: list[Trial]) -> list[Trial]:
        kinds = [[t for t in trials if (t.setting.precision, t.setting.recipe) == kind and not t.error]
                 for kind in itertools.product(bases, ("", "a", "b"))]  # fmt: skip
        return [min(kind, key=badness) for kind in kinds if kind]

    def badness(trial: Trial) -> tuple[float, float]:
        return trial.loss, -trial.snr_db

    first = 3 * 3 * len(bases)
    assert {(t.setting.precision, t.setting.method, t.setting.recipe) for t in done[:first]} == {
        *itertools.product(bases, methods, ("", "a", "b"))
    }
    corrected = [
        replace(t.setting, corrections=(c,))
        for t in best(done[:first])
        for c in ("bias correction", "adaptive rounding")
    ]
    plain = next((i for i, t in enumerate(done) if t.setting.layers), len(done))
    assert [t.setting for t in done[first:]][: len(corrected)] == corrected
    both = {t.setting for t in done[first + len(corrected) : plain]}
    tries = {t.setting: t for t in done[:plain]}
    wanted = {
        replace(t.setting, corrections=CORRECTIONS)
        for t in best(done[:first])
        if all((o := tries[replace(t.setting, corrections=(c,))]) and badness(o) < badness(t) and not o.error
               for c in CORRECTIONS)
    }  # fmt: skip
    cheapest = [t for t in best(done[:plain]) if t.setting.precision == bases[0] and t.loss > 0.05]
    assert both == wanted if cheapest else both >= wanted  # without mixes, random neighbours follow at once
    names = [node.output.name for node in graph.nodes][::-1]
    mixed = [(name, precisions[i < 2]) for i, name in enumerate(names)]
    halfway = {functools.reduce(lambda s, layer: s.at(*layer), mixed, t.setting) for t in cheapest}
    assert halfway <= {t.setting for t in done[plain:]}


def test_only_layers_that_would_change_have_a_choice() -> None:
    b = Builder("b")
    x = b.input("x", "FLOAT32", (1, 4))
    dense = b.op("FULLY_CONNECTED", [x, np.ones((4, 4), np.float32), None])
    graph = b.graph([b.op("SOFTMAX", [dense])])
    names = [node.output.name for node in graph.nodes]
    assert choices(graph, Setting("int4", "mse"), ["int8"]) == names[:1]
    assert choices(graph, Setting("int4", "mse"), ["int16x8"]) == names
    ruled = Setting("int4", "mse", rules=(Rule(operator="FULLY_CONNECTED", precision="float"),))
    assert choices(graph, ruled, ["int16x8"]) == names[1:]
