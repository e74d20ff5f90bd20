"""Finds the importers of a front end: every module of a package ends with ``IMPORTERS``, name to function."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from twinfer.converter.discovery import modules_of


def importers_in(package: ModuleType) -> dict[str, Any]:
    """The importers of all modules of the package."""
    return {name: importer for module in modules_of(package) for name, importer in module.IMPORTERS.items()}
