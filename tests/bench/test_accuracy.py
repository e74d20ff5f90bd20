"""The accuracy benchmark: training, export, cross-validation, and its verdict on the digits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from twinfer.bench.lab import accuracy, accuracy_models, networks
from twinfer.bench.lab.accuracy import measure, verdicts
from twinfer.bench.lab.datasets import FOLDS, Dataset, digits
from twinfer.bench.lab.engines import BASELINE, ENGINES, OURS, PEERS, run_onnx
from twinfer.bench.lab.figures import document
from twinfer.bench.lab.networks import NETWORKS, cnn, cnn1d, fit, mlp, network, raw_mlp, to_onnx
from twinfer.runtime.errors import ToolError

#: The installed engines. CI always has onnxruntime, which all are measured against.
INSTALLED = {name: engine for name, engine in ENGINES.items() if engine.installed}

#: The columns that depend on the stored networks and the converter only.
REPEATS = ("samples", "correct", "folds", "changed", "bytes")


@pytest.mark.parametrize(
    ("maker", "shape"),
    [
        (partial(mlp, (7, 5)), (1, 6, 6)),
        (partial(raw_mlp, (7, 5)), (6,)),
        (partial(cnn, 2), (3, 9, 11)),
        (cnn1d, (6, 16)),
    ],
)
def test_the_onnx_file_computes_what_the_trained_layers_do(maker: networks.Maker, shape: tuple[int, ...]) -> None:
    pytest.importorskip("onnxruntime")
    torch = pytest.importorskip("torch")
    rng, layers = np.random.default_rng(7), maker(shape, 4)
    x, y = rng.normal(size=(128, *shape)).astype(np.float32), rng.integers(0, 4, 128)
    parameters = fit(layers, x, y, 1)
    assert parameters.size == sum(int(np.prod(each)) for layer in layers for each in layer.shapes)
    module, rest = networks.module_of(layers).eval(), parameters
    for layer, own in zip(layers, module, strict=True):
        for name, each in zip(("weight", "bias", "running_mean", "running_var"), layer.shapes, strict=False):
            value, rest = rest[: np.prod(each)].reshape(each), rest[np.prod(each) :]
            value = value[..., None, :] if layer.kind == "Depthwise" else value
            value = np.moveaxis(value, (-1, -2), (0, 1)) if value.ndim > 1 else value
            getattr(own, name).data[...] = torch.from_numpy(value.copy())
    with torch.no_grad():
        want = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(run_onnx(to_onnx(layers, parameters, shape), x), want, rtol=1e-3, atol=1e-4)


@pytest.mark.deep
def test_training_is_stored_and_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes the same file again and keeps the networks of other sets; it learns."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("torch")
    data = digits()
    few = Dataset("digits", data.x[:400], data.y[:400], data.group[:400])
    monkeypatch.setattr(networks, "NETWORKS", {"digits": {"mlp": (partial(mlp, (32,)), 8)}})
    monkeypatch.setattr(networks, "DATASETS", {"digits": lambda: few})
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file in files:
        np.savez_compressed(file, other=np.arange(3))
        monkeypatch.setattr(networks, "FILE", file)
        assert networks.main(["digits"]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    with np.load(files[0]) as arrays:
        assert arrays["other"].tolist() == [0, 1, 2]
        assert arrays["digits_mlp"].dtype == np.float16
        assert len(np.unique(arrays["digits_mlp"], axis=0)) == FOLDS, "of every fold another"
    answers = run_onnx(network(few, "mlp", 0), data.x[400:800]).argmax(1)
    assert (answers == data.y[400:800]).mean() > 0.7
    with pytest.raises(ToolError, match="make networks"):
        network(data, "mlp", 3)


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
    def row(engine: str, loss: float, changed: int) -> dict[str, object]:
        return {"set": "s", "model": "m", "engine": engine, "loss_points": loss, "changed": changed, "samples": 1000}

    rows = [row(OURS[0], 0.6, 8), row(OURS[1], 0.3, 8), row(PEERS[0], -0.04, 1), row(PEERS[1], 0.7, 9)]
    missed = [v.what for v in verdicts(rows) if not v.good]
    above = f"s m: {OURS[0]} loses no more than {PEERS[0]}, but for chance"
    assert missed == [f"s m: {OURS[0]} within 0.5 points", above], "3 answers of 9 that were changed are chance, 6 not"
    assert len(verdicts(rows)) == 6


def test_results_of_several_folds_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every engine is held against the float network of its own fold; calibration takes samples of training alone."""
    x, rng = np.arange(60, dtype=np.float32).reshape(60, 1), np.random.default_rng(0)
    logits = {name: rng.standard_normal((60, 3)).astype(np.float32) for name in (BASELINE, "a", "b")}
    labels, held = rng.integers(0, 3, 60), [range(20), range(20, 44), range(44, 60)]
    folds = [(np.array([i for i in range(60) if i not in own]), np.array(own)) for own in held]
    data: Any = SimpleNamespace(x=x, y=labels, folds=lambda seed: folds)
    monkeypatch.setattr(accuracy, "CALIBRATION", 7)
    monkeypatch.setattr(accuracy, "network", lambda data, model, fold: bytes([fold]))

    def engine(name: str, seconds: Sequence[float]) -> Any:
        def timed(source: bytes, samples: np.ndarray) -> tuple[bytes, float]:
            chosen = samples.reshape(-1).astype(int)
            assert len(set(chosen)) == 7
            assert not set(chosen) & set(held[source[0]])
            return bytes(10 * (source[0] + 1)), seconds[source[0]]

        return SimpleNamespace(timed=timed, run=lambda content, given: logits[name][given.reshape(-1).astype(int)])

    engines = {name: engine(name, taken) for name, taken in zip(logits, ((1, 2, 3), (5, 1, 3), (9, 9, 4)), strict=True)}
    totals = measure(data, "net", engines)
    right = {name: values.argmax(1) == labels for name, values in logits.items()}
    for name, middle in (("a", 3), ("b", 9), (BASELINE, 2)):
        row = totals[name].row(totals[BASELINE])
        assert (row["samples"], row["correct"], row["convert_s"], row["bytes"]) == (60, right[name].sum(), middle, 20)
        assert row["accuracy"] == pytest.approx(100 * right[name].mean())
        assert row["folds"] == pytest.approx([100 * right[name][own].mean() for own in held])
        assert row["loss_points"] == pytest.approx(100 * (right[BASELINE].mean() - right[name].mean()))
        assert row["changed"] == (logits[name].argmax(1) != logits[BASELINE].argmax(1)).sum()
        off = (logits[name].astype(float) - logits[BASELINE]) ** 2
        want = None if name == BASELINE else 10 * np.log10((logits[BASELINE].astype(float) ** 2).sum() / off.sum())
        assert row["snr_db"] is None if want is None else row["snr_db"] == pytest.approx(want, rel=1e-5)


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


