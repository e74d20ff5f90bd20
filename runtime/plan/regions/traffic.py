"""How many bytes a run reads and writes of every tensor in memory, and what that costs in the memories of a target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.plan.plan import Place, Plan, Region
from twinfer.runtime.program import COPY, Argument, Chain, Loop, Program, Step, calls_of, part_of
from twinfer.runtime.target import Bank
from twinfer.runtime.walks import steps_of


@dataclass(frozen=True)
class Traffic:
    """Bytes that a run reads and writes."""

    read: int = 0
    written: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.read + other.read, self.written + other.written)

    def cost(self, bank: Bank) -> int:
        """What it costs in a memory."""
        return self.read * bank.read_cost + self.written * bank.write_cost


def traffic(program: Program, graph: Graph, places: Mapping[Tensor, Place]) -> dict[Tensor, Traffic]:
    """The traffic of every tensor that has a place; rows count for the ring that they pass through.

    A call reads each input once and writes each output once, a call in a loop those that do not move once per
    iteration; scratch memory is written and read once per step, inputs of the graph are written, outputs read once by
    the caller. Both branches of an If count, and the body of a While as if it ran once. Copies in place do not count.
    """
    rings = {tensor: ring.memory for part in program if isinstance(part, Chain) for tensor, ring in part.rings.items()}
    sums = dict.fromkeys(places, Traffic())
    steps = (step for step in steps_of(program) if not _in_place(step, places))
    fed = ((tensor, Traffic(written=tensor.nbytes)) for tensor in graph.inputs)
    fetched = ((tensor, Traffic(read=tensor.nbytes)) for tensor in graph.outputs)
    for tensor, moved in chain(fed, fetched, *map(_by_step, steps)):
        place = rings.get(tensor, tensor)
        if place in sums:
            sums[place] += moved
    return sums


def costs(plan: Plan) -> dict[Region, int]:
    """What a run costs in each arena of a target with several memories; empty for other targets."""
    banks = {Region("arena", bank.name): bank for bank in plan.target.banks}
    sums = {region: 0 for region in plan.arenas if region in banks}
    for tensor, each in traffic(plan.program, plan.graph, plan.places).items():
        region = plan.places[tensor].region
        if region in sums:
            sums[region] += each.cost(banks[region])
    return sums


def _in_place(step: Step, places: Mapping[Tensor, Place]) -> bool:
    """Whether a step copies a value to where it is."""
    if step.call.kernel != COPY:
        return False
    source, (out,) = step.call.inputs[0], step.call.written
    return isinstance(source, Tensor) and source in places and places[source] == places[out]


def _by_step(step: Step) -> Iterator[tuple[Tensor, Traffic]]:
    """What a step reads and writes."""
    for instruction in step.body:
        times = instruction.count if isinstance(instruction, Loop) else 1
        for call in calls_of([instruction]):
            yield from ((tensor, Traffic(read=nbytes)) for tensor, nbytes in _moved(call.inputs, times))
            yield from ((tensor, Traffic(written=nbytes)) for tensor, nbytes in _moved(call.outputs, times))
    if step.scratch is not None:
        yield step.scratch, Traffic(step.scratch.nbytes, step.scratch.nbytes)


def _moved(arguments: tuple[Argument, ...], times: int) -> Iterator[tuple[Tensor, int]]:
    """The tensors among the arguments of a call that runs so often, each with the bytes that it touches."""
    for argument in arguments:
        part = part_of(argument) if argument is not None else None
        if part and isinstance(part.value, Tensor):
            yield part.value, part.value.nbytes * (1 if part.stride else times)
