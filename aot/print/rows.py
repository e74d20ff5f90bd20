"""Chains as C: for every layer a function that computes some of its rows, and tables that ``run/chain.h`` runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from twinfer.aot.print import until
from twinfer.aot.print.arguments import NO_SCRATCH, Arguments
from twinfer.aot.print.feed import Feeding
from twinfer.aot.print.initialiser import initialised, initialiser
from twinfer.aot.print.literals import block_comment, comment, identifier
from twinfer.aot.print.memory import Memory
from twinfer.aot.print.part import in_part
from twinfer.runtime.plan.by_rows.chain_table import ChainTable
from twinfer.runtime.plan.by_rows.row_params import FIRST, PADDING, SEEN, Member, members_of
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Call, Chain, Layer, Step

#: The function that calls kernels for rows of layers that are constants, and nothing else through a pointer.
BY_TABLE = "tw_run_rows"

_LINES = ",\n"


@dataclass(frozen=True)
class Chains:
    """Prints the chains of one plan. Its layers are functions of their own, or calls by ``run/rows.h``.

    ``instance`` gives the name of the shared instance of a call's kernel.
    """

    plan: Plan
    name: str
    arguments: Arguments
    instance: Callable[[Call], str]

    @cached_property
    def _number(self) -> Mapping[Step, int]:
        return {step: i for i, step in enumerate(self.plan.steps)}

    def symbols(self) -> Iterator[tuple[Step, str]]:
        """For every step of a chain the function that a caller of layers takes: the last one's runs all of them.

        A chain that takes the rows of the input is no layer's.
        """
        for step, chain in self.plan.chains.items():
            runs = step is chain.layers[-1].step and not chain.feed
            yield step, f"{self._symbol(chain)}_run" if runs else f"{self.name}_none"

    def function(self, step: Step) -> str:
        """The function that computes some rows of a step."""
        return _function(self.name, self._number[step], step)

    def _symbol(self, chain: Chain) -> str:
        return (
            Feeding(self.plan, self.name).symbol
            if chain.feed
            else f"{self.name}_{self._number[chain.layers[-1].step]}_chain"
        )

    def by_function(self, chain: Chain) -> str:
        """The tables of a chain whose layers are functions, and the function that runs it."""
        tables = self._tables(chain, lambda layer: f"{self.function(layer.step)}, NULL")
        if not until.straight(chain):
            return "\n".join([tables, *self._by_tables(chain)])
        symbol, table = self._symbol(chain), ChainTable(self.plan, chain)
        run = until.run(table, symbol, Memory(self.plan).rows(chain))
        return "\n".join([tables, *until.functions(table, symbol), self._run(chain, " = {{0, 0, 0}}", run)])

    def by_table(self, chain: Chain) -> str:
        """The same of calls that are constants, for ``run/rows.h``."""
        calls = "\n".join(self._call(layer) for layer in chain.layers)
        tables = self._tables(chain, lambda layer: f"{BY_TABLE}, &{self.function(layer.step)}")
        return "\n".join([calls, tables, *self._by_tables(chain)])

    def _by_tables(self, chain: Chain) -> Iterator[str]:
        """The function that runs a chain by its tables; none for one that waits for the rows of the input."""
        if not chain.feed:
            run = "tw_chain_back" if chain.backwards else "tw_chain_run"
            yield self._run(chain, "", f"{run}(&{self._symbol(chain)}, at, {Memory(self.plan).rows(chain)});")

    def _call(self, layer: Layer) -> str:
        """The definition of the tw_rows_call of a layer, with its params, members and inputs."""
        call, symbol = layer.step.call, self.function(layer.step)
        moving = [place for place, _, _ in layer.sources]
        pointers = [
            "NULL" if place in moving else self.arguments.pointer(argument)
            for place, argument in enumerate(call.inputs)
        ]
        members = [_member(call.kernel, member) for member in members_of(layer)]
        scratch = 0 if layer.step.scratch is None else self.plan.places[layer.step.scratch].offset
        kernel = self.instance(call)
        numbers = f"sizeof {symbol}_params, {len(pointers)}, {len(members)}, {scratch}, {len(moving)}"
        return f"""static const {call.kernel}_params {symbol}_params = {{
{initialiser(call)},
}};
static const tw_rows_member {symbol}_members[] = {{
{_LINES.join(members)},
}};
static const void *const {symbol}_in[] = {{{", ".join(pointers)}}};
static const tw_rows_call {symbol} = {{
    {kernel}, &{symbol}_params, {symbol}_in, {symbol}_members,
    {numbers}, {{{", ".join(map(str, moving))}}}}};"""

    @cached_property
    def _alike(self) -> Mapping[tuple[str, str], Sequence[int]]:
        """Kernel, and its params in a part as C -> the layers that have them, of whatever chain."""
        users: dict[tuple[str, str], list[int]] = {}
        for chain in dict.fromkeys(self.plan.chains.values()):
            for layer in chain.layers:
                users.setdefault(_key(layer), []).append(self._number[layer.step])
        return users

    def layer(self, layer: Layer, invoke: str) -> str:
        """The function of a layer that computes some of its rows; ``invoke`` is what calls the kernel.

        Layers with the same params in a part call one body, whose text stands before the first of them.
        """
        call, users = layer.step.call, self._alike[_key(layer)]
        rows = {place: f"part->x[{k}]" for k, (place, _, _) in enumerate(layer.sources)}
        pointers = [rows.get(place) or self.arguments.pointer(argument) for place, argument in enumerate(call.inputs)]
        place = self.plan.places.get(layer.step.scratch) if layer.step.scratch else None
        scratch = NO_SCRATCH if place is None else f"part->arena + {place.offset}"
        blocks = [f"const void *const in[] = {{{', '.join(pointers)}}};", "void *const out[] = {part->y};"]
        own, body = _with_params(layer, invoke), f"{self.name}_{users[0]}_rows"
        lines = [*own[:-1], *blocks, f"{own[-1]}{scratch});"]
        before = ""
        if len(users) > 1:
            lines = [*blocks, f"{body}(part, in, out, {scratch});"]
            if users[0] == self._number[layer.step]:
                parameters = "const tw_rows_part *part, const void *const *in, void *const *out, void *scratch"
                inner = ["(void)part;", *own[:-1], f"{own[-1]}scratch);"]
                before = _c_function(f"static TW_NOINLINE void {body}({parameters})", inner) + "\n"
        kind = "TW_INLINE" if until.straight(self.plan.chains[layer.step]) else "static"
        head = f"{kind} void {self.function(layer.step)}(const void *context, const tw_rows_part *part)"
        return before + _c_function(head, ["(void)context;", *lines])

    def _tables(self, chain: Chain, runs: Callable[[Layer], str]) -> str:
        """The tables of a chain; ``runs`` gives a layer's function and context."""
        symbol, table = self._symbol(chain), ChainTable(self.plan, chain)
        layers = [
            f"    {{{runs(entry.link) if isinstance(entry.link, Layer) else 'NULL, NULL'}, {_members(entry.values)}}}"
            for entry in table.entries
        ]
        return f"""{block_comment([self._about(chain), *self._kept(chain)])}
static const tw_rows_layer {symbol}_layers[] = {{
{_LINES.join(layers)},
}};
static const tw_chain {symbol} = {{{symbol}_layers, {_members(table.counts)}}};"""

    def _run(self, chain: Chain, start: str, statement: str) -> str:
        """The function that runs a chain by ``statement``, from a progress that starts at ``start``."""
        memory, count = Memory(self.plan), len(ChainTable(self.plan, chain).number)
        used = [f"{block} +" for block in memory.rows(chain).split(", ")]
        lines = [*memory.unused(used), f"tw_rows_progress at[{count}]{start};", statement]
        return _c_function(f"static TW_NOINLINE void {self._symbol(chain)}_run({memory.parameters})", lines)

    def _about(self, chain: Chain) -> str:
        """What a chain is, for a comment."""
        count = len(chain.layers)
        first = self._number[chain.layers[0].step] if count else 0
        which = f"Layer {first}" if count == 1 else f"Layers {first} to {first + count - 1}"
        given = ["Input 0, row by row"] if chain.feed else []
        layers = [f"{which}, row by row{', from the last to the first' * chain.backwards}"] if count else []
        return "; ".join([*given, *layers])

    def _kept(self, chain: Chain) -> Iterator[str]:
        """What a chain keeps, for a comment."""
        for link in chain.links:
            if ring := chain.rings.get(link.out):
                rows = f'{ring.capacity} of {link.height} rows of "{comment(link.out.name)}"'
                yield f"  {rows}: {Memory(self.plan).span(ring.memory)}"


