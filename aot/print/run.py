"""The functions of ``<name>.c`` that callers see: one inference, its parts if the input comes row by row, the reset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from twinfer.aot.print.blocks import Memory, in_run
from twinfer.aot.print.data import Constants
from twinfer.aot.print.feed import Feeding
from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan, Region


@dataclass(frozen=True)
class RunFunctions:
    """Prints them; ``calls`` are the statements that run the program, without what takes the rows of the input."""

    plan: Plan
    constants: Constants
    calls: Iterable[str]

    def printed(self) -> Iterator[str]:
        """The functions, in the order of the file."""
        copied = any(t.data is None and t is not self.plan.borrowed for t in self.plan.graph.inputs)
        if self.plan.graph.outputs or copied:
            yield _copy(self._name)
        if self.plan.fed is None:
            yield self._run()
        else:
            yield from self._by_rows(Feeding(self.plan, self._name))

    @property
    def _name(self) -> str:
        return self.constants.name

    @property
    def _up(self) -> str:
        return self._name.upper()

    def _function(self, what: str, parameters: str, lines: Iterable[str], blocks: Iterable[Region]) -> str:
        """A function that first refuses memory which is absent or misaligned; ``lines`` are what it does then."""
        names = {region.value: in_run(region) for region in blocks}
        head = [
            f"int {self._name}_{what}({', '.join(f'void *{block}' for block in names)}{parameters}) {{",
            *(f"    unsigned char *const {local} = (unsigned char *){block};" for block, local in names.items()),
            f"    if ({' || '.join(f'{local} == NULL' for local in names.values())}) return 1;",
            f"    if ({' || '.join(f'(uintptr_t){block} % {self._up}_ARENA_ALIGN != 0' for block in names)}) return 2;",
        ]
        return "\n".join([*head, *(f"    {line}" for line in lines), "}", ""])

    def _run(self) -> str:
        lines = [*self._copies_in(), *self.calls, *self._copies_out(), "return 0;"]
        parameters = ", const void *const *inputs, void *const *outputs"
        return self._function("run", parameters, lines, Memory(self.plan).blocks)

    def _by_rows(self, feeding: Feeding) -> Iterator[str]:
        """The functions of a model whose input comes row by row, and one that takes it as a whole."""
        regions, arena = Memory(self.plan).blocks, (feeding.region,)
        yield self._function("begin", "", [f"{feeding.call('begin')};", "return 0;"], arena)
        yield f"""int32_t {self._name}_push_row(void *{feeding.region.value}, const void *row) {{
    unsigned char *const {feeding.base} = (unsigned char *){feeding.region.value};
    if ({feeding.base} == NULL || row == NULL) return -1;
    if ((uintptr_t){feeding.region.value} % {self._up}_ARENA_ALIGN != 0) return -2;
    if (!{feeding.call("begun")}) return -4;
    if (!{feeding.call("waits")}) return -3;
    return {feeding.call("row", feeding.base, "row")};
}}
"""
        waits = [
            f"if (!{feeding.call('begun')}) return 4;",
            f"if ({feeding.call('waits')}) return 3;",
            f"{feeding.call('end')};",
        ]
        lines = [*waits, *self.calls, *self._copies_out(), "return 0;"]
        yield self._function("finish", ", void *const *outputs", lines, regions)
        given = f"inputs[{feeding.place}]"
        blocks = ", ".join(region.value for region in regions)
        lines = [
            f"if (inputs == NULL || {given} == NULL) return 3;",
            f"{feeding.everything(given)};",
            f"return {self._name}_finish({blocks}, outputs);",
        ]
        yield self._function("run", ", const void *const *inputs, void *const *outputs", lines, regions)

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
            f"if ({local} == NULL) return 3;",
            f"if ((uintptr_t){local} % {self._up}_INPUT_{i}_ALIGN != 0) return 2;",
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
        return self.constants.symbol(value) or in_run(self.plan.arenas[0])


def _copy(name: str) -> str:
    return f"""/* Copies unless one side is absent or the value is in place already. */
static void {name}_copy(void *to, const void *from, size_t size) {{
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}}
"""


def reset_function(plan: Plan, name: str) -> str:
    """The function that sets the state: variables to their first values, then what runs once."""
    memory = Memory(plan)
    blocks = [region.value for region in memory.start_regions]
    lines = [f"void {name}_reset({', '.join(f'void *{block}' for block in blocks)}) {{"]
    if plan.variables:
        lines.append("    unsigned char *const kept = (unsigned char *)state;")
    for tensor in plan.variables:
        lines.append(f"    memset({memory.address_in_run(tensor)}, {plan.first_values[tensor]}, {tensor.nbytes});")
    if plan.start:
        lines.append(f"    {name}_start({', '.join(f'(unsigned char *){block}' for block in blocks)});")
    return "\n".join([*lines, "}", ""])
