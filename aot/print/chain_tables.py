"""Chains as tables of C that ``run/chain.h`` runs, and for every layer a function that computes some of its rows.

Compiled code has tables for chains that branch or wait for rows of the input; ``row_loops.py`` prints the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinfer.aot.print.arguments import NO_SCRATCH, initialiser
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.feed import Feeding
from twinfer.aot.print.literals import block_comment, braced, comment, identifier, wrapped
from twinfer.aot.print.part import used, with_pointers
from twinfer.aot.print.place import code, tables
from twinfer.aot.print.row_loops import RowLoops, arrays
from twinfer.runtime.plan.by_rows.chain_table import ChainTable
from twinfer.runtime.plan.by_rows.row_params import FIRST, PADDING, SEEN, Member, members_of
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Call, Chain, Layer, Step

#: The function that calls kernels for rows of layers that are constants, and nothing else through a pointer.
BY_TABLE = "tw_run_rows"

_LINES = ",\n"

#: What tw_rows_part calls the first row.
_OF_PART = {"y": "first"}


@dataclass(frozen=True)
class ChainTables:
    """Prints the chains of one plan. Its layers are functions of their own, or calls by ``run/rows.h``.

    ``loops`` prints the straight ones; ``instance`` gives the name of the shared instance of a call's kernel.
    """

    plan: Plan
    name: str
    loops: RowLoops
    instance: Callable[[Call], str]

    @property
    def symbols(self) -> dict[Step, str]:
        """For every step of a chain the function that a caller of layers takes: the last one's runs all of them.

        A chain that takes the rows of the input is no layer's.
        """
        return {
            step: f"{self.name}_none"
            if step is not chain.layers[-1].step or chain.feed
            else f"{self._symbol(chain)}_run"
            for step, chain in self.plan.chains.items()
        }

    def _symbol(self, chain: Chain) -> str:
        if chain.feed:
            return Feeding(self.plan, self.name).symbol
        return f"{self.name}_{self.loops.numbers[chain.layers[-1].step]}_chain"

    def text(self, chain: Chain, layer: Layer, about: Sequence[str]) -> str:
        """The function of a layer, behind a comment ``about`` it; the last one's is followed by the chain's tables."""
        pointers = self.loops.pointers(layer, {place: f"part->x[{k}]" for k, (place, _, _) in enumerate(layer.sources)})
        place = self.plan.places.get(layer.step.scratch) if layer.step.scratch else None
        call = self.loops.call(layer, NO_SCRATCH if place is None else f"part->arena + {place.offset}")
        needed = [f"{name} = part->{_OF_PART.get(name, name)}" for name in used("\n".join(call))]
        numbers = [f"const int32_t {', '.join(needed)};"] if needed else []
        lines = ["(void)context;", *numbers, *with_pointers(call, arrays(pointers, "part->y"))]
        own = f"static {code(self.name, self.loops.numbers[layer.step])} void {self.loops.layer_symbol(layer)}"
        head = f"{own}(const void *context, const tw_rows_part *part)"
        function = "\n".join(braced(lines, head))
        texts = [*self.loops.shared_call(layer), block_comment(about), function]
        if layer is chain.layers[-1] and not chain.feed:
            texts.append(f"\n{self.by_function(chain)}")
        return "\n".join(texts)

    def by_function(self, chain: Chain) -> str:
        """The tables of a chain whose layers are functions, and the function that runs it."""
        tables = self._tables(chain, lambda layer: (self.loops.layer_symbol(layer), "NULL"))
        return "\n".join([tables, *self._run(chain)])

    def by_table(self, chain: Chain) -> str:
        """The same of calls that are constants, for ``run/rows.h``."""
        calls = "\n".join(self._call(layer) for layer in chain.layers)
        tables = self._tables(chain, lambda layer: (BY_TABLE, f"&{self.loops.layer_symbol(layer)}"))
        return "\n".join([calls, tables, *self._run(chain)])

    def _call(self, layer: Layer) -> str:
        """The definition of the tw_rows_call of a layer, with its params, members and inputs."""
        call, symbol = layer.step.call, self.loops.layer_symbol(layer)
        own, addresses = tables(self.name, self.loops.numbers[layer.step]), f"{self.name.upper()}_ADDRESSES"
        moving = [place for place, _, _ in layer.sources]
        pointers = self.loops.pointers(layer, dict.fromkeys(moving, "NULL"))
        members = [_member(call.kernel, member) for member in members_of(layer)]
        scratch = 0 if layer.step.scratch is None else self.plan.places[layer.step.scratch].offset
        values = {
            "kernel": self.instance(call),
            "params": f"&{symbol}_params",
            "in": f"{symbol}_in",
            "members": f"{symbol}_members",
            "bytes": f"sizeof {symbol}_params",
            "inputs": len(pointers),
            "member_count": len(members),
            "scratch": scratch,
            "sources": len(moving),
            "places": moving,
        }
        return f"""static {own} const {call.kernel}_params {symbol}_params = {{
{initialiser(call)},
}};
static {own} const tw_rows_member {symbol}_members[] = {{
{_LINES.join(members)},
}};
static {addresses} const void *const {symbol}_in[] = {{{", ".join(pointers)}}};
static {addresses} const tw_rows_call {symbol} = {{
{wrapped(_members(values))},
}};"""

    def _tables(self, chain: Chain, runs: Callable[[Layer], tuple[str, str]]) -> str:
        """The tables of a chain; ``runs`` gives a layer's function and context."""
        symbol, table = self._symbol(chain), ChainTable(self.plan, chain)
        storage = f"static {self.name.upper()}_ADDRESSES const"
        layers = list[str]()
        for entry in table.entries:
            run, context = runs(entry.link) if isinstance(entry.link, Layer) else ("NULL", "NULL")
            members = wrapped(_members({"run": run, "context": context, **entry.values}), " " * 8)
            layers.append(f"    {{\n{members},\n    }},")
        counts = ", ".join(_members({"layers": f"{symbol}_layers", **table.counts}))
        return "\n".join([
            block_comment([self._about(chain), *self._kept(chain)]),
            f"{storage} tw_rows_layer {symbol}_layers[] = {{",
            *layers,
            "};",
            f"{storage} tw_chain {symbol} = {{{counts}}};",
        ])  # fmt: skip

    def _run(self, chain: Chain) -> Iterator[str]:
        """The function that runs a chain; none for one that waits for the rows of the input."""
        if chain.feed:
            return
        memory, count = Memory(self.plan), len(ChainTable(self.plan, chain).number)
        blocks, run = memory.rows(chain), "tw_chain_back" if chain.backwards else "tw_chain_run"
        lines = [f"tw_rows_progress at[{count}];", f"{run}(&{self._symbol(chain)}, at, {blocks});"]
        lines = [*memory.unused(lines), *lines]
        last = self.loops.numbers[chain.layers[-1].step]
        head = f"static TW_LAYER {code(self.name, last)} void {self._symbol(chain)}_run({memory.parameters})"
        yield "\n".join(braced(lines, head))

    def _about(self, chain: Chain) -> str:
        """What a chain is, for a comment."""
        count = len(chain.layers)
        first = self.loops.numbers[chain.layers[0].step] if count else 0
        which = f"Layer {first}" if count == 1 else f"Layers {first} to {first + count - 1}"
        given = ["Input 0, row by row"] if chain.feed else []
        layers = [f"{which}, row by row{', from the last to the first' * chain.backwards}"] if count else []
        return "; ".join([*given, *layers])

    def _kept(self, chain: Chain) -> Iterator[str]:
        """What a chain keeps, for a comment."""
        for link in chain.links:
            if ring := chain.rings.get(link.out):
                rows = f'{ring.capacity} of {link.height} rows of "{comment(link.out.name)}"'
                yield f"  {rows} {Memory(self.plan).span(ring.memory)}"


