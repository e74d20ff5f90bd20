"""What tests need beside twinfer: optional packages, paths, and samples."""

from __future__ import annotations

import importlib
import os
import random
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import pytest

#: The project, and what is shared beside it.
ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("TWINFER_SHARED") or ROOT.parent / "shared")

#: Variables of the environment: the day that samples are of, and whether tests take everything in their place. USUAL is
#: the day of all runs but those with --new-examples, which take their own.
ROTATION, ALL_CASES, USUAL = "TWINFER_ROTATION", "TWINFER_ALL_CASES", "2026-11-21"

T = TypeVar("T")


def sampled(items: Iterable[T], every: int, of: str) -> list[T]:
    """One item in so many, others for each ``of``, and each day with ``--new-examples``. All with ``--all-models``."""
    listed = list(items)
    if os.environ.get(ALL_CASES) or not listed:
        return listed
    first = random.Random(f"{os.environ[ROTATION]} {of}").randrange(min(every, len(listed)))
    return listed[first::every]


def deep_but(items: Iterable[Any], *kept: object) -> list[Any]:
    """The items as parameters of tests, all but those kept with the mark ``deep``."""
    return [
        item if item in kept else pytest.param(*(item if isinstance(item, tuple) else (item,)), marks=pytest.mark.deep)
        for item in items
    ]


def emulated() -> list[str]:
    """The cards but those of simulated cores, which take a second for a million instructions; test_rtl.py has them."""
    from twinfer.aot.build.targets import find, names

    return [name for name in names() if find(name).board != "rtl"]


def needs(*packages: str) -> Any:
    """The first of the packages. Skips the module if one is missing; fails in CI."""
    _without([name for name in packages if find_spec(name) is None])
    return importlib.import_module(packages[0])


def need_tools(*programs: str) -> None:
    """Skips the test if a program is not installed; fails in CI."""
    _without([name for name in programs if name and shutil.which(name) is None])


def need_npm(package: str) -> Path:
    """The programs of a package of npm, NAME@VERSION. Skips the test without npm or a network; fails in CI."""
    from twinfer.bench.lab.browser import npm
    from twinfer.runtime.errors import ToolError

    try:
        return npm(package) / ".bin"
    except ToolError as error:
        _without([f"{package} of npm ({error})"])
        raise


def _without(missing: list[str]) -> None:
    if missing:
        message = f"{' and '.join(missing)}: not installed"
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message, allow_module_level=True)
