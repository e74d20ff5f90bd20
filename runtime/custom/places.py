"""Where folders of operators are named: the environment, and entry points of installed packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: The environment variable that names folders, separated as in PATH.
VARIABLE = "TWINFER_OPERATORS"

#: The entry points that name a module whose folder holds the files.
GROUP = "twinfer.operators"


def named_folders() -> Iterator[Path]:
    """The folders that the environment names."""
    yield from (resolved(name) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name)


def name_folder(path: Path) -> None:
    """Let processes that this one starts know the folder."""
    if path not in named_folders():
        os.environ[VARIABLE] = os.pathsep.join(filter(None, (os.environ.get(VARIABLE), str(path))))


def unname_folder(path: Path) -> None:
    """Undo ``name_folder``."""
    names = [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name and resolved(name) != path]
    os.environ[VARIABLE] = os.pathsep.join(names)


def resolved(path: str | os.PathLike[str]) -> Path:
    """The folder's one absolute path."""
    return Path(os.path.realpath(os.fspath(path)))


def packages() -> Iterator[EntryPoint]:
    """The entry points of all installed packages that offer operators, by name."""
    if not _may_offer(tuple(sys.path)):  # one glance at what is installed
        return
    from importlib.metadata import entry_points  # takes 20 ms, more than all of planning

    yield from sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))


@cache
def _may_offer(path: tuple[str, ...]) -> bool:
    return any(map(_place_may_offer, path))


def _place_may_offer(place: str) -> bool:
    """Whether a package that is installed in a folder of sys.path may offer operators; of anything else it may be."""
    try:
        with os.scandir(place or ".") as entries:
            known = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:
        return True
    except OSError:
        return False
    return any(map(_names_group, known))


def _names_group(metadata: str) -> bool:
    try:
        with open(os.path.join(metadata, "entry_points.txt"), "rb") as file:
            return GROUP.encode() in file.read()
    except OSError:
        return False
