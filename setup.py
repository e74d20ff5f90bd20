"""Only what pyproject.toml cannot say: the C extension is made by cffi, and every folder of modules is a package."""

from pathlib import Path

from setuptools import setup

#: Folders at the root that are packages of ``twinfer``.
FOLDERS = ("aot", "bench", "converter", "kernels_c", "runtime")

here = Path(__file__).parent


def packages(folder: str) -> list[str]:
    """Every package in a folder at the root; ``**`` follows none of the symlinks in ``twinfer``."""
    return [".".join(path.parent.relative_to(here).parts) for path in sorted(here.glob(f"{folder}/**/__init__.py"))]


setup(
    cffi_modules=["kernels_c/ffi_build.py:make"],
    package_dir={"twinfer": "twinfer", **{f"twinfer.{folder}": folder for folder in FOLDERS}},
    packages=[*packages("twinfer"), *(f"twinfer.{name}" for folder in FOLDERS for name in packages(folder))],
)
