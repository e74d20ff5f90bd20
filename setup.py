"""Only what pyproject.toml cannot say: the C extension is made by cffi, and every folder of modules is a package."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext

#: Folders at the root that are packages of ``twinfer``.
FOLDERS = ("aot", "bench", "converter", "kernels_c", "runtime")

#: Packages that only a checkout has: what remakes figures and looks for faults. No command of ``twinfer`` needs them.
FOR_DEVELOPERS = ("twinfer.bench.fuzz", "twinfer.bench.lab")

here = Path(__file__).parent


def packages(folder: str) -> list[str]:
    """Every package in a folder at the root; ``**`` follows none of the symlinks in ``twinfer``."""
    return [".".join(path.parent.relative_to(here).parts) for path in sorted(here.glob(f"{folder}/**/__init__.py"))]


class ParallelBuild(build_ext):
    """Compiles the files of the extension side by side: one per instruction-set level, each takes a minute."""

    def build_extensions(self) -> None:
        one = self.compiler.compile

        def compile(sources: list[str], **how: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return [path for paths in pool.map(lambda source: one([source], **how), sources) for path in paths]

        self.compiler.compile = compile
        super().build_extensions()


every = [*packages("twinfer"), *(f"twinfer.{name}" for folder in FOLDERS for name in packages(folder))]

setup(
    cmdclass={"build_ext": ParallelBuild},
    cffi_modules=["kernels_c/ffi_build.py:make"],
    package_dir={"twinfer": "twinfer", **{f"twinfer.{folder}": folder for folder in FOLDERS}},
    packages=[name for name in every if name not in FOR_DEVELOPERS],
)
