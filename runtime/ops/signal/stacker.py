"""SignalStacker: a frame with those before and behind it, and whether all were there.

Source: TFLM signal/micro/kernels/stacker.cc, which writes no output while frames are missing; here it is 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor
from twinfer.runtime.ops.signal._custom import LARGEST, arity, custom, first_run, length, state, typed, whole, zeros
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

UNWRITTEN = "TFLM leaves what was in memory until all frames are there"


def infer(node: Node) -> list[Shape]:
    arity(node, 1, 2)
    x = node.input(0)
    size, channels = length(node, x, "INT16"), whole(node, "num_channels")
    need(size == channels, node, f"num_channels is {channels}, {x} has {size}")
    typed(node, node.output, "INT16")
    typed(node, node.outputs[1], "BOOL")
    slots, _, step = _options(node)
    need(step <= slots, node, f"stacker_step {step} is more than the {slots} frames that are stacked")
    return [(slots * size,), ()]


def _options(node: Node) -> tuple[int, int, int]:
    """How many frames are stacked, how many of them are before the first, and how many are dropped."""
    most = LARGEST // (3 * node.input(0).size)
    left, right = (whole(node, f"stacker_{side}_context", 0, most) for side in ("left", "right"))
    return left + right + 1, left, whole(node, "stacker_step", 1)


def fresh(node: Node) -> list[Array]:
    return zeros(((0, node.input(0).size), "int16"))


def step(node: Node, x: Array, held: list[Array]) -> list[Array]:
    slots, left, dropped = _options(node)
    first = len(held) == 1  # a second element says that there was a run
    frames = np.concatenate([held[0], *[x[None]] * (left + 1 if first else 1)])
    valid = len(frames) == slots
    held[:] = [frames[dropped:] if valid else frames, np.zeros(0)]
    y = frames.reshape(-1) if valid else np.zeros(node.output.shape, np.int16)
    return [y, np.array(valid)]


def lower(node: Node, target: Target) -> Call:
    x, (slots, left, step) = node.input(0), _options(node)
    params = {"size": x.size, "slots": slots, "left": left, "step": step}
    frames, count = state(node, "frames", "INT16", (slots, x.size)), state(node, "count of frames", "INT32", (1,))
    return Call("tw_stacker", params, (x,), (*node.outputs, frames, count))


def stacker(size: int, left: int, right: int, step: int) -> Node:
    """A node for ``cases`` and tests."""
    x, y = tensor((size,), "INT16", name="x"), tensor((size * (left + right + 1),), "INT16", name="y")
    options = custom(num_channels=size, stacker_left_context=left, stacker_right_context=right, stacker_step=step)
    return Node("CUSTOM:SignalStacker", (x,), (y, tensor((), "BOOL", name="valid")), extra=options)


#: Size, left, right, step.
FORMS = ((3, 2, 0, 1), (40, 1, 1, 2), (5, 0, 3, 4), (2, 3, 2, 5), (1, 0, 0, 1), (4, 2, 0, 3))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for form in FORMS:
        yield Case(stacker(*form), None, *(("none", UNWRITTEN) if form[2] else ("tflm", "")))


OP = Op("CUSTOM:SignalStacker", infer, first_run(fresh, step), lower, cases, keeps_state=True)
