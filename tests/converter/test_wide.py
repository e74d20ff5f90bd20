"""Operators without integer kernels of 16 bits: floats between integers, or spelled out where floats are dear."""

from __future__ import annotations

import numpy as np
import pytest

from twinfer.command_line.targets import machine
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion

SPELLED = {
    "HARD_SWISH": ["ADD", "MUL", "MUL"],
    "L2_NORMALIZATION": ["MUL", "SUM", "SQRT", "DIV"],
    "PRELU": ["RELU", "MINIMUM", "MUL", "ADD"],
}


@pytest.mark.parametrize("op", SPELLED)
def test_arithmetic_is_spelled_out_for_a_core_without_floats_alone(op: str) -> None:
    rng, b = np.random.default_rng(0), Builder("one")
    x = b.input("x", "FLOAT32", (1, 4, 4, 8))
    slopes = [rng.uniform(0, 0.3, (1, 1, 8)).astype(np.float32)] if op == "PRELU" else []
    graph = b.graph([b.op(op, [x, *slopes])])
    data = {"x": rng.normal(0, 2, (8, *x.shape)).astype(np.float32)}
    for core, ops in (("cortex-m4", ["DEQUANTIZE", op, "QUANTIZE"]), ("cortex-m3", SPELLED[op])):
        made = conversion(graph, quantize="int16x8", calibration=data, target=machine(core)[0])
        assert [node.op for node in made.graph.nodes] == ops
        assert made.quality is not None
        assert made.quality.snr_db > 60
