"""Static analysers find nothing in emitted C but what is accepted, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import pytest
from needs import ROOT, SHARED, need_tools

from twinfer.bench.lab.analysers import (
    CORPUS,
    MODELS,
    MODES,
    TARGETS,
    Finding,
    accepted,
    analysed,
    findings,
    misra_rule,
)
from twinfer.bench.models.source import load

#: The rules of MISRA C:2012 that docs/misra.md deviates from.
DEVIATIONS = frozenset(re.findall(r"^\| (\d+\.\d+) \|", (ROOT / "docs/misra.md").read_text(encoding="utf-8"), re.M))


def unexpected(found: Sequence[Finding]) -> list[str]:
    return [str(each) for each in found if not accepted(each) and misra_rule(each) not in DEVIATIONS]


def need_analysers() -> None:
    need_tools("cppcheck", "clang-tidy", "clang", "gcc")


def test_a_small_model() -> None:
    need_analysers()
    found = analysed(load("digits_int8"), TARGETS[0], "compiled")
    assert not unexpected(found)
    assert "11.5" in {misra_rule(each) for each in found}, "cppcheck has looked"


def test_findings_are_read() -> None:
    said = "k/a.h:3:5: warning: no [-Wx]\nk/b.h:7: style: misra [misra-c2012-12.1]\nno finding\n"
    assert [*findings("t", said)] == [
        Finding("t", "-Wx", "k/a.h", 3, "no"),
        Finding("t", "misra-c2012-12.1", "k/b.h", 7, "misra"),
    ]
    assert [misra_rule(each) for each in findings("t", said)] == [None, "12.1"]


@pytest.mark.deep
def test_ten_models() -> None:
    """Cores take turns. What is deviated from occurs somewhere, or the page lists too much."""
    need_analysers()
    folder = SHARED / "corpus" / "models"
    models = [*MODELS, *(str(path) for name in CORPUS if (path := folder / f"{name}.tflite").exists())]
    cases = [(load(model), target, mode) for model, target in zip(models, cycle(TARGETS)) for mode in MODES]
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = [each for listed in pool.map(lambda case: analysed(*case), cases) for each in listed]
    assert not unexpected(found)
    if folder.exists():
        assert {misra_rule(each) for each in found} >= DEVIATIONS
