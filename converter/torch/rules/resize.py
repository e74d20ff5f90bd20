"""Images resized with antialiasing: torch.onnx writes ONNX's Resize, which is not the same at the edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor


def _linear(x: float) -> float:
    return max(0.0, 1 - abs(x))


def _cubic(x: float) -> float:
    """Keys's cubic with a = -0.5, as in PIL."""
    x = abs(x)
    return (1.5 * x - 2.5) * x * x + 1 if x < 1 else ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0


def _matrix(size: int, count: int, scale: float, kernel: Callable[[float], float], reach: int) -> np.ndarray:
    """Weights [size, count]: each result is a mean over the window that it covers in the source."""
    wide = max(scale, 1.0)
    weights = np.zeros((size, count))
    for i in range(count):
        centre = scale * (i + 0.5)
        low, high = max(0, math.floor(centre - reach * wide + 0.5)), min(size, math.floor(centre + reach * wide + 0.5))
        weights[low:high, i] = [kernel((j + 0.5 - centre) / wide) for j in range(low, high)]
        weights[:, i] /= weights[:, i].sum()
    return weights


def _resized(kernel: Callable[[float], float], reach: int) -> Callable[..., Tensor]:
    def resized(
        x: Tensor, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Sequence[float] | None
    ) -> Tensor:
        """Products with a matrix along each dimension."""
        factors = scale_factors or (None, None)
        for axis, factor in zip((-2, -1), factors, strict=True):
            size = x.shape[axis]
            count = output_size[axis] if output_size else math.floor(size * (factor or 1))
            scale = 1 / factor if factor else size / count
            if align_corners:
                scale = (size - 1) / (count - 1) if count > 1 else 0.0
            matrix = torch.from_numpy(_matrix(size, count, scale, kernel, reach)).to(x.dtype)
            x = (x.transpose(axis, -1) @ matrix).transpose(axis, -1)
        return x

    return resized


RULES = {
    "_upsample_bilinear2d_aa.vec": _resized(_linear, 1),
    "_upsample_bicubic2d_aa.vec": _resized(_cubic, 2),
}
