"""ONNX comes in here: ``read_onnx`` makes a ``Graph`` of a model, one family of operators a file in ``ops``."""

from twinfer.converter.onnx.read import read_onnx

__all__ = ["read_onnx"]
