"""Which kernel headers a plan needs: the one that defines each kernel, and what those include."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from twinfer.kernels_c import FOLDER

_KERNEL = re.compile(r"^TW_KERNEL\((\w+)\)", re.MULTILINE)
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@cache
def _sources() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(Path(FOLDER).glob("*.h"))}


@cache
def _definers() -> dict[str, str]:
    return {kernel: name for name, text in _sources().items() for kernel in _KERNEL.findall(text)}


def headers_of(kernels: Iterable[str]) -> list[str]:
    """The headers that define ``kernels``, in name order."""
    return sorted({_definers()[kernel] for kernel in kernels})


def closure(names: Iterable[str]) -> dict[str, str]:
    """Name -> text of the headers ``names`` and of all that they include, in name order."""
    sources, found, waiting = _sources(), set[str](), ["tw.h", *names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _INCLUDE.findall(sources[name])
    return {name: sources[name] for name in sorted(found)}
