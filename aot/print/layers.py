"""The layers of a plan as C: params, and one static function a layer, over a specialised body or a shared one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinfer.aot.print.data import Constants
from twinfer.aot.print.decoding import PART, at_start, block, decoders, invocation, loop
from twinfer.aot.print.literals import block_comment, comment, grouped, identifier, scalar, wrapped
from twinfer.runtime.graph import Tensor
from twinfer.runtime.op import Array, Call
from twinfer.runtime.params import members, struct_of
from twinfer.runtime.plan.planner import Plan, Step


def initialiser(call: Call) -> str:
    """The call's params as designated initialisers, every field, in the struct's order (C++20 asks for that)."""
    return wrapped(_initialisers(struct_of(call.kernel), call.params))


def _initialisers(struct: Any, values: Mapping[str, Any]) -> list[str]:
    """What stands between the braces of a struct, in pieces between which a line may end."""
    items = list[str]()
    for field, type in members(struct):
        if type.kind == "struct":
            first, *others = _initialisers(type, values[field])
            nested = [f".{field} = {{{first}", *others]
            items += [*nested[:-1], f"{nested[-1]}}}"]
        elif type.kind == "array":
            items.append(f".{field} = {{{', '.join(_array(values[field], type.item.cname))}}}")
        else:
            items.append(f".{field} = {scalar(_number(values[field]), type.cname)}")
    return items


def _number(value: int | float) -> float:
    return value if isinstance(value, int) else float(value)


def _array(values: Sequence[int | float], type: str) -> list[str]:
    return [scalar(value, type) for value in values] or [scalar(0, type)]


@dataclass(frozen=True)
class Layer:
    """One layer's C function: its name and the text that defines it, params and comment included."""

    symbol: str
    text: str


