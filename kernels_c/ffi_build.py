"""Finds every kernel in the headers beside this file and binds them all through cffi; no list to edit.

A header declares its params struct and bodies with ``TW_KERNEL(name)``. With gcc the kernels are compiled once per
instruction-set level (x86-64: baseline, AVX2, AVX512-VNNI; AArch64: baseline, dotprod, i8mm) from the same source, by
the files ``run/level_*.c``; ``tw_level()`` says which ones the CPU can run. All levels give the same bits
(tests/kernels/test_ops.py). A header for one instruction set, ``<operator>_<set>.h``, is compiled once more by
``run/set_<set>.c`` where there is such a file. A level takes half a minute: it is compiled in parts, files of a few
headers and one for the table, side by side, and only where a header has changed (setup.py).

What is written here are lists, as C files: the headers to include and the kernels' names. The structs are read by
cffi's own parser.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cffi import FFI

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
GENERATED = ROOT / "build" / "kernels"

#: What every compiler of kernels is told: operations of floats are rounded one by one, nobody asks for traps or errno.
ARITHMETIC = ("-std=c11", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno")
FLAGS = [*ARITHMETIC, "-O3", "-Wall", "-Wextra", "-Wconversion"]

#: One C file for every instruction-set level, and one for every set that some kernels are compiled for beside.
LEVEL_FILES = sorted(FOLDER.glob("run/level_*.c"))
SET_FILES = sorted(FOLDER.glob("run/set_*.c"))

#: So many headers are compiled together: more files are read more often, fewer are compiled again for less.
TOGETHER = 6

KERNEL = re.compile(r"^TW_KERNEL\((\w+)\)", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
MACRO = re.compile(r"^#define\s+TW_MAX_\w+\s+\d+\s*$", re.MULTILINE)
TYPEDEF = re.compile(r"^typedef\b(?:[^;{}]|\{[^{}]*\})*;", re.MULTILINE)
TYPEDEF_NAME = re.compile(r"(\w+)\s*(?:\([^()]*\))?\s*;$")


def headers() -> list[Path]:
    """Kernel headers in order of their paths, without the helpers that declare no kernel."""
    return [path for path in sorted(FOLDER.rglob("*.h")) if KERNEL.search(path.read_text(encoding="utf-8"))]


def kernels(path: Path) -> list[str]:
    """Names of the kernels that header ``path`` defines."""
    return KERNEL.findall(path.read_text(encoding="utf-8"))


def kernel_index() -> list[str]:
    """Every kernel, in the order of the tables in the extension."""
    return [name for path in headers() for name in kernels(path)]


def texts(paths: Iterable[Path], folder: Path = FOLDER) -> dict[str, str]:
    """Path below ``folder`` -> text of the headers, in their order."""
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def lists(headers: Mapping[str, str]) -> dict[str, str]:
    """The files that ``run/*.c`` include, name -> text: ``headers.inc`` and ``names.inc``, and of a set ``_<set>``.

    ``headers`` are those that define kernels, path -> text. The names of a set are those of all kernels, so that tables
    have the same order; ``TW_ENTRY`` marks its own.
    """
    files = {"headers.inc": _includes(headers), "names.inc": _names(headers, headers)}
    for file in SET_FILES:
        name = file.stem.removeprefix("set_")
        own = [path for path in headers if path.endswith(f"_{name}.h")]
        files |= {f"headers_{name}.inc": _includes(own), f"names_{name}.inc": _names(headers, own)}
    return files


def parts(headers: Mapping[str, str]) -> dict[str, str]:
    """The files that are compiled for the levels, ``<level>_<folder>_<number>.c``, and the lists that they include."""
    files: dict[str, str] = {}
    names: list[str] = []
    for folder, group in groupby(sorted(headers), lambda path: path.partition("/")[0]):
        paths = list(group)
        for i in range(0, len(paths), TOGETHER):
            own = {path: headers[path] for path in paths[i : i + TOGETHER]}
            names.append(f"{folder}_{i // TOGETHER}")
            files |= {f"headers_of_{names[-1]}.inc": _includes(own), f"names_of_{names[-1]}.inc": _names(own, own)}
    for level in LEVEL_FILES:
        include = f'#include "run/{level.name}"\n'
        for name in names:
            lists = f'#define TW_HEADERS "headers_of_{name}.inc"\n#define TW_NAMES "names_of_{name}.inc"\n'
            files[f"{level.stem}_{name}.c"] = f"{lists}#define TW_PART 1\n{include}"
        files[f"{level.stem}_table.c"] = f"#define TW_PART 2\n{include}"
    return files


def _includes(paths: Iterable[str]) -> str:
    return "".join(f'#include "{path}"\n' for path in paths)


def _names(headers: Mapping[str, str], own: Collection[str]) -> str:
    every = ((path, name) for path, text in headers.items() for name in KERNEL.findall(text))
    return "".join(f"{'TW_ENTRY' if path in own else 'TW_OTHER'}({name})\n" for path, name in every)


def declarations() -> str:
    """What cffi is told: the structs of all kernels, and the functions of the host."""
    every = texts(sorted(FOLDER.rglob("*.h"))).values()
    host = ("tw_fn", "tw_call", "tw_chain", "tw_rows_progress", "tw_rows_call", "tw_split", "tw_part_fn")
    wanted = [*host, *(f"{name}_params" for name in kernel_index())]
    return "\n".join(
        [structs(wanted, every), COMMENT.sub("", (FOLDER / "run" / "host.inc").read_text(encoding="utf-8"))]
    )


def structs(names: Iterable[str], headers: Iterable[str]) -> str:
    """What cffi is told of the types ``names``: sizes of arrays, and their typedefs behind those that they are made of.

    ``headers`` are the texts of all headers. KeyError with the name of a type that none of them has.
    """
    text = "\n".join(COMMENT.sub("", header) for header in headers)
    return "\n".join([*MACRO.findall(text), *_with_parts(names, typedefs(text))])


def typedefs(header: str) -> dict[str, str]:
    """Name -> text of every type that a header defines at the start of a line."""
    every = TYPEDEF.findall(COMMENT.sub("", header))
    return {name[1]: text for text in every if (name := TYPEDEF_NAME.search(text))}


def _with_parts(names: Iterable[str], types: Mapping[str, str]) -> Iterator[str]:
    """The typedefs of these names, each once and behind those that it is made of."""
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in done:
            return
        for word in re.findall(r"\w+", types[name]):
            if word != name and word in types:
                visit(word)
        done[name] = None

    for name in names:
        visit(name)
    return (types[name] for name in done)


def write_files() -> list[Path]:
    """Write ``lists`` and ``parts``; only what changed, so that builds are incremental. Returns the C files."""
    GENERATED.mkdir(parents=True, exist_ok=True)
    defining = texts(headers())
    files = lists(defining) | parts(defining)
    for name, text in files.items():
        path = GENERATED / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    return [GENERATED / name for name in files if name.endswith(".c")]


def make() -> FFI:
    """The extension ``twinfer.kernels_c._ffi``, ready to be compiled; setup.py names this function."""
    from cffi import FFI  # takes a while, and whoever only reads headers does not need it

    files = write_files()
    ffi = FFI()
    ffi.cdef(declarations())
    ffi.set_source(
        "twinfer.kernels_c._ffi",
        '#include "run/host.h"\n#include "headers.inc"\n',
        sources=[os.path.relpath(path, ROOT) for path in (*files, *SET_FILES)],
        depends=[os.path.relpath(path, ROOT) for path in sorted(FOLDER.rglob("*.*")) if path.suffix in (".h", ".inc")],
        include_dirs=["kernels_c", os.path.relpath(GENERATED, ROOT)],
        extra_compile_args=[*FLAGS, "-g0"],  # Python's own flags have -g
        libraries=["m", "pthread"],
        # Without what is for debuggers: a fifth of the size. MinGW's threads go into the extension.
        extra_link_args=["-Wl,-S", *(["-static"] if os.name == "nt" else [])],
        py_limited_api=True,
    )
    return ffi
