"""twinfer fit: from a float model, data and a board to a firmware."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twinfer
from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.print.emit import emit
from twinfer.bench.fit.fit import fit
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session


def net() -> Graph:
    b, rng = Builder("net"), np.random.default_rng(1)
    x = b.input("x", "FLOAT32", (1, 16, 16, 1))
    for channels, last in ((8, 1), (16, 8)):
        weights = rng.normal(size=(channels, 3, 3, last)).astype(np.float32) / 3
        how = {"padding": "SAME", "stride_h": 2, "stride_w": 2, "fused_activation_function": "RELU"}
        x = b.op("CONV_2D", [x, weights, np.zeros(channels, np.float32)], **how)
    flat = b.op("RESHAPE", [x, np.array([1, 256], np.int32)])
    weights = rng.normal(size=(4, 256)).astype(np.float32) / 16
    return b.graph([b.op("FULLY_CONNECTED", [flat, weights, None], fused_activation_function="NONE")])


def samples(count: int = 24) -> dict[str, Any]:
    return {"x": np.random.default_rng(2).normal(size=(count, 16, 16, 1)).astype(np.float32)}


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("name", ["nucleo-f446re", "nucleo-l053r8", "pico"])
def test_what_fits_is_built_and_runs_with_the_interpreters_bits(name: str, tmp_path: Path) -> None:
    found = fit(net(), twinfer.board(name), samples())
    assert found.fits
    assert found.best == next(way for way in found.ways if way.fits)
    assert found.best.trial.snr_db >= 25
    found.write(tmp_path / "firmware")
    graph, card = read_file(tmp_path / "firmware/model.tflite"), found.board.card
    assert card is not None
    assert (tmp_path / "firmware/c/Makefile").is_file()
    inputs = random_inputs(graph, 5)
    project = emit(make_plan(graph, card.target, found.best.match.options), "net")
    (result,) = run_jobs(build(project, card), [Job(inputs)])
    session = Session(make_plan(graph))
    session.feed(inputs)
    session.run()
    np.testing.assert_array_equal(result.outputs[0], session.outputs()[0])
    (counted,) = result.counts[:1]
    assert 0.6 < (found.best.match.estimate.instructions or 0) / counted < 1.6


def test_the_budget_is_the_boards_memory_or_less() -> None:
    board = twinfer.board("nucleo-f446re")
    whole = fit(net(), board, samples())
    need = whole.best.match.need
    assert fit(net(), board.limited(ram=need.ram, flash=need.flash), samples()).fits
    less = fit(net(), board.limited(flash=need.flash // 3), samples())
    assert not less.fits
    assert less.model is None
    assert "B of flash" in less.best.short
    assert any("flash" in change.words for change in less.changes)
    with pytest.raises(InvalidArgumentError, match="does not fit nucleo-f446re: short of"):
        less.write("nowhere")
    assert not Path("nowhere").exists()


def test_half_the_channels_that_are_said_to_be_enough_are() -> None:
    """The model with so many channels less fits the flash that the whole one is short of."""
    b, rng = Builder("wide"), np.random.default_rng(1)

    def wide(channels: int) -> Graph:
        b = Builder("wide")
        x = b.input("x", "FLOAT32", (1, 32))
        for size in (channels, 32, 4):
            weights = rng.normal(size=(size, x.shape[1])).astype(np.float32) / 6
            x = b.op("FULLY_CONNECTED", [x, weights, None], fused_activation_function="RELU")
        return b.graph([x])

    del b
    data = {"x": rng.normal(size=(24, 32)).astype(np.float32)}
    board = twinfer.board("nucleo-f446re")
    need = fit(wide(1024), board, data).best.match.need
    budget = board.limited(flash=round(0.75 * need.flash))
    short = fit(wide(1024), budget, data)
    (change,) = short.changes
    assert change.enough
    assert "half the channels of layer 0" in change.words
    assert fit(wide(512), budget, data).fits


def test_time() -> None:
    board = twinfer.board("nucleo-f446re")
    ms = fit(net(), board, samples()).best.match.estimate.ms
    assert ms is not None
    assert fit(net(), board, samples(), max_ms=1.1 * ms).fits
    late = fit(net(), board, samples(), max_ms=ms / 10)
    assert not late.fits
    assert "ms too slow" in late.best.short
    slow = next(each for each in twinfer.boards() if each.known_core == "generic")
    with pytest.raises(InvalidArgumentError, match="nothing is known of the time"):
        fit(net(), slow, samples(), max_ms=1.0)


def test_on_the_command_line(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net().save("net.tflite")
    np.savez("d.npz", **samples())
    command = ["fit", "net.tflite", "--board", "nucleo-f446re", "--data", "d.npz"]
    assert main([*command, "--min-snr", "20", "--json", "all.json"]) == 0
    told = json.loads(Path("all.json").read_text())
    assert told["fits"]
    assert [way["snr_db"] >= 20 for way in told["ways"]] == [True] * len(told["ways"])
    assert "net on nucleo-f446re: 20 dB or more" in capsys.readouterr().out
    assert main([*command, "--ram", "1K", "-o", "firmware"]) == 1
    said = capsys.readouterr()
    assert "net does not fit nucleo-f446re: short of" in said.err
    assert "RAM has to shrink" in said.out
    assert not Path("firmware").exists()
    assert main([*command[:3], "no-such-board", *command[4:]]) == 2
