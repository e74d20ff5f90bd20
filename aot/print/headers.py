"""Which kernel headers a plan needs: those that define its kernels, and what they include."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from twinfer.kernels_c import FOLDER

_KERNEL = re.compile(r"^TW_KERNEL\((\w+)\)", re.MULTILINE)
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@cache
def _sources() -> dict[str, str]:
    paths = sorted(Path(FOLDER).rglob("*.h"))
    return {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@cache
def _definers() -> dict[str, str]:
    return {kernel: name for name, text in _sources().items() for kernel in _KERNEL.findall(text)}


def headers_of(kernels: Iterable[str]) -> list[str]:
    """The headers that define ``kernels``, in name order."""
    return sorted({_definers()[kernel] for kernel in kernels})


def included(path: str, text: str) -> list[str]:
    """The headers that a header with this path and text includes; paths begin below kernels_c."""
    return [posixpath.normpath(posixpath.join(posixpath.dirname(path), other)) for other in _INCLUDE.findall(text)]


def closure(names: Iterable[str]) -> dict[str, str]:
    """Path -> text of the headers ``names`` and of all that they include, by path."""
    sources, needed, waiting = _sources(), set[str](), ["core/tw.h", *names]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += included(name, sources[name])
    return {name: sources[name] for name in sorted(needed)}
