"""The command line on microcontrollers: run, verify, bench and compile for Cortex-M, under QEMU."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from needs import deep_but
from rich.console import Console

from twinfer.aot.build import targets, toolchain
from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.print.emit import emit
from twinfer.bench.measure import embedded, limits
from twinfer.bench.measure.embedded import MODES, Measurement, every, measure_on
from twinfer.bench.measure.embedded_html import embedded_html
from twinfer.bench.measure.embedded_report import embedded_tables
from twinfer.bench.measure.tflm import tflm_rows
from twinfer.bench.models.source import load
from twinfer.command_line.main import main
from twinfer.runtime import tools
from twinfer.runtime.options import Options
from twinfer.runtime.plan.choice import default_policy, share_all, specialise
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs

pytestmark = pytest.mark.usefixtures("board_tools")

M4 = "cortex-m4"


def text_of(rows: list[Any], width: int = 120) -> str:
    written = io.StringIO()
    console = Console(width=width, file=written)
    for part in embedded_tables(rows, width):
        console.print(part)
    return written.getvalue()


# -- bench -------------------------------------------------------------------------------------------------------------


def test_bench_kws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both modes with the host's bits, the promised keys, and TFLM beside them."""
    path = tmp_path / "rows.json"
    assert main(["bench", "kws_int8", "--target", M4, "--layers", "--json", str(path)]) == 0
    text = capsys.readouterr().out
    document = json.loads(path.read_text())
    assert document["schema"] == 1
    interpreted, compiled, *peers = document["rows"]
    for row, mode in ((interpreted, "interpreted"), (compiled, "compiled")):
        assert (row["model"], row["engine"], row["target"], row["same_bits"]) == ("kws_int8", mode, M4, True)
        assert row["arena_bytes"] == row["lower_bound_bytes"] == row["ram_bytes"] == 16_000 + 7 * 64  # three pixels
        assert 0 < row["stack_bytes"] <= row["stack_bound_bytes"] < 1024
        assert 0 < row["instructions"] - sum(layer["instructions"] for layer in row["layers"]) < 1000
        assert sum(layer["macs"] for layer in row["layers"]) == row["macs"] == 2_656_768
        softmax = make_plan(load("kws_int8").graph, targets.find(M4).target).steps[-1].call
        table = softmax.inputs[1].nbytes  # which is no weight
        assert row["constant_bytes"] - table <= row["weight_bytes"] < row["constant_bytes"] - table + 64
    assert compiled["instructions"] < interpreted["instructions"]
    assert [row["engine"] for row in peers] == ["tflm-cmsis", "tflm-cmsis-small", "tflm-reference"]
    small, reference = peers[1:]
    assert compiled["instructions"] <= 0.5 * reference["instructions"]
    assert compiled["code_bytes"] <= 0.35 * small["code_bytes"]
    for word in ("same bits", "TFLM + CMSIS-NN", "7,847,268", "DEPTHWISE_CONV_2D", "same topology"):
        assert word in text
    assert "cycle" not in text


@pytest.mark.deep
def test_price_of_both_choices() -> None:
    """Every layer has the price of the choice that was taken and of the other one; both were built."""
    source, card = load("digits_int8"), targets.find(M4)
    (row,) = measure_on(source, card, Measurement(every(["size"], modes=["compiled"]), layers=True))
    plan = make_plan(source.graph, card.target, Options(optimize="size"))
    shared = default_policy(plan)
    assert [layer["shared"] for layer in row["layers"]] == [i in shared for i in range(len(plan.steps))]
    forms = {
        name: emit(plan, "digits_int8", policy=policy) for name, policy in (("own", specialise), ("all", share_all))
    }
    counts = {
        name: run_jobs(build(f, card), [Job(random_inputs(plan.graph), by_step=True)])[0] for name, f in forms.items()
    }
    for i, layer in enumerate(row["layers"]):
        assert layer["other_instructions"] == counts["own" if layer["shared"] else "all"].counts[i]
        assert layer["other_code_bytes"] > 0
    assert set(row["instances"]) == {plan.steps[i].call.kernel for i in shared}
    text = text_of([row])
    assert "own" in text
    assert "shared" in text


