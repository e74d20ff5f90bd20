"""Times in a browser: the page runs models of ours, and its figures are those of the JSON file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from browser import need_browser
from needs import need_tools

from twinfer.aot.build.targets import find
from twinfer.bench.lab.browser import measure, site
from twinfer.bench.lab.figures import browser, document

pytestmark = pytest.mark.usefixtures("kept_builds")


def test_our_engine_is_timed_and_right() -> None:
    need_browser()
    need_tools("clang", "wasm-ld")
    (row,) = measure(["digits_int8"], ["twinfer"], 3)["rows"]
    assert row["max_difference"] == 0
    assert 0 < row["min_us"] <= row["median_us"]
    assert row["operations"] > row["macs"] > 0


def test_an_engine_that_fails_says_why() -> None:
    need_browser()
    need_tools("clang", "wasm-ld")
    (row,) = measure(["digits_int8"], ["none"], 1)["rows"]
    assert "is not a function" in row["error"]
    ours = {"model": "m", "engine": "twinfer", "min_us": 10, "median_us": 12}
    table = browser({"rows": [ours, {**ours, "engine": "slow", "min_us": 25}, {**row, "model": "m"}]})
    assert table.splitlines()[-1] == "| m | 10, 12 | 25, 12 (2.5 ×) | does not run |"


def test_operations_come_again(tmp_path: Path) -> None:
    """wasmtime counts the same everywhere with the same compiler."""
    need_tools("clang", "wasm-ld")
    kept = document("browser")
    compiler = find("wasm32").toolchain.version.splitlines()[0]
    if kept["machine"]["compiler"] != compiler:
        message = f"the figures are of {kept['machine']['compiler']}, here is {compiler}"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    (before,) = [row for row in kept["rows"] if (row["model"], row["engine"]) == ("ad01_int8", "twinfer")]
    (told,) = site(["ad01_int8"], tmp_path)
    assert told["own"] == {key: before[key] for key in told["own"]}, "make bench-browser"
