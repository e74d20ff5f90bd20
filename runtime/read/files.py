"""The user's files: read, and written whole or not at all. Only regular files are replaced."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from twinfer.runtime.errors import InvalidArgumentError, TwinferError

#: Kinds that can be neither replaced nor written to.
_REFUSED = {stat.S_IFDIR: "a folder", stat.S_IFBLK: "a block device", stat.S_IFSOCK: "a socket"}


def write_whole(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Write a file beside its place and move it there, so that nobody ever reads half of it.

    A link stays, its target is replaced. Pipes and character devices (terminals, /dev/null) are written to.
    InvalidArgumentError for folders, block devices, sockets and links to nothing, and if writing fails.
    """
    content = io.BytesIO()
    write(content)
    with writing(path):
        if is_stream(path):
            with _stream(path) as stream:
                stream.write(content.getbuffer())
        else:
            _replace(os.path.realpath(path), content.getbuffer())


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file as ``write_whole`` does."""
    write_whole(path, lambda file: file.write(text.encode()))


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """A file's content; InvalidArgumentError if there is no such file or it cannot be read."""
    check_file(path)
    with reading(path):
        return Path(path).read_bytes()


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/twinfer``, or ``~/.cache/twinfer``; on Windows in ``%LOCALAPPDATA%``."""
    local = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None
    base = os.environ.get("XDG_CACHE_HOME") or local or "~/.cache"
    return Path(base).expanduser().absolute() / "twinfer"  # tools run in folders of their own


def check_file(path: str | os.PathLike[str]) -> None:
    """InvalidArgumentError if there is no such file."""
    need_path(path)
    if not os.path.isfile(path):
        there = os.path.exists(path)
        raise InvalidArgumentError(f"{os.fspath(path)}: {'it is not a file' if there else 'there is no such file'}")


def need_path(given: object) -> None:
    """InvalidArgumentError for anything but a path; ``open`` would take a number for an open file."""
    if not isinstance(given, str | os.PathLike):
        raise InvalidArgumentError(f"a path is a string, no {type(given).__name__}")


@contextmanager
def reading(path: str | os.PathLike[str], what: str = "a file") -> Iterator[None]:
    """Turns every error in reading ``path`` as ``what`` into an InvalidArgumentError."""
    need_path(path)
    try:
        yield
    except TwinferError:
        raise
    except OSError as error:
        raise InvalidArgumentError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from None
    except Exception as error:  # whatever NumPy, zipfile and zlib meet in a damaged file; too little memory for it
        raise InvalidArgumentError(f"{os.fspath(path)}: cannot be read as {what}: {error}") from None


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns errors in writing to ``path`` into an InvalidArgumentError."""
    try:
        yield
    except TwinferError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name that no file system takes
        why = error.strerror if isinstance(error, OSError) else None
        raise InvalidArgumentError(f"{os.fspath(path)}: cannot be written: {why or error}") from None


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether the path is written to in place, not replaced; InvalidArgumentError if neither is possible."""
    need_path(path)
    with writing(path):
        if _own(path) is not None:
            return True
        try:
            kind = stat.S_IFMT(os.stat(path).st_mode)
        except FileNotFoundError:
            if os.path.islink(path):
                raise _refusal(path, f"it is a link to {os.readlink(path)}, which is not there") from None
            return False
        if kind in _REFUSED:
            raise _refusal(path, f"it is {_REFUSED[kind]}")
        return kind != stat.S_IFREG


def check_places(outputs: Iterable[str | os.PathLike[str] | None], inputs: Iterable[Any] = ()) -> None:
    """InvalidArgumentError for an output that cannot be written: asked before the work, not after.

    An output needs a folder, and must be neither one of the ``inputs``, by any name, nor another output. None and ""
    are outputs that are not wanted, "-" is standard output. Inputs that are no paths are passed over.
    """
    taken = {_identity(path): f"it is {os.fspath(path)}, which is read" for path in inputs if _is_there(path)}
    for path in outputs:
        if not path or path == "-" or is_stream(path):
            continue
        if not os.path.isdir(Path(path).absolute().parent):
            raise _refusal(path, f"there is no folder {Path(path).parent}")
        if why := taken.get(_identity(path)):
            raise _refusal(path, why)
        taken[_identity(path)] = "it is named for two results"


def check_folder(path: str | os.PathLike[str], inputs: Iterable[Any] = ()) -> None:
    """InvalidArgumentError unless ``path`` is a folder or can be made in one; a link to nothing is neither.

    A folder that an input lies in is refused, too.
    """
    place = Path(path).absolute()
    there = next(above for above in (place, *place.parents) if os.path.lexists(above))
    if not os.path.isdir(there):
        raise _refusal(path, f"{'it' if there == place else there} is not a folder")
    for one in filter(_is_there, inputs):
        if Path(os.path.realpath(one)).is_relative_to(os.path.realpath(path)):
            raise _refusal(path, f"{os.fspath(one)}, which is read, lies in it")


def _is_there(path: Any) -> bool:
    return isinstance(path, str | os.PathLike) and os.path.exists(path)


def _identity(path: str | os.PathLike[str]) -> object:
    """A key that is equal for all names of a file: links of both kinds, other spellings."""
    if not os.path.exists(path):
        return os.path.realpath(path)
    about = os.stat(path)
    return about.st_dev, about.st_ino


def _refusal(path: str | os.PathLike[str], why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{os.fspath(path)}: cannot be written: {why}")


def _own(path: str | os.PathLike[str]) -> int | None:
    """The descriptor of standard output or error if ``path`` names it: the shell may go on with that file."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
    return None


def _stream(path: str | os.PathLike[str]) -> IO[bytes]:
    """The file, opened for writing; standard output goes on behind what was printed."""
    own = _own(path)
    if own is None:
        return open(path, "wb")
    (sys.stdout, sys.stderr)[own - 1].flush()
    return open(own, "wb", closefd=False)


def _replace(path: str, content: memoryview) -> None:
    """Put a regular file in place."""
    import tempfile  # takes three milliseconds, more than reading a model

    descriptor, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".twinfer-")
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.chmod(new, 0o666 & ~_umask())
        os.replace(new, path)  # it is closed: Windows moves no open file
    except BaseException:
        os.unlink(new)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
