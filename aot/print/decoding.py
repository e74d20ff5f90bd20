"""What decodes weights as C: for one layer, slice by slice where it is cut, or for the whole model at the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twinfer.aot.print.literals import wrapped
from twinfer.runtime.graph import Tensor
from twinfer.runtime.op import Array, Call
from twinfer.runtime.plan.planner import Plan, Step

#: Prints the address of an argument.
Pointer = Callable[[Tensor | Array | None], str]

#: The variable that counts slices.
PART = "part"


def decoders(step: Step) -> tuple[tuple[str, Call], ...]:
    """What a step decodes with, each by a word that names its constants and params."""
    found = step.call.calls[:-1]
    return tuple(zip(("table", "codes")[2 - len(found) :], found, strict=True))


def at_start(plan: Plan) -> Iterator[tuple[int, str, Call]]:
    """The calls that decode at the start, each with the number of the step that reads what it makes, and a word."""
    number = {step.node: i for i, step in enumerate(plan.steps)}
    for step in plan.start:
        yield number[step.node], "codes" if len(step.call.inputs) > 2 else "table", step.call


def with_rest(plan: Plan) -> frozenset[int]:
    """The steps that make a second call for the channels that remain: both should be to one body."""
    decoding = ((i, step.call.decode) for i, step in enumerate(plan.steps))
    return frozenset(i for i, decode in decoding if decode is not None and decode.rest is not None)


def invocation(call: Call, pointer: Pointer, invoke: str, scratch: str, part: str = "0") -> list[str]:
    """The lines of one call, for slice ``part``; ``invoke`` is its beginning up to ``in``."""
    strides = iter(call.strides or [0] * (len(call.inputs) + len(call.outputs)))
    inputs = [advanced(pointer(arg), next(strides), part) for arg in call.inputs]
    outputs = [advanced(pointer(arg), next(strides), part) for arg in call.outputs]
    lines = [f"const void *const in[] = {{{wrapped(inputs, ' ' * 8).strip()}}};"] if inputs else []
    lines.append(f"void *const out[] = {{{wrapped(outputs, ' ' * 8).strip()}}};")
    return [*lines, f"{invoke}{'in' if inputs else 'NULL'}, out, {scratch});"]


def advanced(pointer: str, stride: int, part: str) -> str:
    """An address that moves by ``stride`` bytes from slice to slice."""
    if not stride or part == "0":
        return pointer
    base = pointer if pointer.startswith("arena") else f"(const unsigned char *){pointer}"
    return f"{base} + {part}" if stride == 1 else f"{base} + {stride}" if part == "1" else f"{base} + {stride} * {part}"


def block(lines: list[str]) -> list[str]:
    """A call as a block of its own."""
    return ["{", *(f"    {line}" for line in lines), "}"]


def loop(lines: list[str], slices: int) -> list[str]:
    """What is done for every slice."""
    if slices == 1:
        return lines
    return [f"for (int32_t {PART} = 0; {PART} < {slices}; ++{PART}) {{", *(f"    {line}" for line in lines), "}"]