def test_standing_against_the_limits() -> None:
    """Every figure with a limit is compared with it."""
    row: Any = {"model": "m", "engine": "compiled", "target": M4, "optimize": "speed", "instructions": 60}
    row |= {"code_bytes": 300, "weight_bytes": 112, "ram_bytes": 100, "lower_bound_bytes": 100}
    row |= {"arena_bytes": 100}
    peer: Any = {"model": "m", "target": M4, "recorded": "kws", "instructions": 100, "code_bytes": 1000}
    peer |= {"arena_bytes": 90}
    peers = [{**peer, "engine": name, "weights_floor_bytes": 100} for name in ("tflm-cmsis", "tflm-cmsis-small")]
    (standing,) = limits.standings([row, {**row, "optimize": "balanced"}, {**row, "optimize": "size"}, *peers])
    assert [standing.instructions[s].good for s in ("speed", "balanced", "size")] == [True, None, None]
    assert [standing.code[s].good for s in ("speed", "balanced", "size")] == [True, None, False]
    assert [v.good for v in (standing.weights, standing.ram, standing.arena["auto"])] == [False, True, False]
    average = limits.mean([standing], "speed")
    assert average is not None
    assert (average[0].good, average[1], str(average[0])) == (False, 1, "0.60")
    other = limits.mean([standing], "balanced")
    assert other is not None
    assert other[0].good is None
    assert limits.standings([row]) == []
    hello = [{**peer, "recorded": "hello", "instructions": 3510} for peer in peers]
    assert limits.standings([{**row, "instructions": 883}, *hello])[0].instructions["speed"].good
    assert not limits.standings([{**row, "instructions": 884}, *hello])[0].instructions["speed"].good
    assert "no figures of TFLM" in embedded_html([row])


def test_the_limit_of_a_mean_is_that_of_the_fastest_code() -> None:
    """cortex-m4: 0.55 for the mean and 0.70 for each model. Balanced, size and other cores have no limit."""
    verdicts = {setting: limits.Verdict(0.5) for setting in ("speed", "balanced", "size")}
    fine = limits.Verdict(1.0)
    on = {core: limits.Standing("kws", core, verdicts, verdicts, fine, fine, {}) for core in (M4, "cortex-m0")}
    for setting, most in (("speed", limits.INSTRUCTIONS[M4][0]), ("balanced", None), ("size", None)):
        assert limits.mean([on[M4]], setting) == (limits.Verdict(0.5, most), 1)
        assert limits.mean([on["cortex-m0"]], setting) == (limits.Verdict(0.5), 1)
    assert limits.mean([dataclasses.replace(on[M4], model="hello")], "speed") is None


def test_what_does_not_fit_is_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = tmp_path / "small.toml"
    card.write_text('[small]\nbase = "cortex-m4"\nram_bytes = 0x1800\nstack_bytes = 0x400\n')
    tiny.dense().graph.save(tmp_path / "dense.tflite")
    assert main(["bench", "kws_int8", str(tmp_path / "dense.tflite"), "--target", str(card)]) == 2
    text = capsys.readouterr().out
    assert "kws_int8 needs 9,408 B of arena, small has 6,144 B of RAM" in text
    assert "failed" in text
    assert "same bits" in text
    assert main(["verify", "kws_int8", "--target", str(card)]) == 2
    assert "needs 6,640 B of arena" in capsys.readouterr().out


def test_recorded_figures(corpus: Path) -> None:
    source = load(str(corpus / "models" / "mlp_vww_int8.tflite"))
    rows = tflm_rows(source, M4)
    assert [row["instructions"] for row in rows] == [24_720_367, 28_556_481, 116_629_448]
    assert rows[0]["recorded"] == "vww"
    assert tflm_rows(source, "cortex-m33")[0]["instructions"] == 24_542_053
    assert tflm_rows(load("digits_int8"), M4) == tflm_rows(source, "no-such-core") == []


# -- run and verify ----------------------------------------------------------------------------------------------------


def test_verify_finds_a_wrong_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*arguments: Any, **how: Any) -> Any:
        first, second = run_jobs(*arguments, **how)
        first.outputs[0][0, 3] ^= 1
        return [first, second]

    monkeypatch.setattr(embedded, "run_jobs", wrong)
    tiny.dense().graph.save(tmp_path / "dense.tflite")
    assert main(["verify", str(tmp_path / "dense.tflite"), "--target", M4]) == 1
    assert "element [0, 3] of sample 0" in capsys.readouterr().out


