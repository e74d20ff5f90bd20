"""Chains of float arithmetic with constants become one MUL, one ADD, or MUL before ADD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.passes._rewrite import Change, View, bypass, constant, new_node, rewrite, touches_state
from twinfer.runtime.graph import Graph, Node, Tensor

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (90,)

Floats = NDArray[np.float64]

_ONE, _ZERO = np.ones(()), np.zeros(())


@dataclass(frozen=True)
class Affine:
    """x * scale + offset, both float64 and broadcasting to x."""

    x: Tensor
    scale: Floats
    offset: Floats

    def then(self, after: Affine) -> Affine:
        return Affine(self.x, self.scale * after.scale, self.offset * after.scale + after.offset)


def affine(node: Node | None) -> Affine | None:
    """What a float ADD, SUB, MUL or DIV with one constant does before its activation; None if it is anything else, or
    if it makes its input larger."""
    if node is None or node.op not in ("ADD", "SUB", "MUL", "DIV") or node.output.type != "FLOAT32":
        return None
    a, b = node.input(0), node.input(1)
    if (a.data is None) == (b.data is None) or touches_state(node):
        return None
    x, known = (a, b) if a.data is None else (b, a)
    c = np.asarray(known.data, np.float64)
    if x.shape != node.output.shape or not np.isfinite(c).all() or (node.op == "DIV" and (x is b or not c.all())):
        return None
    by_op = {"ADD": (_ONE, c), "SUB": (_ONE, -c) if x is a else (-_ONE, c), "MUL": (c, _ZERO)}
    scale, offset = by_op[node.op] if node.op != "DIV" else (1 / c, _ZERO)
    return Affine(x, scale, offset)


def elementwise_constants(graph: Graph) -> Graph:
    """MUL * MUL is one MUL, ADD + ADD one ADD, ADD before MUL is MUL before ADD, and so with SUB and DIV: the form
    that convolutions absorb. x * 1 and x + 0 go. Floats only: quantised results would change.

    Constants do not grow: a constant per channel behind one per row stays as it is.
    """
    return rewrite(graph, _merge)


def _merge(view: View, node: Node) -> Change | None:
    last = affine(node)
    if last is None:
        return None
    activation = str(node.options["fused_activation_function"])
    if activation == "NONE" and scalar_is(last.scale, 1) and scalar_is(last.offset, 0):
        return bypass(view, node, last.x, node.output)
    chain, whole = [node], last
    while (before := _inner(view, whole.x)) is not None:
        chain, whole = [before[0], *chain], before[1].then(whole)
    most = max(t.size for n in chain for t in n.inputs if t is not None and t.data is not None)
    parts = whole.scale, whole.offset
    sound = all(v.size <= most and bool((np.abs(v) < np.finfo(np.float32).max).all()) for v in parts)
    ops = write_form(whole, node.output, activation) if len(chain) > 1 and sound else ()
    if not ops or len(ops) > len(chain) or [n.op for n in ops] == [n.op for n in chain]:
        return None
    return Change(tuple(chain), ops)


def _inner(view: View, x: Tensor) -> tuple[Node, Affine] | None:
    node = view.feeds(x)
    form = affine(node)
    if node is None or form is None or node.options["fused_activation_function"] != "NONE":
        return None
    return node, form


def scalar_is(values: Floats, number: float) -> bool:
    return bool((values == number).all())


def write_form(form: Affine, y: Tensor, activation: str) -> tuple[Node, ...]:
    """The operators of a form: MUL, ADD, or MUL and ADD; at least one."""
    options: dict[str, Any] = {"fused_activation_function": activation}
    parts = (form.scale, "scale"), (form.offset, "offset")
    scale, offset = (constant(v.astype(np.float32), f"{y.name}/{n}") for v, n in parts)
    if scalar_is(form.offset, 0):
        return (new_node("MUL", [form.x, scale], y, **options),)
    if scalar_is(form.scale, 1):
        return (new_node("ADD", [form.x, offset], y, **options),)
    middle = Tensor(f"{y.name}/scaled", y.type, y.shape)
    return new_node("MUL", [form.x, scale], middle), new_node("ADD", [middle, offset], y, **options)
