"""Operators that keep a state of their own from run to run: what these modules share.

Each has ``fresh(node)``, its state before the first run, and ``step(node, x, state)``, a run, which changes the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Shape

Fresh = Callable[[Node], list[Array]]
Step = Callable[[Node, Any, list[Array]], list[Array]]


def state(node: Node, what: str, type: str, shape: Shape) -> Tensor:
    """A tensor that planning keeps from run to run; it begins with zeros. An empty one gets an element."""
    room = shape if 0 not in shape else (1,)
    return Tensor(f"{what} of {node.output.name}", type, room, variable=True)


def first_run(fresh: Fresh, step: Step) -> Callable[[Node, list[Any]], list[Array]]:
    """An operator's ``reference``: its first run."""
    return lambda node, inputs: step(node, inputs[0], fresh(node))


def runs(node: Node, fresh: Fresh, step: Step, values: Sequence[Array]) -> list[list[Array]]:
    """The outputs of a run for every value, one after the other."""
    held = fresh(node)
    return [step(node, value, held) for value in values]


def zeros(*shapes: tuple[Shape, str]) -> list[Array]:
    return [np.zeros(shape, type) for shape, type in shapes]
