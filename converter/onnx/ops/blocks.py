"""Weights of few bits in blocks, each with a scale: what ONNX Runtime's quantisers of weights alone write."""

from __future__ import annotations

import numpy as np

from twinfer.converter.emit import products
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx.node import Importer, OnnxNode
from twinfer.converter.onnx.ops.microsoft import named, plus
from twinfer.converter.quantize.hybrid import remembering
from twinfer.runtime.graph import Array, Tensor

#: What 4 bits stand for in MatMulBnb4, by ``quant_type``: 0 has floats of 4 bits, 1 steps of a normal distribution.
FP4 = (0, 0.00520833, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25)
NF4 = (
    *(-1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0),
    *(0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1),
)
BNB4 = (np.array((*FP4, *(-v for v in FP4)), np.float32), np.array(NF4, np.float32))


def _unpacked(data: Array, bits: int) -> Array:
    """Unsigned integers [rows, values] of bytes [rows, bytes], the lowest bits first."""
    shifts = np.arange(0, 8, bits)
    return ((data[..., None] >> shifts) & ((1 << bits) - 1)).reshape(*data.shape[:-1], -1)


def matmul_n_bits(g: Emitter, node: OnnxNode) -> Tensor:
    """Weights of 2, 4 or 8 bits in blocks along the depth. With one block they are TFLite's int8, else floats: TFLite's
    kernels here have a scale per channel, not per block."""
    depth, out, bits, block = (
        int(node.attribute(key, v)) for key, v in (("K", 0), ("N", 0), ("bits", 4), ("block_size", 32))
    )
    node.need(bits in (2, 4, 8) and node.optional(4) is None, f"{bits} bits or reordered groups; export with 4 bits")
    count = -(-depth // block)
    data, scales, zero = np.asarray(node.constant(1)), np.asarray(node.constant(2), np.float32), node.constant(3)
    steps = _unpacked(data.reshape(out, -1), bits)[:, : count * block].reshape(out, count, -1).astype(np.float32)
    if zero is None:
        zeros: Array = np.full((out, count, 1), 1 << (bits - 1), np.float32)
    elif zero.dtype == np.uint8:
        zeros = _unpacked(zero.reshape(out, -1), bits)[:, :count, None].astype(np.float32)
    else:
        zeros = np.asarray(zero, np.float32).reshape(out, count, 1)
    steps = (steps - zeros).reshape(out, -1)[:, :depth]
    if count == 1 and (steps == np.rint(steps)).all() and np.abs(steps).max(initial=0) < 128:
        steps = (steps * np.sign(scales.reshape(out, 1))).T.astype(np.int8)  # scales may be negative
        whole = Tensor(f"{g.place}/weights", "INT8", steps.shape, data=steps)
        y = products.matmul(g, node.input(0), remembering(whole, np.abs(scales), None, 1))
    else:
        weights = steps * np.repeat(scales.reshape(out, count), block, 1)[:, :depth]
        g.in_blocks[g.place] = data.size
        y = products.linear(g, node.input(0), weights.T, None)
    return plus(g, y, node.optional(5))


def matmul_bnb4(g: Emitter, node: OnnxNode) -> Tensor:
    """Weights of 4 bits that index a table, in blocks of the whole matrix [out, depth], the higher bits first: floats
    here."""
    depth, out, block = (int(node.attribute(key, 0)) for key in ("K", "N", "block_size"))
    data = np.asarray(node.constant(1)).reshape(-1)
    values = BNB4[int(node.attribute("quant_type", 0)) & 1][np.stack([data >> 4, data & 15], 1).reshape(-1)]
    scales = np.repeat(np.asarray(node.constant(2), np.float32).reshape(-1), block)[: depth * out]
    g.in_blocks[g.place] = data.size
    return products.linear(g, node.input(0), (values[: depth * out] * scales).reshape(out, depth).T, None)


def gather_block_quantized(g: Emitter, node: OnnxNode) -> Tensor:
    """Rows of a table of integers, dequantised after they were taken: the table stays int8."""
    data, at, scale, zero = np.asarray(node.constant(0)), node.input(1), node.constant(2), node.constant(3)
    bits, block = int(node.attribute("bits", 4)), int(node.attribute("block_size", 128))
    node.need(node.optional(0) is not None and scale is not None, "a table without scales")
    scales, narrow = np.asarray(scale, np.float32), node.input(0).extra.get("narrow")
    packed = data.dtype == np.uint8 and narrow is None
    rows = _unpacked(data, bits) if packed else data
    middle = 1 << (bits - 1) if packed else 0
    zeros = np.full(scales.shape, middle, np.int32)
    if zero is not None:
        zeros = (_unpacked(zero, bits)[..., : scales.shape[-1]] if packed else zero).astype(np.int32)
    rank, along = len(rows.shape), int(node.attribute("quantize_axis", 1)) % len(rows.shape)
    node.need(int(node.attribute("gather_axis", 0)) == 0 and along == rank - 1 > 0, "blocks along other dimensions")
    whole = np.repeat(zeros, block, -1)[..., : rows.shape[-1]]
    steps = rows.astype(np.int32) - (whole if bits < 8 else middle)
    real = g.cast(g.gather(g.known(steps.astype(np.int8)), at, 0), "FLOAT32")
    places = np.arange(rows.shape[-1]) // block
    if bits == 8 and (zeros != middle).any():
        off = g.gather(g.known((zeros - middle).astype(np.float32)), at, 0)
        real = g.binary("SUB", real, _spread(g, off, places))
    return g.binary("MUL", real, _spread(g, g.gather(g.known(scales), at, 0), places))


def _spread(g: Emitter, x: Tensor, places: Array) -> Tensor:
    """One number per block as one per element of the last dimension."""
    return x if x.shape[-1] == 1 else g.gather(x, places, len(x.shape) - 1)


IMPORTERS: dict[str, Importer] = named(
    {
        "GatherBlockQuantized": gather_block_quantized,
        "MatMulBnb4": matmul_bnb4,
        "MatMulNBits": matmul_n_bits,
    }
)
