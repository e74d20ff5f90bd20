"""SignalFramer: overlapping frames of a stream, and whether all were there. Source: TFLM signal framer.cc.

TFLM does not write frames that are not there yet; here they are 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor
from twinfer.runtime.ops.signal._custom import LARGEST, arity, custom, first_run, rows, state, typed, whole, zeros
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

UNWRITTEN = "TFLM leaves what was in memory where there is no frame yet"


def infer(node: Node) -> list[Shape]:
    arity(node, 1, 2)
    x = node.input(0)
    _, width = rows(node, x, "INT16")
    typed(node, node.output, "INT16")
    typed(node, node.outputs[1], "BOOL")
    size, step, prefill = _options(node)
    need(width % step == 0, node, f"the rows of {x} are no multiple of frame_step {step}")
    need(size >= step or not prefill, node, f"with prefill, frame_size {size} must be at least frame_step {step}")
    need(x.size // step * size <= LARGEST, node, f"frames of {size} values are too large")
    return [(*x.shape[:-1], width // step, size), ()]


def _options(node: Node) -> tuple[int, int, bool]:
    """Size and step of frames, and whether zeros count as held in the beginning."""
    most = LARGEST // node.input(0).size
    return whole(node, "frame_size", 1, most), whole(node, "frame_step", 1, most), bool(whole(node, "prefill"))


def _held(node: Node) -> tuple[int, int]:
    """How many values of a row are held at most, and how many zeros in the beginning."""
    size, step, prefill = _options(node)
    return (size - step, size - step) if prefill else (math.ceil(size / step) * step - step, 0)


def fresh(node: Node) -> list[Array]:
    x = node.input(0)
    return zeros(((x.size // x.shape[-1], _held(node)[1]), "int16"))


def step(node: Node, x: Array, held: list[Array]) -> list[Array]:
    size, step, _ = _options(node)
    past = held[0]
    frames, valid = [], True
    for new in np.split(x.reshape(len(past), -1), x.shape[-1] // step, axis=1):
        past = np.concatenate([past, new], axis=1)
        enough = past.shape[1] >= size
        frames.append(past[:, :size] if enough else np.zeros((len(past), size), np.int16))
        past = past[:, step:] if enough else past
        valid &= enough
    held[0] = past
    return [np.stack(frames, axis=1).reshape(node.output.shape), np.array(valid)]


def lower(node: Node, target: Target) -> Call:
    x, (size, step, _), (room, first) = node.input(0), _options(node), _held(node)
    count = x.size // x.shape[-1]
    params = {"rows": count, "frames": x.shape[-1] // step, "step": step, "size": size, "room": room, "first": first}
    past = state(node, "past", "INT16", (count, room))
    return Call("tw_framer", params, (x,), (*node.outputs, past, state(node, "count of past", "INT32", (1,))))


def framer(shape: Shape, size: int, step: int, prefill: bool) -> Node:
    """A node for ``cases`` and tests."""
    x, valid = tensor(shape, "INT16", name="x"), tensor((), "BOOL", name="valid")
    y = tensor((*shape[:-1], shape[-1] // step, size), "INT16", name="y")
    options = custom(frame_size=size, frame_step=step, prefill=prefill)
    return Node("CUSTOM:SignalFramer", (x,), (y, valid), extra=options)


#: Shape, size, step.
FORMS = (((8,), 6, 4), ((160,), 480, 160), ((8,), 8, 4), ((2, 3, 6), 5, 2), ((4,), 3, 1), ((5,), 5, 5))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for shape, size, step in FORMS:
        yield Case(framer(shape, size, step, True))
        now = size <= step
        yield Case(framer(shape, size, step, False), None, *(("tflm", "") if now else ("none", UNWRITTEN)))
    yield Case(framer((2, 6), 2, 3, False))


OP = Op("CUSTOM:SignalFramer", infer, first_run(fresh, step), lower, cases, keeps_state=True)
