"""Large layers split over threads: each computes rows of its own with the same kernel, so that all bits stay."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from twinfer.kernels_c import ffi, lib
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array
from twinfer.runtime.plan.by_rows.layers import layer_of
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Layer, Step
from twinfer.runtime.run.buffers import aligned_bytes
from twinfer.runtime.run.chain_call import Address, rows_call

#: The multiply-accumulates of int8 from which on a part of a layer is worth a thread: several microseconds; beginning
#: one takes one or two. Those of float32 take at least twice as long.
LEAST, PER_FLOAT = 400_000, 2


class Pool:
    """Threads of one session, at most 64, and the calls that are split over them. They end when the session does."""

    def __init__(self, plan: Plan, threads: int, level: int) -> None:
        self._plan, self._threads, self._level = plan, min(threads, lib.TW_MAX_THREADS), level
        pool = lib.tw_pool_new(self._threads - 1)
        if pool == ffi.NULL:
            raise ToolError(f"there is no memory for {self._threads} threads")
        self._pool = ffi.gc(pool, lib.tw_pool_free)
        most = max(((step.call.rows_call or step.call).scratch for step in plan.steps), default=0)
        self._scratch = [aligned_bytes(most) for _ in range(self._threads)]
        self._keep: list[Any] = []

    def fill(self, slot: Any, step: Step, address: Address) -> bool:
        """Make ``slot`` the call of a step in parts; False, and nothing is done, if it is better whole."""
        layer = _layer(self._plan, step)
        work = step.call.macs * (PER_FLOAT if step.node.output.type == "FLOAT32" else 1)
        count = min(self._threads, layer.height, work // LEAST) if layer else 0
        if layer is None or count < 2:
            return False
        ends = [layer.height * i // count for i in range(count + 1)]
        rows = zip(pairwise(ends), self._scratch, strict=False)
        parts = [self._part(layer, each, scratch, address) for each, scratch in rows]
        split = {
            "call": rows_call(layer, address, self._level, 0, self._keep),
            "parts": self._new("tw_rows_part[]", parts),
            "count": count,
        }
        slot.fn, slot.params = ffi.addressof(lib, "tw_run_split"), self._new("tw_split *", split)
        slot.scratch = self._pool
        return True

    def _part(self, layer: Layer, rows: tuple[int, int], scratch: Array, address: Address) -> dict[str, Any]:
        """Rows of a layer, from the first to before the second, as a tw_rows_part."""
        first, end = rows
        low, high = layer.rows.needed(first, end, layer.sources[0][2])
        sources = [_at(address(t), low * (t.nbytes // height)) for _, t, height in layer.sources]
        return {
            "arena": ffi.cast("unsigned char *", ffi.from_buffer(scratch.data)),
            "y": _at(address(layer.out), first * layer.row_bytes),
            "x": sources,
            "first": first,
            "end": end,
            "low": low,
            "high": high,
        }

    def _new(self, type: str, value: Any) -> Any:
        self._keep.append(ffi.new(type, value))
        return self._keep[-1]


def _at(pointer: Any, offset: int) -> Any:
    return ffi.cast("unsigned char *", pointer) + offset


def _layer(plan: Plan, step: Step) -> Layer | None:
    """The step as a layer whose rows can be computed in any order; None if they cannot.

    Where its output lies over an input, a part may overwrite what another one still reads.
    """
    layer = layer_of(step)
    if isinstance(layer, str) or layer.rows.sums or layer.rows.flat or any(_meet(plan, layer)):
        return None
    return layer


def _meet(plan: Plan, layer: Layer) -> Iterator[bool]:
    at, out = plan.offsets, layer.out
    for _, tensor, _ in layer.sources:
        yield at[out] < at[tensor] + tensor.nbytes and at[tensor] < at[out] + out.nbytes
