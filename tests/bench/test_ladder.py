"""What techniques are worth: the programs of a ladder give the same bits, and differ in what they should."""

from __future__ import annotations

import io
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from twinfer.aot.build.sizes import Sizes, Symbol
from twinfer.aot.build.targets import find
from twinfer.bench.explain import ladder as ladders
from twinfer.bench.explain.ladder import Ladder, ladder_on, ladder_on_host, ladder_tables
from twinfer.bench.explain.techniques import NAMED_ALONE, SMALL_ALONE, TECHNIQUES, Build, applies, chosen, removed
from twinfer.bench.measure import embedded
from twinfer.bench.measure.embedded import Measurement, every, measure_on
from twinfer.bench.measure.turns import Timing
from twinfer.bench.models.source import Source, load
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.options import Options
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import GENERIC, HOST

pytestmark = pytest.mark.usefixtures("board_tools")

M4 = find("cortex-m4")


def text(parts: Any) -> str:
    console = Console(file=io.StringIO(), width=150)
    for part in parts:
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def ladder() -> Ladder:
    return _ladder()


@cache
def _ladder() -> Ladder:
    return ladder_on(load("digits_int8"), M4, chosen(None, M4.target))


@pytest.mark.deep
def test_every_rung_gives_the_same_bits(ladder: Ladder) -> None:
    assert ladder.same_bits
    assert len(ladder.ups) == len(ladder.techniques) + 1 == len(ladder.downs) + 1


@pytest.mark.deep
def test_the_ladder_ends_at_the_compiled_program(ladder: Ladder) -> None:
    (row,) = measure_on(load("digits_int8"), M4, Measurement(every(modes=["compiled"])))
    assert ladder.whole.taken == row["instructions"]
    assert ladder.whole.flash_bytes == row["code_bytes"] + row["weight_bytes"]


def test_a_ladder_on_this_computer() -> None:
    techniques = chosen("folding,packing,instructions,calls", isa.this_computer())
    ladder = ladder_on_host(Source("tiny", tiny.classifier()), techniques, seconds=0.1)
    assert ladder.same_bits
    assert ladder.unit == "µs"
    assert ladder.whole.flash_bytes is None
    assert "flash" not in text([next(ladder_tables(ladder))])


