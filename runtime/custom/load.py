"""A folder of operators as one value."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twinfer.runtime.custom.modules import Rows, as_package, forget, read_modules
from twinfer.runtime.custom.places import resolved
from twinfer.runtime.errors import OperatorError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from twinfer.runtime.custom.library import CustomLibrary


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


def load_package(entry: EntryPoint) -> Folder:
    """The folder of the module that an entry point names."""
    module = entry.load()
    package, file = getattr(module, "__package__", ""), getattr(module, "__file__", None)
    if not package or file is None:
        raise OperatorError(f"the entry point {entry.name} = {entry.value} names no module in a folder of a package")
    return load(resolved(Path(file).parent), package)
