"""What a step of a plan costs on a microcontroller, estimated before anything is built.

The figures are counts under QEMU over many layers, by form of a kernel (``prices.toml``; ``make prices`` measures them
anew). Nothing is measured here, so that the same plan has the same price everywhere.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from twinfer.runtime.graph import Tensor
from twinfer.runtime.options import Optimize
from twinfer.runtime.program import Call, Step
from twinfer.runtime.target import Target

#: The file of prices by ``form_of`` calls.
PRICES = Path(__file__).with_name("prices.toml")

#: What kernels begin with whose bodies all windows suit alike: pools, and Winograd's along a line.
_ALIKE = ("tw_average_pool", "tw_max_pool", "tw_l2_pool", "tw_conv2d_winograd_line")

#: Work per element that is read or written, in multiply-accumulates: loading, rescaling, clamping, storing.
WORK_PER_ELEMENT = 4

#: Instructions per unit of work where a form was not measured: of integers, of floats that the core computes, and of
#: floats that the compiler's library computes.
PACE, FLOAT_PACE, SOFT_PACE = 1.0, 2.5, 60.0


@dataclass(frozen=True)
class Price:
    """A form's bytes per specialised body and for the shared instance, and the instructions saved per output element.

    ``body`` is what a layer takes beyond one that calls the instance; the small ones are of code compiled for size.
    ``pace`` is the instructions per unit of work. A form that was not measured has the defaults.
    """

    body: float = 400
    instance: float = 1000
    small_body: float = 200
    small_instance: float = 700
    saved: float = 8
    pace: float = PACE

    def flash(self, optimize: Optimize) -> tuple[float, float]:
        """Bytes of a body and of the instance."""
        return (self.small_body, self.small_instance) if optimize == "size" else (self.body, self.instance)


def form_of(call: Call, target: Target) -> str:
    """The kernel, and what makes a layer's body much smaller: it takes windows where they lie, they are single pixels,
    or they go along one column. Floats have forms by how the target computes them."""
    return _kernel(call) + _windows(call) + _floats(call, target)


def _kernel(call: Call) -> str:
    """The kernel; fused floats cost what others do, uint8 and weights that leave int8 what int8 does."""
    return re.sub("_fused|_w16|_unsigned", "", call.kernel).replace("_again_mve", "_nine_mve")


def _windows(call: Call) -> str:
    if call.params.get("direct"):
        return "-direct"
    window = call.params.get("window")
    if not isinstance(window, Mapping) or call.kernel.startswith(_ALIKE):
        return ""
    if window["k_h"] == window["k_w"] == 1:
        return "-pixel"
    return "-column" if window["k_w"] == window["in_w"] == 1 else ""


def _floats(call: Call, target: Target) -> str:
    """How floats are computed: by Helium ("-mve"), by instructions of the core (nothing), or by the compiler's library
    ("-soft"), as on cores without DSP instructions."""
    if not _has_floats(call) or target.has("simd"):
        return ""
    return "-mve" if target.has("mve") else "-soft" if soft_floats(target) else ""


def soft_floats(target: Target) -> bool:
    """Whether the compiler's library computes floats."""
    return not any(map(target.has, ("simd", "mve", "dsp")))


def _has_floats(call: Call) -> bool:
    return any(isinstance(each, Tensor) and each.type == "FLOAT32" for each in (*call.read, *call.written))


def price_of(call: Call, target: Target) -> Price:
    """The price of the call's form; of its kernel where that has none; else the defaults."""
    floats = _floats(call, target)
    known = _prices().get(form_of(call, target)) or _prices().get(_kernel(call) + floats)
    return known or Price(pace=(SOFT_PACE if floats == "-soft" else FLOAT_PACE) if _has_floats(call) else PACE)


def instructions(steps: Iterable[Step], target: Target) -> float:
    """About how many instructions the steps take, each computed as a whole by a body of its own: within 30 % of what
    QEMU counts of the built-in models that the tests build."""
    return sum(price_of(step.call, target).pace * work(step) for step in steps)


def work(step: Step) -> int:
    """A measure of what a step does: the multiply-accumulates that it computes, and elements that it reads and writes.

    Decoded weights count as little as constant ones: not at all.
    """
    read = [value for value in step.call.read if value in step.node.inputs]
    return step.call.macs - step.call.skipped + WORK_PER_ELEMENT * (_elements(read) + outputs_of(step))


def outputs_of(step: Step) -> int:
    """Elements that a step writes."""
    return _elements(step.call.written)


def _elements(arguments: Iterable[object]) -> int:
    return sum(arg.size for arg in arguments if isinstance(arg, Tensor) and arg.data is None)


@cache
def _prices() -> Mapping[str, Price]:
    forms = tomllib.loads(PRICES.read_text(encoding="utf-8"))["forms"]
    return {form: Price(*figures) for form, figures in forms.items()}
