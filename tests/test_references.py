"""No text of the project names a missing file, folder or module. CHANGELOG.md is history and exempt.

Paths that begin with a folder of the project (``runtime/graph.py``) and modules (``twinfer.runtime.graph``) are checked
everywhere, also in code. Shorter names are checked in prose (Markdown, comments, docstrings): ``graph.py``
must be the end of some file's path, ``runtime.graph`` a module. ``*`` and ``<name>`` stand for any characters.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from needs import ROOT

FOLDERS = ("aot", "bench", "converter", "docs", "kernels_c", "runtime", "tests", "twinfer")

#: Entries of the root that are not part of the project.
MADE = ("build", "dist", "out")

#: Files that are not read: data, history, this file's examples, and emitted files.
UNREAD = re.compile(r"CHANGELOG\.md|LICENSE|tests/test_references\.py|tests/\w+/golden/.*|.*\.(npz|json|lock|so|pyc)")

#: Names of files that are not the project's, by kind.
ELSEWHERE = {
    "users'": {"my_board.toml", "recipe.toml", "rules.toml", "my_op.h", "custom/my_op.h"},
    "groups of entry points": {"twinfer.operators"},
    "emitted": {
        "twinfer.json",
        "kws_int8_data.c",
        "NAME_data.c",
        "NAME_static.c",
        "library.c",
        "library_data.c",
        "program.c",
        "test_NAME.py",
    },
    "built": {"kernels_c/_ffi.abi3.so", "twinfer/kernels_c/_ffi.abi3.so", "headers.inc", "names.inc"},
    "of TensorFlow and gemmlowp": {"fixedpoint.h", "padding.h", "lstm_eval.h", "reference/div.h", "reference/reduce.h"},
    "of C and CMSIS": {"string.h", "math.h"},
    "entry points": {"twinfer.operators"},
}

#: Paths that tests make up.
MADE_UP = {
    "tests/test_layers.py": {"converter/x.py", "bench/x.py", "aot/x.py", *(f"twinfer.{letter}" for letter in "abcd")},
    "tests/test_mutants.py": {"tests/bench/test_area.py", "bench/area.py", "area.py", "sum.h"},
    "tests/bench/test_peers.py": {"twinfer/bench/peers/echo.py"},
    "tests/converter/passes/test_passes.py": {"twinfer.converter.passes.renamed"},
    "tests/converter/test_table.py": {"twinfer.converter.operators.mine"},
    "tests/runtime/read/test_write.py": {"twinfer.converter.write"},
}

#: The pages behind README.md.
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))

_FOLDER = "|".join(FOLDERS)
_PART = r"(?:[\w*-]|<\w+>|\.(?=[\w*]))+"
_START = r"(?<![\w./<>*$@{}%-])"
PATH = re.compile(rf"{_START}(?:{_FOLDER})(?:/{_PART})+")
NAME = re.compile(rf"{_START}(?:{_PART}/)*{_PART}\.(?:pyi?|h|c|inc|toml|ld|lock|md)\b(?![(/-])")
MODULE = re.compile(r"(?<![\w./-])twinfer(?:\.[A-Za-z_]\w*)+")
SHORT_MODULE = re.compile(rf"(?<![\w./-])(?:{_FOLDER})(?!\.(?:json|toml|html)\b)(?:\.[A-Za-z_]\w*)+")


@cache
def files() -> frozenset[str]:
    """Every file of the project, as a path below its root."""
    tops = [top for top in ROOT.iterdir() if top.name == ".ci" or (top.name[0] != "." and top.name not in MADE)]
    paths = [path for top in tops for path in (top.rglob("*") if top.is_dir() else [top]) if path.is_file()]
    return frozenset(path.relative_to(ROOT).as_posix() for path in paths if not _is_made(path))


def _is_made(path: Path) -> bool:
    return "__pycache__" in path.parts or any(part.endswith(".egg-info") for part in path.parts)


@cache
def paths() -> frozenset[str]:
    """Every file and every folder."""
    return files() | {parent.as_posix() for name in files() for parent in Path(name).parents}


# -- what a text says -----------------------------------------------------------------------------------------------


def prose(suffix: str, text: str) -> Iterator[str]:
    """The prose in a file of that suffix: all of Markdown; comments and docstrings of code."""
    if suffix == ".md":
        yield text
    elif suffix in (".py", ".pyi"):
        yield from (
            t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT
        )
        yield from docstrings(ast.parse(text))
    elif suffix in (".c", ".h", ".inc", ".ld"):
        yield from re.findall(r"/\*.*?\*/|//[^\n]*", text, re.DOTALL)
    else:
        yield from re.findall(r"(?:^|\s)#.*", text)


def docstrings(tree: ast.AST) -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    yield from (ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds))


def stale(suffix: str, text: str) -> set[str]:
    """The names in a text that nothing in the project has."""
    names = {word for word in PATH.findall(text) if not exists(word)}
    names |= {word for word in MODULE.findall(text) if not is_module(word)}
    short = {word for word in NAME.findall(text) if not ends_a_path(word)}
    short |= {word for word in SHORT_MODULE.findall(text) if not is_module(word)}
    if short:  # telling prose from code takes time
        told = {word for part in prose(suffix, text) for form in (NAME, SHORT_MODULE) for word in form.findall(part)}
        names |= short & told
    return names.difference(*ELSEWHERE.values())


# -- whether it is there --------------------------------------------------------------------------------------------


@cache
def ends() -> frozenset[str]:
    """The path of every file, and every end of it: a/b/c.py, b/c.py, c.py."""
    split = [name.split("/") for name in files()]
    return frozenset("/".join(parts[i:]) for parts in split for i in range(len(parts)))


def exists(path: str) -> bool:
    """Whether a path is a file or folder from the root or in the package ``twinfer``, whose parts are at the root."""
    return is_one_of(path, paths()) or is_one_of(path.removeprefix("twinfer/"), paths())


def ends_a_path(name: str) -> bool:
    """Whether a name ends a file's path: as it is, or from the root, in ``twinfer``, or in an emitted folder."""
    prefixes = {"../": "", "../../": "", "twinfer/": "", "kernels/": "kernels_c/", "board/": "board/*/"}
    names = [name, *(own + name.removeprefix(start) for start, own in prefixes.items() if name.startswith(start))]
    return any(is_one_of(each, ends()) for each in names)


