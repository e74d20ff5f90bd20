"""Finds the modules of a package, and the importers of a front end, so that each is added as one file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any


def modules_of(package: ModuleType) -> Iterator[ModuleType]:
    """All modules whose names do not begin with an underscore, in alphabetical order."""
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        if not module.name.startswith("_"):
            yield importlib.import_module(f"{package.__name__}.{module.name}")


def importers_in(package: ModuleType) -> dict[str, Any]:
    """The importers of all modules of the package, each of which ends with ``IMPORTERS``, name to function."""
    return {name: importer for module in modules_of(package) for name, importer in module.IMPORTERS.items()}
