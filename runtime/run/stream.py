"""A model that keeps state, run over a stream: rows come in chunks of any size; a step runs when it has its rows."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Graph, Tensor
from twinfer.runtime.rows import row_axis

#: The entry of a streaming model's metadata: the axis of time, rows per window, new rows per step.
METADATA = "twinfer_stream"


class Steps(NamedTuple):
    """What a step takes: ``hop`` rows of ``shape`` elements each; before step ``first`` no window is full."""

    source: Tensor
    hop: int
    row: int
    first: int


def steps_of(graph: Graph) -> Steps:
    """The steps of a model. Without metadata a step takes the whole input, whose first long dimension is time.

    Raises InvalidArgumentError for a model with several inputs or without elements, or whose metadata do not fit it.
    """
    inputs = [tensor for tensor in graph.inputs if tensor.data is None]
    if len(inputs) != 1:
        raise InvalidArgumentError(f"{graph.name!r} has {len(inputs)} inputs: a stream feeds one")
    (source,) = inputs
    if not source.size:
        raise InvalidArgumentError(f"{source} has no elements: a stream cannot feed it")
    about = _about(graph)
    axis = about["axis"] if about else row_axis(source)
    if not 0 <= axis < max(1, len(source.shape)) or prod(source.shape[:axis]) != 1:
        raise InvalidArgumentError(f"{source} has no rows along axis {axis} that lie one after the other")
    hop = source.shape[axis] if source.shape else 1
    first = -(-about["rows"] // hop) if about else 1
    return Steps(source, hop, source.size // hop, first)


def _about(graph: Graph) -> dict[str, int] | None:
    """The metadata of a streaming model; None if there are none."""
    text = graph.metadata.get(METADATA)
    if text is None:
        return None
    try:
        import json  # only streams need it

        about = {key: int(value) for key, value in json.loads(text).items()}
        if not 0 < about["rows"] < 1 << 31:
            raise ValueError("rows are out of range")
        return {"axis": about["axis"], "rows": about["rows"]}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidArgumentError(f"{graph.name!r}: its metadata {METADATA!r} are damaged: {error!r}") from None


class Rows:
    """Rows that wait until there are enough for a step."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._waiting = np.empty((0, steps.row), steps.source.dtype)

    def add(self, chunk: Any) -> None:
        """Take the rows of ``chunk``, any number of them.

        Raises InvalidArgumentError for a chunk of another type, or that is no whole number of rows.
        """
        rows, steps = np.asarray(chunk), self._steps
        if rows.dtype != steps.source.dtype or rows.size % steps.row:
            raise InvalidArgumentError(
                f"a chunk {rows.dtype}{list(rows.shape)} does not fit {steps.source}: give whole rows of {steps.row} "
                f"elements of {steps.source.dtype}"
            )
        self._waiting = np.concatenate([self._waiting, rows.reshape(-1, steps.row)])

    def next(self) -> Array | None:
        """The input of the next step; None if there are not enough rows for one."""
        steps = self._steps
        if len(self._waiting) < steps.hop:
            return None
        value, self._waiting = self._waiting[: steps.hop], self._waiting[steps.hop :]
        return value.reshape(steps.source.shape)
