"""A convolution of int16 and int8, band by band: kernels_c/conv/conv2d_wide_s16.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import bias, requantize
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._bands import Bands
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.requantize_s16 import Channels
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call


def call_s16(node: Node, window: Window, channels: Channels, block: int = 0) -> Call:
    """The call over the windows of the node's first input; ``block``: rows of outputs in a band, 0 for the usual."""
    bands = Bands(window, channels.weights, size=2, block=block)
    first, mult = (padded(np.tile(values, bands.times)) for values in (channels.bias, channels.mult))
    params: dict[str, Param] = {**bands.params, "end": {"zero": 0, **channels.limits}, "in_zero": 0, "fast": 0}
    return bands.call("tw_conv2d_wide_s16", node, params, (bias(first), requantize(mult)))
