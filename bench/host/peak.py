"""The most that a core of this machine does, measured by a small C program, and the time that no model can undercut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run import isa
from twinfer.runtime.target import FEATURES
from twinfer.runtime.tools import built, compiler_version, find_compiler, run_tool

SOURCE = Path(__file__).with_name("peak.c")


@dataclass(frozen=True)
class Peak:
    """Rates of one core: 10^9 multiply-accumulates a second of int8 and float32, 10^9 bytes a second out of L2."""

    int8: float
    float32: float
    l2: float

    def floor_us(self, plan: Plan) -> float:
        """Microseconds that a run takes at least: its multiplications at the peak, or its constants out of L2."""
        # neither activations nor weights are integers
        float_steps = [s for s in plan.steps if all(t is None or t.type == "FLOAT32" for t in s.node.inputs[:2])]
        floats = sum(step.call.macs for step in float_steps)
        multiplied = floats / self.float32 + (plan.macs - floats) / self.int8
        return max(multiplied, plan.constant_bytes / self.l2) / 1e3


@cache
def peak() -> Peak:
    """The rates of this machine at the level of instructions that the kernels use; takes a tenth of a second.

    ToolError if there is no C compiler.
    """
    compiler, features = find_compiler(), isa.this_computer().features
    known = (feature.options for feature in FEATURES.values() if feature.options and feature.name in features)
    command = (*compiler, "-std=gnu11", "-O2", "-ffp-contract=off", *next(known, ()), SOURCE.name, "-o", "peak")
    sources = {SOURCE.name: SOURCE.read_text(encoding="utf-8")}
    program = built(sources, command, "peak", compiler_version(compiler))
    return Peak(*map(float, run_tool([str(program)]).split()))
