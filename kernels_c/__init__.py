"""The C kernels: ``FOLDER`` holds the headers, ``lib`` and ``ffi`` are the cffi binding of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinfer.kernels_c._ffi import ffi, lib

FOLDER = Path(__file__).resolve().parent
#: Instruction-set levels that the kernels are compiled for, each above the one before.
LEVELS = ("base", "v3", "v4")
#: What ``lib.tw_features`` tells, a bit each; names of ``runtime.target.FEATURES``.
FEATURES = ("avx_vnni", "avx512_vnni")

__all__ = ["FEATURES", "FOLDER", "LEVELS", "ffi", "kernel", "lib"]

_INDEX = {ffi.string(lib.tw_names[i]).decode(): i for i in range(lib.tw_count)}


def kernel(name: str, isa_level: int) -> Any:
    """Function pointer of the shared instance of kernel ``name``; KeyError if no header defines it."""
    return lib.tw_kernel(isa_level, _INDEX[name])
