"""What the fork server imports, so that a command's process has it when it starts: all of twinfer."""

import pkgutil
from contextlib import suppress
from importlib import import_module

import twinfer
from twinfer.runtime.registry import operators

#: Modules that import frameworks, start something, or are programs.
_NOT = ("keras", "torch", "bench_", "ffi_build", "__main__", "measure.figures", "lab", "compilers")

for found in pkgutil.walk_packages(twinfer.__path__, "twinfer."):
    if not any(word in found.name for word in _NOT):
        with suppress(ImportError):
            import_module(found.name)
operators()
