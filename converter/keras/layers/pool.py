"""Pooling over windows, and over whole images or sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.keras.call import Call
from twinfer.converter.keras.layers._window import as_image, both, extents
from twinfer.runtime.graph import Tensor

Importer = Callable[[Emitter, Call], Tensor]


def _pool(op: str) -> Importer:
    def run(g: Emitter, call: Call) -> Tensor:
        call.channels_last()
        kernel, strides = both(call.layer.pool_size), both(call.layer.strides)
        padding = "SAME" if call.layer.padding == "same" else "VALID"
        options: dict[str, Any] = {
            "filter_height": kernel[0],
            "filter_width": kernel[1],
            "stride_h": strides[0],
            "stride_w": strides[1],
        }

        def pooled(x: Tensor) -> Tensor:
            size = extents(x.shape[1:3], kernel, strides, (1, 1), padding)
            return g.emit(op, [x], (x.shape[0], *size, x.shape[3]), padding=padding, **options)

        return as_image(g, call.input(), pooled)

    return run


def _everywhere(op: str) -> Importer:
    def run(g: Emitter, call: Call) -> Tensor:
        call.channels_last()
        x, keep = call.input(), bool(call.layer.keepdims)
        axes = np.arange(1, len(x.shape) - 1, dtype=np.int32)
        return g.emit(op, [x, axes], call.shape, keep_dims=keep)

    return run


IMPORTERS: dict[str, Importer] = {}
for _kind, _over, _op in (("Average", "AVERAGE_POOL_2D", "MEAN"), ("Max", "MAX_POOL_2D", "REDUCE_MAX")):
    for _rank in ("1D", "2D"):
        IMPORTERS[f"{_kind}Pooling{_rank}"] = _pool(_over)
        IMPORTERS[f"Global{_kind}Pooling{_rank}"] = _everywhere(_op)
