"""Options of several words and commands over several models; what is asked for before the work; what is not written."""

from __future__ import annotations

import argparse
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from twinfer.aot.build.targets import find
from twinfer.bench.page import page as pages
from twinfer.command_line.bench import BOARDS_ALONE, HOST_ALONE
from twinfer.command_line.main import COMMANDS, main, parser
from twinfer.command_line.options import note_unused_storage, storages
from twinfer.command_line.targets import cards, peers, settings
from twinfer.converter.build import Builder
from twinfer.converter.stream import convert
from twinfer.converter.stream.convert import Proof as StreamProof
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.options import Options
from twinfer.runtime.plan import make as making
from twinfer.runtime.plan.make import make_plan


@pytest.mark.parametrize(
    ("weights", "decode", "want"),
    [
        ("plain", "start", ["plain layer"]),
        ("plain", "start,layer", ["plain layer"]),
        ("file", "layer,start", ["file layer", "file start"]),
        ("lut,plain", "start,layer", ["lut start", "lut layer", "plain layer"]),
        ("plain,lut,plain", " layer , start ", ["plain layer", "lut layer", "lut start"]),
        ("auto,huffman,bitmap", "start", ["auto start", "huffman start", "bitmap start"]),
    ],
)
def test_each_way_to_store_weights_is_measured_once(weights: str, decode: str, want: list[str]) -> None:
    assert [" ".join(pair) for pair in storages(weights, decode)] == want


@pytest.mark.parametrize(("weights", "decode"), [("lut,nothing", "layer"), ("lut", "layer,never"), ("", "layer")])
def test_one_wrong_word_among_several(weights: str, decode: str) -> None:
    with pytest.raises(InvalidArgumentError):
        storages(weights, decode)


def test_targets_and_goals_once_each_in_their_order() -> None:
    m4, m0 = find("cortex-m4"), find("cortex-m0")
    assert cards("cortex-m4, host,M0,host,cortex-m4") == [m4, None, m0]
    assert cards("") == cards("HOST,Host") == [None]
    assert settings("size, speed,size,balanced") == ("size", "speed", "balanced")
    for wrong in ("cortex-m4,cortex-m99", "generic,host", "cortex-m4,Native"):
        with pytest.raises(InvalidArgumentError):
            cards(wrong)
    with pytest.raises(InvalidArgumentError):
        settings("size,sped")


def test_which_peers_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are installed, or those that are named: each of which must be."""
    monkeypatch.setattr("twinfer.bench.peers.engines.installed", lambda peer: peer in ("tflm", "litert-ref"))
    usual = ["litert", "tflm", "litert-ref"]
    assert peers(None, usual) == ["tflm", "litert-ref"]
    assert peers("none", usual) == peers("", usual) == peers(" none , ", usual) == []
    assert peers(" litert-ref, tflm", usual) == ["litert-ref", "tflm"]
    with pytest.raises(ToolError, match=r"litert is not installed: pip install .*, or leave it out of --against"):
        peers("tflm,litert", usual)


def test_ways_to_store_that_change_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line is told once, if nothing is coded on any of the targets; the usual way never is."""
    pairs: list[Any] = [(how, when) for how in ("file", "lut", "auto", "plain") for when in ("layer", "start")]
    ways = [Options(weights=how, decode=when) for how, when in pairs]
    coded = {("one", "lut"), ("two", "lut"), ("one", "auto")}
    asked = []

    def plan(graph: Any, target: Any, how: Options) -> Any:
        asked.append((target, how.weights, how.decode))
        return SimpleNamespace(options=how, decoding_bytes=5 if (target, how.weights) in coded else 0)

    monkeypatch.setattr(making, "make_plan", plan)

    def told(targets: list[Any], options: list[Options]) -> list[str]:
        note_unused_storage(SimpleNamespace(name="net", graph=None), targets, options)  # type: ignore[arg-type]
        return [line.removeprefix("twinfer: net: ").split(":")[0] for line in capsys.readouterr().err.splitlines()]

    usual = replace(ways[0], optimize="size")
    assert told(["one", "two"], [*ways, *ways, usual]) == ["--decode start changes nothing"]
    assert sorted(asked) == sorted((target, *pair) for target in ("one", "two") for pair in pairs[1:])
    assert told(["two"], ways[2:6]) == ["--weights auto changes nothing"]
    coded.clear()
    assert told(["one", "two"], ways[1:5]) == [
        f"{how} changes nothing" for how in ("--decode start", "--weights lut", "--weights auto")]  # fmt: skip


# -- help --------------------------------------------------------------------------------------------------------------


