"""A folder of operators as one value, and the places where folders are named."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twinfer.runtime.custom.modules import Rows, as_package, forget, read_modules
from twinfer.runtime.errors import OperatorError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from twinfer.runtime.custom.library import CustomLibrary

#: The environment variable that names folders, separated as in PATH.
VARIABLE = "TWINFER_OPERATORS"

#: The entry points that name a module whose folder holds the files.
GROUP = "twinfer.operators"


@dataclass(frozen=True, eq=False)
class Folder:
    """The operators, variants and kernels of a folder."""

    path: Path
    package: str
    rows: Rows
    library: CustomLibrary

    def forget(self) -> None:
        """Let its modules be read again when they are imported next."""
        forget(self.package)


def load(path: Path, package: str = "") -> Folder:
    """Everything in a folder, checked as far as that goes without a compiler. ``package`` is its name if it is one.

    OperatorError, which names the file, if one is wrong or the folder holds no operator.
    """
    import hashlib  # what only folders of the user's own need takes a while

    from twinfer.runtime.custom.headers import read_headers
    from twinfer.runtime.custom.library import CustomLibrary

    if not path.is_dir():
        raise OperatorError(f"{path} is no folder; name the one that holds the operators' .py and .h files")
    library = CustomLibrary(read_headers(path))
    if not package:
        package = f"twinfer_operators_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
        as_package(path, package)
    try:
        rows = read_modules(path, package)
        if not rows.ops and not rows.variants:
            raise OperatorError(f"{path} holds no operator: a .py file that defines OP = Op(...) is needed")
    except BaseException:
        forget(package)
        raise
    return Folder(path, package, rows, library)


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
    if not any(map(_may_offer, sys.path)):
        return
    from importlib.metadata import entry_points  # takes 20 ms, more than all of planning

    yield from sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))


def _may_offer(place: str) -> bool:
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


def load_package(entry: EntryPoint) -> Folder:
    """The folder of the module that an entry point names."""
    module = entry.load()
    package, file = getattr(module, "__package__", ""), getattr(module, "__file__", None)
    if not package or file is None:
        raise OperatorError(f"the entry point {entry.name} = {entry.value} names no module in a folder of a package")
    return load(resolved(Path(file).parent), package)
