"""run, predict and evaluate: real numbers in and out, many samples, threads; copies and pickles; scikit-learn."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import twinfer
from twinfer.bench.models.builtin import float_model, int8_model
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph
from twinfer.runtime.run import batch

ours = pytest.mark.parametrize("open_", [twinfer.Interpreter, twinfer.CompiledModel], ids=["interpreted", "compiled"])


def one_by_one(engine: Any, samples: Any) -> Any:
    """What set_tensor, invoke and get_tensor give, in a loop."""
    engine.allocate_tensors()
    x, y = engine.get_input_details(0)["index"], engine.get_output_details(0)["index"]
    outputs = []
    for sample in samples:
        engine.set_tensor(x, sample[None])
        engine.invoke()
        outputs.append(engine.get_tensor(y)[0])
    return np.array(outputs)


def floats(graph: Graph, count: int) -> Any:
    return np.random.default_rng(3).uniform(0, 1, (count, *graph.inputs[0].shape[1:])).astype(np.float32)


@ours
@pytest.mark.parametrize("workers", [1, 3])
def test_predict(open_: Any, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = int8_model("digits")
    engine, (x,), (y,) = open_.from_graph(graph), graph.inputs, graph.outputs
    samples = floats(graph, 50)
    integers = np.clip(np.floor(samples / np.float64(x.scale) + 0.5) + x.zero, -128, 127).astype(np.int8)
    wanted = one_by_one(engine, integers)
    assert len({row.tobytes() for row in wanted}) > 10
    for most in (7, 256):  # the last part has fewer samples
        monkeypatch.setattr(batch, "MOST_RUNS", most)
        for given in (samples, integers, samples.astype(np.float64), samples[:, None]):
            got = engine.predict(given, integers=True, workers=workers)
            assert got.dtype == np.int8
            np.testing.assert_array_equal(got.reshape(wanted.shape), wanted)
        real = engine.predict(samples, workers=workers)
        assert real.dtype == np.float32
        np.testing.assert_allclose(real, (wanted.astype(float) - y.zero) * y.scale, rtol=1e-6)
    np.testing.assert_array_equal(engine.run(samples[:1]), real[:1])
    np.testing.assert_array_equal(engine.run(samples[:1], integers=True), wanted[:1])
    assert engine.predict(samples[:0]).shape == (0, *wanted.shape[1:])


@ours
def test_batches_and_several_inputs(open_: Any) -> None:
    b = Builder("sum")
    x, y = b.input("a", "FLOAT32", (2, 3)), b.input("b", "FLOAT32", (2, 3))
    engine = open_.from_graph(b.graph([b.op("ADD", [x, y]), b.op("MUL", [x, y])]))
    a, c = np.random.default_rng(0).normal(size=(2, 7, 3)).astype(np.float32)
    for size in (None, 3):  # seven samples: the last run is filled up
        for given in ([a, c], {"b": c, "a": a}):
            total, product = engine.predict(given, batch_size=size)
            np.testing.assert_array_equal(total, a + c)
            np.testing.assert_array_equal(product, a * c)
    np.testing.assert_array_equal(engine.run([a, c])[1], a * c)  # resized


@ours
def test_every_sample_begins_with_the_same_state(open_: Any) -> None:
    b = Builder("state")
    x, state = b.input("x", "FLOAT32", (1, 4)), b.variable("state", "FLOAT32", (1, 8))
    one = np.ones((2, 4), np.float32)
    y = b.op("SVDF", [x, one, np.ones((2, 4), np.float32), None, state], shape=(1, 2), rank=1)
    engine = open_.from_graph(b.graph([y]))
    samples = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    first = [open_.from_graph(b.graph([y])).run(row[None])[0] for row in samples]
    np.testing.assert_array_equal(engine.predict(samples, workers=2), first)
    before = engine.run(samples[:1])
    again = engine.predict(samples[:1])
    assert (again > before).all()  # the state of now
    np.testing.assert_array_equal(engine.predict(samples[:1]), again)
    np.testing.assert_array_equal(engine.run(samples[:1]), again)
    for twin in (copy.copy(engine), copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))):
        np.testing.assert_array_equal(twin.run(samples[:1]), copy.copy(engine).run(samples[:1]))


REFUSED: dict[str, tuple[Any, str]] = {
    "uint8": (np.zeros((2, 8, 8, 1), np.uint8), "it holds uint8, .* needs int8, or floats for the real values"),
    "shape": (np.zeros((2, 1, 8, 8), np.float32), r"give \[N, 8, 8, 1\] or \[N, 1, 8, 8, 1\] for N samples"),
    "rank": (np.zeros((2, 64), np.float32), "do not fit the inputs"),
    "number": (1.0, "do not fit the inputs"),
    "nan": (np.full((2, 8, 8, 1), np.nan, np.float32), r"the value at \[0, 0, 0, 0\] is nan"),
    "names": ({"x": 1, "y": 2}, "the model's inputs are 'input'"),
    "text": ([["a"]], "do not fit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit(name: str) -> None:
    value, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        twinfer.Interpreter.from_graph(int8_model("digits")).predict(value, workers=2)


@pytest.mark.parametrize("argument", ["workers", "batch_size"])
def test_counts(argument: str) -> None:
    engine = twinfer.Interpreter.from_graph(int8_model("digits"))
    for wrong in (0, "2", 1.5):
        with pytest.raises(ValueError, match=f"{argument} must be a positive integer"):
            engine.predict(np.zeros((2, 8, 8, 1), np.float32), **{argument: wrong})


def test_evaluate() -> None:
    graph = int8_model("digits")
    engine, samples = twinfer.Interpreter.from_graph(graph), floats(graph, 20)
    outputs = engine.predict(samples)
    classes = outputs.argmax(-1)
    wrong = np.where(np.arange(20) < 5, (classes + 1) % 10, classes)
    assert engine.evaluate(samples, classes) == {"samples": 20, "accuracy": 1.0}
    assert engine.evaluate(samples, wrong) == {"samples": 20, "accuracy": 0.75}
    assert engine.evaluate(samples, np.eye(10, dtype=np.float32)[wrong])["accuracy"] == 0.75
    errors = engine.evaluate(samples, outputs + 0.5)
    assert errors["mae"] == pytest.approx(0.5)
    assert errors["rmse"] == pytest.approx(0.5)
    assert errors["max_error"] == pytest.approx(0.5)
    assert errors["r2"] < 1
    with pytest.raises(ValueError, match="give one a sample"):
        engine.evaluate(samples, classes[:3])
    b = Builder("logistic")
    one = twinfer.Interpreter.from_graph(b.graph([b.op("LOGISTIC", [b.input("x", "FLOAT32", (1, 1))])]))
    rows = np.array([[-1], [2], [3], [-4]], np.float32)
    assert one.evaluate(rows, [0, 1, 0, 0])["accuracy"] == 0.75
    assert "mae" in one.evaluate(rows, [0, 1, 5, 0])


@ours
def test_copies_pickles_context_and_repr(open_: Any) -> None:
    graph = int8_model("digits")
    one, other = (floats(graph, 2)[i : i + 1] for i in (0, 1))
    with open_.from_graph(graph) as engine:
        assert "not allocated" in repr(engine)
        assert "'digits" in repr(engine)
        outputs = engine.run(one)
        y = engine.get_output_details(0)["index"]
        for twin in (copy.copy(engine), copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))):
            assert type(twin) is type(engine)
            assert repr(twin) == repr(engine)
            assert "bytes" in repr(engine)
            np.testing.assert_array_equal(twin.get_tensor(y), engine.get_tensor(y))
            assert (twin.run(other) != outputs).any()
            np.testing.assert_array_equal(twin.run(one), outputs)
    with pytest.raises(RuntimeError):
        engine.invoke()
    np.testing.assert_array_equal(engine.run(one), outputs)


def test_graphs_and_plans() -> None:
    graph = int8_model("digits")
    for twin in (copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert twinfer.write(twin) == twinfer.write(graph)
        assert repr(twin) == repr(graph)
        assert repr(graph).count("\n") == 0
        assert "operators" in repr(graph)
    plan = twinfer.make_plan(graph)
    for twin in (copy.deepcopy(plan), pickle.loads(pickle.dumps(plan))):
        assert repr(twin) == repr(plan)
        assert f"arena {plan.arena_bytes:,} bytes" in repr(plan)
        assert [twin.offsets[t] for t in twin.graph.outputs] == [plan.offsets[t] for t in plan.graph.outputs]


def test_scikit_learn() -> None:
    pytest.importorskip("sklearn")
    from sklearn.base import clone, is_classifier, is_regressor
    from sklearn.model_selection import KFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    graph = int8_model("digits")
    rows = floats(graph, 30).reshape(30, -1)
    classes = np.array(list("abcdefghij"))
    found = classes[twinfer.Interpreter.from_graph(graph).predict(rows.reshape(30, 8, 8, 1)).argmax(-1)]
    for model in (graph, twinfer.write(graph), twinfer.Interpreter.from_graph(graph)):
        estimator = twinfer.Estimator(model, classes=classes)
        assert is_classifier(estimator)
        assert not is_regressor(estimator)
        assert "Estimator" in repr(estimator)
        pipe = make_pipeline(FunctionTransformer(lambda x: x / 2), clone(estimator)).fit(rows * 2, found)
        assert (pipe.predict(rows * 2) == found).all()
        assert pipe.score(rows * 2, found) == 1
        assert pipe.predict_proba(rows * 2).shape == (30, 10)
        assert cross_val_score(estimator, rows, found, cv=KFold(3), error_score="raise").tolist() == [1, 1, 1]
    regressor = twinfer.Estimator(float_model("digits"))
    wanted = regressor.predict(rows)
    assert is_regressor(regressor)
    assert wanted.shape == (30, 10)
    assert cross_val_score(regressor, rows, wanted, cv=KFold(2), error_score="raise").tolist() == [1, 1]
    with pytest.raises(ValueError, match="no parameters"):
        regressor.set_params(jobs=2)
