"""CIRCULAR_BUFFER: the last few values of a stream, the newest last. Source: TFLM circular_buffer.cc.

TFLM ends the whole run at this operator, without error, in all but every ``cycles_max``-th, unless the operator has a
second output, which then says in which runs its readers should count. A plan always runs to its end: so without that
output only a period of 1 is taken. The values are kept in the output if that is a variable, else in a state beside it;
in TFLM an output that is no variable keeps them only if nothing else is placed there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor, unsupported
from twinfer.runtime.ops.signal._custom import custom, first_run, state, typed, whole
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Numbers of slots that mean a period of 1 where no period is given.
ALWAYS = (5, 13, 25)


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) == 1 and len(node.outputs) in (1, 2), node, "it must have one input and one or two outputs")
    x, y = node.input(0), node.output
    before, after = (typed(node, t, "INT8", 4) for t in (x, y))
    need(x.size > 0 and y.size > 0, node, f"{x} and {y} must have values")
    same = before[:2] == (1, 1) and after[0] == 1 and before[2:] == after[2:]
    need(same, node, f"{x} must be one slot of {y}")
    _initial(node)
    period = _period(node)
    if len(node.outputs) == 1:
        if period != 1:
            last = f"it ends the run in all but every {period or 'few'}th; state a cycles_max of 1 (it is {period})"
            other = "the operator a second output, BOOL, which says whether its readers should count"
            raise unsupported(node, f"{last}, or give {other}")
        return [y.shape]
    need(typed(node, node.outputs[1], "BOOL") in ((), (1,)), node, f"{node.outputs[1]} must have one element")
    need(period is not None, node, "its second output needs option 'cycles_max'")
    return [y.shape, node.outputs[1].shape]


def _period(node: Node) -> int | None:
    """How many runs there are to one that counts; None if neither option nor shape says it."""
    given = whole(node, "cycles_max") if node.extra.get("custom_options") else 0
    if given > 0:
        return given
    return 1 if node.output.shape[1] in ALWAYS else None


def _initial(node: Node) -> int:
    """What all slots hold before the first run: the zero point, as in every variable."""
    y = node.output
    zero = 0 if y.quant is None or y.quant.per_channel else y.zero
    need(-128 <= zero <= 127, node, f"{y} has zero point {zero}, which is outside its type")
    return zero


def fresh(node: Node) -> list[Array]:
    return [np.full(node.output.shape, _initial(node), np.int8), np.zeros((), np.int64)]


def step(node: Node, x: Array, held: list[Array]) -> list[Array]:
    slots, runs = held
    held[:] = [np.concatenate([slots[:, 1:], x], axis=1), np.asarray(runs + 1)]
    valid = int(held[1]) % (_period(node) or 1) == 0
    return [held[0], *(np.full(t.shape, valid) for t in node.outputs[1:])]


def lower(node: Node, target: Target) -> Call:
    y, counts = node.output, len(node.outputs) == 2
    kept = y if y.variable else replace(state(node, "slots", "INT8", y.shape), quant=y.quant)
    beside = (state(node, "runs", "INT32", (1,)), node.outputs[1]) if counts else ()
    params = {"slots": y.shape[1], "size": node.input(0).size, "cycles": (_period(node) or 1) if counts else 0}
    return Call("tw_circular_buffer", params, node.inputs, (y, kept, *beside))


def buffer(slots: int, shape: tuple[int, int], period: int | None, *, valid: bool = False, kept: bool = True) -> Node:
    """A node for ``cases`` and tests; ``kept``: its output is a variable."""
    x = tensor((1, 1, *shape), "INT8", 0.5, 3, name="x")
    y = replace(tensor((1, slots, *shape), "INT8", 0.5, 3, name="y"), variable=kept)
    outputs = (y, tensor((1,), "BOOL", name="valid")) if valid else (y,)
    extra = {} if period is None else custom(cycles_max=period)
    return Node("CUSTOM:CIRCULAR_BUFFER", (x,), outputs, extra=extra)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for slots, shape, period in (
        (4, (1, 3), 1), (1, (2, 5), 1), (5, (1, 8), None), (13, (2, 2), 0), (25, (1, 2), None),
    ):  # fmt: skip
        yield Case(buffer(slots, shape, period))
    for period in (1, 2, 3):
        yield Case(buffer(4, (1, 3), period, valid=True))
    why = "TFLM begins with what was in memory if the output is no variable"
    yield Case(buffer(4, (1, 3), 1, kept=False), None, "none", why)


OP = Op("CUSTOM:CIRCULAR_BUFFER", infer, first_run(fresh, step), lower, cases, keeps_state=True)
