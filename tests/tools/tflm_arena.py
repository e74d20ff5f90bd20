"""TFLM itself: what a model computes there, and how many bytes of the arena its tensors take."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.write.tflite import write

#: What TFLM's recording interpreter says of the memory of tensors and scratch.
_HEAD = re.compile(r"Arena allocation head (\d+) bytes")


def in_tflm(graph: Graph, capfd: pytest.CaptureFixture[str], runs: Sequence[int] = (1, 2)) -> tuple[list[Array], int]:
    """The outputs of some runs in turn, each over the random inputs of a seed, and the bytes of tensors and scratch."""
    from tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(write(graph), arena_size=1 << 22)
    outputs: list[Array] = []
    for seed in runs:
        for i, value in enumerate(random_inputs(graph, seed)):
            interpreter.set_input(value, i)
        interpreter.invoke()
        outputs += [np.array(interpreter.get_output(i)) for i in range(len(graph.outputs))]
    capfd.readouterr()
    interpreter.print_allocations()
    said = _HEAD.search(capfd.readouterr().err)
    assert said is not None, "TFLM no longer says what it uses"
    return outputs, int(said[1])


def same(some: Sequence[Array], others: Sequence[Array]) -> bool:
    """Whether all outputs have the same bytes."""
    return [each.tobytes() for each in some] == [each.tobytes() for each in others]
