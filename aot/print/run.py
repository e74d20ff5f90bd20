"""The functions of ``<name>.c`` that callers see: one inference, its parts if the input comes row by row, the reset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from twinfer.aot.print import run_layers
from twinfer.aot.print.blocks import Memory, in_run, parameter
from twinfer.aot.print.data import Constants
from twinfer.aot.print.feed import Feeding
from twinfer.aot.print.place import hooked
from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import Program


def entries(plan: Plan, name: str) -> list[str]:
    """The functions of ``<name>.c`` that callers see, without that of ``run_layers``, which only a macro defines."""
    by_rows = ["begin", "push_row", "finish"] if plan.fed else []
    return [f"{name}_{what}" for what in ("run", *by_rows, *(["reset"] if plan.state_bytes else []))]


@dataclass(frozen=True)
class RunFunctions:
    """Prints them; ``statements`` gives those that run a part of the program.

    ``layer`` are the lines that run layer i, if the same run all of them, one after the other.
    """

    plan: Plan
    constants: Constants
    statements: Callable[[Program], Iterator[str]]
    layer: Sequence[str] = ()

    def printed(self) -> Iterator[str]:
        """The functions, in the order of the file."""
        copied = any(t.data is None and t is not self.plan.borrowed for t in self.plan.graph.inputs)
        if self.plan.graph.outputs or copied:
            yield _copy(self._name)
        if self.plan.fed is None:
            yield self._run()
        else:
            yield from self._by_rows(Feeding(self.plan, self._name))
        yield f"#ifdef {run_layers.MACRO}\n{self._run_layers()}#endif\n"

    @property
    def _calls(self) -> list[str]:
        """The statements that run the program, without what takes the rows of the input."""
        return [*self.statements(self.plan.program[self.plan.fed is not None :])]

    @property
    def _name(self) -> str:
        return self.constants.name

    @property
    def _up(self) -> str:
        return self._name.upper()

    def _function(self, what: str, parameters: str, lines: Iterable[str], blocks: Sequence[Region]) -> str:
        """A function that first refuses memory which is absent or misaligned; ``lines`` are what it does then."""
        odd = (f"(uintptr_t){region.value} % {self._align(region)} != 0" for region in blocks)
        head = [
            f"{self._up}_SECTION_CODE int {self._name}_{what}("
            f"{', '.join(block_parameter(region) for region in blocks)}{parameters}) {{",
            *(f"    {_bytes_of(region)};" for region in blocks),
            f"    if ({' || '.join(f'{in_run(region)} == NULL' for region in blocks)}) return TW_NO_MEMORY;",
            f"    if ({' || '.join(odd)}) return TW_MISALIGNED;",
        ]
        return "\n".join([*head, *(f"    {line}" for line in lines), "}", ""])

    def _align(self, region: Region) -> str:
        return f"{self._up}_{'WEIGHTS' if region == Region.WEIGHTS else 'ARENA'}_ALIGN"

    def _run(self) -> str:
        lines = [*self._copies_in(), *self._calls, *self._copies_out(), "return TW_OK;"]
        parameters = ", const void *const *inputs, void *const *outputs"
        memory = Memory(self.plan)
        return self._function("run", parameters, lines, (*memory.blocks, *memory.weights))

    def _by_rows(self, feeding: Feeding) -> Iterator[str]:
        """The functions of a model whose input comes row by row, and one that takes it as a whole."""
        regions, arena = Memory(self.plan).blocks, (feeding.region,)
        yield self._function("begin", "", [f"{feeding.call('begin')};", "return TW_OK;"], arena)
        chain = self.plan.fed
        last = len(chain.layers) - 1 if chain else -1
        hook = f"\n    if ({self._up}_HOOK({last})) return -TW_CANCELLED;" if last >= 0 else ""
        block = feeding.region.value
        yield f"""{self._up}_SECTION_CODE int32_t {self._name}_push_row(void *{block}, const void *row) {{
    unsigned char *const {feeding.base} = (unsigned char *){block};
    if ({feeding.base} == NULL || row == NULL) return -TW_NO_MEMORY;
    if ((uintptr_t){block} % {self._up}_ARENA_ALIGN != 0) return -TW_MISALIGNED;
    if (!{feeding.call("begun")}) return -TW_NOT_BEGUN;
    if (!{feeding.call("waits")}) return -TW_NO_INPUT;{hook}
    return {feeding.call("row", feeding.base, "row")};
}}
"""
        waits = [
            f"if (!{feeding.call('begun')}) return TW_NOT_BEGUN;",
            f"if ({feeding.call('waits')}) return TW_NO_INPUT;",
        ]
        lines = [*waits, f"{feeding.call('end')};", *self._calls, *self._copies_out(), "return TW_OK;"]
        yield self._function("finish", ", void *const *outputs", lines, regions)
        given = f"inputs[{feeding.place}]"
        blocks = ", ".join(region.value for region in regions)
        lines = [
            f"if (inputs == NULL || {given} == NULL) return TW_NO_INPUT;",
            *([hooked(self.plan, self._name, last)] if last >= 0 else []),
            f"{feeding.everything(given)};",
            f"return {self._name}_finish({blocks}, outputs);",
        ]
        yield self._function("run", ", const void *const *inputs, void *const *outputs", lines, regions)

    def _run_layers(self) -> str:
        waits = list[str]()
        if self.plan.fed:
            feeding, own = Feeding(self.plan, self._name), max(len(self.plan.fed.layers), 1)
            waits = [  # later layers may write over what is asked
                f"if (from < {own} && !{feeding.call('begun')}) return TW_NOT_BEGUN;",
                f"if (from < {own} && {feeding.call('waits')}) return TW_NO_INPUT;",
            ]
        lines = [*waits, *run_layers.body(self.plan, self._name, self.statements, self.layer)]
        memory = Memory(self.plan)
        return self._function("run_layers", run_layers.more(self.plan), lines, (*memory.blocks, *memory.weights))

    def _copies_in(self) -> list[str]:
        if self.plan.borrowed:
            return self._borrowed(self.plan.graph.inputs.index(self.plan.borrowed))
        memory = Memory(self.plan)
        copies = [
            f"    {self._name}_copy({memory.block(tensor)} + {self._up}_INPUT_{i}_OFFSET, inputs[{i}], "
            f"{self._up}_INPUT_{i}_BYTES);"
            for i, tensor in enumerate(self.plan.graph.inputs)
            if tensor.data is None
        ]
        return ["if (inputs != NULL) {", *copies, "}"] if copies else ["(void)inputs;"]

    def _borrowed(self, i: int) -> list[str]:
        """The statements about input ``i``, which is read in place."""
        local = in_run(Region.INPUT)
        return [
            f"const unsigned char *const {local} = inputs == NULL ? NULL : (const unsigned char *)inputs[{i}];",
            f"if ({local} == NULL) return TW_NO_INPUT;",
            f"if ((uintptr_t){local} % {self._up}_INPUT_{i}_ALIGN != 0) return TW_MISALIGNED;",
        ]

    def _copies_out(self) -> list[str]:
        copies = [
            f"    {self._name}_copy(outputs[{i}], {self._output(value, i)}, {self._up}_OUTPUT_{i}_BYTES);"
            for i, value in enumerate(self.plan.outputs)
        ]
        return ["if (outputs != NULL) {", *copies, "}"] if copies else ["(void)outputs;"]

    def _output(self, value: Tensor | Constant, i: int) -> str:
        if isinstance(value, Tensor):
            return f"{Memory(self.plan).block(value)} + {self._up}_OUTPUT_{i}_OFFSET"
        address = self.constants.address(value)
        if address is None:
            return in_run(self.plan.arenas[0])
        return address.replace(f"{Region.WEIGHTS.value} +", f"{in_run(Region.WEIGHTS)} +", 1)


def block_parameter(region: Region) -> str:
    """A block as a parameter of a function that callers see."""
    return f"{'const ' * (region == Region.WEIGHTS)}void *{region.value}"


def _bytes_of(region: Region) -> str:
    """The definition of a block as bytes in such a function."""
    kind = f"{'const ' * (region == Region.WEIGHTS)}unsigned char *"
    return f"{kind}const {in_run(region)} = ({kind}){region.value}"


def _copy(name: str) -> str:
    return f"""/* Copies unless one side is absent or the value is in place already. */
static {name.upper()}_SECTION_CODE void {name}_copy(void *to, const void *from, size_t size) {{
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}}
"""


def reset_function(plan: Plan, name: str) -> str:
    """The function that sets the state: variables to their first values, then what runs once."""
    memory = Memory(plan)
    taken = ", ".join(map(block_parameter, memory.start_regions))
    lines = [f"{name.upper()}_SECTION_CODE void {name}_reset({taken}) {{"]
    if plan.variables:
        lines.append("    unsigned char *const kept = (unsigned char *)state;")
    for tensor in plan.variables:
        lines.append(f"    memset({memory.address_in_run(tensor)}, {plan.first_values[tensor]}, {tensor.nbytes});")
    if plan.start:
        casts = (f"({parameter(region).removesuffix(region.value)}){region.value}" for region in memory.start_regions)
        lines.append(f"    {name}_start({', '.join(casts)});")
    return "\n".join([*lines, "}", ""])
