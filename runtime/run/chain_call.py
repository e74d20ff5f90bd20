"""A chain made ready to run: the C structs of its layers (kernels_c/run/chain.h and rows.h)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinfer import kernels_c
from twinfer.kernels_c import ffi, lib
from twinfer.runtime.plan.by_rows.chain_table import ChainTable, Entry
from twinfer.runtime.plan.by_rows.row_params import members_of
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Argument, Chain, Layer

#: The pointer of a constant or tensor.
Address = Callable[[Argument], Any]


class ChainCall:
    """The structs of one chain: ``fn``, ``params``, ``inputs`` and ``out`` of a tw_call whose scratch is its arena.

    ``address`` gives the pointer of a constant or tensor, ``level`` chooses the instruction-set level of the kernels.
    """

    def __init__(self, plan: Plan, chain: Chain, address: Address, level: int) -> None:
        self._plan, self._chain, self._address, self._level = plan, chain, address, level
        self._keep: list[Any] = []
        table = ChainTable(plan, chain)
        layers = [self._layer(entry) for entry in table.entries]
        self.fn = ffi.addressof(lib, _runs(chain))
        self.params = self._new("tw_chain *", {"layers": self._new("tw_rows_layer[]", layers), **table.counts})
        own = address(chain.progress) if chain.progress else self._new("tw_rows_progress[]", len(layers))
        self.out = self._new("void *[]", [own])
        borrowed = plan.borrowed
        self.inputs = self._new("void *[]", [address(borrowed) if borrowed in table.given else ffi.NULL])

    def _new(self, type: str, value: Any) -> Any:
        self._keep.append(ffi.new(type, value))
        return self._keep[-1]

    def _layer(self, entry: Entry) -> dict[str, Any]:
        run = {"run": ffi.NULL, "context": ffi.NULL}
        if isinstance(entry.link, Layer):
            step = entry.link.step
            scratch = self._plan.places[step.scratch].offset if step.scratch is not None else 0
            call = rows_call(entry.link, self._address, self._level, scratch, self._keep)
            run = {"run": ffi.addressof(lib, "tw_run_rows"), "context": call}
        return run | dict(entry.values)


def rows_call(layer: Layer, address: Address, level: int, scratch: int, keep: list[Any]) -> Any:
    """The tw_rows_call of a layer, whose scratch begins at that byte of its part's; ``keep`` gets what must live on."""

    def new(type: str, value: Any) -> Any:
        keep.append(ffi.new(type, value))
        return keep[-1]

    call = layer.step.call
    moving = [place for place, _, _ in layer.sources]
    constants = [ffi.NULL if i in moving else address(argument) for i, argument in enumerate(call.inputs)]
    keep.append(kernels_c.new_params(call.kernel, call.params))
    params, struct = keep[-1], kernels_c.params_type(call.kernel)
    members = [
        {"at": ffi.offsetof(struct, *each.path), "low": each.low, "high": each.high, "each": each.each}
        for each in members_of(layer)
    ]
    values = {
        "kernel": kernels_c.kernel(call.kernel, level),
        "params": params,
        "in": ffi.cast("const void *const *", new("void *[]", constants)),
        "members": new("tw_rows_member[]", members),
        "bytes": ffi.sizeof(struct),
        "inputs": len(constants),
        "member_count": len(members),
        "scratch": scratch,
        "sources": len(moving),
        "places": moving,
    }
    return new("tw_rows_call *", values)


def _runs(chain: Chain) -> str:
    """The function of ``run/host.h`` that runs a chain."""
    if chain.feed:
        return "tw_run_feed"
    return "tw_run_chain_back" if chain.backwards else "tw_run_chain"
