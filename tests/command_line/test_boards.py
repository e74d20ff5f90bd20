"""``twinfer boards``: the boards, docs/boards.md, and which of them a model fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from needs import ROOT

import twinfer
from twinfer.aot.build.estimates import STACK_BYTES, need_of
from twinfer.aot.build.targets import find
from twinfer.bench.models.source import load
from twinfer.command_line.main import main
from twinfer.command_line.show.boards import page
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan

OWN = '[mine]\nbase = "cortex-m4"\nclock_mhz = 10\nflash_bytes = {}\nram = [{{ name = "r", origin = 0, bytes = {} }}]\n'


def told(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    assert main(["boards", *words, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_the_page_is_what_the_table_says() -> None:
    written = (ROOT / "docs" / "boards.md").read_text(encoding="utf-8")
    assert page(twinfer.boards()) == written, "twinfer boards --markdown > docs/boards.md"


def test_boards_are_chosen_by_words(capsys: pytest.CaptureFixture[str]) -> None:
    def names(words: str) -> list[str]:
        return [board["name"] for board in told(capsys, "--board", words)["boards"]]

    assert names("pico") == ["pico"]  # a whole name is that board alone
    assert names("PICO2,raspberry") == ["pico2", "pico", "pico2-riscv"]
    assert names("m85") == ["ek-ra8m1"]
    assert names("stm32h747") == ["arduino-nicla-vision", "arduino-portenta-h7", "disco-h747i"]
    assert len(told(capsys)["boards"]) == len(twinfer.boards())
    assert main(["boards", "--board", "z80"]) == 2
    assert "no board 'z80'" in capsys.readouterr().err
    assert main(["boards", "digits_int8", "--markdown"]) == 2
    assert main(["boards", "--board", "nucleo-f446re"]) == 0
    assert "STM32F446RE" in capsys.readouterr().out


def test_a_model_on_boards(capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(capsys, "digits_int8", "--board", "nucleo-f446re,nucleo-u575zi-q,esp32-c3-devkitm,ch32v003-evt")
    fast, u575, esp, wch = answer["boards"]
    plan = make_plan(load("digits_int8").graph, find("cortex-m4").target)
    assert (fast["arena_bytes"], fast["constant_bytes"]) == (plan.arena_bytes, plan.constant_bytes)
    assert (fast["fits"], fast["options"], fast["stack_bytes"]) == (True, "", STACK_BYTES)
    assert fast["ms"] == pytest.approx(fast["cycles"] / 180e3)
    assert fast["microjoules"] is None
    assert u575["microjoules"] == pytest.approx(u575["cycles"] * 64.35e-6)
    assert esp["fits"] is True
    assert esp["ms"] == pytest.approx(esp["cycles"] / 160e3)
    assert (wch["ms"], wch["instructions"]) == (None, None)
    assert not wch["fits"]
    assert wch["ram_short"] > 0
    assert {"ms", "code_bytes", "stack_bytes"} < {*answer["estimated"]}


def test_instructions_of_risc_v_are_about_as_many_as_counted(capsys: pytest.CaptureFixture[str]) -> None:
    for model, count in (("kws_int8", 8_624_842), ("ad01_int8", 999_569)):
        (esp,) = told(capsys, model, "--board", "esp32-c3-devkitm")["boards"]
        assert esp["instructions"] == pytest.approx(count, rel=0.25)


@pytest.mark.parametrize(
    ("flash", "ram", "options", "short"),
    [
        (100_000, 24_048, "", (0, 0)),
        (100_000, 19_008, "--memory rows", (0, 0)),
        (100_000, 18_128, "--memory rows --input-rows", (0, 0)),
        (0, 24_048, "--optimize size", (0, 0)),  # between what the two levels need
        (16_384, 24_048, "", (0, 70905)),
        (100_000, 16_096, "--memory rows --input-rows", (2_024, 0)),
    ],
)
def test_options_are_tried_where_memory_lacks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flash: int, ram: int, options: str, short: tuple[int, int]
) -> None:
    path, plan = tmp_path / "mine.toml", make_plan(load("ic_int8").graph, find("cortex-m4").target)
    between = (need_of(plan).flash + need_of(plan.printed(optimize="size")).flash) // 2
    path.write_text(OWN.format(flash or between, ram))
    (mine,) = told(capsys, "ic_int8", "--board", str(path), status=any(short))["boards"]
    assert (mine["name"], mine["options"], mine["fits"]) == ("mine", options, not any(short))
    assert (mine["ram_short"], mine["flash_short"]) == (short[0], pytest.approx(short[1], rel=0.1))
    assert main(["boards", "ic_int8", "--board", str(path)]) == any(short)
    assert ("short of" in capsys.readouterr().out) == any(short)


@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m55"])
@pytest.mark.parametrize("model", ["kws_int8", "ad01_int8", "ic_int8"])
def test_estimates_are_near_what_was_measured(model: str, target: str) -> None:
    rows = json.loads((ROOT / "bench" / "lab" / "data" / "figures" / "embedded.json").read_text())["rows"]
    measured = {r["optimize"]: r for r in rows if (r["model"], r["target"], r["engine"]) == (model, target, "compiled")}
    board = next(board for board in twinfer.boards() if board.base == target)
    for optimize, row in measured.items():
        plan = make_plan(load(model).graph, find(target).target, Options(memory=row["memory"], optimize=optimize))
        if optimize != "size":  # whose calls of shared bodies cost M3 half as much again
            assert board.estimate(plan).instructions == pytest.approx(row["instructions"], rel=0.25)
        assert need_of(plan).flash == pytest.approx(row["code_bytes"] + row["weight_bytes"], rel=0.05)
        assert row["stack_bound_bytes"] < STACK_BYTES
