"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from twinfer.runtime.errors import InvalidArgumentError


def write_whole(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Write a file beside its place and move it there, so that nobody ever reads half of it.

    InvalidArgumentError if that cannot be.
    """
    folder = Path(path).absolute().parent
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{Path(path).name}-", delete=False) as file:
            try:
                write(file)
                file.flush()
                os.chmod(file.name, 0o666 & ~_umask())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise InvalidArgumentError(f"{path}: cannot be written: {error.strerror or error}") from None


def check_places(*paths: str | None) -> None:
    """InvalidArgumentError for a file (None: not wanted) whose folder is not there: told before the work, not after."""
    for path in filter(None, paths):
        if not Path(path).absolute().parent.is_dir():
            raise InvalidArgumentError(f"{path}: cannot be written: there is no folder {Path(path).parent}")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """The same for a text."""
    write_whole(path, lambda file: file.write(text.encode()))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
