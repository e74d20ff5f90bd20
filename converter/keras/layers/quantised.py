"""What quantisation-aware training leaves in a model: values rounded to the integers of a range."""

from __future__ import annotations

import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.keras.call import Call, numbers
from twinfer.runtime.graph import Quant, Tensor


def fake_quant(g: Emitter, call: Call) -> Tensor:
    """QUANTIZE and DEQUANTIZE, so that the range that was trained stays known. The range is moved so that 0 is an
    integer. Source: TensorFlow's fake_quant_with_min_max_vars."""
    own, x = call.layer, call.input()
    low, high = (call.argument(i, name) for i, name in ((1, "min_vals"), (2, "max_vals")))
    call.need(
        not isinstance(low, Tensor) and not isinstance(high, Tensor), "a range that is an input; give it as numbers"
    )
    low, high = (numbers(v).astype(np.float64).reshape(-1) for v in (low, high))
    call.need(
        own.num_bits == 8 and low.size == high.size == 1, "another range than one of 8 bits; use one for all values"
    )
    least = 1 if own.narrow_range else 0
    scale = float(high[0] - low[0]) / (255 - least)
    zero = int(np.clip(np.round(least - low[0] / scale), least, 255))
    y = g.quantized("QUANTIZE", x, "INT8", Quant.per_tensor(scale, zero - 128))
    return g.emit("DEQUANTIZE", [y], x.shape, "FLOAT32")


IMPORTERS = {"ops.FakeQuantWithMinMaxVars": fake_quant}
