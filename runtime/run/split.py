"""Large layers of the interpreter, split over threads."""

from __future__ import annotations

from typing import Any

from twinfer.kernels_c import ffi, lib
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array
from twinfer.runtime.plan import split
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Layer, Step
from twinfer.runtime.run.buffers import aligned_bytes
from twinfer.runtime.run.chain_call import Address, rows_call


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
        layer = split.split_of(step, self._threads)
        if layer is None or not split.apart(self._plan, layer):
            return False
        starts = range(0, layer.height, layer.band)
        parts = [self._part(layer, *each, address) for each in zip(starts, self._scratch, strict=False)]
        whole = {
            "call": rows_call(layer, address, self._level, 0, self._keep),
            "parts": self._new("tw_rows_part[]", parts),
            "count": len(parts),
        }
        slot.fn, slot.params = ffi.addressof(lib, "tw_run_split"), self._new("tw_split *", whole)
        slot.scratch = self._pool
        return True

    def _part(self, layer: Layer, first: int, scratch: Array, address: Address) -> dict[str, Any]:
        """The rows of a part of a layer, from the first on, as a tw_rows_part."""
        end = min(first + layer.band, layer.height)
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
