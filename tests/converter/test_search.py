"""The search for the cheapest quantisation: on a trained network, by every executor, and as a command."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twinfer
from twinfer.bench.lab.engines import run_twinfer
from twinfer.bench.lab.train_digits import load
from twinfer.bench.models.builtin import float_model
from twinfer.bench.peers.engines import open_peer
from twinfer.converter.build import Builder
from twinfer.converter.passes._rewrite import swap_tensors
from twinfer.converter.quantize.calibrate import run
from twinfer.converter.search.find import Found
from twinfer.converter.search.space import Setting
from twinfer.converter.search.trial import Bench
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write

#: A quick search: few methods, trials and samples.
FEW: dict[str, Any] = {"methods": ("minmax", "percentile-99.9"), "trials": 24, "calibrate": 24, "jobs": 1}

#: A budget of relative squared error that int8 meets and int4 misses.
BUDGET, ERROR = 0.0006, {**FEW, "metric": "error"}


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    """Digits that the built-in network was not trained on."""
    _, (pictures, labels) = load()
    return {"input": pictures, "labels": labels}


@pytest.fixture(scope="module")
def plain(data: dict[str, Any]) -> dict[str, Any]:
    return {"input": data["input"][::3]}


@pytest.fixture(scope="module")
def digits() -> Graph:
    return float_model("digits")


@pytest.fixture(scope="module")
def result(digits: Graph, plain: dict[str, Any]) -> Found:
    """A search with a budget that int4 misses, so that it takes all its steps."""
    return twinfer.search(digits, plain, BUDGET, **ERROR)


def test_the_chosen_one_is_the_cheapest_inside_the_budget(result: Found) -> None:
    assert len(result.trials) == FEW["trials"]
    assert not [trial.error for trial in result.trials if trial.error]
    inside = [trial for trial in result.trials if trial.loss <= BUDGET]
    assert result.chosen in inside
    assert result.chosen.cost == min(trial.cost for trial in inside) < result.float_cost
    assert result.chosen.setting.layers, "cheaper than a whole model in int8: the walk has found it"


def test_loss_and_cost_are_those_of_the_file(digits: Graph, data: dict[str, Any]) -> None:
    """Other code computes both again from the files, on all samples that were not calibrated on."""
    result = twinfer.search(digits, data, 0.0, **{**FEW, "trials": 6})
    kept = result.job.folds[0].calibration["input"].reshape(-1, 64)
    judged = [not (kept == x.reshape(-1)).all(1).any() for x in data["input"]]
    x, labels = data["input"][judged], data["labels"][judged]
    assert result.search["judged"] == len(x) == len(data["input"]) - result.search["calibrated"]

    def right(content: bytes) -> int:
        return int((run_twinfer(content, x[:, None]).argmax(1) == labels).sum())

    wanted = right(result.job.model)
    assert result.job.judge.float_score == wanted / len(x)
    for trial in result.trials:
        content = write(result.graph(trial))
        assert trial.loss == (wanted - right(content)) / len(x)
        assert trial.cost == len(content)
    assert len({trial.loss for trial in result.trials}) > 1


def test_tflm_runs_the_models_of_the_front_with_our_bits(result: Found) -> None:
    """Some have layers of int4, int8 and int16x8 side by side. Floats may differ in the last bit."""
    models = [result.graph(trial) for trial in result.front if "float" not in dict(trial.setting.layers).values()]
    assert len(models) > 2
    for graph in models:
        values = random_inputs(graph, 3)
        session = Session(make_plan(graph))
        run(session, dict(zip(graph.inputs, values, strict=True)))
        (theirs,) = open_peer("tflm", write(graph), 1)(values)
        np.testing.assert_array_equal(session.view(graph.outputs[0]), theirs)


def test_a_search_that_was_broken_off_goes_on(
    result: Found, digits: Graph, plain: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "search.jsonl"
    done: list[Any] = []
    real = Bench.trial

    def breaks(bench: Bench, setting: Any) -> Any:
        if len(done) == 13:
            raise KeyboardInterrupt
        done.append(setting)
        return real(bench, setting)

    monkeypatch.setattr(Bench, "trial", breaks)
    with pytest.raises(KeyboardInterrupt):
        twinfer.search(digits, plain, BUDGET, journal=path, **ERROR)
    with path.open("a") as file:
        file.write('{"data": "')
    monkeypatch.setattr(Bench, "trial", lambda bench, setting: done.append(setting) or real(bench, setting))
    again = twinfer.search(digits, plain, BUDGET, journal=path, **ERROR)
    assert again.trials == result.trials
    assert len(done) == len(set(done)) == len(result.trials)
    monkeypatch.setattr(Bench, "trial", None)
    monkeypatch.setattr(Bench, "mixes", None)
    last = twinfer.search(digits, plain, BUDGET, journal=path, **ERROR)
    assert last.trials == result.trials
    assert [trial.seconds for trial in last.trials] == [trial.seconds for trial in again.trials]
    with pytest.raises(InvalidArgumentError, match="the journal of other data"):
        twinfer.search(digits, {"input": plain["input"][1:]}, BUDGET, journal=path, **ERROR)
    with pytest.raises(InvalidArgumentError, match="the journal of other model"):
        twinfer.search(float_model("ic"), IC, 0.5, journal=path, **{**FEW, "calibrate": 1})


IC = {"input": np.random.default_rng(1).uniform(size=(4, 32, 32, 3)).astype(np.float32)}


# -- who does the work -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    how = {"processes": False, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**how) as local:
        yield local


def same(result: Found, digits: Graph, plain: dict[str, Any], **how: Any) -> None:
    again = twinfer.search(digits, plain, BUDGET, **{**ERROR, "jobs": None, **how})
    assert again.trials == result.trials[: how.get("trials", FEW["trials"])]


def test_processes_find_the_same(result: Found, digits: Graph, plain: dict[str, Any]) -> None:
    same(result, digits, plain, jobs=2, trials=8)


def test_any_executor_finds_the_same_and_stays_open(result: Found, digits: Graph, plain: dict[str, Any]) -> None:
    with ThreadPoolExecutor(2) as executor:
        same(result, digits, plain, executor=executor)
        assert executor.submit(int, "7").result() == 7


def test_models_of_trials_are_made_again(result: Found) -> None:
    """By this machine, which must get the bytes that the worker got; a trial that failed has none."""
    assert result.chosen is not None
    trial = next(t for t in result.front if t.setting.precision != "float")
    assert hashlib.sha256(write(result.graph(trial))).hexdigest() == trial.sha256
    with pytest.raises(ToolError, match="this machine gets other bytes than the worker"):
        result.graph(replace(trial, sha256="0" * 64))
    with pytest.raises(InvalidArgumentError, match="it went wrong"):
        result.graph(replace(trial, error="it went wrong"))


def test_dask_finds_the_same(result: Found, digits: Graph, plain: dict[str, Any], cluster: Any) -> None:
    import distributed

    same(result, digits, plain, dask=cluster.scheduler_address)
    with distributed.Client(cluster) as client:
        same(result, digits, plain, dask=client, trials=4)
        same(result, digits, plain, executor=client.get_executor(), trials=4)


class Dies(Executor):
    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        from concurrent.futures.process import BrokenProcessPool

        future: Future[Any] = Future()
        future.set_exception(BrokenProcessPool("gone"))
        return future


def test_workers_that_die(digits: Graph, data: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=r"a worker process ended before its trial did.*__main__.*gone"):
        twinfer.search(digits, data, 0.1, executor=Dies(), **FEW)


# -- other models, costs and data --------------------------------------------------------------------------------------


def many_small_layers() -> Graph:
    rng, b = np.random.default_rng(8), Builder("many")
    y = b.input("x", "FLOAT32", (1, 4))
    for _ in range(12):
        y = b.op("TANH", [b.op("FULLY_CONNECTED", [y, rng.normal(size=(4, 4)).astype(np.float32)])])
    return b.graph([y])


@pytest.mark.parametrize(
    ("how", "wins"),
    [({}, True), ({"precisions": ("int8",)}, False), ({"inference_type": "INT8"}, False), ({"cost": "arena"}, False)],
)
def test_the_float_model_is_chosen_where_it_is_cheapest_and_asked_for(how: dict[str, Any], wins: bool) -> None:
    """Here scales and zero points take more bytes than the weights."""
    rows = {"x": np.random.default_rng(9).normal(size=(60, 4)).astype(np.float32)}
    how = {**ERROR, "methods": ("minmax",), "trials": 2 if wins else 1, **how}
    result = twinfer.search(many_small_layers(), rows, 0.5, **how)
    assert result.chosen is not None
    assert (result.chosen.setting.precision == "float") == wins
    assert not wins or {t.type for t in result.graph().tensors} == {"FLOAT32"}


def test_what_divides_by_a_step_of_zero_fails_and_the_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A division stays float, but the probabilities before it are quantised, and the least ones become 0. (Calibration
    would keep them float, had it seen that.)"""
    rng = np.random.default_rng(5)
    b = Builder("odds")
    y = b.op("FULLY_CONNECTED", [b.input("x", "FLOAT32", (1, 8)), 4 * rng.normal(size=(5, 8)).astype(np.float32)])
    graph = b.graph([b.op("DIV", [y, b.op("SOFTMAX", [y], beta=1.0)])])
    rows = {"x": rng.normal(size=(40, 8)).astype(np.float32)}
    how = {
        **ERROR,
        "methods": ("minmax",),
        "precisions": ("int8", "int16x8"),
        "inference_type": "FLOAT32",
        "calibrate": 9,
    }
    monkeypatch.setattr("twinfer.converter.quantize.calibrate.cones", lambda graph: [])
    result = twinfer.search(graph, rows, 0.0, **how)
    assert "is not finite on every judged sample" in result.trials[0].error
    good = [trial for trial in result.trials if not trial.error]
    assert good
    assert all(np.isfinite([trial.loss, trial.snr_db]).all() for trial in good)
    bench = Bench(result.job)
    quiet = dict(bench.mixes(Setting("int8", "minmax"))[-1])
    assert {quiet[node.output.name] for node in bench.graph.nodes if node.op == "SOFTMAX"} == {"int16x8"}


