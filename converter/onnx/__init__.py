"""ONNX comes in here: ``read_onnx`` makes a ``Graph`` of a model. Each file in ``ops`` has one family of operators."""

from importlib.util import find_spec

from twinfer.runtime.errors import ToolError

if find_spec("onnx") is None:
    raise ToolError("reading ONNX models needs the package onnx: pip install 'twinfer[convert]'")

from twinfer.converter.onnx.read import read_onnx

__all__ = ["read_onnx"]
