"""A fixed sample of the suites ends as docs/coverage.md says, and that page is made of what is kept."""

from __future__ import annotations

import hashlib
from importlib import import_module

import pytest

from twinfer.bench.lab.suites.page import KEPT, PAGE, read, text
from twinfer.bench.lab.suites.suite import Case, Outcome, run

#: Suite -> cases of the sample. Every one takes a tenth of a second; those of PyTorch are exported, which takes more.
SAMPLE = {"onnx": 90, "keras": 35, "torch": 25}


def test_the_page_is_made_of_what_is_kept() -> None:
    kept = {path.stem: read(path.stem) for path in sorted(KEPT.glob("*.tsv"))}
    assert PAGE.read_text() == text(kept), "python -m twinfer.bench.lab.suites writes docs/coverage.md"


@pytest.mark.parametrize("name", SAMPLE)
def test_cases_end_as_they_are_kept(name: str) -> None:
    pytest.importorskip({"keras": "torch"}.get(name, name))  # Keras runs on PyTorch
    kept = {outcome.name: outcome for outcome in read(name)}
    cases = {case.name: case for case in import_module(f"twinfer.bench.lab.suites.{name}").cases()}
    assert set(kept) == set(cases), f"make suites SUITES={name} keeps all cases"
    chosen = sorted(cases, key=lambda each: hashlib.sha256(each.encode()).digest())[: SAMPLE[name]]
    for outcome in run([cases[each] for each in chosen], jobs=1):
        assert outcome.kind == kept[outcome.name].kind, outcome


def test_a_case_that_is_wrong_fails_or_ends_its_process_is_told_apart() -> None:
    def ends() -> None:
        raise SystemExit(3)

    def fails() -> None:
        raise ValueError("no such thing")

    cases = [Case("ends", "x", ends), Case("fails", "x", fails)]  # type: ignore[arg-type]
    outcomes = {outcome.name: outcome for outcome in run(cases)}
    assert outcomes["ends"] == Outcome("ends", "x", "failed", "the process ended with 3")
    assert outcomes["fails"] == Outcome("fails", "x", "failed", "ValueError: no such thing")