def test_arguments_that_there_are_not(digits: Graph, plain: dict[str, Any]) -> None:
    wrong: dict[str, Any] = {"quantise": "int8"}
    for call, given in ((twinfer.search, (digits, plain, 0.1)), (twinfer.convert, (digits,))):
        with pytest.raises(InvalidArgumentError, match=r"there is no argument 'quantise'; there are: .*, shapes"):
            call(*given, **wrong)


def operators(graph: Graph, content: bytes, target: Any) -> int:
    return len(graph.nodes)


def test_a_cost_of_ones_own(digits: Graph, plain: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"cannot be sent the cost.*lambda"):
        twinfer.search(digits, plain, 0.05, cost=lambda graph, content, target: 1, **{**ERROR, "jobs": 2})
    with pytest.raises(InvalidArgumentError, match="cannot be sent the cost: it must be a function of a module"):
        twinfer.search(digits, plain, 0.05, cost=partial(lambda one, *rest: one, 1), **{**ERROR, "jobs": 2})
    result = twinfer.search(digits, plain, 0.05, cost=operators, **{**ERROR, "trials": 2})
    assert [trial.cost for trial in result.trials] == [result.float_cost] * 2 == [len(digits.nodes) - 1] * 2
    assert result.search["cost"] == "operators"


def test_a_budget_is_told_by_answers_not_samples() -> None:
    """Three answers a sample: a third of the samples will do."""
    rng, b = np.random.default_rng(6), Builder("three")
    x = b.input("x", "FLOAT32", (1, 3, 8))
    y = b.op("FULLY_CONNECTED", [x, rng.normal(size=(4, 8)).astype(np.float32)], shape=(1, 3, 4), keep_num_dims=True)
    graph, how = b.graph([y]), {**FEW, "trials": 1, "calibrate": 4}
    data = {"x": rng.normal(size=(14, 3, 8)).astype(np.float32)}
    twinfer.search(graph, data, 1 / 30, **how)
    with pytest.raises(InvalidArgumentError, match=r"^30 judged .* of 0\.03: one wrong answer is 0\.0333; judge 34 or"):
        twinfer.search(graph, data, 0.03, **how)


