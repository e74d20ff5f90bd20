"""The interpreted mode: the steps of a plan as a table of constants that ``kernels/run/run.h`` runs.

If a step has several calls, each call has a row of its own, and ``kernels/run/loops.h`` runs the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.chain_tables import ChainTables
from twinfer.aot.print.data import Constants
from twinfer.aot.print.layer_functions import NONE_COMMON, Layers
from twinfer.aot.print.literals import wrapped
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.choice import cold, share_all
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import Argument, Call, Chain, Instruction, Loop, Slice, Step, calls_of, part_of

#: The largest number that the table has room for where it counts: uint16_t.
MOST = 0xFFFF


@dataclass(frozen=True)
class _Row:
    """A row of the table: a call of layer ``layer``."""

    layer: int
    step: Step
    call: Call


class Table:
    """Prints the table of one plan: ``text`` defines ``symbol(arena, i)``, which runs step ``i``.

    ``headers`` are those that it needs; ``loose`` are the steps of the table, ``chains`` gives for the others the
    functions that run them; ``start`` defines the function that decodes weights at the start. Raises
    UnsupportedOperatorError for a plan of more calls, or more tensors to a call, than the table can count.
    """

    def __init__(self, plan: Plan, name: str, constants: Constants, common: Mapping[str, str] = NONE_COMMON) -> None:
        self._plan, self._name, self._constants, self._memory = plan, name, constants, Memory(plan)
        self._layers = Layers(plan, name, constants, share_all(plan), cold(plan), common)
        self._numbers: dict[str, int] = {}
        loose = [(i, step) for i, step in enumerate(plan.steps) if step not in plan.chains]
        self.loose = [step for _, step in loose]
        self._numbers_of = [i for i, _ in loose]
        self._bodies = [list(_short(step.body)) for step in self.loose]
        self._rows = [
            _Row(i, step, call) for (i, step), body in zip(loose, self._bodies, strict=True) for call in calls_of(body)
        ]
        self._pointers = [[self._pointer(argument) for argument in row.call.arguments] for row in self._rows]
        self._loops = len(self._rows) > len(self.loose)
        self._need_room()
        self.symbol = f"{name}_layer"
        by_rows = [*(["run/rows.h"] if plan.chains else []), *(["run/feed.h"] if plan.fed else [])]
        self.headers = ("run/loops.h" if self._loops else "run/run.h", *by_rows)
        self._chains = ChainTables(plan, name, self._layers.loops, self._layers.instance)
        self.chains = self._chains.symbols
        self.start, self.instances = self._layers.start, self._layers.instances

    @property
    def feed(self) -> str:
        """The tables of the chain that takes the rows of the input; "" if there is none."""
        return f"{self._chains.by_table(self._plan.fed)}\n" if self._plan.fed else ""

    def _need_room(self) -> None:
        for row in self._rows:
            if max(len(row.call.inputs), len(row.call.outputs)) > MOST:
                raise UnsupportedOperatorError(
                    f"{row.step.node}: a table has at most {MOST} inputs or outputs of a kernel; take mode 'compiled'"
                )
        if self._loops and len(self._rows) > MOST:
            raise UnsupportedOperatorError(
                f"{self._plan.graph.name!r}: a table has at most {MOST} calls, not {len(self._rows)}; "
                "take mode 'compiled'"
            )

    @property
    def text(self) -> str:
        """All definitions; "" for a plan without steps."""
        return "\n".join(self._parts()) if self._plan.steps else ""

    def _parts(self) -> Iterator[str]:
        name, calls = self._name, [row.call for row in self._rows]
        yield self._layers.preamble.rstrip()
        for i in self._numbers_of:
            yield f"\n{self._layers.declarations(i)}"
        for part in self._plan.program:
            if isinstance(part, Chain) and not part.feed:
                yield f"\n{self._chains.by_table(part)}"
        if not self.loose:
            return
        own, addresses = f"static {name.upper()}_SECTION_TABLES const", f"static {name.upper()}_ADDRESSES const"
        state = f", from {self._plan.regions[Region.STATE].offset} on of the state" if self._plan.state_bytes else ""
        yield f"""
{addresses} void *const {name}_constants[] = {{
{wrapped(list(self._numbers) or ["NULL"])},
}};
/* Of every layer the inputs, then the outputs: bytes of the arena{state}, below 0 constants. */
{own} int32_t {name}_pointers[] = {{
{_lines(self._pointers)},
}};
/* Kernel, params, pointers, scratch, how many inputs and outputs. */
{addresses} tw_step {name}_table[] = {{
{self._table()},
}};
{self._loop_tables() if self._loops else ""}
static TW_LAYER {name.upper()}_SECTION_CODE void {self.symbol}({self._memory.parameters}, int32_t i) {{
    const tw_memory memory = {self._blocks};
    const void *in[{max(1, *(len(call.inputs) for call in calls))}];
    void *out[{max(len(call.outputs) for call in calls)}];
    {self._run}
}}
"""

    @property
    def _blocks(self) -> str:
        """The initialiser of the memory: its blocks, and the last byte that is the arena's."""
        arena = self._memory.first
        if not self._plan.state_bytes:
            return f"{{{arena}, NULL, INT32_MAX}}"
        return f"{{{arena}, state, {self._plan.regions[Region.STATE].offset - 1}}}"

    @property
    def _run(self) -> str:
        """The statement that runs step i."""
        if self._loops:
            return f"tw_run_layer(&{self._name}_rows, i, &memory, in, out);"
        return f"tw_run_step(&{self._name}_table[i], {self._name}_constants, &memory, in, out);"

    def _table(self) -> str:
        lines, at = list[str](), 0
        for row, pointers in zip(self._rows, self._pointers, strict=True):
            params = self._layers.params(row.layer, row.call)
            scratch = self._plan.offsets[row.step.scratch] if row.step.scratch and row.call.scratch else 0
            counts = f"{len(row.call.inputs)}, {len(row.call.outputs)}"
            kernel = self._layers.instance(row.call)
            lines.append(f"    {{{kernel}, &{params}, {self._name}_pointers + {at}, {scratch}, {counts}}}")
            at += len(pointers)
        return ",\n".join(lines)

    def _loop_tables(self) -> str:
        """The further tables for steps of several calls: strides, loops, and the loops of every layer."""
        name = self._name
        own, addresses = f"static {name.upper()}_SECTION_TABLES const", f"static {name.upper()}_ADDRESSES const"
        strides = [[part_of(a).stride if a is not None else 0 for a in row.call.arguments] for row in self._rows]
        loops, layers, first = list[str](), [0], 0
        for body in self._bodies:
            for rows, times in _loops(body):
                loops.append(f"{{{first}, {rows}, {times}}}")
                first += rows
            layers.append(len(loops))
        return f"""/* By how many bytes the pointers move from iteration to iteration. */
{own} int32_t {name}_strides[] = {{
{_lines(strides)},
}};
/* Rows that run together: the first, how many, how many times. */
{own} tw_repeat {name}_loops[] = {{
{wrapped(loops)},
}};
/* The first of them of every layer, and their number. */
{own} uint16_t {name}_first_loops[] = {{
{wrapped(list(map(str, layers)))},
}};
{addresses} tw_table {name}_rows = {{
    {name}_first_loops, {name}_loops, {name}_table, {name}_pointers, {name}_strides, {name}_constants}};
"""

    def _pointer(self, argument: Argument) -> int:
        """A byte of the arena, or for a constant ~n, n being its number in the table of constants."""
        if argument is None:
            return self._number("NULL")
        part = part_of(argument)
        if isinstance(part.value, Tensor):
            return self._plan.offsets[part.value] + part.offset
        address = self._constants.address(part.value, part.offset)
        return 0 if address is None else self._number(address)

    def _number(self, address: str) -> int:
        return ~self._numbers.setdefault(address, len(self._numbers))


