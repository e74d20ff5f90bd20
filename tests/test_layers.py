"""The import rules of ARCHITECTURE.md, read from the source: downwards only, and never in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Folder -> what it may import of twinfer beside itself.
MAY_IMPORT = {
    "kernels_c": (),
    "runtime": ("kernels_c",),
    "converter": ("kernels_c", "runtime"),
    "aot": ("kernels_c", "runtime"),
    "bench": ("kernels_c", "runtime", "converter", "aot", "Interpreter", "compile"),
}

#: What is not in a wheel (FOR_DEVELOPERS in setup.py).
FOR_DEVELOPERS = ("twinfer.bench.fuzz", "twinfer.bench.lab")

#: Imports (importer, imported) that may close a circle, and why.
CLOSES_A_CIRCLE = {
    ("twinfer.runtime.graph", "twinfer.runtime.write.tflite"): "a graph saves itself: Graph.save is for users",
    ("twinfer.runtime.op", "twinfer.runtime.registry"): "a refusal names all types that the operator takes",
    ("twinfer.runtime.graph", "twinfer.runtime.write.html"): "a graph shows itself in notebooks",
    ("twinfer.runtime.run.session", "twinfer.runtime.run.by_numpy"): "a session is of the class that can run here",
    ("twinfer.runtime.plan.plan", "twinfer.runtime.write.html"): "a plan shows itself in notebooks",
}


@cache
def modules() -> dict[str, Path]:
    """Every module of the project by its full name; the symlinks in ``twinfer`` are not followed."""
    paths = [(f"twinfer.{folder}", path) for folder in MAY_IMPORT for path in (ROOT / folder).rglob("*.py")]
    paths += [("twinfer", path) for path in (ROOT / "twinfer").rglob("*.py")]
    tops = {top: ROOT / top.removeprefix("twinfer.") for top, _ in paths}
    names = {".".join((top, *path.relative_to(tops[top]).with_suffix("").parts)): path for top, path in paths}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


@cache
def imported(name: str) -> frozenset[str]:
    """What a module imports, at its top, in functions or for type checking: modules, or names in them."""
    path = modules()[name]
    package = (name if path.stem == "__init__" else name.rpartition(".")[0]).split(".")

    def found() -> Iterator[str]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                yield from (".".join([*above, *filter(None, [node.module]), alias.name]) for alias in node.names)

    return frozenset(found())


def test_imports_go_downwards() -> None:
    for name in modules():
        folder = name.split(".")[1] if "." in name else ""
        for full in imported(name) if folder in MAY_IMPORT else ():
            first, layer = (*full.split("."), "")[:2]
            assert first not in MAY_IMPORT, f"{name} imports {full}, which loads a second copy: import twinfer.{full}"
            assert first != "twinfer" or layer in (folder, *MAY_IMPORT[folder]), f"{name} must not import {full}"


def test_no_circle_of_imports_and_a_wheel_has_what_it_imports() -> None:
    names = modules()
    needs = {name: {full if full in names else full.rpartition(".")[0] for full in imported(name)} for name in names}
    needs = {name: wanted & names.keys() - {name} for name, wanted in needs.items()}
    shipped = {name for name in names if not name.startswith(FOR_DEVELOPERS)}
    assert {"twinfer.runtime.graph", "twinfer.command_line.main"} <= shipped < names.keys()
    assert not [f"{name} imports {other}" for name in shipped for other in needs[name] - shipped]
    for importer, module in CLOSES_A_CIRCLE:
        needs[importer].remove(module)  # KeyError: it is not imported any more; take it off the list
    TopologicalSorter(needs).prepare()  # CycleError names the modules, each behind what it imports
