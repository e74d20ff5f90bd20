"""A convolution band by band, some rows of outputs at once: what the kernels of kernels_c/conv/conv2d_wide.h share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twinfer.runtime.constant import Constant, bias, requantize, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.packing import LANES_EIGHTS, LANES_HALVES, LANES_S8, pack_lanes, padded
from twinfer.runtime.ops.core.requantize_s16 import Channels
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument, Call, Weights

#: Output channels that share a vector with those of the next pixel; TW_CONV_PLACES, to a multiple of which places of
#: pixels are filled up; bytes of the image that a band may see.
PAIRED, PLACES, BAND = 8, 24, 1 << 14

#: Values of a lane that are multiplied at once -> the layout of weights.
LAYOUTS = {2: LANES_HALVES, 4: LANES_S8, 8: LANES_EIGHTS}


def is_dense(g: Window) -> bool:
    """Whether there is one window an image, all of it: a FULLY_CONNECTED, which needs no copy of windows."""
    return g.out_h == g.out_w == 1 and (g.pad_h, g.pad_w, g.k_h, g.k_w) == (0, 0, g.in_h, g.in_w)


def block_sizes(g: Window) -> tuple[int, ...]:
    """Rows of outputs in a band that may be better than the usual ones."""
    return () if is_dense(g) else (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, eq=False)
class Bands:
    """How a convolution with int8 weights [out_c, k_h * k_w * in_c] is cut.

    ``size`` is the bytes of a value in the copy of a band, 1 or 2; ``block`` the rows of outputs in a band, 0 for what
    is usually best; ``step`` the bytes whose products a lane adds at once, and
    ``stored`` those of a weight, 0 for as many as of a value.
    """

    window: Window
    rows: Array
    size: int = 1
    block: int = 0
    step: int = 4
    stored: int = 0

    @property
    def times(self) -> int:
        """How often a vector has every channel: twice where it holds two pixels side by side."""
        return 2 if self.step == 4 and self.window.out_c == PAIRED and self.window.out_w % 2 == 0 else 1

    @property
    def _taps(self) -> int:
        """Runs of bytes in a row of a window's taps."""
        return self.window.k_w if self.window.dilation_w > 1 else 1

    @cached_property
    def _runs(self) -> Array:
        """The weights as rows of runs, [out_c, k_h * taps, run]."""
        g, taps = self.window, self._taps
        return padded(self.rows.reshape(g.out_c, g.k_h * taps, -1), self.step // self.size, axis=2)

    @property
    def _columns(self) -> int:
        g = self.window
        return max(g.pad_w + g.in_w, (g.out_w - 1) * g.stride_w + (g.k_w - 1) * g.dilation_w + 1)

    @property
    def _row(self) -> int:
        """Bytes of a row's copy."""
        return self._columns * self.window.in_c * self.size

    @cached_property
    def _band(self) -> int:
        """Rows of outputs at once, all bands about as many: what they see is within ``BAND`` bytes."""
        g = self.window
        most = max(1, (BAND // self._row - self._seen(1)) // g.stride_h + 1)
        return min(self.block, g.out_h) or -(-g.out_h // -(-g.out_h // most))

    def _seen(self, rows: int) -> int:
        """Rows of the image that some rows of outputs see, its padding among them."""
        return (rows - 1) * self.window.stride_h + (self.window.k_h - 1) * self.window.dilation_h + 1

    @property
    def _run(self) -> int:
        """Bytes of a run of taps."""
        return self.size * int(self._runs.shape[2])

    @property
    def params(self) -> dict[str, Param]:
        """Those of the window and of the bands."""
        tile = {"run": self._run, "runs": self._taps, "columns": self._columns}
        return {"window": self.window.params, **tile, "band": self._band, "pair": self.times - 1}

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory."""
        g = self.window
        places, steps = -(-self._band * g.out_w // PLACES) * PLACES, g.k_h * self._taps * self._run // 4
        return 4 * (places + steps) + self._seen(self._band) * self._row + 16

    @property
    def places(self) -> Array:
        """The bytes from the beginning of a window to each step of its taps, [steps]."""
        g, pixel = self.window, self.window.in_c * self.size
        rows = np.arange(g.k_h)[:, None, None] * g.dilation_h * self._row
        taps = np.arange(self._taps)[:, None] * g.dilation_w * pixel
        return np.asarray((rows + taps + np.arange(0, self._run, 4)).reshape(-1))

    @property
    def packed(self) -> Constant:
        """The weights as a lane takes them: ``step`` bytes at once."""
        runs, at_once = self._runs.reshape(self.window.out_c, -1), self.step // self.size
        runs = np.tile(runs, (self.times, 1)) if self.times > 1 else runs
        return weights(pack_lanes(runs.astype(f"i{self.stored or self.size}", copy=False), at_once), LAYOUTS[at_once])

    def call(self, kernel: str, node: Node, params: Mapping[str, Param], ends: tuple[Constant, ...]) -> Call:
        """The call of a kernel; ``ends``: bias and whatever else its channels have."""
        inputs: tuple[Argument, ...] = (node.input(0), self.packed, *ends)
        macs, rows = self.window.pixels * self.rows.size, self.window.by_rows()
        return Call(kernel, params, inputs, (node.output,), self.scratch, macs=macs, weights=Weights(), rows=rows)


def call_s16(node: Node, window: Window, channels: Channels, block: int = 0) -> Call:
    """The call over the windows of the node's first input: kernels_c/conv/conv2d_wide_s16.h.

    ``block`` is the rows of outputs in a band, 0 for what is usually best.
    """
    bands = Bands(window, channels.weights, size=2, block=block)
    first, mult = (padded(np.tile(values, bands.times)) for values in (channels.bias, channels.mult))
    params: dict[str, Param] = {**bands.params, "end": {"zero": 0, **channels.limits}, "in_zero": 0, "fast": 0}
    return bands.call("tw_conv2d_wide_s16", node, params, (bias(first), requantize(mult)))
