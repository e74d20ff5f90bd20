"""twinfer fit: from a float model, data and a board to a firmware."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import check
from needs import deep_but

import twinfer
from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.print.emit import emit
from twinfer.bench.fit import fit as fits
from twinfer.bench.fit.fit import fit
from twinfer.bench.lab.figures import document
from twinfer.bench.lab.fits import models, row
from twinfer.bench.page.page import data_of
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.converter.search import trial
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session


def net(part: float = 1.0) -> Graph:
    b, rng = Builder("net"), np.random.default_rng(1)
    x = b.input("x", "FLOAT32", (1, 16, 16, 1))
    last = 1
    for whole in (16, 32):
        channels = int(part * whole)
        weights = rng.normal(size=(channels, 3, 3, last)).astype(np.float32) / 3
        how = {"padding": "SAME", "stride_h": 2, "stride_w": 2, "fused_activation_function": "RELU"}
        x = b.op("CONV_2D", [x, weights, np.zeros(channels, np.float32)], **how)
        last = channels
    flat = b.op("RESHAPE", [x, np.array([1, 16 * last], np.int32)])
    weights = rng.normal(size=(4, 16 * last)).astype(np.float32) / 16
    return b.graph([b.op("FULLY_CONNECTED", [flat, weights, None], fused_activation_function="NONE")])


def random(shape: tuple[int, ...]) -> dict[str, Any]:
    return {"x": np.random.default_rng(2).normal(size=shape).astype(np.float32)}


def samples(count: int = 24) -> dict[str, Any]:
    return random((count, 16, 16, 1))


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize(
    ("model", "name"),
    deep_but(
        [("digits_float32", "nucleo-l053r8"), ("tcn_float32", "pico"), ("kws_float32", "nucleo-f446re")],
        ("digits_float32", "nucleo-l053r8"),
    ),
)
def test_what_fits_is_built_and_runs_with_the_interpreters_bits(model: str, name: str, tmp_path: Path) -> None:
    """Of models in the table of docs/fit.md."""
    graph, data = next((graph, data) for each, graph, data in models() if each == model)
    found = fit(graph, twinfer.board(name), data, name="net")
    assert found.fits
    kept = next(each for each in document("fits")["rows"] if (each["model"], each["board"]) == (model, name))
    now = row(model, name, found)
    assert now["setting"] == kept["setting"], "make fits"
    assert [now[key] for key in ("ms", "flash", "ram")] == pytest.approx([kept["ms"], kept["flash"], kept["ram"]], 0.05)
    assert found.best == next(way for way in found.ways if way.fits)
    assert found.best.trial.snr_db >= 25
    found.write(tmp_path / "firmware")
    graph, card = read_file(tmp_path / "firmware/model.tflite"), found.board.card
    assert card is not None
    command = ["make", "-C", str(tmp_path / "firmware/c"), "test"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert made.returncode == 0, made.stderr
    assert "net: ok" in made.stderr
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
    assert less.advice
    with pytest.raises(InvalidArgumentError, match="does not fit nucleo-f446re: short of"):
        less.write("nowhere")
    assert not Path("nowhere").exists()


@pytest.mark.parametrize("misses", [1, 99])
def test_what_misses_the_goal_with_ranges_from_all_samples_is_not_taken(
    misses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next cheaper way that keeps it is; in the end the float model."""
    plain, left, final = fit(net(), twinfer.board("pico"), samples()), [True] * misses, fits.meets
    monkeypatch.setattr(fits, "meets", lambda *given: not (left and left.pop()) and final(*given))
    found = fit(net(), twinfer.board("pico"), samples())
    assert found.fits
    assert plain.best.trial not in [way.trial for way in found.ways]
    assert found.best.cost(found.chosen.job.floats) >= plain.best.cost(plain.chosen.job.floats)
    assert (found.best.trial.setting.precision == "float") == (misses > 1)


def test_half_the_channels_that_are_said_to_be_enough_are() -> None:
    """The model with so many channels less fits what the whole one is short of."""
    board, data = twinfer.board("nucleo-f446re"), random((24, 32))
    need = fit(dense(1024), board, data).best.match.need
    budget = board.limited(flash=round(0.75 * need.flash))
    short = fit(dense(1024), budget, data)
    (words,) = short.advice
    assert "half the channels of" in words
    assert "(1024 → 512)" in words
    assert fit(dense(512), budget, data).fits


def dense(channels: int) -> Graph:
    b, rng = Builder("wide"), np.random.default_rng(1)
    x = b.input("x", "FLOAT32", (1, 32))
    for size in (channels, 32, 4):
        weights = rng.normal(size=(size, x.shape[1])).astype(np.float32) / 6
        x = b.op("FULLY_CONNECTED", [x, weights, None], fused_activation_function="RELU")
    return b.graph([x])


