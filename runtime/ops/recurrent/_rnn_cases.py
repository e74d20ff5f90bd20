"""Small RNNs, for the cases of their operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Case, Shape, tensor
from twinfer.runtime.ops.recurrent._sequences import Layout

#: Types of weights -> largest difference of float outputs to the reference, as of LSTMs.
_TOLERANCE = {"FLOAT32": 2e-6, "INT8": 1e-5}

_RUNS_AGAIN = "LiteRT runs over the whole sequence once for every step"
_IGNORES = "batch by batch, LiteRT lets the second RNN run over the first input"


class _Form(NamedTuple):
    """``kind``: type of the weights. ``sizes``: batches, steps, values of an input. ``units``: of each direction.
    ``extra``: values of a second input, 0 for none; ``linked``: it has weights."""

    kind: str
    sizes: tuple[int, int, int]
    units: tuple[int, ...]
    extra: int = 0
    linked: bool = False


def weights(rng: np.random.Generator, kind: str, shape: Shape) -> Tensor:
    """Random weights, float or int8."""
    if kind == "FLOAT32":
        return tensor(shape, data=rng.standard_normal(shape) / shape[-1] ** 0.5, name="w")
    scale = float(rng.uniform(0.005, 0.015)) / shape[-1] ** 0.5
    return tensor(shape, "INT8", scale, data=rng.integers(-127, 128, shape), name="w")


def _case(rng: np.random.Generator, op: str, form: _Form, **options: Any) -> Case:
    (batches, steps, size), time_major = form.sizes, bool(options.get("time_major"))
    layout = Layout(batches, steps, time_major, flat=op == "RNN")
    inputs: list[Tensor | None] = [tensor(layout.shape(size), name="x")]
    for units in form.units:
        inputs += [weights(rng, form.kind, (units, size)), weights(rng, form.kind, (units, units))]
        inputs.append(tensor((units,), data=rng.standard_normal(units), name="b"))
        inputs.append(replace(tensor((batches, units), name="h"), variable=True))
    if len(form.units) == 2:
        inputs.append(tensor(layout.shape(form.extra), name="other") if form.extra else None)
        inputs += [weights(rng, form.kind, (n, form.extra)) if form.linked else None for n in form.units]
    widths = [sum(form.units)] if options.get("merge_outputs") else form.units
    ys = tuple(tensor(layout.shape(n), name=f"y{i}") for i, n in enumerate(widths))
    settings = {"fused_activation_function": "TANH", "asymmetric_quantize_inputs": False, **options}
    why = _fault(op, form, time_major=time_major)
    oracle = "none" if why else "litert"
    node = Node(op, tuple(inputs), ys, settings)
    grows = 10 if settings["fused_activation_function"] == "NONE" else 1  # outputs leave -1..1
    return Case(node, oracle=oracle, why=why, tolerance=grows * _TOLERANCE[form.kind])


def _fault(op: str, form: _Form, *, time_major: bool) -> str:
    if op != "BIDIRECTIONAL_SEQUENCE_RNN":
        return ""
    if time_major:
        return _RUNS_AGAIN if form.kind == "INT8" and form.sizes[1] > 1 else ""
    return _IGNORES if form.extra and not form.linked else ""


def _one_way(rng: np.random.Generator, op: str) -> Iterator[Case]:
    steps = 1 if op == "RNN" else 4
    turned: Any = {} if op == "RNN" else {"time_major": True}
    for kind in _TOLERANCE:
        yield _case(rng, op, _Form(kind, (1, steps, 1), (1,)))
        yield _case(rng, op, _Form(kind, (3, steps, 7), (5,)), fused_activation_function="RELU", **turned)
        yield _case(rng, op, _Form(kind, (2, steps, 33), (9,)), asymmetric_quantize_inputs=True)
        yield _case(rng, op, _Form(kind, (2, steps, 7), (5,)), fused_activation_function="NONE")
        yield _case(rng, op, _Form(kind, (2, steps, 7), (5,)), fused_activation_function="RELU6", **turned)


def _both_ways(rng: np.random.Generator, op: str) -> Iterator[Case]:
    for kind in _TOLERANCE:
        yield _case(rng, op, _Form(kind, (2, 4, 7), (5, 3)), time_major=False, merge_outputs=False)
        yield _case(rng, op, _Form(kind, (2, 4, 7), (5, 3)), time_major=True, merge_outputs=True)
        yield _case(rng, op, _Form(kind, (2, 4, 7), (3, 9)), time_major=False, merge_outputs=True)
        linked = _Form(kind, (2, 4, 7), (5, 3), 7, linked=True)
        yield _case(rng, op, linked, time_major=False, merge_outputs=True, asymmetric_quantize_inputs=True)
        yield _case(rng, op, linked, time_major=True, merge_outputs=False)
        yield _case(rng, op, _Form(kind, (2, 4, 7), (5, 3), 7), time_major=True, merge_outputs=False)
        yield _case(rng, op, _Form(kind, (2, 4, 7), (5, 3), 7), time_major=False, merge_outputs=True)
        yield _case(rng, op, _Form(kind, (2, 1, 7), (5, 3), 7), time_major=True, merge_outputs=False)


def cases_of(op: str) -> Callable[[np.random.Generator], Iterator[Case]]:
    """The operator's cases."""
    source = _both_ways if op == "BIDIRECTIONAL_SEQUENCE_RNN" else _one_way
    return lambda rng: source(rng, op)