def test_the_model_is_read_as_convert_reads_it() -> None:
    rng, b = np.random.default_rng(6), Builder("image")
    x = b.input("x", "FLOAT32", (1, 3, 5, 6))
    image = b.op("TRANSPOSE", [x, np.int32([0, 2, 3, 1])])
    more = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    y = b.op("CONV_2D", [image, rng.normal(size=(4, 3, 3, 3)).astype(np.float32), None], **more)
    graph, how = b.graph([b.op("TRANSPOSE", [y, np.int32([0, 3, 1, 2])])]), {**ERROR, "trials": 1, "calibrate": 4}
    rows = rng.normal(size=(14, 1, 5, 6, 3)).astype(np.float32)
    turned = twinfer.search(graph, {"x": rows}, 0.5, channels_last=True, **how)
    plain = twinfer.search(graph, {"x": rows.transpose(0, 1, 4, 2, 3)}, 0.5, **how)
    assert [r.graph().inputs[0].shape for r in (turned, plain)] == [(1, 5, 6, 3), (1, 3, 5, 6)]
    assert "TRANSPOSE" not in {node.op for node in turned.graph().nodes}
    assert turned.trials[0].loss == pytest.approx(plain.trials[0].loss, rel=1e-3)
    b = Builder("open")
    closed = b.graph([b.op("TANH", [b.input("v", "FLOAT32", (1, 4))])])
    graph = swap_tensors(closed, {t: replace(t, shape_signature=(-1, 4)) for t in closed.tensors})
    three = twinfer.search(
        graph, {"v": rng.normal(size=(9, 3, 4)).astype(np.float32)}, 0.5, shapes={"v": (3, 4)}, **how
    )
    assert three.graph().outputs[0].shape == (3, 4)


