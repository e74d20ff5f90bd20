"""Finds the importers of a front end: every module of a package ends with ``IMPORTERS``, name to function."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any


def importers_in(package: ModuleType) -> dict[str, Any]:
    """Of all modules of the package whose names do not begin with an underscore, in alphabetical order."""
    found: dict[str, Any] = {}
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        if not module.name.startswith("_"):
            found.update(importlib.import_module(f"{package.__name__}.{module.name}").IMPORTERS)
    return found
