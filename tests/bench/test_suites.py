"""Cases of the suites end as docs/coverage.md says, and that page is made of what is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module

import pytest

from twinfer.bench.lab.suites.page import KEPT, PAGE, read, text
from twinfer.bench.lab.suites.suite import Case, Outcome, run

#: Suite -> cases of the sample. One of ONNX's takes a tenth of a second, one of PyTorch's a second.
SAMPLE = {"onnx": 110, "keras": 40, "torch": 25, "ort": 24}

#: All of ONNX's cases are deep tests, so many to a test.
PART = 260


def test_the_page_is_made_of_what_is_kept() -> None:
    kept = {path.stem: read(path.stem) for path in sorted(KEPT.glob("*.tsv"))}
    assert PAGE.read_text() == text(kept), "python -m twinfer.bench.lab.suites writes docs/coverage.md"


@cache
def cases(name: str) -> dict[str, Case]:
    return {case.name: case for case in import_module(f"twinfer.bench.lab.suites.{name}").cases()}


def check(name: str, chosen: Sequence[str]) -> None:
    """The cases pass that passed when the suite ran; what was refused or failed may pass now."""
    kept = {outcome.name: outcome for outcome in read(name)}
    worse = [o for o in run([cases(name)[each] for each in chosen], jobs=1) if _rank(o) < _rank(kept[o.name])]
    assert not worse, f"{worse}\nif it is meant so: make suites SUITES={name}"


def _rank(outcome: Outcome) -> int:
    return {"passed": 2, "ours alone": 1}.get(outcome.kind, 0)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_is_right(name: str) -> None:
    pytest.importorskip({"keras": "torch", "ort": "onnxruntime.quantization"}.get(name, name))  # Keras runs on PyTorch
    assert {outcome.name for outcome in read(name)} == set(cases(name)), f"make suites SUITES={name} keeps all cases"
    check(name, sorted(cases(name), key=lambda each: hashlib.sha256(each.encode()).digest())[: SAMPLE[name]])


@pytest.mark.deep
@pytest.mark.parametrize("part", range(8))
def test_all_of_onnx_is_right(part: int) -> None:
    names = sorted(cases("onnx"))
    assert len(names) <= 8 * PART
    check("onnx", names[part * PART : (part + 1) * PART])


def test_a_case_that_fails_or_ends_its_process_is_told_apart() -> None:
    def ends() -> None:
        raise SystemExit(3)

    def fails() -> None:
        raise ValueError("no such thing")

    made = [Case("ends", "x", ends), Case("fails", "x", fails)]  # type: ignore[arg-type]
    outcomes = {outcome.name: outcome for outcome in run(made)}
    assert outcomes["ends"] == Outcome("ends", "x", "failed", "the process ended with 3")
    assert outcomes["fails"] == Outcome("fails", "x", "failed", "ValueError: no such thing")
