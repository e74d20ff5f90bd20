"""Small networks of kinds that run on microcontrollers, in PyTorch, for tests of ``from_torch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Net = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Residual(nn.Module):
    """ResNet's basic block, with a projection where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        self.short = nn.Identity() if stride == 1 and before == after else short

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.short(x))


def resnet() -> Net:
    stem = [nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU()]
    blocks = [Residual(8, 8, 1), Residual(8, 16, 2)]
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 5)]
    return nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1), *blocks, *end), (torch.randn(1, 3, 16, 16),)


class Squeeze(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = x.mean((2, 3), keepdim=True)
        return x * F.hardsigmoid(self.up(F.relu(self.down(pooled))))


class Inverted(nn.Module):
    """MobileNetV2's inverted residual, and V3's with Hardswish and squeeze and excitation."""

    def __init__(self, channels: int, activation: Callable[[], nn.Module], squeeze: bool) -> None:
        super().__init__()
        wide = 3 * channels
        self.body = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), activation(),
            nn.Conv2d(wide, wide, 3, 1, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), activation(),
            *([Squeeze(wide)] if squeeze else []),
            nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


def mobilenet() -> Net:
    blocks = [Inverted(8, nn.ReLU6, False), Inverted(8, nn.Hardswish, True)]
    stem = [nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(8, 4)), (
        torch.randn(1, 3, 16, 16),
    )


def ds_cnn() -> Net:
    """Keyword spotting, as in MLPerf Tiny."""
    layers: list[nn.Module] = [nn.Conv2d(1, 8, (10, 4), (2, 2), (5, 1)), nn.BatchNorm2d(8), nn.ReLU()]
    for _ in range(2):
        layers += [nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.BatchNorm2d(8), nn.ReLU()]
        layers += [nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*layers, nn.AvgPool2d((13, 5)), nn.Flatten(), nn.Linear(8, 12), nn.Softmax(1)), (
        torch.randn(1, 1, 25, 10),
    )


def motion() -> Net:
    """One-dimensional convolutions over six axes of motion."""
    conv = [nn.Conv1d(6, 8, 5, padding=2), nn.BatchNorm1d(8), nn.LeakyReLU(0.1), nn.MaxPool1d(2)]
    more = [nn.Conv1d(8, 8, 3, dilation=2), nn.PReLU(8), nn.AvgPool1d(2), nn.AdaptiveAvgPool1d(1)]
    return nn.Sequential(*conv, *more, nn.Flatten(), nn.Linear(8, 3)), (torch.randn(1, 6, 32),)


class Sequence(nn.Module):
    """The last state of an LSTM or GRU, classified."""

    def __init__(self, cell: nn.Module, features: int) -> None:
        super().__init__()
        self.cell, self.head = cell, nn.Linear(features, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.cell(x)
        result: torch.Tensor = self.head(y[:, -1])
        return result


def lstm() -> Net:
    return Sequence(nn.LSTM(4, 6, 2, batch_first=True), 6), (torch.randn(1, 5, 4),)


def gru() -> Net:
    return Sequence(nn.GRU(4, 6, batch_first=True, bidirectional=True), 12), (torch.randn(2, 5, 4),)


def transformer() -> Net:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu", norm_first=True)
    return nn.Sequential(nn.Linear(6, 8), layer, nn.LayerNorm(8)), (torch.randn(1, 7, 6),)


class UNet(nn.Module):
    """Two levels; the way up by a transposed convolution, nearest and bilinear interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up, self.mix = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 4, 3, padding=1)
        self.out = nn.Conv2d(12, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = F.relu(self.down(x))
        second = F.relu(self.deep(F.max_pool2d(first, 2)))
        up = F.relu(self.mix(torch.cat([self.up(second), first], 1)))
        near = F.interpolate(second[:, :4], scale_factor=2)
        smooth = F.interpolate(second[:, 4:], scale_factor=2, mode="bilinear", align_corners=False)
        return torch.sigmoid(self.out(torch.cat([up, near, smooth], 1)))


def unet() -> Net:
    return UNet(), (torch.randn(1, 2, 8, 8),)


#: Name -> function that makes the network; ``trained`` sets batch statistics.
NETS: dict[str, Callable[[], Net]] = {
    f.__name__: f for f in (resnet, mobilenet, ds_cnn, motion, lstm, gru, transformer, unet)
}


def trained(make: Callable[[], Net]) -> Net:
    """The network in evaluation mode, with batch statistics as after training; the same each time."""
    torch.manual_seed(7)
    net, inputs = make()
    with torch.no_grad():
        for part in net.modules():
            if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
                values: dict[str, Any] = {"running_mean": torch.randn, "running_var": torch.rand}
                for name, draw in values.items():
                    getattr(part, name).copy_(draw(part.num_features) * 0.5 + 0.2)
    return net.eval(), inputs
