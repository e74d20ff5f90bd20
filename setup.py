"""Only what pyproject.toml cannot say: the C extension is made by cffi."""

from setuptools import setup

setup(cffi_modules=["kernels_c/ffi_build.py:ffibuilder"])
