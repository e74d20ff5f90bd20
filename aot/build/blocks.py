"""Where the memory of models lies in a program for a microcontroller: arrays in RAM and in the card's banks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from twinfer.aot.print.emit import Project
from twinfer.aot.print.memory import Memory
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.run.poison import Span


def arenas_of(projects: Sequence[Project]) -> dict[str, int]:
    """The bytes of every array that holds memory of the models, which take turns in them, by the name of the arena.

    The first lies in RAM and also holds states and inputs that come row by row or stay in place, the others in the
    card's banks.
    """
    arenas = {Region.ARENA.value: max((input_at(p.plan) + _staged_bytes(p.plan) for p in projects), default=0)}
    for plan in (project.plan for project in projects):
        for region in plan.arenas if plan.target.banks else ():
            arenas[region.value] = max(plan.regions[region].nbytes, arenas.get(region.value, 0))
    return arenas


def block(plan: Plan, region: Region, base: str = "tw_arena") -> str:
    """Where a block begins; ``base`` is the buffer that holds what lies in no bank."""
    if region == Region.INPUT:
        return f"{base} + {input_at(plan)}"
    if region.bank:
        return f"tw_{region.value}"
    at = 0 if plan.target.banks else plan.regions[region].offset
    return f"{base} + {at}" if at else base


def in_blocks(plan: Plan, spans: Iterable[Span]) -> Iterator[tuple[str, int]]:
    """Spans of one buffer for all memory, as addresses and bytes in the blocks that lie there."""
    for begin, end in spans:
        for region, extent in plan.regions.items():
            first, last = max(begin, extent.offset), min(end, extent.end)
            if first < last:
                yield f"{block(plan, region)} + {first - extent.offset}", last - first


def places(plan: Plan, tensors: Sequence[Tensor]) -> list[tuple[str, int]]:
    """Where the harness writes inputs and reads outputs: addresses and bytes."""
    fed = plan.fed.feed.out if plan.fed and plan.fed.feed else None
    return [
        (f"tw_arena + {input_at(plan)}" if tensor is fed else _address(plan, tensor), tensor.nbytes)
        for tensor in tensors
        if tensor.data is None
    ]


def _address(plan: Plan, tensor: Tensor) -> str:
    place = plan.places[tensor]
    return f"{block(plan, place.region)} + {place.offset}"


def input_at(plan: Plan) -> int:
    """Where the harness keeps an input that the model takes row by row or in place: behind what it has in RAM."""
    return Memory(plan).in_ram


def _staged_bytes(plan: Plan) -> int:
    """How many bytes it has there."""
    if plan.borrowed:
        return plan.borrowed.nbytes
    return plan.fed.feed.out.nbytes if plan.fed and plan.fed.feed else 0