def _short(body: Sequence[Instruction]) -> Iterator[Instruction]:
    """The body with every loop in parts that the table can count, one after the other."""
    for instruction in body:
        match instruction:
            case Call():
                yield instruction
            case Loop():
                for first in range(0, instruction.count, MOST):
                    calls = tuple(_from(first, call) for call in calls_of(instruction.body))
                    yield Loop(min(MOST, instruction.count - first), calls)


def _from(first: int, call: Call) -> Call:
    """The call of a loop that begins with iteration ``first``."""
    if not first:
        return call
    inputs = tuple(None if argument is None else _moved(part_of(argument), first) for argument in call.inputs)
    return replace(call, inputs=inputs, outputs=tuple(_moved(part_of(argument), first) for argument in call.outputs))


def _moved(part: Slice, iterations: int) -> Slice:
    return part._replace(offset=part.offset + iterations * part.stride)


def _loops(body: Sequence[Instruction]) -> Iterator[tuple[int, int]]:
    """For each call or loop the number of its rows, and how many times they run."""
    for instruction in body:
        match instruction:
            case Call():
                yield 1, 1
            case Loop():
                yield len(instruction.body), instruction.count


def _lines(rows: Sequence[Sequence[int]]) -> str:
    """Rows of numbers as C; each row begins on a line of its own."""
    return ",\n".join(wrapped([str(number) for number in row]) for row in rows)
