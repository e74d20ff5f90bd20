"""SHAPE and RANK: the extents of a tensor and their number, known when planning. Source: TFLM shape.cc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.move._move import check_arity, known_call
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    check_arity(node, 1)
    need_type(node, node.output, "INT32", "INT64")
    wanted = node.options.get("out_type", node.output.type)
    need(wanted == node.output.type, node, f"out_type is {wanted}, but the output is {node.output}")
    return [(len(node.input(0).shape),)]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    return [np.array(inputs[0].shape, node.output.dtype)]


def lower(node: Node, target: Target) -> Call:
    return known_call(node, np.array(node.input(0).shape, node.output.dtype))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for type, shape in (("INT8", (2, 3, 1, 5)), ("FLOAT32", (7,)), ("INT32", (1, 4))):
        y = tensor((len(shape),), "INT32", name="y")
        yield Case(Node("SHAPE", (tensor(shape, type),), (y,), {"out_type": "INT32"}))
    y = tensor((3,), "INT64", name="y")
    yield Case(Node("SHAPE", (tensor((2, 5, 3)),), (y,), {"out_type": "INT64"}), oracle="litert")
    for type in ("INT16", "INT64", "UINT8", "BOOL"):
        y = tensor((3,), "INT32", name="y")
        yield Case(Node("SHAPE", (tensor((2, 5, 3), type),), (y,), {"out_type": "INT32"}))


def _infer_rank(node: Node) -> list[Shape]:
    check_arity(node, 1)
    node.input(0)  # an absent one is refused
    need_type(node, node.output, "INT32")
    return [()]


def _rank(node: Node, inputs: list[Any]) -> list[Array]:
    return [np.array(inputs[0].ndim, np.int32)]


def _lower_rank(node: Node, target: Target) -> Call:
    return known_call(node, np.array(len(node.input(0).shape), np.int32))


def _rank_cases(rng: np.random.Generator) -> Iterator[Case]:
    for type, shape in (("INT8", (2, 3, 1, 5)), ("FLOAT32", (7,)), ("INT32", ())):
        yield Case(Node("RANK", (tensor(shape, type),), (tensor((), "INT32", name="y"),)), None, "litert")


OPS = (Op("SHAPE", infer, reference, lower, cases), Op("RANK", _infer_rank, _rank, _lower_rank, _rank_cases))