@pytest.mark.parametrize(("share", "of"), [(0.2, "flash"), (0.35, "ram"), (0.35, "ms")])
def test_so_many_channels_as_are_said_to_fit_do(share: float, of: str) -> None:
    board = twinfer.board("nucleo-f446re")
    best = fit(net(), board, samples()).best
    need, ms, budget = best.match.need, None, board
    if of == "ms":
        ms = share * (best.match.estimate.ms or 0)
    elif of == "flash":
        budget = board.limited(flash=need.code + round(share * need.constants))
    else:
        budget = board.limited(ram=need.stack + round(share * need.arena))
    short = fit(net(), budget, samples(), max_ms=ms)
    assert not short.fits
    found = re.search(r"([\d.]+) times the channels in every layer but the last", " ".join(short.advice))
    assert found is not None
    assert fit(net(float(found[1])), budget, samples(), max_ms=ms).fits


def test_a_lower_bound_that_is_said_to_be_enough_is() -> None:
    board, data = twinfer.board("nucleo-f446re"), samples()
    loose = fit(net(), board, data, min_snr=10)
    budget = board.limited(flash=loose.best.match.need.flash)
    short = fit(net(), budget, data, min_snr=60)
    assert not short.fits
    found = re.search(r"It fits with --min-snr (\d+): all layers in int8", " ".join(short.advice))
    assert found is not None
    assert fit(net(), budget, data, min_snr=float(found[1])).fits


def over_time() -> Graph:
    """A model over a window of 64 rows."""
    b, rng = Builder("steps"), np.random.default_rng(1)
    x = b.input("x", "FLOAT32", (1, 64, 1, 8))
    for channels in (8, 32, 32):
        weights = rng.normal(size=(32, 3, 1, channels)).astype(np.float32) / 8
        how = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "fused_activation_function": "RELU"}
        x = b.op("CONV_2D", [x, weights, np.zeros(32, np.float32)], **how)
    return b.graph([b.op("MEAN", [x, np.array([1, 2], np.int32)], keep_dims=False)])


@pytest.mark.usefixtures("board_tools")
def test_a_stream_is_taken_where_the_user_says_that_the_input_is_a_window(tmp_path: Path) -> None:
    board, data = twinfer.board("nucleo-f446re"), random((24, 64, 1, 8))
    whole = fit(over_time(), board, data)
    assert not any(way.streaming for way in whole.ways)
    assert any("--stream, if the input is a window whose new rows in a run are 1" in words for words in whole.advice)
    found = fit(over_time(), board, data, new_rows=0)
    assert found.best.streaming is not None
    assert found.best.options == "stream, new rows a run: 1"
    assert (found.best.match.estimate.ms or 0) < (whole.best.match.estimate.ms or 0) / 2
    found.write(tmp_path / "firmware")
    graph, card = read_file(tmp_path / "firmware/model.tflite"), board.card
    assert graph.inputs[0].shape == (1, 1, 1, 8)
    assert card is not None
    assert "steps_push" in (tmp_path / "firmware/c/steps.h").read_text()
    project = emit(make_plan(graph, card.target, found.best.match.options), "net")
    (result,) = run_jobs(build(project, card), [Job(random_inputs(graph, 5))])
    assert 0.4 < (found.best.match.estimate.instructions or 0) / result.counts[0] < 1.6


def test_a_model_without_rows_is_no_window() -> None:
    b = Builder("two")
    two = [b.input(name, "FLOAT32", (1, 4)) for name in "ab"]
    graph = b.graph([b.op("ADD", two, fused_activation_function="NONE")])
    with pytest.raises(InvalidArgumentError, match="has 2 inputs"):
        fit(graph, twinfer.board("pico"), {}, new_rows=0)


def test_a_trial_is_quantised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was tried and is planned for the board, or tried again by another cost, is not made anew."""
    made, quantized = list[str](), trial.quantize

    def counted(graph: Graph, seen: Any, recipe: Any, options: Any) -> Graph:
        made.append(repr((recipe, options)))
        return quantized(graph, seen, recipe, options)

    monkeypatch.setattr(trial, "quantize", counted)
    found = fit(net(), twinfer.board("nucleo-f446re").limited(flash=4 << 10), samples())
    assert not found.fits
    assert max(Counter(made).values()) <= len(found.chosen.job.folds)


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
    assert main([*command, "--ram", "1K", "--html", "page.html"]) == 1
    shown = data_of(Path("page.html").read_text())
    assert shown["ways"]
    assert not shown["fits"]
    check(Path("page.html"))
    capsys.readouterr()
    assert main([*command, "--ram", "1K", "-o", "firmware"]) == 1
    said = capsys.readouterr()
    assert "net does not fit nucleo-f446re: short of" in said.err
    assert "Fewer channels are not enough" in said.out
    assert not Path("firmware").exists()
    assert main([*command[:3], "no-such-board", *command[4:]]) == 2
