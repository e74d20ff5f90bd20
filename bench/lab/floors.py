"""Instructions on Cortex-M4 by kind of layer, beside a floor: ``python -m twinfer.bench.lab.floors MODEL ... --json
FILE``.

A floor is what the instruction set forces on a kernel of that kind: multiplications, loads for which there is no
register, and the end of a sum. Loops, gathering of windows, borders and set-up come on top.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.price import build_steps
from twinfer.bench.measure.report import document
from twinfer.bench.models.source import load
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.price import outputs_of
from twinfer.runtime.program import Step
from twinfer.runtime.read.files import write_text
from twinfer.runtime.run.inputs import random_inputs


class Kind(NamedTuple):
    """What layers have in common: instructions that a multiply-accumulate and an output take at least; what makes the
    difference."""

    label: str
    mac: float
    output: float
    rest: str


#: What kernels are called -> their kind.
KINDS = {
    "tw_conv2d_halves_dsp": Kind(
        "convolution",
        8 / 12,
        3,
        "starts of six sums and their loop, 35 a tile; windows that are gathered; tiles in vain",
    ),
    "tw_conv2d_dsp": Kind(
        "convolution, packed weights", 9 / 12, 5.5, "the same, and ends of sums that leave registers"
    ),
    "tw_conv2d_winograd_dsp": Kind(
        "convolution, Winograd's", 8 / 36 * 8 / 6, 7.5, "transforms of inputs; sums that go through memory"
    ),
    "tw_depthwise": Kind(
        "depthwise", 0, 13, "ends and starts that registers do not hold; borders; 340 a channel before"
    ),
    "tw_fully_connected": Kind("dense", 31 / 32, 6.5, "starts of four sums and their loop, 23 in all"),
    "": Kind("others", 0, 0, "pooling, softmax, reshaping"),
}


def kind_of(step: Step) -> Kind:
    """The kind of a step's kernel."""
    return next(kind for name, kind in KINDS.items() if step.call.kernel.startswith(name))


def measured(name: str) -> Iterator[Row]:
    """A row per kind of layer of a model: layers, multiply-accumulates, outputs, instructions."""
    source, card = load(name), find("cortex-m4")
    plan = make_plan(source.graph, card.target, Options(optimize="speed", memory="layers"))
    counts = build_steps(emit(plan, "model"), card, random_inputs(plan.graph, 0)).counts
    kinds = defaultdict[Kind, list[tuple[int, ...]]](list)
    for step, count in zip(plan.steps, counts, strict=True):
        kinds[kind_of(step)].append((1, step.call.macs, outputs_of(step), count))
    for kind in (kind for kind in KINDS.values() if kind in kinds):
        layers, macs, outputs, instructions = map(sum, zip(*kinds[kind], strict=True))
        figures = {"layers": layers, "macs": macs, "outputs": outputs, "instructions": instructions}
        yield {"model": source.name, "kind": kind.label, **figures}


def table(told: Any) -> Sequence[Sequence[str]]:
    """One line per model and kind."""
    kinds = {kind.label: kind for kind in KINDS.values()}
    heads = ("layers", "multiply-accumulates", "instructions", "floor", "× floor", "beyond the floor")
    lines = [["Kinds of layers on Cortex-M4", *heads]]
    for row in told["rows"]:
        kind = kinds[row["kind"]]
        least = kind.mac * row["macs"] + kind.output * row["outputs"]
        both = [f"{least:,.0f}", f"{row['instructions'] / least:.2f}"] if least else ["-", "-"]
        name = f"{row['model'].removesuffix('_quantized').removeprefix('tflm_')}, {kind.label}"
        macs = f"{row['macs']:,}" if row["macs"] else "-"
        lines.append([name, f"{row['layers']}", macs, f"{row['instructions']:,}", *both, kind.rest])
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="twinfer.bench.lab.floors", description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--json", required=True)
    given = parser.parse_args()
    rows = [row for name in given.models for row in measured(name)]
    write_text(given.json, json.dumps(document(rows), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
