"""The layers of a plan as C: params, and one static function per layer over a specialised body or a shared instance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from twinfer import kernels_c
from twinfer.aot.print.arguments import ITERATION, NO_SCRATCH, Arguments, initialiser, local_params
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.chain_tables import ChainTables
from twinfer.aot.print.data import Constants, numbered
from twinfer.aot.print.literals import block_comment, braced, comment, grouped, identifier
from twinfer.aot.print.place import code, tables
from twinfer.aot.print.row_loops import RowLoops
from twinfer.aot.print.threads import Parts
from twinfer.kernels_c import includes
from twinfer.kernels_c.ffi_build import KERNEL
from twinfer.runtime.ops.functions._table import stacked_of
from twinfer.runtime.passes.folding import FOLDED
from twinfer.runtime.plan.by_rows.schedule import straight
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Call, Fetch, Instruction, Loop, Step


@dataclass(frozen=True)
class Layer:
    """One layer's C function: its name, and its definition with params and comment."""

    symbol: str
    text: str


@dataclass(frozen=True)
class _Params:
    """A params struct in C: its symbol, the layer before which it is defined, and the layers that use it."""

    symbol: str
    definer: int
    users: list[int]


#: Of a model alone: every instance that it calls is its own.
NONE_COMMON: Mapping[str, str] = {}

#: Calls with equal keys have params and body in common: kernel, params in C, whether the instance is shared.
_Key = tuple[str, str, bool]


