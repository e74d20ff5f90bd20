"""Mutated kernels for the interpreter, without the minute that the whole extension takes.

The kernels that a header reaches are compiled unoptimised, for every instruction-set level, into a library that
replaces those of the extension. Compiled C uses the mutated headers anyway.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from mutants.table import MutantError
from twinfer.kernels_c.ffi_build import ARITHMETIC, KERNEL, LEVEL_FILES, lists, texts
from twinfer.kernels_c.includes import included

_FLAGS = [*ARITHMETIC, "-O0", "-shared", "-fPIC"]

#: Appended to kernels_c/__init__.py: takes the mutant's kernel if there is one.
OVERRIDE = '''

import ctypes as _ctypes

_mutant, _plain = _ctypes.CDLL(str(FOLDER / "mutant.so")), kernel


def kernel(name: str, isa_level: int) -> Any:
    """The mutated kernel, else the extension's."""
    symbol = getattr(_mutant, f"{name}_{LEVELS[isa_level]}", None)
    if symbol is None:
        return _plain(name, isa_level)
    return ffi.cast("tw_fn *", _ctypes.cast(symbol, _ctypes.c_void_p).value)
'''


def reached(folder: Path, header: str) -> list[Path]:
    """The headers with kernels that are ``header`` or include it, also indirectly, in name order."""
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(folder.rglob("*.h"))}
    includes = {name: set(included(name, text)) for name, text in texts.items()}
    headers = {header}
    while more := {name for name, those in includes.items() if those & headers} - headers:
        headers |= more
    return [folder / name for name in texts if name in headers and KERNEL.search(texts[name])]


def build(folder: Path, header: str) -> None:
    """Builds ``mutant.so`` in ``folder`` from all kernels that ``header`` reaches. MutantError if they do not
    compile."""
    for name, text in lists(texts(reached(folder, header), folder)).items():
        (folder / name).write_text(text, "utf-8")
    sources = [str(folder / "run" / path.name) for path in LEVEL_FILES]
    command = ["gcc", *_FLAGS, "-I", str(folder), *sources, "-o", str(folder / "mutant.so"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MutantError(f"{header}, mutated, does not compile:\n{done.stderr[:2000]}")