def _members(values: Mapping[str, Any]) -> str:
    """Members of a struct as initialisers, in their order."""
    return ", ".join(f"{{{', '.join(map(str, v or [0]))}}}" if isinstance(v, list) else str(v) for v in values.values())


def _key(layer: Layer) -> tuple[str, str]:
    """What layers have in common that call one body."""
    kernel = layer.step.call.kernel
    return kernel, initialised(kernel, in_part(layer), "    ")


def _with_params(layer: Layer, invoke: str) -> list[str]:
    """A call with a layer's params in a part, up to its scratch memory."""
    kernel, fields = _key(layer)
    storage = "const" if re.search(r"\bpart(->|,)", fields) else "static const"
    return [f"{storage} {kernel}_params params = {{", *fields.split("\n"), "};", f"{invoke}(&params, in, out, "]


def _c_function(head: str, lines: Iterable[str]) -> str:
    return "\n".join([f"{head} {{", *(f"    {line}" for line in lines), "}"])


def _function(name: str, number: int, step: Step) -> str:
    return f"{name}_{number}_{identifier(step.node.op)}"


def nothing(plan: Plan, name: str) -> str:
    """The function that stands for a layer of a chain, all of which run with the last one."""
    memory = Memory(plan)
    unused = "".join(f"(void){region.value}; " for region in memory.regions)
    return f"TW_INLINE void {name}_none({memory.parameters}) {{ {unused}}}"


def called_by_chains(plan: Plan, name: str) -> set[str]:
    """The functions that the chains of a model call through pointers, in either mode."""
    own = {_function(name, i, step) for i, step in enumerate(plan.steps) if step in plan.chains}
    return {*own, BY_TABLE} if own else own


#: How the special values of ``Member.each`` are called in C.
_EACH = {SEEN: "TW_ROWS_IN", PADDING: "TW_ROWS_PAD", FIRST: "TW_ROWS_FIRST"}


def _member(kernel: str, member: Member) -> str:
    """The initialiser of a tw_rows_member."""
    path = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in member.path)
    numbers = f"{member.low}, {member.high}, {_EACH.get(member.each, member.each)}"
    return f"    {{offsetof({kernel}_params, {path[1:]}), {numbers}}}"
