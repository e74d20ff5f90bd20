"""What tests need beside twinfer: optional packages, and paths."""

from __future__ import annotations

import importlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

#: The project, and what is shared beside it.
ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("TWINFER_SHARED") or ROOT.parent / "shared")


def needs(*packages: str) -> Any:
    """The first of the packages. Skips the module if one is missing; fails in CI."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        message = f"{' and '.join(missing)}: not installed"
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message, allow_module_level=True)
    return importlib.import_module(packages[0])
