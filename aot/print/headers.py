"""Which kernel headers a plan needs: those that define its kernels, and what they include."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from twinfer import kernels_c
from twinfer.kernels_c import includes
from twinfer.kernels_c.ffi_build import KERNEL


def headers_of(kernels: Iterable[str]) -> list[str]:
    """The headers that define ``kernels``, in name order."""
    definers = {kernel: path for path, text in kernels_c.sources().items() for kernel in _defined(text)}
    return sorted({definers[kernel] for kernel in kernels})


@cache
def _defined(header: str) -> tuple[str, ...]:
    """The kernels that a header with this text defines."""
    return tuple(KERNEL.findall(header))


def closure(names: Iterable[str]) -> dict[str, str]:
    """Path -> text of the headers ``names`` and of all that they include, by path."""
    return includes.closure(names, kernels_c.sources())
