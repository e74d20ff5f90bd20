"""Which headers others include. Paths begin below this folder, as ``conv/conv2d.h``."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)

#: The header that all others build on.
BASE = "core/tw.h"


def included(path: str, text: str) -> list[str]:
    """The headers that a header with this path and text includes."""
    return [posixpath.normpath(posixpath.join(posixpath.dirname(path), other)) for other in _INCLUDE.findall(text)]


def closure(names: Iterable[str], sources: Mapping[str, str]) -> dict[str, str]:
    """Path -> text of the headers ``names``, of ``BASE`` and of all that they include, by path.

    ``sources`` has the texts of all headers; KeyError with the path of one that it lacks.
    """
    needed, waiting = set[str](), [BASE, *names]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += included(name, sources[name])
    return {name: sources[name] for name in sorted(needed)}
