"""Plants small faults in a copy of the project, one at a time, and says which of them the tests notice.

``make mutants SINCE=main~20`` takes the Python files and C headers that were changed since a commit, and
``FILES=runtime/plan/arena.py`` others. The same seed gives the same faults in the same order. Each is printed as
noticed or SURVIVED: then either no test looks there, or nothing depends on it. For a night: the tests of a file run
once for every fault.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("aot", "bench", "converter", "kernels_c", "runtime", "twinfer")

#: What becomes of a word or a sign. Comparisons move by one step: a limit that no test reaches exactly is found so.
SIGNS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "+", "/": "*"}
SIGNS |= {"//": "*", "%": "+", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "&&": "||", "||": "&&"}
SIGNS |= {"and": "or", "or": "and", "is": "is not", "is not": "is", "in": "not in", "not in": "in"}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "True": "False", "False": "True", "sorted": "list"}

#: How Python writes an operator: the name of its node -> sign.
PYTHON = {"Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=", "Is": "is", "IsNot": "is not"}
PYTHON |= {"In": "in", "NotIn": "not in", "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%"}
PYTHON |= {"LShift": "<<", "RShift": ">>", "BitAnd": "&", "BitOr": "|", "And": "and", "Or": "or"}

C_TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*|^[ \t]*\#(?:\\\n|[^\n])*"  # comments and lines of the preprocessor: no faults in them
    r"|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])+'|[A-Za-z_]\w*|\d[\w.]*"
    r"|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\S",
    re.DOTALL | re.MULTILINE,
)
C_WORDS = {"if", "else", "for", "while", "do", "switch", "case", "return", "sizeof", "break", "continue", "goto"}


class Fault(NamedTuple):
    """The bytes from ``start`` to ``end`` of a file become ``new``."""

    start: int
    end: int
    new: str


def faults(path: Path) -> list[Fault]:
    """Every fault that can be planted in a Python file or a C header."""
    source = path.read_bytes()
    every = python_faults(source) if path.suffix == ".py" else c_faults(source.decode())
    return [each for each in dict.fromkeys(every) if source[each.start : each.end].decode().strip() != each.new.strip()]


def python_faults(source: bytes) -> Iterator[Fault]:
    """The faults of a Python file; none in annotations, in texts of messages and in what only type checkers read."""
    lines = list(accumulate(map(len, source.splitlines(keepends=True)), initial=0))

    def place(node: ast.AST) -> tuple[int, int]:
        return lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset

    def text(node: ast.AST) -> str:
        return source[slice(*place(node))].decode()

    def fault(node: ast.AST, new: str) -> Fault:
        return Fault(*place(node), new)

    def joined(sign: str, nodes: list[ast.expr]) -> str:
        return f"({f' {sign} '.join(f'({text(node)})' for node in nodes)})"

    def call(node: ast.Call, arguments: list[ast.expr], keywords: list[ast.keyword]) -> Fault:
        words = [f"{word.arg}={text(word.value)}" if word.arg else f"**{text(word.value)}" for word in keywords]
        return fault(node, f"{text(node.func)}({', '.join([*map(text, arguments), *words])})")

    def of(node: ast.AST) -> Iterator[Fault]:
        match node:
            case ast.Compare(left, [sign], [right]):
                yield fault(node, joined(SIGNS[PYTHON[type(sign).__name__]], [left, right]))
            case ast.BoolOp(sign, values):
                word = PYTHON[type(sign).__name__]
                yield fault(node, joined(SIGNS[word], values))
                yield from (fault(node, joined(word, values[:i] + values[i + 1 :])) for i in range(len(values)))
            case ast.BinOp(left, sign, right) if type(sign).__name__ in PYTHON:
                yield fault(node, joined(SIGNS[PYTHON[type(sign).__name__]], [left, right]))
                yield fault(node, text(left))
            case ast.UnaryOp(ast.Not() | ast.USub(), operand):
                yield fault(node, f"({text(operand)})")
            case ast.Constant(bool()):
                yield fault(node, NAMES[text(node)])
            case ast.Constant(int() | float()):
                yield from (fault(node, f"({text(node)} {step})") for step in ("+ 1", "- 1"))
            case ast.IfExp():
                yield from (fault(node, f"({text(way)})") for way in (node.body, node.orelse))
            case ast.If() | ast.While():
                yield from (fault(node.test, new) for new in ("False", "True")[: 1 + isinstance(node, ast.If)])
            case ast.comprehension():
                yield from (fault(condition, "True") for condition in node.ifs)
            case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
                yield fault(node, "pass")
            case ast.Call(function, arguments, keywords):
                if isinstance(function, ast.Name) and function.id in NAMES:
                    yield fault(function, NAMES[function.id])
                elif not any(isinstance(argument, ast.Starred) for argument in arguments):
                    for i in range(len(arguments) - 1):
                        swapped = [*arguments[:i], arguments[i + 1], arguments[i], *arguments[i + 2 :]]
                        yield call(node, swapped, keywords)
                for word in keywords:
                    yield call(node, arguments, [other for other in keywords if other is not word])

    def walk(node: ast.AST) -> Iterator[Fault]:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and "TYPE_CHECKING" in text(node.test)):
            return
        yield from of(node)
        for name, below in ast.iter_fields(node):
            if name not in ("annotation", "returns"):
                below = below if isinstance(below, list) else [below]
                yield from (each for part in below if isinstance(part, ast.AST) for each in walk(part))

    return walk(ast.parse(source))


def c_faults(source: str) -> Iterator[Fault]:
    """The faults of a C header as clang-format writes it: operators of two sides have a space on both."""
    every = [(m.start(), m.end(), m.group()) for m in C_TOKEN.finditer(source)]
    tokens = [token for token in every if not token[2].lstrip().startswith(("/*", "//", "#"))]
    size = [0, *accumulate(len(character.encode()) for character in source)]

    def fault(start: int, end: int, new: str) -> Fault:
        return Fault(size[start], size[end], new)

    def closed(i: int) -> tuple[int, list[int]]:
        """The token that closes the bracket ``i``, and that bracket, the commas directly inside it, and the close."""
        depth, marks = 0, [i]
        for j in range(i, len(tokens)):
            depth += (tokens[j][2] in "([{") - (tokens[j][2] in ")]}")
            marks += [j] if depth == 1 and tokens[j][2] == "," else []
            if depth == 0:
                return j, [*marks, j]
        return i, []

    for i, (start, end, word) in enumerate(tokens[:-1]):
        before, after = tokens[i - 1][2] if i else "}", tokens[i + 1][2]
        if word in SIGNS and source[start - 1] in " \n" and source[end] in " \n":
            yield fault(start, end, SIGNS[word])
        elif word[0].isdigit() and "." not in word:
            yield from (fault(start, end, f"({word} {step})") for step in ("+ 1", "- 1"))
        elif word == "if" and after == "(":
            close, _ = closed(i + 1)
            yield from (fault(tokens[i + 1][1], tokens[close][0], new) for new in ("0", "1"))
        elif after == "(" and word[0].isalpha() and word not in C_WORDS:
            if other := {"min": "max", "max": "min"}.get(word.rsplit("_", 1)[-1].lower()):
                yield fault(end - 3, end, other.upper() if word.isupper() else other)
            _, marks = closed(i + 1)
            arguments = [source[tokens[a][1] : tokens[b][0]].strip() for a, b in pairwise(marks)]
            for j in range(len(arguments) - 1):
                if arguments[j] != arguments[j + 1] and not re.match(
                    r"(const )?\w+ \**\w", arguments[j]
                ):  # no parameters
                    swapped = f"{arguments[j + 1]}, {arguments[j]}"
                    yield fault(tokens[marks[j]][1], tokens[marks[j + 2]][0], swapped)
        if before in ";{}" and word not in C_WORDS and not word.isupper() and re.match(r"[(=[.]|->|[-+]", after):
            stop = next((j for j in range(i, len(tokens)) if tokens[j][2] in ";{}"), i)
            if tokens[stop][2] == ";":
                yield fault(start, tokens[stop][0], "")


def asked_for(file: str, root: Path) -> str:
    """pytest's arguments for a source file: the test files of its name, else the test folder that mirrors its folder.

    Kernels and operators of a family share the cases of the family's operators.
    """
    parts = list(Path(file).parts[:-1])
    if parts[0] == "kernels_c" or parts[:2] == ["runtime", "ops"]:
        operators = sorted((root / "runtime" / "ops" / parts[-1]).glob("*.py"))
        names = {name for path in operators for name in re.findall(r'\bOp\(\s*"(\w+)"', path.read_text())}
        cases = " or ".join(f"[{name.lower()}]" for name in sorted(names))
        return "tests/kernels/test_ops.py" + (f" -k {shlex.quote(cases)}" if names else "")
    folder = root / "tests" / Path(*parts[parts[0] == "twinfer" :])
    while not folder.is_dir():
        folder = folder.parent
    named = sorted((root / "tests").rglob(f"test_{Path(file).stem}.py"))
    return shlex.join(str(path.relative_to(root)) for path in named or [folder])


class Copy:
    """A copy of the project, with the built kernels, in which faults are planted and tests run."""

    def __init__(self, folder: Path, root: Path) -> None:
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
        for path in [*filter(None, listed), *(str(p.relative_to(root)) for p in root.glob("kernels_c/*.so"))]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / path, folder / path, follow_symlinks=False)
        shared = os.environ.get("TWINFER_SHARED") or str(root.parent / "shared")
        self.folder, self._time, self._stale = folder, int(time.time()), False
        self._environment = {**os.environ, "PYTHONPATH": str(folder), "TWINFER_SHARED": shared}

    def write(self, file: str, content: bytes) -> None:
        self._time += 1  # Python compiles a module anew if its time, in whole seconds, or its size has changed
        (self.folder / file).write_bytes(content)
        os.utime(self.folder / file, (self._time, self._time))
        if file.endswith(".h"):
            os.utime(self.folder / file)
            self._stale = True

    def build(self) -> bool:
        """Builds the kernels again if a header has changed since the last time. Returns whether they compile."""
        build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        self._stale = self._stale and self._run(build, 1800) != 0
        return not self._stale

    def test(self, arguments: str, seconds: float) -> int | None:
        """pytest's exit code; None if it was ended when the time was up."""
        options = ["-x", "-q", "-m", "not deep", "-p", "no:cacheprovider"]
        return self._run([sys.executable, "-m", "pytest", *options, *shlex.split(arguments)], seconds)

    def _run(self, command: list[str], seconds: float) -> int | None:
        where = {"cwd": self.folder, "env": self._environment, "start_new_session": True}
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, **where, **silent) as running:
            try:
                return running.wait(seconds)
            except BaseException as error:
                os.killpg(running.pid, signal.SIGKILL)  # with all that it has started
                if isinstance(error, subprocess.TimeoutExpired):
                    return None
                raise


