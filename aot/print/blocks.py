"""The blocks of memory that emitted functions get: an arena for each memory of the target, and the state, if any."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.plan.solve.puzzle import aligned
from twinfer.runtime.program import Chain


def in_run(region: Region) -> str:
    """What a block is called as bytes in the functions that callers see; in a layer it has its own name."""
    if region == Region.INPUT:
        return region.value
    if region == Region.WEIGHTS:
        return "blob"
    return "kept" if region == Region.STATE else region.value.replace("arena", "base", 1)


def parameter(region: Region) -> str:
    """A block as a parameter of a layer; nothing writes an input or weights."""
    return f"{'const ' * (region in (Region.INPUT, Region.WEIGHTS))}unsigned char *{region.value}"


@dataclass(frozen=True)
class Memory:
    """The blocks of one plan, as parameters, arguments and addresses in C.

    Weights that are no part of the program are a block, too, which is only read.
    """

    plan: Plan

    @property
    def blocks(self) -> tuple[Region, ...]:
        """The blocks of RAM that callers give: always an arena, and the state if there is any."""
        return (*self.plan.arenas, Region.STATE) if self.plan.state_bytes else self.plan.arenas

    @property
    def weights(self) -> tuple[Region, ...]:
        """The block of weights, if callers give one."""
        return (Region.WEIGHTS,) * (self.plan.options.weights_as == "blob")

    def nbytes(self, region: Region) -> int:
        """What callers give for a block: a multiple of its alignment, so that all blocks of an array are aligned.

        An arena has at least one such unit, for there is always one.
        """
        least = region.kind == "arena"
        return aligned(max(self.plan.regions[region].nbytes, least), self.plan.target.alignment)

    @property
    def in_ram(self) -> int:
        """Bytes of the blocks that lie in no bank."""
        return sum(self.nbytes(region) for region in self.blocks if not region.bank)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The blocks that layers get: those, weights, and an input in place."""
        return (*self.blocks, *self.weights, *[Region.INPUT] * (self.plan.borrowed is not None))

    @property
    def start_regions(self) -> tuple[Region, ...]:
        """The blocks that a reset gets: an arena only if it computes values there."""
        used = {self.plan.places[tensor].region for step in self.plan.start for tensor in step.touched}
        used.update((Region.STATE, *self.weights * any(self.plan.start)))
        return tuple(region for region in self.regions if region in used)

    @property
    def parameters(self) -> str:
        """Of a layer."""
        return ", ".join(parameter(region) for region in self.regions)

    @property
    def start_parameters(self) -> str:
        """Of what a reset calls."""
        return ", ".join(map(parameter, self.start_regions))

    @property
    def arguments(self) -> str:
        """Of a layer, in the function that callers see."""
        return ", ".join(map(in_run, self.regions))

    @property
    def given(self) -> str:
        """Of the function that callers see, in one like it."""
        return ", ".join(map(in_run, (*self.blocks, *self.weights)))

    @property
    def first(self) -> str:
        """An address, in a layer, where a value without bytes may lie."""
        return self.plan.arenas[0].value

    def side_by_side(self, base: str, weights: str, regions: Sequence[Region] | None = None) -> str:
        """The arguments of a layer, or the ``regions``, if one buffer at ``base`` holds all but the ``weights``."""
        wanted = [*(regions or self.regions)]
        offsets = [self.plan.regions[region].offset for region in wanted if region != Region.WEIGHTS]
        own = [f"{base} + {offset}" if offset else base for offset in offsets]
        own[len(self.blocks) : len(self.blocks)] = [weights] * (Region.WEIGHTS in wanted)
        return ", ".join(own)

    def unused(self, lines: list[str]) -> list[str]:
        """Statements about the parameters of a layer that its ``lines`` do not use."""
        used = self.used(lines)
        return [f"(void){region.value};" for region in self.regions if region not in used]

    def used(self, lines: list[str]) -> list[Region]:
        """The parameters of a layer that its ``lines`` use."""
        text = " ".join(lines)
        return [region for region in self.regions if re.search(rf"(?<![\w>.]){region.value}\b", text)]

    def address(self, tensor: Tensor, offset: int = 0) -> str:
        """Where a tensor lies, in a layer."""
        at, block = self.plan.places[tensor].offset + offset, self._region(tensor).value
        return f"{block} + {at}" if at else block

    def address_in_run(self, tensor: Tensor) -> str:
        """Where a tensor lies, in the function that callers see."""
        return f"{self.block(tensor)} + {self.plan.places[tensor].offset}"

    def block(self, tensor: Tensor) -> str:
        """The block that a tensor lies in, in the function that callers see."""
        return in_run(self._region(tensor))

    def rows(self, chain: Chain) -> str:
        """The block that a chain works in, in a layer, and the input in place that it reads, or NULL."""
        reads = any(tensor is self.plan.borrowed for layer in chain.layers for _, tensor, _ in layer.sources)
        return f"{self.plan.region_of(chain).value}, {Region.INPUT.value if reads else 'NULL'}"

    def _region(self, tensor: Tensor) -> Region:
        """The tensor's region; a variable without bytes may lie anywhere."""
        region = self.plan.places[tensor].region
        return region if region in self.regions else self.plan.arenas[0]

    def span(self, tensor: Tensor) -> str:
        """Where a tensor lies, for comments; a lone block has no name there."""
        place = self.plan.places.get(tensor)
        if place is None:
            return "row by row"
        if place.region == Region.INPUT:
            return "where the caller has it"
        block = f"{place.region.value} " if len(self.regions) > 1 else ""
        return f"at {block}{place.offset}..{place.offset + tensor.nbytes}"
