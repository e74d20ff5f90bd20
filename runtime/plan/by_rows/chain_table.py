"""What ``kernels_c/run/chain.h`` is told of a chain, as plain values: the interpreter and emitted C have the same."""

from __future__ import annotations

from typing import Any

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.by_rows.rows import Link
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Chain


def _read(link: Link) -> list[Tensor]:
    """What a link reads by rows."""
    return [tensor for _, tensor, _ in link.sources]


def layer_values(plan: Plan, chain: Chain, layer: Link) -> dict[str, Any]:
    """The members of a tw_rows_layer, in their order, but for the first two: its function and the context.

    The last one, the pointer to the sources, is a list of their values. Offsets count from the chain's arena on.
    """
    ring, by = chain.rings.get(layer.out), layer.rows
    number = {each.out: i for i, each in enumerate(chain.links)}

    def image(tensor: Tensor, height: int) -> dict[str, int]:
        ring = chain.rings.get(tensor)
        return {"offset": plan.places[ring.memory if ring else tensor].offset, "row": tensor.nbytes // height}

    return {
        "height": layer.height,
        "band": layer.band,
        "stride": by.stride,
        "pad": by.pad,
        "reach": by.reach,
        "capacity": ring.capacity if ring else layer.height,
        "readers": 1 + max(i for i, each in enumerate(chain.links) if each is layer or layer.out in _read(each)),
        "sources": len(layer.sources),
        "image": image(layer.out, layer.height),
        "source": [
            {"layer": number.get(tensor, -1), "height": height, "image": image(tensor, height)}
            for _, tensor, height in layer.sources
        ],
    }
