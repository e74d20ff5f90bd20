"""Convolutions."""

from __future__ import annotations

from twinfer.converter.facts import INT8_AND_INT16, Parameters, Row, Scales
from twinfer.converter.operators._versions import hybrid, option, typed

#: Kernels refuse a multiplier below this.
_SCALES = Scales(least=2**-12, imported=True)

ROWS = {
    "CONV_2D": Row(
        parameters=Parameters(weights=1, bias=2, summed=3, int4=True),
        hybrid=(1,),
        types=INT8_AND_INT16,
        scales=_SCALES,
        image=True,
        fuses=True,
        padding="zero",
        versions={"INT8": 3, "INT16": 4},
        needs=(
            (2, hybrid()),
            (5, hybrid(scale_per_channel=True)),
            (6, lambda node: node.input(0).shape[-1] != node.input(1).shape[-1]),  # groups
            (7, typed(1, "INT4")),
            (8, option("quantized_bias_type")),
        ),
    ),
    "DEPTHWISE_CONV_2D": Row(
        parameters=Parameters(weights=1, bias=2, axis=3, summed=3, int4=True),
        hybrid=(1,),
        types=INT8_AND_INT16,
        scales=_SCALES,
        image=True,
        fuses=True,
        padding="zero",
        versions={"INT8": 3, "INT16": 5},
        needs=(
            (2, lambda node: any(node.options.get(f"dilation_{side}_factor", 1) != 1 for side in "wh")),
            (4, hybrid()),
            (6, hybrid(scale_per_channel=True)),
            (7, typed(1, "INT4")),
        ),
    ),
    "TRANSPOSE_CONV": Row(
        values=(2,),
        parameters=Parameters(weights=1, bias=3),
        hybrid=(1,),
        types=INT8_AND_INT16,
        scales=_SCALES,
        image=True,
        fuses=True,
        versions={"INT8": 2, "INT16": 3},
        needs=(
            (3, lambda node: node.optional(3) is not None),
            (4, option("fused_activation_function")),
            (5, option("quantized_bias_type")),
        ),
    ),
    "CONV_3D": Row(parameters=Parameters(weights=1, bias=2, axis=4), fuses=True),
    "CONV_3D_TRANSPOSE": Row(values=(2,), parameters=Parameters(weights=1, bias=3, axis=3), fuses=True),
}
