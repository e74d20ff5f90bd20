"""The blocks of memory that emitted functions get: the arena, and of a model with state the state."""

from __future__ import annotations

from dataclasses import dataclass

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan, Region

#: What the blocks are called in a layer, and as bytes in the functions that callers see.
IN_LAYER = {Region.ARENA: "arena", Region.STATE: "state"}
IN_RUN = {Region.ARENA: "base", Region.STATE: "kept"}


@dataclass(frozen=True)
class Memory:
    """The blocks of one plan, as parameters, arguments and addresses in C."""

    plan: Plan

    @property
    def regions(self) -> tuple[Region, ...]:
        """The blocks that functions get: always the arena, and the state if there is any."""
        return (Region.ARENA, Region.STATE) if self.plan.state_bytes else (Region.ARENA,)

    @property
    def start_regions(self) -> tuple[Region, ...]:
        """The blocks that a reset gets: the arena only if it computes values there."""
        places = self.plan.places
        inner = any(places[t].region is Region.ARENA for step in self.plan.start for t in step.touched)
        return self.regions if inner else (Region.STATE,)

    @property
    def parameters(self) -> str:
        """Of a layer."""
        return ", ".join(f"unsigned char *{IN_LAYER[region]}" for region in self.regions)

    @property
    def start_parameters(self) -> str:
        """Of what a reset calls."""
        return ", ".join(f"unsigned char *{IN_LAYER[region]}" for region in self.start_regions)

    @property
    def arguments(self) -> str:
        """Of a layer, in the function that callers see."""
        return ", ".join(IN_RUN[region] for region in self.regions)

    def side_by_side(self, base: str) -> str:
        """The arguments of a layer if one buffer at ``base`` holds all."""
        offsets = [self.plan.regions[region].offset for region in self.regions]
        return ", ".join(f"{base} + {offset}" if offset else base for offset in offsets)

    def unused(self, lines: list[str]) -> list[str]:
        """Statements about the parameters of a layer that its ``lines`` do not use."""
        text = " ".join(lines)
        return [f"(void){IN_LAYER[region]};" for region in self.regions if f"{IN_LAYER[region]} +" not in text]

    def address(self, tensor: Tensor, offset: int = 0) -> str:
        """Where a tensor lies, in a layer."""
        return self._address(IN_LAYER, tensor, offset)

    def address_in_run(self, tensor: Tensor) -> str:
        """Where a tensor lies, in the function that callers see."""
        return self._address(IN_RUN, tensor, 0)

    def block(self, tensor: Tensor) -> str:
        """The block that a tensor lies in, in the function that callers see."""
        return IN_RUN[self._region(tensor)]

    def _region(self, tensor: Tensor) -> Region:
        """The tensor's region; a variable without bytes may lie anywhere."""
        region = self.plan.places[tensor].region
        return region if region in self.regions else Region.ARENA

    def _address(self, names: dict[Region, str], tensor: Tensor, offset: int) -> str:
        return f"{names[self._region(tensor)]} + {self.plan.places[tensor].offset + offset}"

    def span(self, tensor: Tensor) -> str:
        """Where a tensor lies, for comments."""
        place = self.plan.places.get(tensor)
        if place is None:
            return "row by row"
        return f"{place.region.value} [{place.offset}, {place.offset + tensor.nbytes})"
