"""The corpus of real models for tests: where it is, and one test per model.

A test that names the argument ``corpus_model`` runs once for every model of the groups that its mark lists::

    @pytest.mark.corpus("app")                # every model of the group
    @pytest.mark.corpus("op", sample=40)      # 40 of them; others each day with --new-examples, all with --all-models
    def test_it(corpus_model): ...            # .path, .entry (its row of index.json), .golden(), .layers()

The corpus is not part of the project: it is in $TWINFER_SHARED, else in ../shared. Without it these tests are skipped,
but fail in CI.

``make test`` leaves out the tests with the mark ``deep``; ``make test-deep`` runs these alone.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis.database import DirectoryBasedExampleDatabase
from needs import ALL_CASES, ROOT, ROTATION, SHARED, USUAL, need_tools

#: The same examples every time and everywhere, so that a test fails only for what was changed. With --new-examples
#: others are drawn; those that fail are kept in FOUND, and every later run with --new-examples begins with them.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
FOUND = ROOT / ".hypothesis" / "found"
hypothesis.settings.register_profile(
    "new", derandomize=False, deadline=None, database=DirectoryBasedExampleDatabase(FOUND)
)

CORPUS = SHARED / "corpus"

#: The variable of the environment that says when --within is over.
UNTIL = "TWINFER_TESTS_UNTIL"


@dataclass(frozen=True)
class CorpusModel:
    """One model of the corpus with its files."""

    entry: Mapping[str, Any]

    @property
    def path(self) -> Path:
        return CORPUS / self.entry["file"]

    def golden(self) -> dict[str, Any]:
        """The arrays of its golden file: s{i}_in{j}, s{i}_out{j}, … (see the corpus README)."""
        with np.load(CORPUS / self.entry["golden"]) as arrays:
            return dict(arrays)

    def layers(self) -> Any:
        return json.loads((CORPUS / self.entry["layers"]).read_text())


def entries() -> list[dict[str, Any]]:
    index = CORPUS / "index.json"
    return json.loads(index.read_text()) if index.exists() else []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-models", action="store_true", help="take every corpus model and every case where a test takes a sample"
    )
    parser.addoption(
        "--new-examples", action="store_true", help="draw new examples, and take the day's sample of cases and models"
    )
    parser.addoption(
        "--within", type=float, metavar="SECONDS",
        help="begin no test so many seconds after the start; each commit has another order of files",
    )  # fmt: skip
    parser.addoption(
        "--refresh-golden", action="store_true", help="write tests/aot/golden anew from what is emitted now"
    )
    parser.addoption(
        "--refresh-perf", action="store_true", help="write tests/kernels/perf.lock anew from what is counted now"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "corpus(*groups, sample=None): which corpus models corpus_model runs over")
    config.addinivalue_line("markers", "deep: for make test-deep; make test leaves it out")
    new = config.getoption("new_examples")
    hypothesis.settings.load_profile("new" if new else "same")
    os.environ.setdefault(ROTATION, time.strftime("%Y-%m-%d") if new else USUAL)  # xdist's workers inherit it
    if within := config.getoption("within"):
        os.environ.setdefault(UNTIL, str(time.monotonic() + within))  # and this
    if config.getoption("all_models"):
        os.environ[ALL_CASES] = "1"


def pytest_report_header(config: pytest.Config) -> str:
    return f"corpus: {len(entries())} models in {CORPUS}, sample {ROTATION}={os.environ[ROTATION]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts files in an order that the commit decides, so that --within cuts off others each time."""
    if config.getoption("within"):
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False).stdout
        places = {item.location[0]: random.Random(f"{commit!r} {item.location[0]}").random() for item in items}
        items.sort(key=lambda item: places[item.location[0]])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if time.monotonic() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip("not run: no time was left")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "corpus_model" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("corpus")
    groups = mark.args if mark else ()
    sample = mark.kwargs.get("sample") if mark else None
    models = [CorpusModel(e) for e in entries() if not groups or e["group"] in groups]
    if sample and sample < len(models) and not metafunc.config.getoption("all_models"):
        chosen = random.Random(os.environ[ROTATION]).sample(range(len(models)), sample)
        models = [models[i] for i in sorted(chosen)]
    metafunc.parametrize("corpus_model", models or [None], ids=lambda m: m.path.stem if m else "absent", indirect=True)


@pytest.fixture
def corpus_model(request: pytest.FixtureRequest, corpus: Path) -> CorpusModel:
    model: CorpusModel = request.param
    return model


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The corpus folder; skips where it is absent, fails in CI."""
    if not (CORPUS / "index.json").exists():
        message = f"no corpus at {CORPUS}: set TWINFER_SHARED"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return CORPUS


@pytest.fixture
def kept_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps libraries and programs in build/, by content, so that what is unchanged is not built twice."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(ROOT / "build" / "cache"))


@pytest.fixture
def board_tools(kept_builds: None) -> None:
    """Compiler and emulator for boards. Skips if they are not installed; fails in CI."""
    from twinfer.aot.build.targets import find

    card = find("cortex-m4")
    need_tools(card.compiler, card.emulator)


@pytest.fixture
def llvm_mca() -> None:
    """The pipeline models of LLVM. Skips if llvm-mca is not installed; fails in CI."""
    need_tools("llvm-mca")


@pytest.fixture
def own_operators(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forgets the folders of operators that the test registers."""
    from twinfer.runtime import registry

    monkeypatch.setenv("TWINFER_OPERATORS", "")
    before = [folder.path for folder in registry._ADDED]
    yield
    for path in [folder.path for folder in registry._ADDED if folder.path not in before]:
        registry.unregister(path)


@pytest.fixture(autouse=True)
def _as_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes tables as wide as in a pipe: xdist's workers have the width of a terminal in their environment."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that run all they convert: converting need not plan it first, to see that it can be run."""
    monkeypatch.setattr("twinfer.converter.convert._planned", lambda graph: None)
