"""The import rules of ARCHITECTURE.md, read from the source: downwards only, and never in a circle.

kernels_c <- runtime <- converter;  runtime <- aot <- bench;  bench and the front door (twinfer/) may import all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

#: Folder -> what it may import of twinfer beside itself.
MAY_IMPORT: dict[str, frozenset[str]] = {
    "kernels_c": frozenset(),
    "runtime": frozenset({"kernels_c"}),
    "converter": frozenset({"kernels_c", "runtime"}),
    "aot": frozenset({"kernels_c", "runtime"}),
    "bench": frozenset({"kernels_c", "runtime", "converter", "aot", "Interpreter", "compile"}),
}

#: What is not in a wheel (FOR_DEVELOPERS in setup.py).
FOR_DEVELOPERS = ("twinfer.bench.fuzz", "twinfer.bench.lab")

#: Imports (importer, imported) that may close a circle, and why.
CLOSES_A_CIRCLE: dict[tuple[str, str], str] = {
    ("twinfer.runtime.graph", "twinfer.runtime.write.tflite"): "a graph saves itself: Graph.save is for users",
    ("twinfer.runtime.op", "twinfer.runtime.registry"): "a refusal names all types that the operator takes",
    ("twinfer.runtime.graph", "twinfer.runtime.write.html"): "a graph shows itself in notebooks",
    ("twinfer.runtime.plan.plan", "twinfer.runtime.write.html"): "a plan shows itself in notebooks",
}


def imported(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that a module of ``package`` imports, anywhere in its code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def faults(folder: str, path: Path, source: str) -> list[str]:
    """The forbidden imports of module ``path`` (relative to the root) of ``folder``, one line each."""
    package = ".".join(("twinfer", *path.parent.parts))
    broken = []
    for line, name in imported(ast.parse(source), package):
        first, _, rest = name.partition(".")
        layer = rest.partition(".")[0]
        if first in MAY_IMPORT:
            broken.append(f"{path}:{line}: imports {name}; a bare import loads a second copy: twinfer.{name}")
        elif first == "twinfer" and layer != folder and layer not in MAY_IMPORT[folder]:
            broken.append(f"{path}:{line}: {folder} must not import {name}")
    return broken


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_go_downwards(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    broken = [f for path in paths for f in faults(folder, path.relative_to(ROOT), path.read_text())]
    assert not broken, "\n".join(broken)


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


def modules() -> dict[str, Path]:
    """Every module of the project by its full name; the symlinks in ``twinfer`` are not followed."""
    paths = [path for folder in MAY_IMPORT for path in (ROOT / folder).rglob("*.py")]
    names = {".".join(("twinfer", *path.relative_to(ROOT).with_suffix("").parts)): path for path in paths}
    front = (ROOT / "twinfer").rglob("*.py")
    names |= {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in front}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


def needs(name: str, path: Path, names: Mapping[str, Path]) -> set[str]:
    """The modules among ``names`` that module ``name`` imports, at its top, in functions or for type checking."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    wanted = [full for _, full in imported(ast.parse(path.read_text()), package)]
    return {full if full in names else full.rpartition(".")[0] for full in wanted} & names.keys() - {name}


def test_a_wheel_has_what_it_imports() -> None:
    names = modules()
    assert names.keys() >= set(FOR_DEVELOPERS)
    shipped = {name: path for name, path in names.items() if not name.startswith(FOR_DEVELOPERS)}
    missing = [
        f"{name} imports {other}"
        for name, path in shipped.items()
        for other in needs(name, path, names) - shipped.keys()
    ]
    assert not missing


def circle(imports: Mapping[str, set[str]]) -> list[str]:
    """The modules of one circle of imports, with the first one again at the end; empty if there is no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))  # graphlib lists what is imported before what imports it
    return []


def test_no_circle_of_imports() -> None:
    names = modules()
    assert {"twinfer", "twinfer.aot", "twinfer.command_line.main", "twinfer.runtime.graph"} <= names.keys()
    imports = {name: needs(name, path, names) for name, path in names.items()}
    for importer, module in CLOSES_A_CIRCLE:
        imports[importer].remove(module)  # KeyError: it is not imported any more; take it off the list
    assert not circle(imports), " imports ".join(circle(imports))


def test_a_circle_bites(tmp_path: Path) -> None:
    sources = {
        "twinfer.a": "def f():\n    from twinfer import b\n",
        "twinfer.b": "from twinfer.c import thing",
        "twinfer.c": "import twinfer.a",
        "twinfer.d": "from . import a",
    }
    names = {name: tmp_path / f"{name}.py" for name in sources}
    for name, path in names.items():
        path.write_text(sources[name])
    imports = {name: needs(name, path, names) for name, path in names.items()}
    assert imports["twinfer.d"] == {"twinfer.a"}
    around = circle(imports)
    assert len(around) == 4
    assert " ".join(around) in "twinfer.a twinfer.b twinfer.c " * 2
    assert not circle({**imports, "twinfer.c": set()})