def _members(values: Mapping[str, Any]) -> list[str]:
    """Members of a struct as designated initialisers, in their order."""
    return [
        f".{name} = {{{', '.join(map(str, value or [0]))}}}" if isinstance(value, list) else f".{name} = {value}"
        for name, value in values.items()
    ]


def empty_layer(plan: Plan, name: str) -> str:
    """The function that stands for a layer of a chain, all of which run with the last one."""
    memory = Memory(plan)
    unused = "".join(f"(void){region.value}; " for region in memory.regions)
    return f"TW_INLINE void {name}_none({memory.parameters}) {{ {unused}}}"


def called_by_chains(plan: Plan, name: str) -> set[str]:
    """The functions that the chains of a model call through pointers, in either mode."""
    numbers = {step: i for i, step in enumerate(plan.steps)}
    own = {f"{name}_{numbers[step]}_{identifier(step.node.op)}" for step in plan.chains}
    return {*own, BY_TABLE} if own else own


#: How the special values of ``Member.each`` are called in C.
_EACH = {SEEN: "TW_ROWS_IN", PADDING: "TW_ROWS_PAD", FIRST: "TW_ROWS_FIRST"}


def _member(kernel: str, member: Member) -> str:
    """The initialiser of a tw_rows_member."""
    path = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in member.path)
    at = f"offsetof({kernel}_params, {path[1:]})"
    values = {"at": at, "low": member.low, "high": member.high, "each": _EACH.get(member.each, member.each)}
    return f"    {{{', '.join(_members(values))}}}"
