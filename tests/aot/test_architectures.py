"""Another architecture is a card and a board folder. Two of them, in this folder, build, run, count and verify.

``machines/pc.toml`` is this computer, ``machines/a64.toml`` a core that a program of QEMU's emulates without a board;
both have a copy of ``aot/board/linux``. Each is copied to an empty folder first, so that nothing else can know of it.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny
from cases import measure, outputs_of, same
from needs import need_tools

from twinfer.aot.build.architecture import BOARDS, load
from twinfer.aot.build.firmware import build
from twinfer.aot.build.project import write_project
from twinfer.aot.build.runner import PATIENCE, Job, run_jobs, runner_of
from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.stack import stack_bound
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.measure import embedded
from twinfer.bench.measure.embedded import measure_on, verify_on
from twinfer.bench.models.source import Source
from twinfer.bench.models.verify import Samples
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session

MACHINES = Path(__file__).parent / "machines"


pytestmark = pytest.mark.usefixtures("kept_builds")


@pytest.fixture(params=["pc", "a64"])
def card(request: pytest.FixtureRequest, tmp_path: Path) -> Card:
    """The card of a copy; skips the test if its tools are not installed."""
    return copied(request.param, tmp_path)


def copied(name: str, folder: Path) -> Card:
    shutil.copy(MACHINES / f"{name}.toml", folder)
    shutil.copytree(BOARDS / "linux", folder / "linux", ignore=shutil.ignore_patterns("__pycache__"))
    card = find(folder / f"{name}.toml")
    need_tools(card.compiler, card.emulator or "")
    return card


def dense(card: Card) -> Project:
    return emit(make_plan(tiny.dense().graph, card.target), "dense")


def test_runs_and_gives_the_same_bits(card: Card) -> None:
    project = dense(card)
    inputs = [random_inputs(project.plan.graph, seed) for seed in range(2)]
    results = run_jobs(build(project, card), [Job(each) for each in inputs], count=False)
    for each, result in zip(inputs, results, strict=True):
        same(result.outputs, outputs_of(Session(project.plan), each))


def test_another_compiler_than_gcc(tmp_path: Path) -> None:
    """clang builds and its programs are read; what it does not tell is said."""
    card = replace(copied("pc", tmp_path), compiler="clang")
    need_tools("clang")
    project = dense(card)
    inputs = random_inputs(project.plan.graph)
    (result,) = run_jobs(build(project, card), [Job(inputs)], count=False)
    same(result.outputs, outputs_of(Session(project.plan), inputs))
    assert sizes(project, card).weight_bytes >= project.constants.nbytes
    assert stack_bound(project, card).unknown[-1] == "clang tells no frames of functions"


def test_is_verified_as_any_other(card: Card) -> None:
    assert verify_on(Source("dense", tiny.dense().graph), [card], samples=Samples(2)).proven


def test_sizes_and_stack(card: Card) -> None:
    """Every constant is there. The stack bound names what is unknown, because this board folder reads no frames."""
    project = dense(card)
    assert sizes(project, card).weight_bytes >= project.constants.nbytes
    bound = stack_bound(project, card)
    assert bound.bytes is None
    assert bound.chain[0] == "dense_run"
    assert bound.unknown


def test_the_folder_that_compile_writes(card: Card, tmp_path: Path) -> None:
    write_project(dense(card).plan, "dense", tmp_path / "made", card=card, stack_bytes=0)
    command = ["make", "-C", str(tmp_path / "made"), "test"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert "dense: ok" in done.stdout, done.stdout + done.stderr
    assert f"CC = {card.compiler}\n" in (tmp_path / "made" / "Makefile").read_text()


def test_counts_where_an_emulator_can(tmp_path: Path) -> None:
    card = copied("a64", tmp_path)
    project = dense(card)
    inputs = random_inputs(project.plan.graph)
    first = measure(project, card, inputs)
    assert 0 < first.instructions - sum(first.layers) < 50
    executed = runner_of(card).counted_by_address(build(project, card), inputs, PATIENCE)
    assert 0 <= sum(executed.counts.values()) - first.instructions < 50
    rows = measure_on(Source("dense", project.plan.graph), card, embedded.Measurement())
    assert [(row["target"], row["same_bits"], row.get("error")) for row in rows] == [("a64", True, None)] * 2


def test_no_counts_where_nothing_counts(tmp_path: Path) -> None:
    card = copied("pc", tmp_path)
    project = dense(card)
    inputs = random_inputs(project.plan.graph)
    firmware = build(project, card)
    first, again = (run_jobs(firmware, [Job(inputs)], count=False)[0].outputs[0] for _ in range(2))
    assert np.array_equal(first, again)
    with pytest.raises(ToolError, match="counts no instructions"):
        measure(project, card, inputs)
    with pytest.raises(ToolError, match="nothing counts single instructions in this computer"):
        runner_of(card).counted_by_address(firmware, inputs, PATIENCE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "architecture.py is missing"),
        ("ARCHITECTURE = 3\n", "has no ARCHITECTURE"),
        ("def (:\n", "SyntaxError"),
        ("raise ValueError('no board today')\n", "ValueError: no board today"),
    ],
)
def test_a_folder_that_is_none(text: str | None, message: str, tmp_path: Path) -> None:
    folder = tmp_path / "linux"
    folder.mkdir()
    if text is not None:
        (folder / "architecture.py").write_text(text)
    card = find(shutil.copy(MACHINES / "pc.toml", tmp_path))
    with pytest.raises(InvalidArgumentError, match=message):
        card.architecture  # noqa: B018


def test_a_folder_that_does_not_come_along() -> None:
    with pytest.raises(InvalidArgumentError, match="there is no board folder 'none'"):
        load("none")