def test_without_onnxruntime_there_is_nothing_to_compare_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert accuracy.main(["digits"]) == 2
    assert "twinfer[accuracy]" in capsys.readouterr().err


def test_a_model_of_others_gets_a_row_for_each_quantiser_once(tmp_path: Path) -> None:
    """Rows that are known are not measured again; a file that cannot be read is told, and has none."""
    pytest.importorskip("onnxruntime")
    layers = mlp((12,), (1, 9, 9), 4)
    count = sum(int(np.prod(shape)) for layer in layers for shape in layer.shapes)
    path = tmp_path / "net.onnx"
    path.write_bytes(to_onnx(layers, np.random.default_rng(2).normal(size=count), (1, 9, 9)))
    chosen = [accuracy_models.Model("net", path), accuracy_models.Model("none", tmp_path / "none.onnx")]
    engines = ["ours", "ours, refined", "ORT"]
    found = list(accuracy_models.rows(chosen, [], ["int8"], engines))
    assert [(row["model"], row["engine"]) for row in found] == [("net", engine) for engine in engines]
    assert [row for row in found if not 10 < row.get("worst_db", 0) <= row["db"] <= accuracy_models.MOST_DB] == []
    assert {row["floats"] for row in found} == {0.0}, "no weights are left in float"
    accuracy_models.keep(found[:1], reversed(found), tmp_path / "rows.json")
    assert accuracy_models.kept(tmp_path / "rows.json") == sorted(found, key=lambda row: row["engine"])
    left = list(accuracy_models.rows(chosen[:1], found[1:], ["int8"], engines))
    assert left == [found[0] | {"seconds": left[0]["seconds"]}]