def test_what_help_promises_is_the_default() -> None:
    """Every option says what it is for; a default that it names is the one that is taken."""
    (action,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    named = 0
    for name, command in action.choices.items():
        (own,) = (each for each in COMMANDS if each.name == name)
        shown = " ".join(command.format_help().split())
        for said in (own.about[1:], *own.examples):
            assert said in shown, (name, said)
        for option in command._actions:
            assert option.help or option.choices, (name, option.dest)
            told = re.search(r"\(default: ([a-z0-9.]+)\)", str(option.help))
            if told and option.dest not in ("max_bytes", "max_rounds", "max_drift") and option.default is not None:
                named += 1
                usual = {"True": "yes", "False": "no"}.get(str(option.default), option.default)
                assert str(usual) in (told[1], f"{told[1]}.0"), (name, option.dest)
    assert named >= 25


def test_bench_knows_which_options_are_unusual() -> None:
    """What it says that has no effect is what differs from the defaults."""
    given = vars(parser().parse_args(["bench"]))
    assert {name: given[name] for name in (*HOST_ALONE, *BOARDS_ALONE)} == {**HOST_ALONE, **BOARDS_ALONE}


@pytest.mark.parametrize(
    "line",
    ["bench digits_int8 --html OUT", "explain digits_int8 --html OUT", "report digits_int8 -o OUT",
     "diff digits_int8 kws_int8 -o OUT", "convert digits_float32 -o /dev/null --quantize int8 --report OUT"],
)  # fmt: skip
def test_without_the_library_of_charts_nothing_is_measured(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is asked for before the work, and by those alone who want a page."""

    def work(*_: Any, **__: Any) -> Any:
        raise ToolError("as far as the work")

    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    for place in ("twinfer.bench.models.source.load", "twinfer.converter.convert.convert_file"):
        monkeypatch.setattr(place, work)
    page, data = str(tmp_path / "x.html"), str(tmp_path / "x.json")
    assert main(line.replace("OUT", page).split()) == 2
    assert "pip install 'twinfer[report]'" in capsys.readouterr().err
    without = line.replace("OUT", data) if "--report" in line else re.sub("(-o|--html) OUT", f"--json {data}", line)
    assert main(without.split()) == 2
    assert "as far as the work" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# -- stream ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("different", [0, 1])
def test_a_stream_that_differs_is_not_written(
    different: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(convert, "prove", lambda *_: StreamProof(9, different))
    out = tmp_path / "out.tflite"
    assert main(["stream", "tcn_int8", "-o", str(out)]) == different
    assert out.exists() == (not different)
    said = "1 of 9 windows differ: nothing was written" if different else "the same bits as the window model in 9 windo"
    assert said in capsys.readouterr().out


def test_what_stream_shows_is_what_plans_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MACs, arena, state and constants of both models, recounted from their graphs."""
    b, rng = Builder("net"), np.random.default_rng(0)
    x = b.input("x", "FLOAT32", (1, 40, 1, 8))
    w, bias = (b.constant(rng.standard_normal(s).astype(np.float32)) for s in ((6, 3, 1, 8), (6,)))
    y = b.op("CONV_2D", [x, w, bias], padding="VALID", stride_h=2, stride_w=1, fused_activation_function="NONE")
    graph = b.graph([b.op("REVERSE_V2", [y, np.array([1], np.int32)])])
    graph.save(tmp_path / "net.tflite")
    assert main(["stream", str(tmp_path / "net.tflite"), "-o", str(tmp_path / "s.tflite")]) == 0
    lines = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.split()}
    window, step = lines["window"], lines["step"]
    assert (window[0], step[0], lines["ratio"][0]) == (f"{19 * 6 * 3 * 8:,}", f"{6 * 3 * 8:,}", "19.0")
    assert (window[2], step[2]) == ("0", f"{make_plan(convert.stream(graph).graph).state_bytes:,}")
    kept = 1 * 8 * 4 + 18 * 6 * 4  # a row of the input, 18 of the layer
    assert kept <= int(step[2].replace(",", "")) < kept + 128
    assert int(window[1].replace(",", "")) >= 40 * 8 * 4  # the rows of the layer may lie over those of the input


# -- compile -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """relu, dense, few, many: a RELU; three layers; dense layers of weights with 2 and with 250 values."""
    monkeypatch.chdir(tmp_path)
    b, rng = Builder("relu"), np.random.default_rng(0)
    b.graph([b.op("RELU", [b.input("x", "FLOAT32", (1, 3))])]).save("relu.tflite")
    b = Builder("dense")
    y = b.op("FULLY_CONNECTED", [b.input("x", "FLOAT32", (1, 300)), rng.standard_normal((5, 300)).astype("f4"), None])
    b.graph([b.op("RELU", [b.op("ABS", [y])])]).save("dense.tflite")
    for name, values in (("few", 2), ("many", 250)):
        b = Builder(name)
        w = b.constant((rng.integers(0, values, (64, 64)) - values // 2).astype(np.int8), 0.01)
        x = b.input("x", "INT8", (1, 64), 0.5, 0)
        b.graph([b.op("FULLY_CONNECTED", [x, w, None], shape=(1, 64), scale=0.5, zero=0)]).save(f"{name}.tflite")
    return [f"{name}.tflite" for name in ("relu", "dense", "few", "many")]


@pytest.mark.parametrize("order", [1, -1])
def test_one_of_two_models_has_weights_to_code(
    order: int, models: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", *models[2:][::order], "-o", "c", "--weights", "lut", "--target", "generic"]) == 0
    assert capsys.readouterr().err.count("--weights lut changes nothing") == 1


def test_names_of_what_compile_writes(models: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """After the files, as C takes names; what models share after the folder, also if that is the current one."""
    odd, other = Path(models[0]).rename("My model-2.tflite").resolve(), Path(models[1]).resolve()
    Path("Both of Them").mkdir()
    monkeypatch.chdir("Both of Them")
    assert main(["compile", str(odd), "-o", "one"]) == 0
    assert "int my_model_2_run(" in Path("one/my_model_2.h").read_text()
    shutil.rmtree("one")
    assert main(["compile", str(odd), str(other), "-o", "."]) == 0
    names = {path.name for path in Path().iterdir()}
    assert {"both_of_them.h", "both_of_them_static.c", "my_model_2.h", "dense.h"} <= names
    assert "#define BOTH_OF_THEM_ARENA_BYTES" in Path("both_of_them.h").read_text()
    assert main(["compile", str(odd), str(other), "-o", "named", "--name", "mine"]) == 0
    assert Path("named/mine.h").exists()
