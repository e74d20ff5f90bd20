"""Large layers split over threads: each part computes rows of its own with the same kernel, so that all bits stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.by_rows.layers import layer_of
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.solve.puzzle import aligned
from twinfer.runtime.program import Layer, Step

#: The multiply-accumulates of int8 from which on a part of a layer is worth a thread: a few microseconds; beginning
#: one takes one or two. Those of float32 take at least twice as long.
LEAST, PER_FLOAT = 200_000, 2

#: Scratch memory of a part begins at a multiple of so many bytes: a cache line that two threads write is slow.
LINE = 64


def split_of(step: Step, threads: int) -> Layer | None:
    """The step as a layer whose ``band`` is the rows of a part, one for each thread; None if it is better whole."""
    work = step.call.macs * (PER_FLOAT if step.node.output.type == "FLOAT32" else 1)
    if min(threads, work // LEAST) < 2:
        return None
    layer = layer_of(step)
    if isinstance(layer, str) or layer.rows.sums or layer.rows.flat:
        return None
    count = min(threads, layer.height, work // LEAST)
    return replace(layer, band=-(-layer.height // count))


def parts_of(layer: Layer) -> int:
    """How many parts a split layer has; the last may have fewer rows."""
    return -(-layer.height // layer.band)


def apart(plan: Plan, layer: Layer) -> bool:
    """Whether parts may run at once: where an output lies over an input, one may overwrite what another still reads."""
    return not any(_meet(plan, layer))


def _meet(plan: Plan, layer: Layer) -> Iterator[bool]:
    at, out = plan.offsets, layer.out
    for _, tensor, _ in layer.sources:
        yield at[out] < at[tensor] + tensor.nbytes and at[tensor] < at[out] + out.nbytes


def with_scratch(step: Step, threads: int) -> Step:
    """The step with scratch memory for each of its parts, ``scratch_of`` bytes apart, if it is split."""
    layer = split_of(step, threads)
    if layer is None:
        return step
    each = scratch_of(layer)
    scratch = Tensor(f"scratch of {step.node}, in parts", "INT8", (parts_of(layer) * each,)) if each else None
    return replace(layer.step, scratch=scratch)


def scratch_of(layer: Layer) -> int:
    """Bytes from the scratch memory of one part to that of the next."""
    return aligned(layer.step.call.scratch, LINE)