class Layers:
    """Prints the layers of one plan; ``preamble`` has to stand before them.

    ``shared`` are the steps that call shared instances, ``cold`` those that are compiled for size, ``common`` gives the
    symbols of the kernels whose instances another file defines.
    """

    def __init__(
        self,
        plan: Plan,
        name: str,
        constants: Constants,
        shared: frozenset[int],
        cold: frozenset[int] = frozenset(),
        common: Mapping[str, str] = NONE_COMMON,
    ) -> None:
        self._plan, self._name, self._shared, self._cold, self._common = plan, name, shared, cold, common
        self.arguments, self._memory = Arguments(plan, constants), Memory(plan)
        self._params: dict[_Key, _Params] = {}
        numbers = {step: i for i, step in enumerate(plan.steps)}
        self.loops = RowLoops(plan, name, self.arguments, numbers, self._invoked)
        self.parts = Parts(plan, name, self.arguments, numbers, self._invoked)
        self._chains = ChainTables(plan, name, self.loops, self.instance)
        layers = list(numbered(plan))
        for i, step in layers[len(plan.start) :] + layers[: len(plan.start)]:  # a layer's params stand first
            for call in kernel_calls(step) if step not in plan.chains and step not in self.parts.layers else ():
                self._use(i, call)

    def _use(self, i: int, call: Call) -> None:
        """Note that layer ``i`` makes a call; the first layer with such params names them."""
        key = self._key(i, call)
        if key not in self._params:
            own = [params for params in self._params.values() if params.definer == i]
            symbol = f"{self._name}_{i}_params" + (f"_{len(own) + 1}" if own else "")
            self._params[key] = _Params(symbol, i, [])
        self._params[key].users.append(i)

    def _key(self, i: int, call: Call) -> _Key:
        return call.kernel, initialiser(call), self._instanced(i, call)

    def _instanced(self, i: int, call: Call) -> bool:
        """Whether a call is to a shared instance; calls of decoders and what runs once always are."""
        steps = self._plan.steps
        return i in self._shared or i >= len(steps) or call.kernel != steps[i].call.kernel

    @property
    def instances(self) -> tuple[str, ...]:
        """The kernels whose shared instance a layer calls."""
        of_steps = [self._plan.steps[i].call.kernel for i in sorted(self._shared)]
        steps = numbered(self._plan)
        others = [call.kernel for i, step in steps for call in kernel_calls(step) if self._instanced(i, call)]
        return tuple(dict.fromkeys([*of_steps, *others]))

    @property
    def preamble(self) -> str:
        """Definitions of the shared instances; "" if there are none."""
        used: dict[str, list[int]] = {}
        for i in sorted(self._shared):
            used.setdefault(self._plan.steps[i].call.kernel, []).append(i)
        own = [kernel for kernel in self.instances if kernel not in self._common]
        marks = {kernel: self._cold_mark(users) for kernel, users in used.items()}
        lines = [
            f"static{marks.get(kernel, '')} {code(self._name, kernel)} TW_SHARED({kernel}, {self._name}_{kernel})"
            for kernel in own
        ]
        if not lines:
            return self.parts.preamble
        shared = "\n".join(["/* Kernels that layers share, params read at run time. */", *lines, "", ""])
        return shared + self.parts.preamble

    @property
    def start(self) -> str:
        """The definition of ``NAME_start``, which does what comes before the first run; "" if there is nothing."""
        if not self._plan.start:
            return ""
        lines, params, layers = list[str](), list[str](), list(numbered(self._plan))
        for i, step in layers[: len(self._plan.start)]:
            params += self._definitions(i, step)
            lines += [f"/* {comment(step.call.note or str(step.node), 300)} */"]
            inner = self._function_lines(i, step)
            lines += braced(inner) if len(step.body) == 1 < len(self._plan.start) else inner
        start = f"{self._name.upper()}_SECTION_CODE void {self._name}_start({self._memory.start_parameters})"
        head = f"static TW_LAYER {start} {{"
        return "\n".join([*params, head, *(f"    {line}" for line in lines), "}", ""])

    def printed(self) -> Iterator[Layer]:
        """Every layer, in order."""
        for i, step in enumerate(self._plan.steps):
            chain, about = self._plan.chains.get(step), self._describe(i, step)
            if chain is None:
                symbol = f"{self._name}_{i}_{identifier(step.node.op)}"
                split = step in self.parts.layers
                text = self.parts.text(step, self._storage([i]), symbol) if split else self._function(i, step, symbol)
                yield Layer(symbol, f"{self.declarations(i)}\n{text}")
                continue
            layer = next(layer for layer in chain.layers if layer.step is step)
            if not straight(chain):
                yield Layer(self._chains.symbols[step], self._chains.text(chain, layer, about))
                continue
            symbol = self.loops.symbol(chain) if layer is chain.layers[-1] else f"{self._name}_none"
            yield Layer(symbol, self.loops.text(chain, layer, about))

    @property
    def feed(self) -> str:
        """The tables of the chain that takes the rows of the input; "" if there is none."""
        return f"{self._chains.by_function(self._plan.fed)}\n" if self._plan.fed else ""

    def _invoked(self, step: Step) -> str:
        """The function that computes some rows of a layer of a chain."""
        shared = self._plan.steps.index(step) in self._shared
        return self.instance(step.call) if shared else f"{step.call.kernel}_body"

    def declarations(self, i: int) -> str:
        """The text before the function of step ``i``: a comment, and params unless an earlier step has the same."""
        step = self._plan.steps[i]
        own = [] if step in self.parts.layers else self._definitions(i, step)
        return "\n".join([block_comment(self._describe(i, step)), *own])

    def params(self, i: int, call: Call) -> str:
        """The name of the params of a call of step ``i``."""
        return self._params[self._key(i, call)].symbol

    def instance(self, call: Call) -> str:
        """The name of the shared instance of a call's kernel."""
        return self._common.get(call.kernel, f"{self._name}_{call.kernel}")

    def _storage(self, users: Sequence[int]) -> str:
        """The specifiers of a function that these steps use, which lies where the first one's code does."""
        return f"static TW_LAYER{self._cold_mark(users)} {code(self._name, users[0])}"

    def _cold_mark(self, users: Iterable[int]) -> str:
        return " TW_COLD" if self._cold.issuperset(users) else ""

    def _definitions(self, i: int, step: Step) -> list[str]:
        """The params that are defined before step ``i``, each with its specialised body if several layers use that."""
        calls = {self._key(i, call): call for call in kernel_calls(step)}
        defined = (self._definition(key, call) for key, call in calls.items() if self._params[key].definer == i)
        return [text for text in defined if text]

    def _definition(self, key: _Key, call: Call) -> str:
        kernel, fields, instanced = key
        params = self._params[key]
        if call.quant:
            return self._body_with_quant(key, call)
        text = f"static {tables(self._name, params.definer)} const {kernel}_params {params.symbol} = {{\n{fields},\n}};"
        if instanced or len(params.users) == 1:
            return text
        body = f"{kernel}_body(&{params.symbol}, in, out, scratch);"
        head = f"{self._storage(params.users)} void {self._name}_{params.definer}_body("
        return f"{text}\n{head}const void *const *in, void *const *out, void *scratch) {{\n    {body}\n}}"

    def _body_with_quant(self, key: _Key, call: Call) -> str:
        """The body that several layers use whose params are partly an input; "" if there is no such body."""
        params = self._params[key]
        if key[2] or len(params.users) == 1:
            return ""
        lines = [*local_params(call, key[1]), f"{call.kernel}_body(&params, in, out, scratch);"]
        head = f"{self._storage(params.users)} void {self._name}_{params.definer}_body("
        return "\n".join(braced(lines, f"{head}const void *const *in, void *const *out, void *scratch)"))

    def _invoke(self, i: int, call: Call) -> str:
        """The call's beginning, up to ``in``; params that are partly an input are local."""
        params = self._params[self._key(i, call)]
        symbol = "params" if call.quant else params.symbol
        if self._instanced(i, call):
            return f"{self.instance(call)}(&{symbol}, "
        alone = len(params.users) == 1
        return f"{call.kernel}_body(&{symbol}, " if alone else f"{self._name}_{params.definer}_body("

    def _function(self, i: int, step: Step, symbol: str) -> str:
        head = f"{self._storage([i])} void {symbol}({self._memory.parameters}) {{"
        lines = self._function_lines(i, step)
        return "\n".join([head, *(f"    {line}" for line in [*self._memory.unused(lines), *lines]), "}"])

    def _function_lines(self, i: int, step: Step) -> list[str]:
        scratch = NO_SCRATCH if step.scratch is None else self._memory.address(step.scratch)
        return self._statements(i, step.body, scratch)

    def _statements(self, i: int, body: Iterable[Instruction], scratch: str) -> list[str]:
        """The statements of a step: a block per call, none for a lone call."""
        blocks = [self._statement(i, instruction, scratch) for instruction in body]
        if len(blocks) == 1:
            return blocks[0]
        return [
            line
            for block in blocks
            for line in (block if block[0].startswith("for ") or len(block) == 1 else braced(block))
        ]

    def _statement(self, i: int, instruction: Instruction, scratch: str) -> list[str]:
        match instruction:
            case Fetch():
                return [self.arguments.fetch(instruction, self._name)]
            case Call():
                own = scratch if instruction.scratch else NO_SCRATCH
                return self.arguments.statements(instruction, self._invoke(i, instruction), own)
            case Loop():
                head = f"for (int32_t {ITERATION} = 0; {ITERATION} < {instruction.count}; ++{ITERATION})"
                return braced(self._statements(i, instruction.body, scratch), head)
            case _:
                return [f"{self._name}_wait();"]

    def _describe(self, i: int, step: Step) -> list[str]:
        node, call = step.node, step.call
        macs = f", {grouped(call.macs)} MACs" if call.macs else ""
        lines = [f"Layer {i}: {comment(node.op)}, operator {node.index} of the model; {call.kernel}{macs}"]
        if FOLDED in node.options:
            lines.append(f"  the padding is operator {node.options[FOLDED]} of the model")
        if stacked := stacked_of(node):
            lines.append(f"  one table with operators {', '.join(map(str, stacked.others))} of the model")
        lines += [f"  weights: {comment(note, 300)}" for note in dict.fromkeys(c.note for c in step.calls) if note]
        lines += [f"  {loop.count} slices of the channels, one by one" for loop in step.body if isinstance(loop, Loop)]
        lines += [f"  in  {text}" for text in map(self.arguments.described, call.inputs) if text]
        lines += [f"  out {text}" for text in map(self.arguments.described, call.outputs) if text]
        if step.scratch is not None:
            lines.append(f"  scratch {self._memory.span(step.scratch)}")
        return lines


def kernel_calls(step: Step) -> tuple[Call, ...]:
    """The calls of kernels of a step: a fetch is none."""
    return tuple(call for call in step.calls if not isinstance(call, Fetch))


def kernel_counts(plan: Plan) -> Mapping[str, int]:
    """How many layers call each kernel, decoders included, in the order of first use."""
    counts: dict[str, int] = {}
    for step in (*plan.start, *plan.steps):
        for kernel in step.kernels:
            counts[kernel] = counts.get(kernel, 0) + 1
    return counts


def headers_of(kernels: Iterable[str]) -> list[str]:
    """The headers that define ``kernels``, in name order."""
    definers = {kernel: path for path, text in kernels_c.sources().items() for kernel in _defined(text)}
    return sorted({definers[kernel] for kernel in kernels})


@cache
def _defined(header: str) -> tuple[str, ...]:
    """The kernels that a header with this text defines."""
    return tuple(KERNEL.findall(header))


def closure(names: Iterable[str]) -> dict[str, str]:
    """Path -> text of the headers ``names`` and of all that they include, by path."""
    return includes.closure(names, kernels_c.sources())
