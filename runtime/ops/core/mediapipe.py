"""The options of MediaPipe's custom operators: a struct of int32, which begins with padding and strides.

Source: TfLiteTransposeConvParams and TfLitePoolParams of LiteRT's c/builtin_op_data.h, as MediaPipe's
util/tflite/operations reads them.
"""

from __future__ import annotations

import struct
from typing import Any

from twinfer.runtime.graph import Node
from twinfer.runtime.op import need

_PADDINGS = {1: "SAME", 2: "VALID"}
_ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")


def struct_options(node: Node, *, pools: bool) -> dict[str, Any]:
    """The options as TRANSPOSE_CONV has them or, with ``pools``, MAX_POOL_2D; ModelError for damaged ones."""
    content, count = bytes(node.extra.get("custom_options", b"")), 6 if pools else 3
    need(len(content) >= 4 * count, node, f"its custom options have {len(content)} bytes, at least {4 * count} of them")
    padding, stride_w, stride_h, *rest = struct.unpack_from(f"<{count}i", content)
    need(padding in _PADDINGS, node, f"its padding is {padding}, neither SAME (1) nor VALID (2)")
    need(stride_w > 0 and stride_h > 0, node, f"its strides are {stride_h} and {stride_w}; they must be positive")
    found = {"padding": _PADDINGS[padding], "stride_h": stride_h, "stride_w": stride_w}
    if not pools:
        return {**found, "fused_activation_function": "NONE"}
    width, height, activation = rest
    need(width > 0 and height > 0, node, f"its windows are {height} x {width}; they must be positive")
    need(0 <= activation < len(_ACTIVATIONS), node, f"its activation {activation} is none of {', '.join(_ACTIVATIONS)}")
    pooled = {"filter_height": height, "filter_width": width}
    return {**found, **pooled, "fused_activation_function": _ACTIVATIONS[activation]}
