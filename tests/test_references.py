"""Links lead somewhere, and no text names a path or module of the project that is not there. CHANGELOG.md is history.

Paths that begin with a folder of the project (``runtime/graph.py``) and modules (``twinfer.runtime.graph``) are looked
for in every file. ``*`` and ``<name>`` stand for any characters.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from needs import ROOT

FOLDERS = ("aot", "bench", "converter", "docs", "kernels_c", "runtime", "tests", "twinfer")

#: Entries of the root that are not part of the project.
MADE = ("build", "dist", "out")

#: Files that are not read: data, history, this file, and emitted files.
UNREAD = re.compile(r"CHANGELOG\.md|LICENSE|tests/test_references\.py|tests/\w+/golden/.*|.*\.(npz|json|lock|so|pyc)")

#: Paths of built files, and names of groups of entry points.
ELSEWHERE = {"kernels_c/_ffi.abi3.so", "twinfer/kernels_c/_ffi.abi3.so", "twinfer.json", "twinfer.operators"}

#: Paths that tests make up.
MADE_UP = {
    "tests/test_mutants.py": {"tests/bench/test_area.py", "bench/area.py", "bench/sum.h"},
    "tests/bench/test_peers.py": {"twinfer/bench/peers/echo.py"},
    "tests/converter/passes/test_passes.py": {"twinfer.converter.passes.renamed"},
    "tests/converter/test_table.py": {"twinfer.converter.operators.mine"},
    "tests/runtime/read/test_write.py": {"twinfer.converter.write"},
}

#: Pages whose links are followed.
PAGES = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))]

_PART = r"(?:[\w*-]|<\w+>|\.(?=[\w*]))+"
PATH = re.compile(rf"(?<![\w./<>*$@{{}}%-])(?:{'|'.join(FOLDERS)})(?:/{_PART})+")
MODULE = re.compile(r"(?<![\w./-])twinfer(?:\.[A-Za-z_]\w*)+")


@cache
def files() -> frozenset[str]:
    """Every file of the project, as a path below its root."""
    tops = [top for top in ROOT.iterdir() if top.name == ".ci" or (top.name[0] != "." and top.name not in MADE)]
    paths = [path for top in tops for path in (top.rglob("*") if top.is_dir() else [top]) if path.is_file()]
    made = [
        path for path in paths if "__pycache__" in path.parts or any(part.endswith(".egg-info") for part in path.parts)
    ]
    return frozenset(path.relative_to(ROOT).as_posix() for path in set(paths) - set(made))


@cache
def paths() -> frozenset[str]:
    """Every file and every folder."""
    return files() | {parent.as_posix() for name in files() for parent in Path(name).parents}


def stale(text: str) -> set[str]:
    """The names in a text that nothing in the project has."""
    names = {word for word in PATH.findall(text) if not exists(word) and not exists(word.removeprefix("twinfer/"))}
    return (names | {word for word in MODULE.findall(text) if not is_module(word)}) - ELSEWHERE


def exists(path: str) -> bool:
    """Whether a path is a file or folder from the root."""
    if not re.search(r"[*<]", path):
        return path in paths()
    pattern = re.compile(re.sub(r"<\w+>|\\\*", "[^/]*", re.escape(path)))
    return any(pattern.fullmatch(each) for each in paths())


def is_module(name: str) -> bool:
    """Whether a name is a module or package, or a name in its source."""
    parts = name.split(".")
    parts = parts[1:] if parts[0] == "twinfer" and parts[1] in FOLDERS else parts
    for length in range(len(parts), 0, -1):
        path = "/".join(parts[:length])
        for source in {f"{path}.py", f"{path}/__init__.py"} & files():
            return length == len(parts) or _has(source, parts[length])
    return False


def _has(source: str, name: str) -> bool:
    special = name.startswith("__")
    return special or bool(re.search(rf"\b{name}\b", (ROOT / source).read_text(encoding="utf-8")))


def test_nothing_stale_is_named() -> None:
    references = []
    for file in sorted(name for name in files() if not UNREAD.fullmatch(name)):
        text = (ROOT / file).read_text(encoding="utf-8")
        references += [f"{file}: {name}" for name in sorted(stale(text) - MADE_UP.get(file, set()))]
    assert not references, "\n".join(references)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    if page.startswith("docs/"):
        assert f"]({page})" in (ROOT / "README.md").read_text(encoding="utf-8"), "README.md has no link to it"
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if not link.startswith("https://"):
            target, _, anchor = link.partition("#")
            there = path.parent / target if target else path
            assert there.exists(), link
            assert not anchor or anchor in anchors(there), link
