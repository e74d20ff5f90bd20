"""The pointers of a call in C: addresses in the arena, names of constants, and slices of both in a loop."""

from __future__ import annotations

from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.data import Constants
from twinfer.aot.print.literals import comment, wrapped
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Argument, Call, Slice, part_of

#: The variable that counts the iterations of a loop.
ITERATION = "part"

#: Scratch memory of a call that needs none. Of NULL, gcc at -Og would warn where a kernel copies to what it never has.
NO_SCRATCH = "out[0]"


class Arguments:
    """Prints the arguments of calls of one plan."""

    def __init__(self, plan: Plan, constants: Constants) -> None:
        self.memory, self._constants = Memory(plan), constants

    def statements(self, call: Call, invoke: str, scratch: str) -> list[str]:
        """The lines of one call; ``invoke`` is its beginning up to ``in``."""
        inputs, outputs = ([self.pointer(a) for a in side] for side in (call.inputs, call.outputs))
        lines = [f"const void *const in[] = {{{wrapped(inputs, ' ' * 8).strip()}}};"] if inputs else []
        lines.append(f"void *const out[] = {{{wrapped(outputs, ' ' * 8).strip()}}};")
        passed = "NULL" if scratch == NO_SCRATCH and "_body(&" not in invoke else scratch  # to a function: a step less
        return [*lines, f"{invoke}{'in' if inputs else 'NULL'}, out, {passed});"]

    def pointer(self, argument: Argument) -> str:
        """The address of an argument; in a loop, of the current iteration."""
        if argument is None:
            return "NULL"
        part = part_of(argument)
        start = self._start(part)
        if not part.stride:
            return start
        bytewise = isinstance(part.value, Tensor) or part.offset or start == self.memory.first
        base = start if bytewise else f"(const unsigned char *){start}"
        return f"{base} + {ITERATION}" if part.stride == 1 else f"{base} + {part.stride} * {ITERATION}"

    def _start(self, part: Slice) -> str:
        """The address of the first iteration."""
        value = part.value
        if isinstance(value, Tensor):
            return self.memory.address(value, part.offset)
        symbol = self._constants.symbol(value)
        if symbol is None:
            return self.memory.first
        return f"(const unsigned char *){symbol} + {part.offset}" if part.offset else symbol

    def described(self, argument: Argument) -> str:
        """A tensor as an argument, for comments: name, type, shape, and where it lies; "" for all else."""
        value = argument if argument is None else part_of(argument).value
        if not isinstance(value, Tensor):
            return ""
        return f'"{comment(value.name, 48)}" {value.type} {list(value.shape)} {self.memory.span(value)}'
