"""A user's kernels, compiled by the system's C compiler for every instruction-set level, as the extension is.

The user's cache folder keeps the library. It is loaded when a kernel is first asked for.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from twinfer import kernels_c
from twinfer.kernels_c import FOLDER, LEVELS, includes
from twinfer.kernels_c.ffi_build import FLAGS, LEVEL_FILES, SET_FILES, lists, texts
from twinfer.runtime.custom.headers import Headers
from twinfer.runtime.errors import OperatorError, ToolError
from twinfer.runtime.tools import built, compiler_version, find_compiler

#: Those of the extension and of emitted projects: what these would refuse is refused at once.
_FLAGS = (*FLAGS, "-pedantic", "-Werror", "-shared", "-fPIC", "-I.")

#: Libraries stay loaded: sessions hold pointers to their functions.
_LOADED: list[Any] = []

_SIZES = "tw_sizes_of_params"


def _set(file: Path) -> str:
    """The name of the set that one of ``SET_FILES`` is for."""
    return file.stem.removeprefix("set_")


class CustomLibrary:
    """The kernels of a folder's headers (``kernels_c.Library``)."""

    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    @property
    def kernels(self) -> Sequence[str]:
        return self._headers.kernels

    @property
    def headers(self) -> Mapping[str, str]:
        return self._headers.texts

    @property
    def ffi(self) -> Any:
        return self._headers.ffi

    def compile(self) -> None:
        """Compile and load the kernels; ToolError, with the compiler's message, if that fails."""
        if self.kernels:
            self._library  # noqa: B018 a cached property

    def function(self, name: str, isa_level: int) -> Any:
        """Function pointer of the shared instance of a kernel for a level, or for the one below that was compiled."""
        own_set = kernels_c.ffi.string(kernels_c.lib.tw_set(isa_level)).decode()
        for end in (own_set, *reversed(LEVELS[: isa_level + 1])):
            symbol = getattr(self._library, f"{name}_{end}", None)
            if symbol is not None:
                return symbol
        raise KeyError(name)

    @cached_property
    def _library(self) -> Any:
        try:
            compiler = find_compiler()
            sources = [f"run/{file.name}" for file in (*LEVEL_FILES, *self._set_files())]
            command = (*compiler, *_FLAGS, *sources, "sizes.c", "-o", "kernels.so", "-lm")
            made_with = compiler_version(compiler) + platform.machine()
            path = built(self._sources(), command, "kernels.so", made_with)
        except ToolError as error:
            raise ToolError(f"{self._headers.folder}: its kernels cannot be compiled: {error}") from error
        library = self._checked(self._loaded(str(path)))
        _LOADED.append(library)
        return library

    def _set_files(self) -> list[Path]:
        """Those of the sets that some header is for."""
        defining = self._headers.defining
        return [file for file in SET_FILES if any(path.endswith(f"_{_set(file)}.h") for path in defining)]

    def _sources(self) -> dict[str, str]:
        """All files that the compiler reads."""
        defining = self._headers.defining
        run = sorted((FOLDER / "run").glob("*.*"))
        sizes = ", ".join(f"sizeof({kernel}_params)" for kernel in self.kernels)
        check = f'#include "headers.inc"\nextern const size_t {_SIZES}[];\nconst size_t {_SIZES}[] = {{{sizes}}};\n'
        return {
            **texts(file for file in run if file.suffix in (".c", ".inc") or file.name == "level.h"),
            **includes.closure(self.headers, kernels_c.sources() | dict(self.headers)),
            **lists(defining),
            "sizes.c": check,
        }

    def _loaded(self, path: str) -> Any:
        ends = (*LEVELS, *map(_set, self._set_files()))
        signature = "(const void *params, const void *const *in, void *const *out, void *scratch);"
        functions = [f"void {kernel}_{end}{signature}" for kernel in self.kernels for end in ends]
        self.ffi.cdef("\n".join([f"extern const size_t {_SIZES}[{len(self.kernels)}];", *functions]), override=True)
        try:
            return self.ffi.dlopen(path)
        except OSError as error:
            raise ToolError(f"{self._headers.folder}: its compiled kernels cannot be loaded: {error}") from error

    def _checked(self, library: Any) -> Any:
        """The library; OperatorError if a struct is not what cffi takes it for."""
        for kernel, size in zip(self.kernels, getattr(library, _SIZES), strict=True):
            if size != self.ffi.sizeof(f"{kernel}_params"):
                where = self._headers.folder
                raise OperatorError(f"{where}: {kernel}_params has attributes or pragmas that change its layout")
        return library
