"""Where a sliding window (pooling, convolution) starts and how often it fits."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.op import need

_TOO_LARGE = 1 << 30  # sums of two must fit int32


def window(node: Node, extent_in: int, kernel: int, stride: int, dilation: int, padding: str) -> tuple[int, int]:
    """Output extent and padding before the first element, along one axis.

    SAME pads so that every ``stride``-th element gets a window, the odd element of padding behind; VALID does not pad.
    Raises ModelError where nothing fits. Source: TFLM padding.h, ComputeOutSize and ComputePaddingWithOffset.
    """
    sizes = {"input": extent_in, "filter": kernel, "stride": stride, "dilation": dilation}
    for what, size in sizes.items():
        need(size >= 1, node, f"{what} of {size} along a spatial axis: it must be at least 1")
    need(padding in ("SAME", "VALID"), node, f"padding {padding!r} is neither SAME nor VALID")
    reach = (kernel - 1) * dilation + 1
    need(max(extent_in, stride, reach) < _TOO_LARGE, node, f"filter {reach} or stride {stride} is absurdly large")
    if padding == "SAME":
        out = -(-extent_in // stride)
        return out, max(0, (out - 1) * stride + reach - extent_in) // 2
    need(reach <= extent_in, node, f"a window of {reach} does not fit an input of {extent_in} without padding")
    return (extent_in - reach) // stride + 1, 0
