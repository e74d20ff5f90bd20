"""The mutants, read from the tables beside this file, one per area."""

from __future__ import annotations

import hashlib
import importlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLES = sorted(Path(__file__).parent.glob("*.toml"))

#: The ends of names of files for one variant or type of an operator.
_VARIANT = re.compile(r"(_dsp|_mve|_words|_wide|_tiled|_avx_vnni|_s16)+$")

#: Test files that are never asked: of this tool, of the source's form, and slow ones that notice little.
ASIDE = {
    "tests/test_mutants.py",
    "tests/test_layers.py",
    "tests/test_packaging.py",
    "tests/aot/test_toolchains.py",
    "tests/kernels/test_perf.py",
    "tests/runtime/run/test_corpus.py",
}


class MutantError(Exception):
    """A table or a mutant is wrong. The message says which, and what to do."""


@dataclass(frozen=True)
class Mutant:
    """``find``, which is in ``file`` exactly once, becomes ``replace``. ``breaks`` says what that breaks.

    ``tests`` are pytest's arguments for the tests that should notice. A table's ``first`` run before them, ``wide``
    after them. ``equivalent`` says why no test can notice; "" if a test can.
    """

    area: str
    file: str
    find: str
    replace: str
    breaks: str
    tests: tuple[str, ...]
    wide: tuple[str, ...]
    equivalent: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {_line(self.find)} -> {_line(self.replace)}"

    def applied(self, source: str) -> str:
        """The mutated text of the file; MutantError unless ``find`` is there exactly once."""
        count = source.count(self.find)
        if count != 1:
            raise MutantError(f"{self}: found {count} times, not once; take a longer snippet or read it off anew")
        return source.replace(self.find, self.replace)

    def key(self, tests: str, root: Path) -> str:
        """A key for the verdict of some tests: the change, the text of its file, and the tests."""
        digest = hashlib.sha256(repr((self.find, self.replace, tests)).encode())
        for path in (self.file, *sorted(_files(tests))):
            digest.update((root / path).read_bytes())
        return digest.hexdigest()


def _line(snippet: str) -> str:
    return " ".join(snippet.split()) or "nothing"


def read(tables: Sequence[Path] = TABLES, root: Path = ROOT) -> list[Mutant]:
    """Every mutant of the tables, in order; test files that no table names are asked last.

    MutantError names a field that is missing or unknown.
    """
    mutants = [mutant for path in tables for mutant in _area(path, tomllib.loads(path.read_text("utf-8")), root)]
    named = set(chain.from_iterable(_files(*m.tests, *m.wide) for m in mutants))
    others = sorted(files_of_tests(root) - named - ASIDE)
    return [replace(mutant, wide=(*mutant.wide, *others)) for mutant in mutants]


def files_of_tests(root: Path) -> set[str]:
    """All files of tests, as paths below ``root``."""
    return {path.relative_to(root).as_posix() for path in (root / "tests").rglob("test_*.py")}


def _files(*tests: str) -> set[str]:
    """The files in pytest's arguments."""
    return set(re.findall(r"tests/[\w/]+\.py", " ".join(tests)))


def _area(path: Path, table: Mapping[str, Any], root: Path) -> Iterator[Mutant]:
    for fields in table["mutant"]:
        file = fields.get("file", "")
        tests = fields.pop("tests", None) or table["tests"].get(file) or by_convention(file, root)
        try:
            yield Mutant(table["area"], tests=(*table.get("first", ()), *tests), wide=tuple(table["wide"]), **fields)
        except TypeError as error:
            raise MutantError(f"{path.name}: {fields.get('find', fields)!r}: {error}") from None


def by_convention(file: str, root: Path) -> list[str]:
    """The tests of a file: an operator's cases, or the test file of its name. MutantError if there is neither."""
    stem = _VARIANT.sub("", Path(file).stem)
    family = Path(file).parent.name
    if file.startswith(("runtime/ops/", "kernels_c/")) and (root / f"runtime/ops/{family}/{stem}.py").exists():
        module = importlib.import_module(f"twinfer.runtime.ops.{family}.{stem}")
        names = [op.name for op in getattr(module, "OPS", None) or (module.OP,)]
        kinds = ("reference_and_interpreter", "oracle") if file.endswith(".py") else ("reference_and_interpreter",)
        return [of_operators(kind, *names) for kind in kinds]
    if named := [path for path in files_of_tests(root) if Path(path).name == f"test_{stem}.py"]:
        return named
    raise MutantError(f"{file}: no tests by convention; name them in the table's [tests]")


def of_operators(kind: str, *names: str) -> str:
    """pytest's arguments for a test over the cases of these operators."""
    wanted = " or ".join(f"[{name.lower()}-" for name in names)
    return f"tests/kernels/test_ops.py::test_{kind} -k '{wanted}'"
