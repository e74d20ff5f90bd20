"""Finds the modules of a package, so that an entry of a table is added as one file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType


def modules_of(package: ModuleType) -> Iterator[ModuleType]:
    """All modules whose names do not begin with an underscore, in alphabetical order."""
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        if not module.name.startswith("_"):
            yield importlib.import_module(f"{package.__name__}.{module.name}")
