"""The built-in models: as large as the real ones, active in every layer, accepted by the public runtimes, as accurate
as recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinfer.bench.lab import train_digits
from twinfer.bench.lab.train_digits import correct, load
from twinfer.bench.models import source
from twinfer.bench.models.builtin import DIGITS, builtin, int8_model, large, samples
from twinfer.bench.models.topologies import NETS
from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write

#: Multiply-accumulates of MLPerf Tiny's own models of these names.
MACS = {"kws": 2_656_768, "vww": 7_489_664, "ic": 12_501_632, "ad01": 264_192}

#: int8 steps by which LiteRT's outputs may differ: its own kernels round once, the reference rounds twice.
STEPS = {"litert": 8, "litert-ref": 2}

each_model = pytest.mark.parametrize("make", builtin().values(), ids=builtin())


def run(graph: Graph, value: Any) -> Any:
    session = Session(make_plan(graph))
    session.view(graph.inputs[0])[...] = value
    session.run()
    return session.view(graph.outputs[0]).copy()


def int8_layers(name: str) -> Iterator[tuple[Node, Any]]:
    """Every node of an int8 model, with its values for some inputs that calibration has not seen."""
    graph = int8_model(name)
    session = Session(make_plan(graph, options=Options(preserve_all=True)))
    source = graph.inputs[0]
    values: dict[Node, list[Any]] = {node: [] for node in graph.nodes}
    for value in samples(name, 20)[12:]:
        session.view(source)[...] = np.clip(np.round(value / source.scale) + source.zero, -128, 127)
        session.run()
        for node, seen in values.items():
            seen.append(session.view(node.output).copy())
    for node, seen in values.items():
        yield node, np.stack(seen)


@pytest.mark.parametrize("name", MACS)
@pytest.mark.parametrize("kind", ["int8", "float32"])
def test_macs_are_those_of_the_real_model(name: str, kind: str) -> None:
    assert make_plan(builtin()[f"{name}_{kind}"]()).macs == MACS[name]


@pytest.mark.parametrize("name", NETS)
def test_no_layer_saturates_or_collapses(name: str) -> None:
    for node, values in int8_layers(name):
        low, high, distinct = np.mean(values == -128), np.mean(values == 127), np.unique(values).size
        zeros = node.output.zero == -128  # after a ReLU, -128 is zero
        assert high < 0.02 or node.op == "SOFTMAX", f"{node}: {high:.1%} of its values are as high as can be"
        assert low < (0.9 if zeros else 0.02), f"{node}: {low:.1%} of its values are as low as can be"
        assert distinct >= min(values.size // 10, 24), f"{node}: only {distinct} distinct values"


@each_model
def test_tflm_gives_the_same_bits(make: Callable[[], Graph]) -> None:
    graph = make()
    (value,) = random_inputs(graph, 1)
    (want,) = open_peer("tflm", write(graph), 1)([value])
    got = run(graph, value)
    if graph.outputs[0].type == "INT8":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)


def assert_litert_agrees(peer: str, given: Graph, graph: Graph) -> None:
    """LiteRT's outputs of ``given`` equal ours of ``graph``: integers within STEPS, floats within rounding."""
    (value,) = random_inputs(graph, 1)
    (out,) = open_peer(peer, write(given), 1)([value])
    got, tensor = run(graph, value), graph.outputs[0]
    assert out.shape == tensor.shape
    assert out.dtype == tensor.dtype
    largest = np.abs(got.astype(np.float64) - out.astype(np.float64)).max()
    assert largest <= (STEPS[peer] if tensor.type == "INT8" else 1e-5), f"{peer} differs by {largest:.3g}"


@pytest.mark.parametrize("peer", STEPS)
@each_model
def test_litert_gives_the_same_values(make: Callable[[], Graph], peer: str) -> None:
    graph = make()
    assert_litert_agrees(peer, graph, graph)


