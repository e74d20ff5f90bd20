"""The C kernels: ``FOLDER`` holds the headers, ``lib`` and ``ffi`` are the cffi binding of all of them.

Kernels of the user's own are added as a ``Library``; ``kernel``, ``new_params``, ``params_type`` and ``sources`` know
them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

try:
    from twinfer.kernels_c._ffi import ffi, lib

    #: Whether the kernels' code is here; where it is not, what only plans still works.
    BUILT = True
except ImportError:
    from twinfer.kernels_c.absent import ffi, lib

    BUILT = False

FOLDER = Path(__file__).resolve().parent
#: Instruction-set levels of this architecture, which the kernels are compiled for, each above the one before.
LEVELS = tuple(ffi.string(lib.tw_levels[i]).decode() for i in range(lib.tw_level_count))

__all__ = [
    "BUILT", "FOLDER", "LEVELS", "Library", "add", "ffi", "kernel", "kernels", "lib", "new_params", "params_bytes",
    "params_type", "remove", "sources",
]  # fmt: skip

_INDEX = {ffi.string(lib.tw_names[i]).decode(): i for i in range(lib.tw_count)}


class Library(Protocol):
    """Kernels beside those of the extension: ``headers``, path -> text, define them; ``ffi`` has their structs."""

    @property
    def kernels(self) -> Sequence[str]: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def ffi(self) -> Any: ...

    def function(self, name: str, isa_level: int) -> Any:
        """Function pointer of the shared instance of one of ``kernels``."""


_ADDED: list[Library] = []


def add(library: Library) -> None:
    """Let its kernels be known; no other may have kernels or headers of the same names."""
    _ADDED.append(library)


def remove(library: Library) -> None:
    """Forget a library that was added."""
    _ADDED.remove(library)


def kernels() -> tuple[str, ...]:
    """The names of all kernels."""
    return (*_INDEX, *(name for library in _ADDED for name in library.kernels))


def sources() -> dict[str, str]:
    """Path -> text of every header, those of added libraries among them."""
    return {**_own_sources(), **{path: text for library in _ADDED for path, text in library.headers.items()}}


@cache
def _own_sources() -> Mapping[str, str]:
    paths = sorted(FOLDER.rglob("*.h"))
    return {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def kernel(name: str, isa_level: int) -> Any:
    """Function pointer of the shared instance of kernel ``name``; KeyError if no header defines it."""
    library = _owner(name)
    if library is None:
        return lib.tw_kernel(isa_level, _INDEX[name])
    return ffi.cast("tw_fn *", library.function(name, isa_level))


def params_type(kernel: str) -> Any:
    """The struct of a kernel's params, as cffi describes it; KeyError if no header defines the kernel."""
    return _ffi_of(kernel).typeof(f"{kernel}_params")


def params_bytes(kernel: str) -> int:
    """Bytes of the struct of a kernel's params."""
    return int(_ffi_of(kernel).sizeof(f"{kernel}_params"))


def new_params(kernel: str, values: Mapping[str, Any]) -> Any:
    """A new struct of a kernel's params with these members."""
    return _ffi_of(kernel).new(f"{kernel}_params *", dict(values))


def _ffi_of(kernel: str) -> Any:
    library = _owner(kernel)
    if library is None and kernel not in _INDEX:
        raise KeyError(kernel)
    return ffi if library is None else library.ffi


def _owner(name: str) -> Library | None:
    """The added library that has a kernel of that name."""
    return next((library for library in _ADDED if name in library.kernels), None) if _ADDED else None
