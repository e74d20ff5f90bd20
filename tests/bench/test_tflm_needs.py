"""What a model needs in TFLM: names of the resolver's calls, what a firmware lacks, arena, ESPHome's manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from needs import SHARED, needs

from twinfer.bench.models.source import Source, load
from twinfer.bench.tflm import arena
from twinfer.bench.tflm.arena import arena_size
from twinfer.bench.tflm.resolver import CALLS, call, lacking, operators, registered
from twinfer.bench.tflm.wake_word import files, why_none
from twinfer.command_line.main import main

WAKE = SHARED / "corpus/models/mww_okay_nabu_2.tflite"


@pytest.fixture
def wake() -> Source:
    if not WAKE.exists():
        pytest.skip("the corpus is absent")
    return load(str(WAKE))


def test_calls_of_all_operators_that_tflm_has() -> None:
    """As in micro_mutable_op_resolver.h; the corpus lists which operators TFLM registers."""
    odd = {"CONV_2D": "Conv2D", "CUMSUM": "CumSum", "SPACE_TO_BATCH_ND": "SpaceToBatchNd", "PADV2": "PadV2"}
    odd |= {"L2_POOL_2D": "L2Pool2D", "RELU6": "Relu6", "CUSTOM:SignalPCAN": "PCAN", "SPLIT_V": "SplitV"}
    assert {op: CALLS[op] for op in odd} == odd
    listed = SHARED / "corpus/tflm_ops.tsv"
    if listed.exists():
        assert {line.split("\t")[0] for line in listed.read_text().splitlines()[1:]} == set(CALLS)
    assert call("CUSTOM:mine") == 'resolver.AddCustom("mine", /* your registration */);'
    assert "TFLM has no TOPK_V2" in call("TOPK_V2")


@pytest.mark.parametrize(
    "text",
    [
        "CONV_2D, SOFTMAX\nmine # ADD",
        "conv2d Softmax AddAbs",
        "r.AddConv2D(tflite::Register_CONV_2D_INT8());\nr.AddSoftmax(); // r.AddAdd();\n/* r.AddAdd(); */",
    ],
)
def test_what_a_firmware_registers(text: str) -> None:
    there = registered(text)
    assert {"CONV_2D", "SOFTMAX"} <= there
    assert "ADD" not in there


def test_what_a_firmware_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = load("digits_int8").graph
    calls = [call(op) for op in operators(graph)]
    for text, status, said in (
        ("\n".join(calls), 0, "registers all that the model needs"),
        ("\n".join(line for line in calls if "Softmax" not in line), 1, "lacks SOFTMAX"),
    ):
        (tmp_path / "main.cc").write_text(text)
        assert lacking(graph, text) == ["SOFTMAX"][:status]
        assert main(["tflm", "digits_int8", "--ops", str(tmp_path / "main.cc")]) == status
        shown = capsys.readouterr().out
        assert said in shown
        assert f"MicroMutableOpResolver<{len(calls)}>" in shown
        assert set(calls) <= set(shown.splitlines())


def test_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measured size is the least in which TFLM opens the model; the estimate is near."""
    needs("tflite_micro")
    from tflite_micro import runtime

    source = load("digits_int8")
    measured = arena_size(source.graph, source.content)
    assert "the least" in measured.how
    runtime.Interpreter.from_bytes(source.content, arena_size=measured.nbytes)
    with pytest.raises(RuntimeError):
        runtime.Interpreter.from_bytes(source.content, arena_size=measured.nbytes - 16)
    monkeypatch.setattr(arena, "installed", lambda peer: False)
    estimate = arena_size(source.graph, source.content)
    assert "an estimate" in estimate.how
    assert 0.6 < estimate.nbytes / measured.nbytes < 1.6


#: Keys of ESPHome's MANIFEST_SCHEMA_V2 and their types.
MANIFEST = {"type": str, "model": str, "author": str, "version": int, "wake_word": str, "trained_languages": list}
MICRO = {"feature_step_size": int, "tensor_arena_size": int, "probability_cutoff": float, "sliding_window_size": int}


def test_manifest_of_a_wake_word(wake: Source, tmp_path: Path) -> None:
    """What a manifest beside the model says is kept; the arena's size is ours."""
    made = files("okay_nabu", wake)
    assert made["okay_nabu.tflite"] == wake.content
    manifest = json.loads(made["okay_nabu.json"])
    assert {key: type(manifest[key]) for key in MANIFEST} == MANIFEST
    assert {key: type(manifest["micro"][key]) for key in MICRO} == MICRO
    assert set(manifest) == {*MANIFEST, "website", "micro"}
    assert set(manifest["micro"]) == {*MICRO, "minimum_esphome_version"}
    assert (manifest["type"], manifest["version"], manifest["wake_word"]) == ("micro", 2, "okay nabu")
    assert manifest["micro"]["tensor_arena_size"] >= 20_000
    path = tmp_path / "w.tflite"
    path.write_bytes(wake.content)
    path.with_suffix(".json").write_text('{"author": "me", "micro": {"probability_cutoff": 0.5}}')
    kept = json.loads(files("w", load(str(path)))["w.json"])
    assert (kept["author"], kept["micro"]["probability_cutoff"], kept["model"]) == ("me", 0.5, "w.tflite")


def test_what_is_no_wake_word() -> None:
    source = load("digits_int8")
    assert why_none(source.graph) == "its input is INT8 [1, 8, 8, 1], wanted is INT8 [1, rows, 40]"
    assert files("digits", source) == {}
