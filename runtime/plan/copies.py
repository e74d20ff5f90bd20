"""Copies of values between a caller and its subgraph, and what both must agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import need, unsupported
from twinfer.runtime.plan.flow import Copy, Part
from twinfer.runtime.plan.names import Value, Variable


def check_same(node: Node, a: Tensor, b: Tensor) -> None:
    """ModelError unless a value has the type of the tensor that it becomes; UnsupportedOperatorError for its shape."""
    need(a.type == b.type, node, f"{a} and {b} differ in type")
    if a.shape != b.shape:
        raise unsupported(node, f"{a} and {b} differ in shape: shapes of subgraphs must be static")


def stands_for(node: Node, value: Value, tensor: Tensor) -> bool:
    """Whether readers of ``tensor`` may read ``value`` itself, not a copy: the same numbers, or a handle.

    Raises as ``check_same`` does. Values are handed on byte by byte: with other scales they mean other numbers.
    """
    if isinstance(value, Variable):
        need(tensor.type == "RESOURCE", node, f"{tensor} gets the handle of variable {value.name!r}")
        return True
    check_same(node, value, tensor)
    return value.quant == tensor.quant


def check_condition(node: Node, value: Value) -> Tensor:
    """The value as a condition; ModelError if it is none."""
    fits = isinstance(value, Tensor) and value.type == "BOOL" and value.size == 1
    need(fits, node, f"its condition {value} must be one BOOL")
    return value  # type: ignore[return-value]  # need() has seen to it


def copies(node: Node, values: Sequence[Value], to: Sequence[Value]) -> list[Part]:
    """Copies of values to tensors, where they are not there already."""
    parts: list[Part] = []
    for value, tensor in zip(values, to, strict=True):
        if value is tensor:
            continue
        if isinstance(value, Variable) or isinstance(tensor, Variable):
            name = next(each.name for each in (value, tensor) if isinstance(each, Variable))
            raise unsupported(node, f"its body changes which variable {name!r} is")
        check_same(node, value, tensor)
        parts.append(Copy(node, value, tensor))
    return parts


def copied_back(node: Node, values: Sequence[Value], state: Sequence[Value]) -> list[Part]:
    """Copies of the body's results to the loop's variables, as if all at once."""
    changed = [(value, to) for value, to in zip(values, state, strict=True) if value is not to]
    read = {to for _, to in changed}
    sources = [replace(v) if isinstance(v, Tensor) and v in read else v for v, _ in changed]
    return [*copies(node, [v for v, _ in changed], sources), *copies(node, sources, [to for _, to in changed])]
