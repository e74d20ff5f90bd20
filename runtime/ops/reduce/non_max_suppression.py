"""NON_MAX_SUPPRESSION_V4 and _V5: the best boxes, without those that overlap a better one.

Source: LiteRT kernels/internal/reference/non_max_suppression.h; but a box that was chosen is not chosen again, which
happens there where its overlap with itself counts as 0: that of a box without area.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.move._move import check_arity, index, indices
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _soft(node: Node) -> bool:
    """Whether scores fall by overlaps: version 5, which tells them, too."""
    return node.op == "NON_MAX_SUPPRESSION_V5"


def _most(node: Node) -> int:
    """How many boxes are chosen at most: input 2, or the output's extent where that is computed at run time."""
    most, numbers = node.input(2), node.output
    need_type(node, most, "INT32")
    if most.data is not None:
        return indices(node, 2, 1)[0]
    if len(numbers.shape) != 1 or any(d < 0 for d in numbers.shape_signature):
        raise unsupported(node, f"{most} is computed at run time and {numbers} has no fixed shape: make it a constant")
    return numbers.shape[0]


def infer(node: Node) -> list[Shape]:
    soft = _soft(node)
    check_arity(node, 6 if soft else 5, 3 if soft else 2)
    boxes, scores = node.input(0), node.input(1)
    floats = [boxes, scores, *(node.input(i) for i in range(3, len(node.inputs))), *node.outputs[1 : 1 + soft]]
    for t in floats:
        need_type(node, t, "FLOAT32")
    for t in (node.output, node.outputs[-1]):
        need_type(node, t, "INT32")
    need(len(boxes.shape) == 2 and boxes.shape[1] == 4, node, f"{boxes} must be [boxes, 4]")
    need(scores.shape == boxes.shape[:1], node, f"{scores} must have a score for each of {boxes}")
    for i in range(3, len(node.inputs)):
        need(node.input(i).size == 1, node, f"{node.input(i)} must be a single number")
    most = _most(node)
    need(most >= 0, node, f"{most} boxes are too few")
    return [(most,), *[(most,)] * soft, ()]


def _overlap(a: Array, b: Array) -> np.float32:
    """Intersection over union, in float32."""
    (a_low, a_high), (b_low, b_high) = (
        (np.where(box[2:] < box[:2], box[2:], box[:2]), np.where(box[:2] < box[2:], box[2:], box[:2])) for box in (a, b)
    )
    areas = [(high - low)[0] * (high - low)[1] for low, high in ((a_low, a_high), (b_low, b_high))]
    if areas[0] <= 0 or areas[1] <= 0:
        return np.float32(0)
    sides = np.where(b_high < a_high, b_high, a_high) - np.where(a_low < b_low, b_low, a_low)
    height, width = np.where(sides < 0, np.float32(0), sides)
    every = areas[0] + areas[1] - height * width
    return np.float32(0) if every == 0 else np.float32(height * width / every)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Behind the boxes that are chosen stand zeros. Of equal scores the first box counts."""
    boxes, scores, _, overlap, least, *sigma = inputs
    factor = np.float32(-0.5) / sigma[0].item() if sigma and sigma[0].item() > 0 else np.float32(0)
    waiting = {i: (np.float32(score), 0) for i, score in enumerate(scores) if score > least.item()}
    chosen: list[int] = []
    told: list[np.float32] = []
    with np.errstate(all="ignore"):
        while waiting and len(chosen) < node.output.size:
            box = min(waiting, key=lambda i: (-waiting[i][0], i))
            before, begin = waiting.pop(box)
            score = before
            for other in reversed(chosen[begin:]):
                shared = _overlap(boxes[box], boxes[other])
                if shared >= overlap.item():
                    break
                score = score * np.exp(np.float32(factor * shared * shared)) if factor else score
                if score <= least.item():
                    break
            else:
                if score == before:
                    chosen.append(box)
                    told.append(score)
                elif score > least.item():  # no NaN
                    waiting[box] = score, len(chosen)
    numbers, told_scores = np.zeros(node.output.shape, np.int32), np.zeros(node.output.shape, np.float32)
    numbers[: len(chosen)], told_scores[: len(told)] = chosen, told
    return [numbers, *[told_scores] * _soft(node), np.array(len(chosen), np.int32)]


def lower(node: Node, target: Target) -> Call:
    boxes = node.input(0)
    params = {"count": boxes.shape[0], "most": node.output.size, "soft": int(_soft(node))}
    inputs = (boxes, node.input(1), *(node.input(i) for i in range(3, len(node.inputs))))
    return Call("tw_non_max_suppression", params, inputs, node.outputs, scratch=12 * boxes.shape[0])


def _case(op: str, rng: np.random.Generator, count: int, most: int, fed: bool, sigma: float = 0.0) -> Case:
    soft = op.endswith("V5")
    numbers = [("overlap", 0.4), ("least", 0.2), *[("sigma", sigma)] * soft]
    limits = [tensor((), data=None if fed else np.array(value), name=name) for name, value in numbers]
    outputs = [tensor((most,), "INT32", name="numbers"), *[tensor((most,), name="scores")] * soft]
    inputs: list[Tensor] = [tensor((count, 4), name="boxes"), tensor((count,), name="scored")]
    inputs += [index([most], shape=()), *limits]
    node = Node(op, tuple(inputs), (*outputs, tensor((), "INT32", name="count")))
    corners = rng.uniform(0, 1, (count, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0.05, 0.6, (count, 2))], 1).astype(np.float32)
    flipped = boxes[:, [2, 3, 0, 1]] if count > 5 else boxes
    values = (flipped, rng.permutation(np.linspace(0, 1, count)).astype(np.float32))
    given = tuple(np.array(value, np.float32) for _, value in numbers) if fed else ()
    return Case(node, (*values, *given), "litert", tolerance=1e-5)


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    for count, most in ((1, 1), (5, 5), (20, 4), (60, 60), (7, 0)):
        for fed in (False, True):
            if most:
                yield _case(op, rng, count, most, fed)
            if op.endswith("V5"):
                yield _case(op, rng, count, most or 1, fed, 0.5)


OPS = tuple(
    Op(name, infer, reference, lower, partial(cases, name))
    for name in ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
)