def is_one_of(name: str, names: frozenset[str]) -> bool:
    if not re.search(r"[*<]", name):
        return name in names
    pattern = re.compile(re.sub(r"<\w+>|\\\*", "[^/]*", re.escape(name)))
    return any(pattern.fullmatch(each) and not each.endswith("__init__.py") for each in names)


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


# -- tests ----------------------------------------------------------------------------------------------------------


def test_nothing_stale_is_named() -> None:
    references = []
    for file in sorted(name for name in files() if not UNREAD.fullmatch(name)):
        text = (ROOT / file).read_text(encoding="utf-8")
        references += [f"{file}: {name}" for name in sorted(stale(Path(file).suffix, text) - MADE_UP.get(file, set()))]
    assert not references, "\n".join(references)


@pytest.mark.parametrize(
    ("suffix", "text", "name"),
    [
        (".md", "See `_narrow.py`.", "_narrow.py"),
        (".md", "See runtime/ops/_dsp*.py and `runtime/ops/isa/dsp*.py`.", "runtime/ops/_dsp*.py"),
        (".md", "`kernels_c/<op>.h`, not `kernels_c/<family>/<op>.h`", "kernels_c/<op>.h"),
        (".md", "Folders: runtime/ops, runtime/opcodes/.", "runtime/opcodes"),
        (".py", '"""As plan/arenas.py does."""', "plan/arenas.py"),
        (".py", 'raise ValueError("see tests/test_levels.py")', "tests/test_levels.py"),
        (".py", "x = 1  # see runtime.codes", "runtime.codes"),
        (".py", 'message = "python -m twinfer.bench.accuracy"', "twinfer.bench.accuracy"),
        (".py", 'message = "twinfer.runtime.graph.Grapes"', "twinfer.runtime.graph.Grapes"),
        (".c", "/* of\n * sum.h */", "sum.h"),
        (".toml", '[tests]  # of aot/print/\n"aot/print/decoding.py" = []', "aot/print/decoding.py"),
        ("", "all:  # as setup.py and set_up.py", "set_up.py"),
    ],
)
def test_the_rule_bites(suffix: str, text: str, name: str) -> None:
    assert stale(suffix, text) == {name}


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".md", "`arena.py`, plan/arena.py, `runtime/plan/`, tests/*/test_*.py, twinfer.compile, ../README.md"),
        (".md", "`kernels/core/tw.h`, twinfer/runtime/graph.py, `twinfer.runtime.graph.Graph`"),
        (".py", 'with open("nothing.py") as a: pass\nbench.add(x.h)'),
        (".c", "#include <stdio.h>\nint a = b.h; /* tw.h */"),
    ],
)
def test_what_is_there_passes(suffix: str, text: str) -> None:
    assert not stale(suffix, text)


# -- links ----------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", *PAGES])
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if not link.startswith("https://"):
            target, _, anchor = link.partition("#")
            there = path.parent / target if target else path
            assert there.exists(), link
            assert not anchor or anchor in anchors(there), link


def test_every_page_is_linked() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert PAGES
    assert not [page for page in PAGES if f"]({page})" not in readme]