GOLDEN = ("mlp_kws_int8", "mlp_vww_int8", "mlp_ic_int8", "mlp_ad01_int8", "tflm_hello_world_int8")
GOLDEN += ("tflm_person_detect", "tflm_micro_speech_quantized")


@pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")
@pytest.mark.parametrize("name", deep_but(GOLDEN, "mlp_kws_int8", "tflm_hello_world_int8"))
def test_golden_bits(name: str, corpus: Path) -> None:
    """The recorded outputs of MLPerf Tiny's and TFLM's own models, in both modes."""
    card = targets.find(M4)
    plan = make_plan(load(str(corpus / "models" / f"{name}.tflite")).graph, card.target)
    golden = np.load(corpus / "golden" / f"{name}.npz")
    samples = sorted({key.split("_")[0] for key in golden.files if key.startswith("s")})
    jobs = [Job([golden[f"{s}_in{j}"] for j in range(len(plan.graph.inputs))], i) for i in (0, 1) for s in samples]
    projects = [emit(plan.printed(mode=mode), f"{name}_{mode}") for mode in MODES]
    results = run_jobs(build(projects, card), jobs, count=False)
    for result, sample in zip(results, samples * 2, strict=True):
        for j, value in enumerate(result.outputs):
            np.testing.assert_array_equal(value, golden[f"{sample}_out{j}"])


# -- compile -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("core", "mode", "optimize"),
    [
        (M4, "compiled", "size"),
        pytest.param("cortex-m0", "interpreted", "balanced", marks=pytest.mark.deep),
        pytest.param("cortex-m55", "compiled", "speed", marks=pytest.mark.deep),
    ],
)
def test_compile(core: str, mode: str, optimize: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder builds on its own, and its self-test passes on the board."""
    folder = tmp_path / "c"
    how = ["--target", core, "--mode", mode, "--optimize", optimize]
    assert main(["compile", "digits_int8", *how, "-o", str(folder)]) == 0
    assert f"CFLAGS ?= {toolchain.LEVELS[optimize]} " in (folder / "Makefile").read_text()  # type: ignore[index]
    assert json.loads((folder / "twinfer.json").read_text())["optimize"] == optimize
    assert "stack" in capsys.readouterr().out
    assert "DIGITS_INT8_STACK_BYTES" in (folder / "digits_int8.h").read_text()
    done = subprocess.run(
        ["make", "-C", str(folder), "test"], capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "digits_int8: ok" in done.stdout + done.stderr
    again = tmp_path / "d"
    assert main(["compile", "digits_int8", *how, "-o", str(again)]) == 0
    files = sorted(p.relative_to(again) for p in again.rglob("*") if p.is_file())
    assert all((folder / p).read_bytes() == (again / p).read_bytes() for p in files)


@pytest.mark.deep
def test_a_failing_self_test_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    assert main(["compile", "digits_int8", "--target", M4, "-o", str(folder)]) == 0
    test = folder / "digits_int8_test.c"
    test.write_text(test.read_text().replace("g != w", "g == w"))
    done = subprocess.run(
        ["make", "-C", str(folder), "test"], capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode != 0
    assert "FAILED" in done.stdout + done.stderr


@pytest.mark.deep
def test_cmake(tmp_path: Path) -> None:
    if not shutil.which("cmake"):
        pytest.skip("cmake is needed")
    folder = tmp_path / "c"
    assert main(["compile", "digits_int8", "--target", M4, "-o", str(folder)]) == 0
    line = next(li for li in (folder / "CMakeLists.txt").read_text().splitlines() if li.startswith("# cmake"))
    subprocess.run(line.removeprefix("# "), shell=True, cwd=folder, check=True, capture_output=True)
    assert (folder / "build" / "libdigits_int8.a").exists()


def test_a_stack_that_is_not_measured_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the compiler the header lacks the macro, and a warning says what to install."""
    monkeypatch.setattr(tools.shutil, "which", lambda name: None)
    assert main(["compile", "digits_int8", "--target", M4, "-o", str(tmp_path / "c")]) == 0
    assert "STACK_BYTES" not in (tmp_path / "c" / "digits_int8.h").read_text()
    said = capsys.readouterr().err
    assert "warning: the stack is not measured, DIGITS_INT8_STACK_BYTES is left out: " in said
    assert "apt-get install gcc-arm-none-eabi" in said
