"""The user's cache folder: compiled libraries and programs, and what ``twinfer tune`` has found.

Whatever is kept ends in a seal: its size and checksum. A file is used only if it is this user's own, a regular one, and
matches its seal; all else (cut short, overwritten, a pipe, a folder, a link) is made anew and replaced. Files are
written in a work folder beside them, synchronised and moved into place, so that nobody ever sees half of one. The
folder must be this user's alone: whoever can write there can give this user's programs other code.
"""

from __future__ import annotations

import os
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from twinfer.runtime.errors import ModelError, ToolError
from twinfer.runtime.graph import Array
from twinfer.runtime.read.files import cache_folder
from twinfer.runtime.run.buffers import aligned_bytes

#: The seal at the end of a file: these eight bytes, the size of what is before them, and its CRC-32.
_SEAL, _MARK = struct.Struct("<8sQI"), b"\0twinfer"

#: Whether files have owners and rights as on Linux and macOS.
POSIX = os.name == "posix"

#: How a kept file is opened: a pipe must not make us wait, nor a link lead elsewhere. Windows has neither flag.
_READ = os.O_RDONLY | sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "CLOEXEC", "BINARY"))

#: Work folders are named work-PID-…; what a process has left that is gone is swept after an hour, all after a week. An
#: hour is longer than a compiler may take: a process in another container may be there without being seen.
_WORK, _HOUR, _WEEK = "work-", 3600, 7 * 24 * 3600


def folder() -> Path:
    """The cache folder, made if it is missing.

    ToolError if it belongs to somebody else, if others may write there, or if it cannot be made.
    """
    try:
        place = cache_folder()
    except RuntimeError as error:
        raise ToolError(f"no cache folder: {error} Set XDG_CACHE_HOME to one") from None
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = place.stat()
    except OSError as error:
        raise ToolError(f"no cache folder {place}: {error.strerror}; set XDG_CACHE_HOME to another") from None
    if not POSIX:
        return place  # in the user's profile, which Windows keeps to him
    if about.st_uid != os.geteuid():
        raise ToolError(
            f"the cache folder {place} belongs to another user ({about.st_uid}) and is not used: set "
            "XDG_CACHE_HOME to a folder of your own"
        )
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ToolError(
            f"others may write to the cache folder {place}, so it is not used: chmod go-w it if you trust what is "
            "there, or set XDG_CACHE_HOME to another"
        )
    return place


def load(path: Path) -> Array | None:
    """The content of a kept file, as bytes at a multiple of 64; None if it is missing, damaged, or not this user's."""
    try:
        with open(os.open(path, _READ), "rb") as file:
            about = os.fstat(file.fileno())
            size = about.st_size - _SEAL.size
            if not stat.S_ISREG(about.st_mode) or (POSIX and about.st_uid != os.geteuid()) or size < 0:
                return None
            file.seek(size)
            mark, told, checksum = _SEAL.unpack(file.read())
            if (mark, told) != (_MARK, size):
                return None
            file.seek(0)
            data = aligned_bytes(size)
            if file.readinto(data.data) != size or zlib.crc32(data.data) != checksum:
                return None
    except (OSError, struct.error, ModelError):  # ModelError: no memory for it
        return None
    return data


def store(path: Path, make: Callable[[Path], Path]) -> None:
    """Keep what ``make`` makes: it gets an empty folder and returns the file in it. ToolError if it cannot be kept."""
    try:
        with _work_folder(path.parent) as work:
            made = make(work)
            _seal(made)
            if path.is_dir() and not path.is_symlink():
                _remove(path)
            os.replace(made, path)
    except OSError as error:
        raise ToolError(f"cannot write to the cache folder {path.parent}: {error}; set XDG_CACHE_HOME") from error


def _seal(path: Path) -> None:
    """Put the seal behind a file, and see to it that all of it is on the disk."""
    with open(path, "r+b") as file:
        checksum = size = 0
        while chunk := file.read(1 << 20):
            checksum, size = zlib.crc32(chunk, checksum), size + len(chunk)
        file.write(_SEAL.pack(_MARK, size, checksum))
        file.flush()
        os.fsync(file.fileno())


def unsealed(path: Path) -> bytes:
    """What stands before the seal of a file that is whole."""
    return path.read_bytes()[: -_SEAL.size]


@contextmanager
def _work_folder(place: Path) -> Iterator[Path]:
    """A new folder in ``place``, which goes again; those that killed processes have left go, too."""
    import tempfile  # takes three milliseconds, more than reading a model

    with suppress(OSError):
        for entry in os.scandir(place):
            if entry.name.startswith(_WORK) and _left(entry):
                _remove(Path(entry.path))
    with tempfile.TemporaryDirectory(dir=place, prefix=f"{_WORK}{os.getpid()}-", ignore_cleanup_errors=True) as work:
        yield Path(work)


def _left(entry: os.DirEntry[str]) -> bool:
    """Whether nobody works in a work folder any more."""
    with suppress(OSError, ValueError, OverflowError):
        age = time.time() - entry.stat(follow_symlinks=False).st_mtime
        if _HOUR < age < _WEEK and POSIX:  # on Windows a signal 0 would be Ctrl-C
            os.kill(int(entry.name.split("-")[1]), 0)  # ProcessLookupError if there is none
            return False
        return age >= _WEEK
    return True


def _remove(path: Path) -> None:
    """Take away a folder or what else is there."""
    import shutil

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
