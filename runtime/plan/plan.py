"""What planning ends with: a program, its constants, and where every byte of its values lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Unpack

from twinfer.runtime.constant import Constant
from twinfer.runtime.control import CONTROL
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.options import Options, Printing
from twinfer.runtime.plan.decoders import CALL_BYTES, decoder_bytes
from twinfer.runtime.program import Alias, Chain, If, Program, Step
from twinfer.runtime.target import Target
from twinfer.runtime.walks import steps_of

if TYPE_CHECKING:
    from twinfer.runtime.plan.flow import Key, Resource


@dataclass(frozen=True)
class Region:
    """A block of memory that the caller gives: what dies with the run, what keeps its value from run to run, an input
    that is read in place, and constants that are no part of the program.

    Where the target has several memories there is an arena in each that is used, which is called after its ``bank``.
    """

    kind: Literal["arena", "state", "input", "weights"]
    bank: str = ""

    ARENA: ClassVar[Region]
    STATE: ClassVar[Region]
    INPUT: ClassVar[Region]
    WEIGHTS: ClassVar[Region]

    @property
    def value(self) -> str:
        """The name in C and for readers: arena, arena_BANK, state, input or weights."""
        return f"{self.kind}_{self.bank}" if self.bank else self.kind

    @property
    def name(self) -> str:
        """The name in macros."""
        return self.value.upper()


Region.ARENA = Region("arena")
Region.STATE = Region("state")
Region.INPUT = Region("input")
Region.WEIGHTS = Region("weights")


class Extent(NamedTuple):
    """Where a region lies, in bytes, if one buffer holds them all."""

    offset: int
    nbytes: int

    @property
    def end(self) -> int:
        return self.offset + self.nbytes


class Place(NamedTuple):
    """Where a tensor lies: at a byte of a region."""

    region: Region
    offset: int


@dataclass(frozen=True)
class Plan:
    """Everything that running needs. Interpreter and emitter only read it.

    ``program`` is what every run does, ``start`` what runs once before: variables get their first values, weights are
    decoded. ``steps`` are the program's, also those that only some runs reach, or reach often. ``outputs`` are the
    graph's: a tensor or a constant. ``places`` says where every tensor lies that is no constant. ``regions`` are the
    arena, which other models may use between two runs, and the state, which they may not; the caller must provide both,
    aligned to ``target.alignment``, apart or in one buffer. An input in place is a region of its own, which nothing
    writes. A target with several memories has an arena in each that is
    used. ``lower_bound_bytes`` is the least that any placement in one arena could need, ``forced_at`` the position
    whose live tensors force it; ``proven`` says that none of its aligned blocks needs less than ``arena_bytes``; with
    several memories, that no split of the blocks over them costs less (``plan/regions/banks.py``). Sizes depend on
    graph, target and options alone. ``lives`` gives the first and last operator over which a tensor keeps its value: -1
    for an input, the number of operators for an output. Inputs are written before the first step, outputs stay until
    the next run. ``first_values`` gives for every variable the value of all its bytes before ``start``. ``nodes`` are
    the operators by position, also those that need no step. ``resources`` are the variables that other signatures of
    the model may use, too, by name.
    """

    graph: Graph
    target: Target
    options: Options
    program: Program
    start: tuple[Step, ...]
    constants: tuple[Constant, ...]
    outputs: tuple[Tensor | Constant, ...]
    places: Mapping[Tensor, Place]
    regions: Mapping[Region, Extent]
    lives: Mapping[Tensor, tuple[int, int]]
    lower_bound_bytes: int
    forced_at: int
    proven: bool
    first_values: Mapping[Tensor, int]
    nodes: tuple[Node, ...]
    resources: Mapping[Key, Resource] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = f"arena {self.arena_bytes:,} bytes, state {self.state_bytes:,}, constants {self.constant_bytes:,}"
        return f"<Plan of {self.graph.said}, {len(self.steps)} steps for {self.target.name}: {sizes}>"

    def _repr_html_(self) -> str:
        from twinfer.runtime.write.html import plan_html

        return plan_html(self)

    def printed(self, **changes: Unpack[Printing]) -> Plan:
        """The same plan with other options for printing."""
        return replace(self, options=replace(self.options, **changes))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return tuple(steps_of(self.program))

    @cached_property
    def straight(self) -> bool:
        """Whether every run does every step once."""
        return all(isinstance(part, Step | Alias | Chain) for part in self.program)

    @cached_property
    def steady(self) -> bool:
        """Whether every run goes round its loops as often: none depends on what changes, nor lies in such a branch."""
        moving = {tensor for tensor in self.graph.inputs if tensor.data is None}.union(self.variables)

        def loops(program: Program, depends: bool) -> bool:
            """Add what depends on ``moving`` to it; returns whether a loop does."""
            found = False
            for part in program:
                if isinstance(part, Step | Chain):
                    steps = [part] if isinstance(part, Step) else [*(layer.step for layer in part.layers), *part.views]
                    for step in steps:
                        if depends or not moving.isdisjoint(step.read):
                            moving.update(step.written)
                elif isinstance(part, Alias):
                    if depends or part.source in moving:
                        moving.add(part.to)
                elif isinstance(part, If):
                    inner = depends or part.condition in moving
                    found |= loops(part.then, inner) | loops(part.orelse, inner)
                else:
                    found |= loops(part.test, depends)
                    inner = depends or part.condition in moving
                    found |= inner | loops(part.body, inner) | loops(part.test, inner)
            return found

        known, found = -1, False
        while known < len(moving):
            known, found = len(moving), loops(self.program, False)
        return not found

    @cached_property
    def chains(self) -> Mapping[Step, Chain]:
        """The chain of every step that runs by rows."""
        chains = [part for part in self.program if isinstance(part, Chain)]
        return {layer.step: chain for chain in chains for layer in chain.layers}

    @property
    def fed(self) -> Chain | None:
        """The chain that a program begins with whose input comes row by row, and waits for these."""
        first = self.program[0] if self.program else None
        return first if isinstance(first, Chain) and first.feed else None

    @property
    def stepwise(self) -> bool:
        """Whether every operator of the main subgraph has one value in a run, which the step behind it leaves."""
        called = any(node.op in CONTROL for node in self.graph.nodes)
        plain = self.straight and not self.chains and not self.fed and not called
        return plain and not any(self._in_state(tensor) for tensor in self.graph.inputs)

    @cached_property
    def offsets(self) -> Mapping[Tensor, int]:
        """The byte of the one buffer at which each tensor begins; constants have none."""
        return {tensor: self.regions[place.region].offset + place.offset for tensor, place in self.places.items()}

    @property
    def arenas(self) -> tuple[Region, ...]:
        """The arena; of a target with several memories one for each that is used, in the target's order."""
        return tuple(region for region in self.regions if region.kind == "arena")

    def region_of(self, chain: Chain) -> Region:
        """The arena that all rows and scratch memory of a chain lie in."""
        out = chain.links[-1].out
        ring = chain.rings.get(out)
        return self.places[ring.memory if ring else out].region

    @property
    def arena_bytes(self) -> int:
        """Bytes of all arenas."""
        return sum(self.regions[region].nbytes for region in self.arenas)

    @property
    def state_bytes(self) -> int:
        return self.regions[Region.STATE].nbytes

    @property
    def memory_bytes(self) -> int:
        """Bytes of one buffer that holds arenas and state."""
        return max(extent.end for region, extent in self.regions.items() if region != Region.INPUT)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of one buffer that holds all regions, an input in place among them, behind the others."""
        return max(extent.end for extent in self.regions.values())

    @property
    def borrowed(self) -> Tensor | None:
        """The input that is read where the caller has it."""
        places = ((tensor, self.places.get(tensor)) for tensor in self.graph.inputs)
        return next((tensor for tensor, place in places if place and place.region == Region.INPUT), None)

    @property
    def variables(self) -> tuple[Tensor, ...]:
        """The tensors whose value the model carries from run to run: variables, and inputs that a step writes."""
        return tuple(tensor for tensor in self.places if tensor in self.first_values)

    @property
    def arena_inputs(self) -> tuple[Tensor, ...]:
        """The inputs that a run finds in the arena, or takes row by row."""
        return tuple(t for t in self.graph.inputs if t.data is None and not self._in_state(t))

    def _in_state(self, tensor: Tensor) -> bool:
        return tensor in self.places and self.places[tensor].region == Region.STATE

    @property
    def lasting(self) -> tuple[Tensor, ...]:
        """What keeps its value from run to run: variables, and weights decoded at the start."""
        kept = {tensor for step in self.start for tensor in step.written}.union(self.variables)
        return tuple(tensor for tensor in self.places if self._in_state(tensor) and tensor in kept)

    @property
    def decodes(self) -> bool:
        """Whether weights are decoded once, before the first run."""
        return not {*self.lasting} <= {*self.variables}

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the largest scratch memory of a step."""
        return max((step.scratch.nbytes for step in self.steps if step.scratch is not None), default=0)

    @property
    def macs(self) -> int:
        return sum(step.call.macs for step in self.steps)

    @property
    def constant_bytes(self) -> int:
        return sum(constant.nbytes for constant in self.constants)

    @property
    def decoding_bytes(self) -> int:
        """Estimated bytes of flash of the decoders, and of a call of each per layer, on a Cortex-M4."""
        decoders = [kernel for step in self.start for kernel in step.kernels]
        decoders += [kernel for step in self.steps for kernel in step.kernels if kernel != step.call.kernel]
        return decoder_bytes(decoders) + CALL_BYTES * len(decoders)