def run(files: list[str], seed: int, count: int, tests: str | None, root: Path) -> tuple[int, int]:
    """Plants ``count`` faults of these files and prints what becomes of them. Returns (noticed, planted)."""
    planted = [(file, fault) for file in sorted(files) for fault in faults(root / file)]
    random.Random(seed).shuffle(planted)
    seconds: dict[str, float | None] = {}
    verdicts: list[bool] = []
    print(f"{min(count, len(planted))} of {len(planted)} faults in {len(files)} files, seed {seed}")  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="twinfer-mutants-", ignore_cleanup_errors=True) as folder:
        copy = Copy(Path(folder), root)
        for file, fault in planted[:count]:
            asked = tests or asked_for(file, root)
            if asked not in seconds:
                start = time.monotonic()
                passed = copy.build() and copy.test(asked, 3600) == 0
                seconds[asked] = time.monotonic() - start if passed else None
                if not passed:
                    print(f"not judged: without a fault, pytest {asked} does not pass")  # noqa: T201
            limit, source = seconds[asked], (root / file).read_bytes()
            if limit is None:
                continue
            try:
                copy.write(file, source[: fault.start] + fault.new.encode() + source[fault.end :])
                if not copy.build():
                    continue
                verdicts.append(copy.test(asked, 5 * limit + 60) != 0)
            finally:
                copy.write(file, source)
            line = source[: fault.start].count(b"\n") + 1
            was = " ".join(source[fault.start : fault.end].decode().split())
            verdict = "noticed " if verdicts[-1] else "SURVIVED"
            print(f"{verdict} {file}:{line}: {was} -> {' '.join(fault.new.split())}", flush=True)  # noqa: T201
    print(f"{sum(verdicts)} of {len(verdicts)} noticed")  # noqa: T201
    return sum(verdicts), len(verdicts)


def main() -> None:
    parser = argparse.ArgumentParser("mutants", description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="Python files and C headers, from the project's root")
    parser.add_argument("--since", metavar="COMMIT", help="files that were changed since this commit")
    parser.add_argument("--tests", metavar="ARGUMENTS", help="pytest's arguments (the tests that mirror the file)")
    parser.add_argument("--count", type=int, default=200, metavar="N", help="how many faults (200)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which faults, in which order (0)")
    asked = parser.parse_args()
    files = asked.files
    if asked.since:
        command = ["git", "diff", "--name-only", "--diff-filter=d", asked.since, "--", *SOURCES]
        changed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        files += [file for file in changed if file.endswith((".py", ".h"))]
    if not files:
        parser.error("no files: name some, or a commit with --since")
    run(files, asked.seed, asked.count, asked.tests, ROOT)


if __name__ == "__main__":
    main()
