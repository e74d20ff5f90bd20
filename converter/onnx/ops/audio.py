"""Fourier transforms. Windows and mel matrices depend on constants alone and are computed ahead."""

from __future__ import annotations

from twinfer.converter.emit import audio
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx.node import OnnxNode, positive
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor


def _number(node: OnnxNode, i: int, default: int) -> int:
    """Constant input ``i``."""
    value = node.constant(i)
    return default if value is None or not value.size else int(value.reshape(-1)[0])


def _parts(g: Emitter, node: OnnxNode) -> list[Tensor]:
    """The real part of input 0 [..., 1 or 2] and the imaginary one, if there is one."""
    x = node.input(0)
    *lead, count = x.shape
    if count not in (1, 2) or not lead:
        raise ModelError(f"{node}: {x} must end with a dimension of 1 or 2, real and imaginary part")
    return [g.reshape(g.part(x, [*[0] * len(lead), i], (*lead, 1)), lead) for i in range(count)]


def dft(g: Emitter, node: OnnxNode) -> Tensor:
    """``onesided`` keeps the first half of the results; of an inverse transform it has the first half as input, and
    real results."""
    parts, inverse = _parts(g, node), bool(node.attribute("inverse", 0))
    onesided, rank = bool(node.attribute("onesided", 0)), len(node.input(0).shape)
    given = int(node.attribute("axis", 1)) if node.opset < 20 else _number(node, 2, -2)
    axis = positive(node, given, rank)
    if axis == rank - 1:
        raise ModelError(f"{node}: axis {given} is that of real and imaginary part")
    size = parts[0].shape[axis]
    length = _number(node, 1, 2 * (size - 1) if inverse and onesided else size)
    if length < 1:
        raise ModelError(f"{node}: a transform of length {length} does not exist")
    order = [*(i for i in range(rank - 1) if i != axis), axis]
    moved = [g.transpose(part, order) for part in parts]
    back = [order.index(i) for i in range(rank - 1)]
    if inverse and onesided:
        zeros = g.binary("SUB", moved[0], moved[0]) if len(moved) == 1 else moved[1]
        y = g.transpose(audio.irfft(g, moved[0], zeros, length), back)
        return g.reshape(y, (*y.shape, 1))
    bins = length // 2 + 1 if onesided else length
    y = audio.dft(g, *(audio.fit(g, part, length) for part in moved), bins=bins, inverse=inverse)
    # [..., 2, bins] -> bins in their place, the two parts last
    return g.transpose(y, [*(i if i < rank - 2 else rank - 1 for i in back), rank - 2])


def stft(g: Emitter, node: OnnxNode) -> Tensor:
    """[batch, samples, 1 or 2] -> [batch, frames, bins, 2]."""
    parts, window = _parts(g, node), node.optional(2)
    hop, frame = _number(node, 1, 0), _number(node, 3, window.shape[0] if window else 0)
    if frame < 1 or hop < 1 or (window is not None and window.shape != (frame,)):
        raise ModelError(f"{node}: frames of {frame} samples, {hop} apart, with the window {window}")
    bins = frame // 2 + 1 if node.attribute("onesided", 1) else frame
    cut = [audio.frames(g, part, frame, hop) for part in parts]
    seen = cut if window is None else [g.binary("MUL", part, window) for part in cut]
    return g.transpose(audio.dft(g, *seen, bins=bins), (0, 1, 3, 2))


IMPORTERS = {"DFT": dft, "STFT": stft}
