"""The kernels' headers of a user's folder: read and checked as far as that goes without a compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from twinfer import kernels_c
from twinfer.kernels_c.ffi_build import KERNEL, structs, typedefs
from twinfer.kernels_c.includes import included
from twinfer.runtime.errors import OperatorError

if TYPE_CHECKING:
    from cffi import FFI

#: The family of headers from outside: as ours do, they include ``../core/tw.h``.
FAMILY = "custom"


class Headers(NamedTuple):
    """The headers of a folder, checked: path -> text, as in an emitted project; ``ffi`` has the kernels' structs."""

    folder: Path
    texts: Mapping[str, str]
    kernels: tuple[str, ...]
    ffi: FFI

    @property
    def defining(self) -> dict[str, str]:
        """Those that define kernels."""
        return {path: text for path, text in self.texts.items() if KERNEL.search(text)}


def read_headers(folder: Path) -> Headers:
    """The headers in a folder; OperatorError, which names the file, if one of them is wrong."""
    files = {f"{FAMILY}/{file.name}": file for file in sorted(folder.glob("*.h"))}
    texts = {path: text_of(file) for path, file in files.items()}
    known = kernels_c.sources()
    for path, file in files.items():
        _check_names(file, path, texts[path], known)
        _check_includes(file, path, texts, known)
    kernels = _kernels(files, texts)
    _check_use(files, texts)
    sources = {**known, **texts}
    for kernel, file in kernels.items():
        _ffi(file, [kernel], sources)
    return Headers(folder, texts, tuple(kernels), _ffi(folder, list(kernels), sources))


def text_of(file: Path) -> str:
    """The text of a file of the user's; OperatorError if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"{file}: it cannot be read: {error}") from error


def _check_names(file: Path, path: str, text: str, known: Mapping[str, str]) -> None:
    """OperatorError if a name of the header is taken by one that twinfer knows."""
    if path in known:
        raise OperatorError(f"{file}: another folder of operators has a header {file.name}; give it another name")
    taken = {name: other for other, old in known.items() for name in typedefs(old)}
    for name in typedefs(text):
        if name in taken:
            raise OperatorError(f"{file}: the type {name} is defined in {taken[name]}; include that, or rename it")


def _check_includes(file: Path, path: str, texts: Mapping[str, str], known: Mapping[str, str]) -> None:
    for other in included(path, texts[path]):
        if other not in texts and other not in known:
            raise OperatorError(
                f"{file}: it includes {other}, which is neither beside it nor twinfer's own; "
                'those are included as "../core/tw.h", "../core/each.h", …'
            )


def _kernels(files: Mapping[str, Path], texts: Mapping[str, str]) -> dict[str, Path]:
    """Kernel -> file that defines it."""
    kernels, taken = dict[str, Path](), set(kernels_c.kernels())
    for path, file in files.items():
        for kernel in KERNEL.findall(texts[path]):
            if kernel in kernels or kernel in taken:
                where = kernels.get(kernel, "twinfer or another folder")
                raise OperatorError(f"{file}: the name of its kernel {kernel} is taken by {where}")
            kernels[kernel] = file
    return kernels


def _check_use(files: Mapping[str, Path], texts: Mapping[str, str]) -> None:
    """OperatorError for a header that neither defines a kernel nor is included by another."""
    used = {other for path, text in texts.items() for other in included(path, text)}
    for path, file in files.items():
        if path not in used and not KERNEL.search(texts[path]):
            raise OperatorError(f"{file}: it defines no kernel: TW_KERNEL(name) {{ … }} at the start of a line")


def _ffi(place: Path, kernels: Sequence[str], sources: Mapping[str, str]) -> FFI:
    """A binding that knows the params of these kernels; OperatorError, which names ``place``, if one has no struct."""
    from cffi import FFI, CDefError, FFIError

    ffi = FFI()
    try:
        ffi.cdef(structs([f"{kernel}_params" for kernel in kernels], sources.values()))
        for kernel in kernels:
            ffi.sizeof(f"{kernel}_params")
    except KeyError as error:
        form = f"typedef struct {{ … }} {error.args[0]}; at the start of a line"
        raise OperatorError(f"{place}: a kernel needs a struct for its params: {form}") from error
    except (CDefError, FFIError, NotImplementedError, TypeError, ValueError) as error:
        raise OperatorError(f"{place}: the params of {', '.join(kernels)} are no plain struct: {error}") from error
    return ffi
