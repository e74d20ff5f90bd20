"""Finds the importers of a front end: every module in a folder ends with ``IMPORTERS``."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any


def importers_in(package: ModuleType) -> dict[str, Any]:
    """All importers of the package's modules, by what they import."""
    found: dict[str, Any] = {}
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        if not module.name.startswith("_"):
            found.update(importlib.import_module(f"{package.__name__}.{module.name}").IMPORTERS)
    return found
