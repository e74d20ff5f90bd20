"""Runs a window model and its streaming model over the same rows and compares the outputs bit for bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinfer.converter.stream.convert import Streaming
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter


@dataclass(frozen=True)
class Proof:
    """How many full windows were compared, and in how many any output differed."""

    windows: int
    different: int


def prove(graph: Graph, streaming: Streaming, windows: int = 3, seed: int = 0) -> Proof:
    """Compare over random rows: at least ``windows`` windows that have no row in common, and all those between."""
    steps = streaming.steps * (windows + 1)
    row = streaming.graph.inputs[0].size // streaming.hop
    full = -(-steps * streaming.hop // streaming.rows)
    parts = [random_inputs(graph, seed + i)[0].reshape(-1, row) for i in range(full)]
    rows = np.concatenate(parts)[: steps * streaming.hop]
    stepwise, whole = Interpreter.from_graph(streaming.graph), Interpreter.from_graph(graph)
    stepwise.allocate_tensors()
    whole.allocate_tensors()
    different = count = 0
    for i, outputs in enumerate(stepwise.stream([rows]), streaming.steps):
        end = i * streaming.hop
        want = _outputs(whole, rows[end - streaming.rows : end])
        different += any(not _same(got, value) for got, value in zip(outputs, want, strict=True))
        count += 1
    return Proof(count, different)


def _outputs(model: Interpreter, rows: Array) -> list[Array]:
    details = model.get_input_details()[0]
    model.set_tensor(details["index"], rows.reshape(details["shape"]))
    model.invoke()
    return [model.get_tensor(details["index"]) for details in model.get_output_details()]


def _same(got: Array, want: Array) -> bool:
    """Whether the new rows are the last ones of the window's output, along whichever dimension it has fewer."""
    last = tuple(slice(b - a, None) for a, b in zip(got.shape, want.shape, strict=True))
    return got.tobytes() == want[last].tobytes()