class Layers:
    """Prints the layers of one plan; ``preamble`` is what has to stand before them.

    ``shared`` and ``cold`` are the steps that call shared instances, and those that are compiled for size.
    """

    def __init__(
        self, plan: Plan, name: str, constants: Constants, shared: frozenset[int], cold: frozenset[int] = frozenset()
    ) -> None:
        self._plan, self._name, self._constants, self._shared, self._cold = plan, name, constants, shared, cold
        self._params = [initialiser(step.call) for step in plan.steps]
        self._users: dict[tuple[str, str, bool], list[int]] = {}
        for i in range(len(plan.steps)):
            self._users.setdefault(self._key(i), []).append(i)

    @property
    def preamble(self) -> str:
        """Instances of the shared kernels, or nothing."""
        used: dict[str, list[int]] = {}
        for i in sorted(self._shared):
            used.setdefault(self._plan.steps[i].call.kernel, []).append(i)
        lines = [f"static{self._cold_mark(users)} TW_SHARED({k}, {self._name}_{k})" for k, users in used.items()]
        lines += [f"static TW_SHARED({k}, {self._name}_{k})" for k in self._decoding_kernels()]
        if not lines:
            return ""
        return "\n".join(["/* Kernels that layers share, params read at run time. */", *lines, "", ""])

    def _decoding_kernels(self) -> list[str]:
        calls = [call for step in self._plan.steps for _, call in decoders(step)]
        return list(dict.fromkeys(c.kernel for c in (*calls, *(call for *_, call in at_start(self._plan)))))

    @property
    def start(self) -> str:
        """The function that decodes weights once, ``NAME_decode``, or nothing."""
        lines, params = list[str](), list[str]()
        for i, word, call in at_start(self._plan):
            params.append(self._decoder_params(i, word, call))
            lines += [f"/* {comment(call.note, 300)} */"] if word == "codes" else []
            lines += block(self._decoder(i, word, call))
        body = "\n".join(f"    {line}" for line in lines)
        head = f"static void {self._name}_decode(unsigned char *arena) {{"
        return "\n".join([*params, head, body, "}", ""]) if lines else ""

    def __iter__(self) -> Iterator[Layer]:
        for i, step in enumerate(self._plan.steps):
            symbol = f"{self._name}_{i}_{identifier(step.node.op)}"
            yield Layer(symbol, f"{self.declarations(i)}\n{self._function(i, step, symbol)}")

    def declarations(self, i: int) -> str:
        """What stands before step ``i``: a comment, and params unless an earlier step has the same."""
        step = self._plan.steps[i]
        text = [block_comment(self._describe(i, step)), self._params_text(i)]
        text += [self._decoder_params(i, word, call) for word, call in decoders(step)]
        if step.call.decode is not None and step.call.decode.rest is not None:
            text.append(self._decoder_params(i, "rest", step.call.decode.rest))
        return "\n".join(part for part in text if part)

    def params(self, i: int) -> str:
        """The name of step ``i``'s params."""
        return f"{self._name}_{self._users[self._key(i)][0]}_params"

    def instance(self, i: int) -> str:
        """The name of the shared instance of step ``i``'s kernel."""
        return f"{self._name}_{self._plan.steps[i].call.kernel}"

    def _key(self, i: int) -> tuple[str, str, bool]:
        """Steps of equal keys have params and body in common."""
        return self._plan.steps[i].call.kernel, self._params[i], i in self._shared

    def _storage(self, users: Iterable[int]) -> str:
        """What the definition of a function of these steps begins with."""
        return f"static TW_NOINLINE{self._cold_mark(users)}"

    def _cold_mark(self, users: Iterable[int]) -> str:
        return " TW_COLD" if self._cold.issuperset(users) else ""

    def _params_text(self, i: int) -> str:
        """The params struct, and beside it the specialised body if other layers use it, too; once for equal params."""
        kernel, params, shared = self._key(i)
        users = self._users[self._key(i)]
        if users[0] != i:
            return ""
        text = f"static const {kernel}_params {self.params(i)} = {{\n{params},\n}};"
        if shared or len(users) == 1:
            return text
        call = f"{kernel}_body(&{self.params(i)}, in, out, scratch);"
        head = f"{self._storage(users)} void {self._name}_{i}_body("
        return f"{text}\n{head}const void *const *in, void *const *out, void *scratch) {{\n    {call}\n}}"

    def _invoke(self, i: int) -> str:
        """The call's beginning, up to ``in``."""
        kernel, _, shared = self._key(i)
        users = self._users[self._key(i)]
        if shared:
            return f"{self.instance(i)}(&{self.params(i)}, "
        return f"{self._name}_{users[0]}_body(" if len(users) > 1 else f"{kernel}_body(&{self.params(i)}, "

    def _function(self, i: int, step: Step, symbol: str) -> str:
        call = step.call
        slices = call.decode.slices if call.decode else 1
        part = PART if slices > 1 else "0"
        lines = invocation(call, self._pointer, self._invoke(i), _scratch(step), part)
        before = {word: block(self._decoder(i, word, c, part)) for word, c in decoders(step)}
        lines = [*before.get("table", []), *loop([*before.get("codes", []), *lines], slices), *self._rest(i, step)]
        head = f"{self._storage([i])} void {symbol}(unsigned char *arena) {{"
        return "\n".join([head, *(f"    {line}" for line in lines), "}"])

    def _rest(self, i: int, step: Step) -> list[str]:
        """The blocks that decode and compute the channels that remain behind the slices."""
        decode = step.call.decode
        if decode is None or decode.rest is None:
            return []
        invoke = f"{self.instance(i)}(&{self.decoder_params(i, 'rest')}, "
        lines = invocation(decode.rest, self._pointer, invoke, _scratch(step), "1")
        return [*block(self._decoder(i, "codes", decode.codes, str(decode.slices))), *block(lines)]

    def _decoder(self, i: int, word: str, call: Call, part: str = "0") -> list[str]:
        """The lines that call what decodes for step ``i``."""
        invoke = f"{self._name}_{call.kernel}(&{self.decoder_params(i, word)}, "
        return invocation(call, self._pointer, invoke, "NULL", part)

    def decoder_params(self, i: int, word: str) -> str:
        """The name of the params of what decodes for step ``i``, or of its ``rest``."""
        return f"{self._name}_{i}_{word}_params"

    def _decoder_params(self, i: int, word: str, call: Call) -> str:
        return f"static const {call.kernel}_params {self.decoder_params(i, word)} = {{\n{initialiser(call)},\n}};"

    def _pointer(self, arg: Tensor | Array | None) -> str:
        if isinstance(arg, Tensor) and arg.data is None:
            return f"arena + {self._plan.offsets[arg]}"
        array = arg.data if isinstance(arg, Tensor) else arg
        if array is None:
            return "NULL"
        return self._constants.symbol(array) or "arena"

    def _describe(self, i: int, step: Step) -> list[str]:
        node, call = step.node, step.call
        macs = f", {grouped(call.macs)} MACs" if call.macs else ""
        lines = [f"Layer {i}: {comment(node.op)}, operator {node.index} of the model; {call.kernel}{macs}"]
        lines += [f"  weights: {comment(c.note, 300)}" for word, c in decoders(step) if word == "codes"]
        lines += (
            [f"  {len(call.sequence) // 2} slices of the channels, one by one"] if call.decode and call.strides else []
        )
        lines += [f"  in  {self._place(arg)}" for arg in call.inputs if arg is not None]
        lines += [f"  out {self._place(arg)}" for arg in call.outputs]
        if call.scratch:
            lines.append(f"  scratch: arena [{step.scratch}, {step.scratch + call.scratch})")
        return lines

    def _place(self, arg: Tensor | Array) -> str:
        if not isinstance(arg, Tensor):
            return f"{arg.dtype.name}{list(arg.shape)}: {self._constants.symbol(arg) or 'empty'}"
        where = self._constants.symbol(arg.data) or "empty" if arg.data is not None else span(self._plan, arg)
        return f'"{comment(arg.name)}" {arg.type}{list(arg.shape)}: {where}'


def _scratch(step: Step) -> str:
    return f"arena + {step.scratch}" if step.call.scratch else "NULL"


def span(plan: Plan, tensor: Tensor) -> str:
    """Where in the arena a tensor lies, for comments."""
    at = plan.offsets[tensor]
    return f"arena [{at}, {at + tensor.nbytes})"


def kernel_counts(plan: Plan) -> Mapping[str, int]:
    """How many layers call each kernel, in the order of first use; decoders are kernels, too."""
    counts: dict[str, int] = {}
    for call in (call for step in (*plan.start, *plan.steps) for call in step.call.calls):
        counts[call.kernel] = counts.get(call.kernel, 0) + 1
    return counts
