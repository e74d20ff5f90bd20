"""Runs of an interpreter or its compiled twin over rubbish, so that no result can be left from an earlier run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.program import Step
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.poison import POISONS, poison

Values = dict[Tensor, Array]


def initial_state(model: Interpreter) -> Values:
    """Sets the variables to their first values and returns them."""
    model.reset_all_variables()
    return {tensor: model.session.view(tensor).copy() for tensor in model.plan.variables}


def _prepare(model: Interpreter, inputs: Sequence[Array], rubbish: int) -> None:
    """Sets the inputs and fresh state, and fills the memory with ``rubbish``, which hides the results of earlier
    runs."""
    poison(model.session, rubbish)
    model.reset_all_variables()
    model.session.feed(inputs)


def run_whole(model: Interpreter, inputs: Sequence[Array], rubbish: int) -> Values:
    """The outputs of a run in one call, as users run it."""
    _prepare(model, inputs, rubbish)
    model.invoke()
    return dict(zip(model.plan.graph.outputs, model.session.outputs(), strict=True))


def observe(model: Interpreter, inputs: Sequence[Array]) -> Values:
    """Every tensor, read right after the step that writes it."""
    _prepare(model, inputs, POISONS[0])
    session, graph = model.session, model.plan.graph
    seen: Values = dict(zip(graph.inputs, inputs, strict=True))

    def look(position: int, step: Step) -> None:
        seen.update((tensor, session.view(tensor).copy()) for tensor in step.node.outputs)

    model.on_call = look
    model.invoke()
    model.on_call = None
    # Tensors without a step share their source's memory in another shape, or have no elements.
    for tensor, source in ((t, node.optional(0)) for node in graph.nodes for t in node.outputs if t not in seen):
        value = None if source is None else seen.get(source, source.data)
        empty = value is None or not tensor.size
        seen[tensor] = np.zeros(tensor.shape, tensor.dtype) if empty else value.reshape(tensor.shape)  # type: ignore[union-attr]
    return seen
