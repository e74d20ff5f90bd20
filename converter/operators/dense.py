"""Dense layers and products of matrices."""

from __future__ import annotations

from twinfer.converter.facts import INT8_AND_INT16, Parameters, Row, Scales
from twinfer.converter.operators._versions import ASYMMETRIC, INT8_2_INT16_3, hybrid, option, typed

ROWS = {
    "FULLY_CONNECTED": Row(
        # TFLM: one scale for INT4
        parameters=Parameters(weights=1, bias=2, summed=1, int4=True, int4_axis=False, bias_optional=True),
        hybrid=(1,),
        types=INT8_AND_INT16,
        scales=Scales(least=2**-12, imported=True),
        fuses=True,
        versions={"INT8": 4, "INT16": 7},
        needs=(
            (2, option("weights_format")),
            (3, hybrid()),
            (5, option("keep_num_dims")),
            (6, lambda node: len(node.inputs) == 2),
            (9, hybrid(setting=ASYMMETRIC)),
            (10, typed(1, "INT4")),
            (11, option("quantized_bias_type")),
            (12, hybrid(scale_per_channel=True)),
            (13, lambda node: typed(1, "INT4")(node) and typed(0, "INT16")(node)),
        ),
    ),
    "BATCH_MATMUL": Row(
        values=(0, 1),
        hybrid=(1,),
        types=INT8_AND_INT16,
        scales=Scales(imported=True),
        versions=INT8_2_INT16_3,
        needs=((4, hybrid(setting=ASYMMETRIC)),),
    ),
}