@pytest.mark.parametrize("kind", ["int8", "float32"])
def test_digits_are_read_as_well_as_recorded(kind: str) -> None:
    _, (pictures, labels) = load()
    with np.load(DIGITS) as stored:
        assert len(labels) == stored["held_out"]
        recorded = int(stored[f"correct_{kind}"])
    assert correct(builtin()[f"digits_{kind}"](), pictures, labels) == recorded
    assert recorded >= 0.98 * len(labels)


def test_what_is_stored_of_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters, every layer's range over the training pictures, and how many held ones a model gets right."""
    torch = pytest.importorskip("torch")
    (x, labels), (held, wanted) = load()
    monkeypatch.setattr(train_digits, "DIGITS", tmp_path / "data" / "digits.npz")
    monkeypatch.setattr(train_digits, "load", lambda: ((x[:40], labels[:40]), (held[:50], wanted[:50])))
    with np.load(DIGITS) as stored:
        parameters = [stored[f"p{i}"] for i in range(10)]
    monkeypatch.setattr(train_digits, "train", lambda *samples: parameters if len(samples[0]) == 40 else None)
    monkeypatch.setattr("sys.argv", ["train_digits"])
    train_digits.main()
    with np.load(tmp_path / "data" / "digits.npz") as arrays:
        written = dict(arrays)
    assert all((written[f"p{i}"] == value).all() for i, value in enumerate(parameters))
    own = [torch.from_numpy(p) for p in parameters]
    logits = train_digits.logits_of(own, torch.from_numpy(x[:40])).numpy()
    limits = [float(f"{1.1 * value:.2g}") for value in (logits.min(), logits.max())]
    np.testing.assert_allclose(written["ranges"][-2], limits, rtol=1e-4)
    right = int((train_digits.logits_of(own, torch.from_numpy(held[:50])).argmax(1).numpy() == wanted[:50]).sum())
    assert (written["held_out"], written["correct_float32"]) == (50, right)
    assert abs(int(written["correct_int8"]) - right) <= 1


def test_samples_for_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fifth picture is held out, in 0..1."""
    sets = pytest.importorskip("sklearn.datasets").load_digits()
    monkeypatch.setattr("sys.argv", ["train_digits", "--data", str(tmp_path)])
    train_digits.main()
    for name, own in (("held", np.arange(1797) % 5 == 0), ("train", np.arange(1797) % 5 != 0)):
        with np.load(tmp_path / f"digits_{name}.npz") as arrays:
            assert (arrays["input"] == (sets.data[own] / 16).reshape(-1, 8, 8, 1)).all()
            assert (arrays["labels"] == sets.target[own]).all()
            assert arrays["input"].dtype == np.float32


def test_only_the_right_pictures_count() -> None:
    """As many as have the label that torch gives them; with other labels none."""
    torch = pytest.importorskip("torch")
    _, (held, _) = load()
    with np.load(DIGITS) as stored:
        own = [torch.from_numpy(stored[f"p{i}"]) for i in range(10)]
    said = train_digits.logits_of(own, torch.from_numpy(held[:30])).argmax(1).numpy()
    model = builtin()["digits_float32"]()
    assert [correct(model, held[:30], labels) for labels in (said, said + 1, said + np.arange(30) % 2)] == [30, 0, 15]


def test_mobilenet_is_as_large_as_its_paper_says() -> None:
    """Multiply-accumulates and parameters of the published model of 224x224, its normalisation in the biases."""
    graph = large()["mobilenet_v2_float32"]()
    assert make_plan(graph).macs == 300_774_272
    assert sum(t.size for t in graph.tensors if t.data is not None and t.type == "FLOAT32") == 3_487_816
    assert Counter(node.op for node in graph.nodes)["ADD"] == 10


def test_a_folder_named_like_a_built_in_model_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``compile kws_int8 -o kws_int8`` makes such a folder; the next command still finds the model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kws_int8").mkdir()
    assert source.load("kws_int8").path is None
    (tmp_path / "other").mkdir()
    with pytest.raises(InvalidArgumentError, match="other"):
        source.load("other")
