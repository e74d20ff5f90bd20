"""A chain made ready to run: the C structs of its layers (kernels_c/run/chain.h and rows.h)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinfer import kernels_c
from twinfer.kernels_c import ffi, lib
from twinfer.runtime.plan.by_rows.chain_table import layer_values
from twinfer.runtime.plan.by_rows.row_params import members_of
from twinfer.runtime.plan.by_rows.rows import Link, goals
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Argument, Chain, Layer


class ChainCall:
    """The structs of one chain: ``fn``, ``params`` and ``out`` of a tw_call whose scratch is the chain's arena.

    ``address`` gives the pointer of a constant or tensor, ``level`` chooses the instruction-set level of the kernels.
    """

    def __init__(self, plan: Plan, chain: Chain, address: Callable[[Argument], Any], level: int) -> None:
        self._plan, self._chain, self._address, self._level = plan, chain, address, level
        self._keep: list[Any] = []
        layers, whole = [self._link(link) for link in chain.links], goals(chain)
        self.fn = ffi.addressof(lib, "tw_run_feed" if chain.feed else "tw_run_chain")
        self.params = self._new(
            "tw_chain *",
            {
                "layers": self._new("tw_rows_layer[]", layers),
                "goals": self._new("int32_t[]", whole),
                "count": len(layers),
                "goal_count": len(whole),
                "backwards": int(chain.backwards),
                "wanted": chain.feed.wanted if chain.feed else 0,
            },
        )
        own = address(chain.progress) if chain.progress else self._new("tw_rows_progress[]", len(layers))
        self.out = self._new("void *[]", [own])

    def _new(self, type: str, value: Any) -> Any:
        self._keep.append(ffi.new(type, value))
        return self._keep[-1]

    def _link(self, link: Link) -> dict[str, Any]:
        run = {"run": ffi.NULL, "context": ffi.NULL}
        if isinstance(link, Layer):
            run = {"run": ffi.addressof(lib, "tw_run_rows"), "context": self._call(link)}
        values = layer_values(self._plan, self._chain, link)
        return run | values | {"source": self._new("tw_rows_source[]", values["source"])}

    def _call(self, layer: Layer) -> Any:
        """The layer's tw_rows_call."""
        step, call = layer.step, layer.step.call
        moving = [place for place, _, _ in layer.sources]
        constants = [ffi.NULL if i in moving else self._address(argument) for i, argument in enumerate(call.inputs)]
        params = kernels_c.new_params(call.kernel, call.params)
        self._keep.append(params)
        struct = kernels_c.params_type(call.kernel)
        members = [
            {"at": ffi.offsetof(struct, *each.path), "low": each.low, "high": each.high, "each": each.each}
            for each in members_of(layer)
        ]
        return self._new(
            "tw_rows_call *",
            {
                "kernel": kernels_c.kernel(call.kernel, self._level),
                "params": params,
                "in": ffi.cast("const void *const *", self._new("void *[]", constants)),
                "members": self._new("tw_rows_member[]", members),
                "bytes": ffi.sizeof(struct),
                "inputs": len(constants),
                "member_count": len(members),
                "scratch": self._plan.places[step.scratch].offset if step.scratch is not None else 0,
                "sources": len(moving),
                "places": moving,
            },
        )
