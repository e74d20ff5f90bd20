"""What stands for the extension where it was not built: the structs of all kernels, and none of their code.

Planning asks for no more than that; ``runtime/run/by_numpy.py`` runs plans without it.
"""

from __future__ import annotations

from typing import Any

from cffi import FFI

from twinfer.kernels_c.ffi_build import declarations, kernel_index

ffi = FFI()
ffi.cdef(declarations())


class Absent:
    """The names of the kernels and one level of this CPU, ``base``; RuntimeError for a function that runs something."""

    def __init__(self) -> None:
        names = [name.encode() for name in kernel_index()]
        self._keep = [ffi.new("char[]", name) for name in (*names, b"base")]
        *self.tw_names, level = self._keep
        self.tw_count, self.tw_levels, self.tw_level_count = len(names), [level], 1
        self._constants = ffi.dlopen(None)

    def tw_level(self) -> int:
        return 0

    def tw_built(self, level: int) -> int:
        return 1

    def tw_has(self, level: int, feature: bytes) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("TW_"):
            return getattr(self._constants, name)
        raise RuntimeError(f"{name} needs twinfer's C kernels, and they are not built here")


lib = Absent()
