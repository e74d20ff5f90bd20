"""Proves that regions hold what lies in them: every tensor, no byte twice, no more than their memory has.

Like ``plan/replay.py`` it shares no code with what decided about memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import Chain


def faults(plan: Plan) -> Iterator[str]:
    """What is wrong with the regions of a plan, a sentence each."""
    room = {bank.name: bank.nbytes for bank in plan.target.banks}
    for region, extent in plan.regions.items():
        if region.bank and extent.nbytes > room.get(region.bank, 0):
            yield f"{region.value} takes {extent.nbytes:,} bytes, its memory has {room.get(region.bank, 0):,}"
    used = sorted((extent.offset, extent.end, region.value) for region, extent in plan.regions.items() if extent.nbytes)
    for (_, end, lower), (begin, _, upper) in pairwise(used):
        if begin < end:
            yield f"{lower} ends at byte {end} of one buffer, behind the start of {upper} at {begin}"
    for tensor, place in plan.places.items():
        if tensor.nbytes and not 0 <= place.offset <= plan.regions[place.region].nbytes - tensor.nbytes:
            yield f"{tensor} at {place.offset} ends outside of {place.region.value}"
    borrowed = plan.borrowed
    for tensor, place in plan.places.items():
        if place.region == Region.INPUT and tensor is not borrowed:
            yield f"{tensor} lies in the caller's input"
    for part in plan.program:
        if isinstance(part, Chain):
            yield from _torn(plan, part)


def _torn(plan: Plan, chain: Chain) -> Iterator[str]:
    """Rows and scratch memory of a chain that lie in another region than its last output: all have one address."""
    home = plan.region_of(chain)
    rows = [link.out for link in chain.links] + [tensor for layer in chain.layers for _, tensor, _ in layer.sources]
    used = [chain.rings[tensor].memory if tensor in chain.rings else tensor for tensor in rows]
    others = (chain.progress, *(layer.step.scratch for layer in chain.layers))
    for tensor in dict.fromkeys([*used, *(tensor for tensor in others if tensor is not None)]):
        if plan.places[tensor].region != home and tensor is not plan.borrowed:
            yield f"{tensor} lies in {plan.places[tensor].region.value}, the rest of its chain in {home.value}"
