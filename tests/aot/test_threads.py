"""Compiled code whose layers are split over threads: the bits of one thread, and a pool of whoever calls it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import deep_but, need_tools
from sum_nets import network

from twinfer.aot.build.host import compile_plans
from twinfer.aot.build.project import write_project
from twinfer.aot.print.emit import emit
from twinfer.bench.models.source import load
from twinfer.command_line.main import main
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan import split
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC, Target

pytestmark = pytest.mark.usefixtures("kept_builds")


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers are split however small they are."""
    monkeypatch.setattr(split, "LEAST", 1)


def assert_same(graph: Graph, threads: tuple[int, ...] = (2, 3), target: Target | None = None) -> int:
    """Compiled code gives the interpreter's bits with threads, in several runs; returns how many layers are split."""
    target = target or isa.this_computer()
    plans = {f"t{n}": make_plan(graph, target, Options(threads=n)) for n in threads}
    engines = [Session(make_plan(graph, target)), *compile_plans(plans).values()]
    for seed in range(3):
        inputs, results = random_inputs(graph, seed), []
        for engine in engines:
            engine.feed(inputs)
            engine.run()
            results.append(engine.outputs())
        for other in results[1:]:
            for want, got in zip(results[0], other, strict=True):
                np.testing.assert_array_equal(want.view(np.uint8), got.view(np.uint8))
    return sum("_parallel(" in line for line in emit(plans[f"t{threads[0]}"], "m").code["m.c"].splitlines())


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize(
    ("name", "least"), deep_but([("kws_int8", 9), ("vww_float32", 20), ("ic_int8", 9)], ("ic_int8", 9))
)
def test_models_give_the_same_bits(name: str, least: int) -> None:
    assert assert_same(load(name).graph) >= least


@pytest.mark.deep
@pytest.mark.usefixtures("everything")
def test_code_for_any_machine_gives_the_same_bits() -> None:
    assert assert_same(load("vww_int8").graph, target=GENERIC) >= 20


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("seed", range(2))
def test_layers_that_add_up_rows_stay_whole(seed: int) -> None:
    assert_same(network(seed, "pool"), (2, 5))


@pytest.mark.deep
@pytest.mark.usefixtures("everything")
@pytest.mark.corpus("app", sample=6)
def test_corpus_models_give_the_same_bits(corpus_model: Any) -> None:
    graph = read_file(corpus_model.path)
    assert_same(make_plan(graph).graph, (3,))


def test_one_thread_changes_nothing() -> None:
    graph = load("ic_int8").graph
    one, usual = (emit(make_plan(graph, GENERIC, how), "ic") for how in (Options(threads=1), Options()))
    assert one.files == usual.files
    assert not {"ic_threads.c", "kernels/run/pool.h"}.intersection(one.files)


def test_small_layers_stay_whole() -> None:
    code = emit(make_plan(load("ad01_int8").graph, GENERIC, Options(threads=4)), "ad01").code["ad01.c"]
    assert "parallel" not in code


#: A pool of the caller's: one part after the other, the last one first, and no threads at all.
OWN = """
#include "ic.h"
#include <stdio.h>
static int asked;
void ic_parallel(int32_t parts, void (*work)(void *context, int32_t part), void *context) {
    ++asked;
    for (int32_t i = parts - 1; i >= 0; --i) work(context, i);
}
int ic_run_static(const void *const *inputs, void *const *outputs);
int main(void) {
    const int status = ic_run_static(NULL, NULL);
    printf("%d layers in parts, status %d\\n", asked, status);
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_tools("make", "cc")
    made = tmp_path_factory.mktemp("threads") / "ic"
    write_project(make_plan(load("ic_int8").graph, GENERIC, Options(threads=2)), "ic", made)
    return made


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_caller_s_pool_takes_the_place_of_posix_threads(folder: Path, tmp_path: Path) -> None:
    run("make", "-C", folder, "build/libic.a", "CFLAGS=-O1")
    (tmp_path / "own.c").write_text(OWN, encoding="utf-8")
    run("cc", "-I", folder, tmp_path / "own.c", folder / "build" / "libic.a", "-lm", "-o", tmp_path / "own")
    assert run(tmp_path / "own") == "7 layers in parts, status 0\n"
    assert "tw_pool" not in run("nm", tmp_path / "own")


def test_the_folder_builds_and_its_threads_do_not_race(folder: Path) -> None:
    assert "ic: ok" in run("make", "-C", folder, "-B", "test", "CFLAGS=-O1 -g -Wall -Werror -fsanitize=thread")


def test_what_has_no_threads_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for wrong in (0, -1, 65, "2"):
        with pytest.raises(InvalidArgumentError, match="threads must be 1 to 64"):
            Options(threads=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="one thread"):
        Options(threads=2, mode="interpreted")
    for more in (["--target", "cortex-m4"], ["--layout", "arduino"]):
        assert main(["compile", "ic_int8", "--threads", "2", "-o", str(tmp_path / "out"), *more]) == 2
        assert "--threads is for --target host" in capsys.readouterr().err
