"""The structure of a program: all that its code takes for granted of its constants, as text.

Two models of one structure have the same code, and the weights of either run with it. A line that differs says where
they are not alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from twinfer.aot.print.arguments import initialiser
from twinfer.aot.print.data import Constants
from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Alias, Argument, Call, Chain, If, Instruction, Loop, Program, Step, part_of


def structure(plan: Plan, constants: Constants, version: str) -> str:
    """The text of a structure; constants are called by their places, or as their arrays are."""
    return "\n".join(_Structure(plan, constants).lines(version)) + "\n"


def number_of(text: str) -> int:
    """A structure as a number of 32 bits."""
    return int.from_bytes(sha256(text.encode()).digest()[:4], "little")


class _Structure:
    """Writes the structure of one plan."""

    def __init__(self, plan: Plan, constants: Constants) -> None:
        self.plan, self.constants = plan, constants
        self.number = {step: i for i, step in enumerate(plan.steps)}

    def lines(self, version: str) -> Iterator[str]:
        plan = self.plan
        yield f"twinfer {version}, weights {plan.options.weights_as}"
        yield from (f"{region.value}: {extent.nbytes} bytes" for region, extent in plan.regions.items())
        for kind, tensors in (("input", plan.graph.inputs), ("output", plan.graph.outputs)):
            for i, tensor in enumerate(tensors):
                yield f"{kind} {i}: {tensor.type} {list(tensor.shape)} {self._ends(tensor)}"
        yield from (f"variable: {self._argument(t)}, at first {plan.first_values[t]}" for t in plan.variables)
        yield from (line for i, step in enumerate(plan.start) for line in self._step(f"reset {i}", step))
        yield from self._program(plan.program)
        yield from (f"output {i}: {self._argument(value)}" for i, value in enumerate(plan.outputs))

    def _ends(self, tensor: Tensor) -> str:
        if self.plan.options.weights_as != "linked" or tensor.quant is None or tensor.quant.scale.size != 1:
            return ""
        return f"scale {tensor.scale!r}, zero point {tensor.zero}"

    def _program(self, program: Program) -> Iterator[str]:
        for part in program:
            match part:
                case Step():
                    yield from self._step(f"layer {self.number[part]}", part)
                case Chain():
                    numbers = ", ".join(str(self.number[layer.step]) for layer in part.layers)
                    bands = ", ".join(str(layer.band) for layer in part.layers)
                    rings = ", ".join(f"{self._argument(ring.memory)} {ring[1:]}" for ring in part.rings.values())
                    yield f"layers {numbers} by rows, {bands} at once{', backwards' * part.backwards}; {rings}"
                    yield from self._program(tuple(layer.step for layer in part.layers))
                case If():
                    yield f"if {self._argument(part.condition)}"
                    yield from self._program((*part.then, *part.orelse))
                case Alias():
                    pass
                case _:
                    yield f"while {self._argument(part.condition)}"
                    yield from self._program((*part.test, *part.body))

    def _step(self, name: str, step: Step) -> Iterator[str]:
        name = f"{name}, {step.node.op}, operator {step.node.index}"
        yield from (f"{name}: {line}" for line in self._body(step.body))
        if step.scratch is not None:
            yield f"{name}: scratch {self._argument(step.scratch)}"

    def _body(self, body: tuple[Instruction, ...]) -> Iterator[str]:
        for instruction in body:
            match instruction:
                case Call():
                    arguments = ", ".join(map(self._argument, instruction.arguments))
                    params = " ".join(initialiser(instruction).split())
                    yield f"{instruction.kernel} ({arguments}) {params}"
                case Loop():
                    yield from (f"{instruction.count} times: {line}" for line in self._body(instruction.body))
                case _:
                    yield "wait"

    def _argument(self, argument: Argument) -> str:
        if argument is None:
            return "nothing"
        part = part_of(argument)
        moves = f" by {part.stride} in turns of {part.turns}" if part.stride else ""
        if isinstance(part.value, Constant):
            array = part.value.array
            address = self.constants.address(part.value, part.offset)
            return f"{part.value.role.value} {array.dtype.name}[{array.size}] {address or ''}{moves}"
        place = self.plan.places.get(part.value)
        return f"{place.region.value} + {place.offset + part.offset}{moves}" if place else f"rows{moves}"
