"""PyTorch comes in here: ``from_torch`` makes a ``Graph`` of a module, by way of torch.export and ONNX."""

from twinfer.converter.torch.export import from_torch

__all__ = ["from_torch"]