def test_recipes_are_tried_beside_the_rest(digits: Graph, data: dict[str, Any], tmp_path: Path) -> None:
    recipe = tmp_path / "first.toml"
    recipe.write_text('[[rule]]\noperator = "CONV_2D"\nprecision = "float"\n')
    how = {**FEW, "methods": ("minmax",), "precisions": ("int8",), "trials": 2, "recipes": [recipe]}
    plain, ruled = twinfer.search(digits, data, 0.05, **how).trials
    assert (plain.setting.recipe, ruled.setting.recipe) == ("", "first.toml")
    assert ruled.cost > 1.5 * plain.cost
    (tmp_path / "prunes.toml").write_text('[[rule]]\noperator = "CONV_2D"\nprune = 0.5\n')
    with pytest.raises(InvalidArgumentError, match=r"prunes\.toml: a search only quantises"):
        twinfer.search(digits, data, 0.05, **{**how, "recipes": [tmp_path / "prunes.toml"]})
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "first.toml").write_text("")
    with pytest.raises(InvalidArgumentError, match="called the same"):
        twinfer.search(digits, data, 0.05, **{**how, "recipes": [recipe, tmp_path / "more" / "first.toml"]})


@pytest.mark.parametrize(
    ("loss", "how", "message"),
    [
        (-0.1, {}, "no budget"),
        (float("nan"), {}, "no budget"),
        (1, {}, "a loss of at most 1 is no budget"),
        ("1%", {}, "a loss of at most 1% is no budget"),
        (None, {}, "no budget"),
        (0.1, {"trials": 0}, "0 trials"),
        (0.1, {"trials": "5"}, "trials cannot be of type str; it may be: int"),
        (0.1, {"seed": 0.5}, "seed cannot be of type float; it may be: int"),
        (0.1, {"seed": -1}, "no seed"),
        (0.1, {"jobs": 0}, "0 processes"),
        (0.1, {"cost": "time"}, "'time' is no cost; there are: balanced, instructions, flash, constants, arena"),
        (0.1, {"executor": Dies(), "dask": "tcp://127.0.0.1:9"}, "not both"),
        (0.001, {}, r"336 judged answers are too few samples for a budget of 0.001.*judge 1000 or more"),
    ],
)
def test_nonsense(loss: Any, how: dict[str, Any], message: str, digits: Graph, data: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        twinfer.search(digits, data, loss, **{**FEW, **how})