@pytest.mark.parametrize("wrong", [None, 0, 2, 3])
def test_every_rung_on_a_core(wrong: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs with none, one and two techniques, then those without each: with their own flags, plans and figures."""
    source, built, shares = load("digits_int8"), list[Any](), list[float]()
    inputs = random_inputs(source.graph, 6)
    want = embedded.host_outputs(source.graph, inputs)

    def build(project: Any, card: Any) -> int:
        built.append((project, card))
        return len(built) - 1

    def run_jobs(program: int, jobs: Any) -> list[Any]:
        assert [value.tobytes() for job in jobs for value in job.inputs] == [value.tobytes() for value in inputs]
        outputs = [value + np.asarray(program == wrong, value.dtype) for value in want]
        return [SimpleNamespace(counts=[1000 + program], outputs=outputs)]

    monkeypatch.setattr(ladders, "build", build)
    monkeypatch.setattr(ladders, "run_jobs", run_jobs)
    monkeypatch.setattr(ladders, "sizes", lambda *_: Sizes((Symbol("a", "code", len(built)),), 66 + len(built)))
    monkeypatch.setattr(ladders, "tflm_rows", lambda source, core: [{"of": core}])
    options = Options("size", memory="rows")
    told = ladder_on(source, M4, ["folding", "packing"], options, 6, shares.append)
    assert shares == [i / 5 for i in range(5)]
    assert [each.taken for each in (*told.ups, *told.downs)] == [1000, 1001, 1002, 1003, 1004]
    assert [(each.flash_bytes, each.ram_bytes) for each in (*told.ups, *told.downs)] == [
        (i, 66 + i) for i in range(1, 6)]  # fmt: skip
    assert [each.same_bits for each in (*told.ups, *told.downs)] == [i != wrong for i in range(5)]
    assert told.same_bits == (wrong is None)
    assert (told.peers, told.whole.taken, told.techniques) == (({"of": "cortex-m4"},), 1002, ("folding", "packing"))
    packed = [
        {"folding", "packing"} <= each for each in (set(), {"folding"}, {"folding", "packing"}, set(), {"folding"})
    ]
    assert [card.flags[len(M4.flags) :] for _, card in built] == [
        ("-U__ARM_FEATURE_DSP", "-DTW_NO_ASM") if each else () for each in packed]  # fmt: skip
    assert {(project.plan.options.optimize, project.plan.options.memory) for project, _ in built} == {
        ("size", "layers")
    }
    document = told.document
    assert [rung["technique"] for rung in document["rungs"]] == ["folding", "packing"]
    assert [(rung["added"]["taken"], rung["removed"]["taken"]) for rung in document["rungs"]] == [
        (1001, 1003),
        (1002, 1004),
    ]
    assert (document["none"]["taken"], document["unit"]) == (1000, "instructions")


@pytest.mark.parametrize("wrong", [None, 1, 4])
def test_every_rung_on_this_computer(wrong: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Medians in µs of all programs in turn; instructions of this machine only where a technique asks for them."""
    source, flags, shares = Source("tiny", tiny.classifier()), list[Any](), list[float]()
    want = embedded.host_outputs(source.graph, random_inputs(source.graph, 3))

    def compile_plans(plans: Any, *, policy: Any, flags: Any) -> Any:
        i = len(given)
        given.append(flags)
        outputs = [value + np.asarray(i == wrong, value.dtype) for value in want]
        return {"model": SimpleNamespace(plan=plans["model"], outputs=outputs, run=lambda: i)}

    def interleaved(runs: Any, *, seconds: float, progress: Any) -> Any:
        assert seconds == 7
        assert [run() for run in runs.values()] == list(range(5))
        progress(0.5)
        return {key: Timing((1000.0 * (run() + 1), 9e6, 500.0)) for key, run in runs.items()}

    given = flags
    monkeypatch.setattr(ladders, "compile_plans", compile_plans)
    monkeypatch.setattr(ladders, "fresh_outputs", lambda engine, inputs: engine.outputs)
    monkeypatch.setattr(ladders, "interleave", interleaved)
    names = ["calls", "constants"]
    told = ladder_on_host(source, names, Options(), 3, 7, shares.append)
    assert shares == [*(i / 10 for i in range(5)), 0.75]
    assert [each.taken for each in (*told.ups, *told.downs)] == [1, 2, 3, 4, 5]
    assert [each.same_bits for each in (*told.ups, *told.downs)] == [i != wrong for i in range(5)]
    assert {each.flash_bytes for each in told.ups} == {None}
    assert not any("-march=native" in each for each in given)
    given.clear()
    ladder_on_host(source, ["folding", "packing", "instructions"][:2], Options(), 3, 7)
    assert not any("-march=native" in each for each in given)
    monkeypatch.setattr(ladders, "interleave", lambda runs, **_: {key: Timing((1.0,)) for key in runs})
    given.clear()
    ladder_on_host(source, ["folding", "packing", "instructions"], Options(), 3, 7)
    assert ["-march=native" in each for each in given] == [False, False, False, True, False, False, False]


def test_techniques_of_a_list() -> None:
    assert chosen(None, M4.target) == tuple(key for key in TECHNIQUES if key not in NAMED_ALONE)
    assert "instructions" not in chosen(None, GENERIC)
    assert not set(SMALL_ALONE) & set(chosen(None, HOST))
    assert applies("instructions", HOST)
    assert chosen("folding, in-place,folding", M4.target) == ("folding", "in_place")
    for wrong, message in {
        "foldin": "there is no technique 'foldin', only folding, .* Do you mean folding?",
        "packing,folding": "packing needs folding, which must stand before it",
        "rows": "rows needs in_place",
        " ,": "no technique is named; there are folding, packing",
    }.items():
        with pytest.raises(InvalidArgumentError, match=message):
            chosen(wrong, M4.target)


def test_without_a_technique_there_are_none_that_need_it() -> None:
    names = tuple(TECHNIQUES)
    for name, build in zip(names, removed(names), strict=True):
        gone = set(names) - build.techniques
        assert name in gone
        assert all(set(TECHNIQUES[key].needs) <= build.techniques for key in build.techniques)
        assert all(key == name or gone & set(TECHNIQUES[key].needs) for key in gone), "no more than must go"


@given(st.sets(st.sampled_from(sorted(TECHNIQUES))))
def test_a_build_asks_for_what_it_has(techniques: set[str]) -> None:
    build = Build(frozenset(techniques))
    options, target = build.options(Options()), build.target(M4.target)
    assert options.without == {"fusion", "in_place", "placement"} - techniques
    assert (options.mode == "compiled") == ("calls" in techniques)
    assert (target == M4.target) == ("packing" in techniques)
