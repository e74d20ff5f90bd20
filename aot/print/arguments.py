"""What a call gets, in C: its params as designated initialisers; pointers into the arena, to constants, to slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any
from weakref import WeakKeyDictionary

from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.data import Constants
from twinfer.aot.print.literals import WIDTH, comment, scalar, wrapped
from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Tensor
from twinfer.runtime.params import members, struct_of
from twinfer.runtime.plan.apart import is_float, quant_paths
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Argument, Call, Fetch, Slice, part_of

#: The variable that counts the iterations of a loop.
ITERATION = "part"

#: The params of a call that depend on scales and zero points, as words, where they are an input.
QUANT = "quant"

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
        if "(&params, " in invoke:
            lines += local_params(call, initialiser(call))
        passed = "NULL" if scratch == NO_SCRATCH and "_body(&" not in invoke else scratch  # to a function: a step less
        return [*lines, f"{invoke}{'in' if inputs else 'NULL'}, out, {passed});"]

    def fetch(self, call: Fetch, name: str) -> str:
        """The statement that fetches a part of a constant."""
        source = part_of(call.inputs[0] or call.outputs[0])
        at = self._constants.place(source.value) + source.offset if isinstance(source.value, Constant) else 0
        moved = f"{at} + {source.stride} * (uint32_t){ITERATION}" if source.stride else str(at)
        return f"{name}_fetch({self.pointer(call.outputs[0])}, {moved}, {call.nbytes});"

    def pointer(self, argument: Argument) -> str:
        """The address of an argument; in a loop, of the current iteration."""
        if argument is None:
            return "NULL"
        part = part_of(argument)
        start = self._start(part)
        if not part.stride:
            return start
        base = start if " " in start or start == self.memory.first or isinstance(part.value, Tensor) else None
        base = base or f"(const unsigned char *){start}"
        if part.turns:
            return f"{base} {'+' if part.stride > 0 else '-'} {abs(part.stride)} * ({ITERATION} % {part.turns})"
        return f"{base} + {ITERATION}" if part.stride == 1 else f"{base} + {part.stride} * {ITERATION}"

    def _start(self, part: Slice) -> str:
        """The address of the first iteration."""
        value = part.value
        if isinstance(value, Tensor):
            return self.memory.address(value, part.offset)
        return self._constants.address(value, part.offset) or self.memory.first

    def described(self, argument: Argument) -> str:
        """A tensor as an argument, for comments: name, type, shape, and where it lies; "" for all else."""
        value = argument if argument is None else part_of(argument).value
        if not isinstance(value, Tensor):
            return ""
        return f'"{comment(value.name, 48)}" {value.type} {list(value.shape)} {self.memory.span(value)}'


_INDENT = "    "

#: Call -> its params as C. Several parts of the emitter ask for them.
_PRINTED: WeakKeyDictionary[Call, str] = WeakKeyDictionary()


def initialiser(call: Call) -> str:
    """The call's params as designated initialisers, every field, in the struct's order (C++20 asks for that)."""
    if call not in _PRINTED:
        _PRINTED[call] = _lines(struct_of(call.kernel), params_of(call), _INDENT)
    return _PRINTED[call]


def params_of(call: Call) -> Any:
    """The call's params; those that it finds in an input are expressions in C."""
    values: Any = call.params
    for i, path in enumerate(quant_paths(call) if call.quant else ()):
        array = f"((const float *)in[{call.quant}])" if is_float(call.kernel, path) else QUANT
        values = with_member(values, path, f"{array}[{i}]")
    return values


def with_member(value: Any, path: Sequence[str | int], member: str) -> Any:
    """A copy of params, or of a member of them, in which the member at ``path`` is another one."""
    if not path:
        return member
    first, *rest = path
    items: Any = dict(value) if isinstance(value, Mapping) else list(value)
    items[first] = with_member(items[first], rest, member)
    return items


def local_params(call: Call, fields: str) -> list[str]:
    """The statements that make params of which some are in an input; the array ``in`` stands before them."""
    head = [f"const int32_t *const {QUANT} = (const int32_t *)in[{call.quant}];"] if f"{QUANT}[" in fields else []
    return [*head, f"const {call.kernel}_params params = {{", *fields.split("\n"), "};"]


def initialised(kernel: str, params: Mapping[str, Any], indent: str) -> str:
    """The same of params whose members may be expressions in C, as text."""
    return _lines(struct_of(kernel), params, indent)


def _lines(struct: Any, values: Mapping[str, Any], indent: str) -> str:
    """The fields of a struct, in indented lines; one that takes several lines shares none of them."""
    fields = [_field(name, type, values[name], indent) for name, type in members(struct)]
    blocks = list[str]()
    for several, group in groupby(fields, key=lambda field: "\n" in field):
        run = list(group)
        blocks += [indent + field for field in run] if several else [wrapped(run, indent)]
    return ",\n".join(blocks)


def _field(name: str, type: Any, value: Any, indent: str) -> str:
    """A field and its value, on one line if that fits."""
    if isinstance(value, str):
        return f".{name} = {value}"
    if type.kind == "array":
        return f".{name} = {{{', '.join(_array(value, type.item.cname))}}}"
    if type.kind != "struct":
        return f".{name} = {scalar(value if isinstance(value, int) else float(value), type.cname)}"
    inside = _lines(type, value, indent + _INDENT)
    short = f".{name} = {{{inside.strip()}}}"
    fits = "\n" not in short and len(indent) + len(short) < WIDTH
    return short if fits else f".{name} = {{\n{inside},\n{indent}}}"


def _array(values: Sequence[int | float | str], type: str) -> list[str]:
    return [value if isinstance(value, str) else scalar(value, type) for value in values] or [scalar(0, type)]
