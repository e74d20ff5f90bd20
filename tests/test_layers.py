"""The import rule of ARCHITECTURE.md, read from the source: downwards only.

kernels_c <- runtime <- converter;  runtime <- aot <- bench;  bench and the front door (twinfer/) may import all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

#: Folder -> what it may import of twinfer, itself aside.
MAY_IMPORT: dict[str, frozenset[str]] = {
    "kernels_c": frozenset(),
    "runtime": frozenset({"kernels_c"}),
    "converter": frozenset({"kernels_c", "runtime"}),
    "aot": frozenset({"kernels_c", "runtime"}),
    "bench": frozenset({"kernels_c", "runtime", "converter", "aot", "Interpreter", "compile"}),
}


def imported(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that a module of ``package`` imports, wherever in the code it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def faults(folder: str, path: Path, source: str) -> list[str]:
    """What module ``path`` (relative to the root) of ``folder`` imports against the rule, one line each."""
    package = ".".join(("twinfer", *path.parent.parts))
    found = []
    for line, name in imported(ast.parse(source), package):
        first, _, rest = name.partition(".")
        layer = rest.partition(".")[0]
        if first in MAY_IMPORT:
            found.append(f"{path}:{line}: imports {name}; a bare import loads a second copy: twinfer.{name}")
        elif first == "twinfer" and layer != folder and layer not in MAY_IMPORT[folder]:
            found.append(f"{path}:{line}: {folder} must not import {name}")
    return found


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_go_downwards(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    found = [f for path in paths for f in faults(folder, path.relative_to(ROOT), path.read_text())]
    assert not found, "\n".join(found)


def test_every_package_has_a_rule_and_a_symlink() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"twinfer", "tests"}
    assert packages == set(MAY_IMPORT)
    for folder in packages:
        assert (ROOT / "twinfer" / folder).resolve() == ROOT / folder


@pytest.mark.parametrize(
    "source",
    [
        "from twinfer.aot import emit",
        "import twinfer.aot.print.emit",
        "from twinfer import aot",
        "from ..aot import emit",
    ],
)
def test_the_rule_bites(source: str) -> None:
    assert faults("converter", Path("converter/x.py"), source)
    assert not faults("bench", Path("bench/x.py"), source)


def test_a_bare_import_bites() -> None:
    assert faults("aot", Path("aot/x.py"), "def f():\n    from runtime.graph import Graph")
