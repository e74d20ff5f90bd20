"""Cases of int8 as cases of uint8, for which LiteRT's reference kernels decide, and what uint8 means in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Graph, Node, Quant, Tensor
from twinfer.runtime.op import Case
from twinfer.runtime.passes.unsigned import make_signed
from twinfer.runtime.registry import operators

#: Zero points of weights, in turn; 128 is none of int8.
ZEROS = (128, 121, 0, 140, 255, 128, 96)

#: Every so many cases of an operator that is no layer get a twin.
EVERY = 3

#: Twins that LiteRT's reference kernels do not run.
REFUSED: Mapping[str, str] = {
    "equal-38": "LiteRT aborts",
    "hard_swish-14": "LiteRT's float multiplier overflows",
    "gather-9": "LiteRT refuses negative indices",
}


def unsigned_cases(op: str, cases: Mapping[str, Case]) -> dict[str, Case]:
    """The int8 cases of an operator, given by test name, as cases of uint8; none if it takes no uint8."""
    if operators()[op].uint8 not in ("layer", "computes", "moves"):
        return {}
    suited = [(name, case) for name, case in cases.items() if name not in REFUSED and _suits(case)]
    taken = suited if operators()[op].uint8 == "layer" else suited[::EVERY]
    return {f"{name}-uint8": _twin(case, ZEROS[i % len(ZEROS)]) for i, (name, case) in enumerate(taken)}


def _is_layer(node: Node) -> bool:
    return operators()[node.op].uint8 == "layer"


def _suits(case: Case) -> bool:
    """Whether LiteRT takes the case as uint8."""
    node, types = case.node, {t.type for t in (*case.node.inputs, *case.node.outputs) if t is not None}
    if case.oracle == "none" or not (_shifts(node.input(0)) or node.op in ("TRANSPOSE_CONV", "SELECT", "SELECT_V2")):
        return False
    if node.op == "BROADCAST_TO":  # LiteRT's first version is 2, which the nodes of cases do not say
        return False
    if _is_layer(node) and node.input(1).data is None:  # needs constant weights
        return False
    if types & {"INT16", "INT4", "INT2"} or not any(t is not None and _shifts(t) for t in node.inputs):
        return False
    if _is_layer(node) and node.output.type == "FLOAT32":  # hybrid
        return False
    if node.op in ("CONV_2D", "TRANSPOSE_CONV"):
        return node.optional(2 if node.op == "CONV_2D" else 3) is not None  # LiteRT wants a bias with uint8
    if node.op == "LOGISTIC":
        return (node.output.scale, node.output.zero) == (1 / 256, -128)
    if node.op == "PRELU":
        return node.input(0).shape == node.output.shape
    return node.op != "SOFTMAX" or node.input(0).shape[-1] < 512  # LiteRT aborts where its sums overflow


def _shifts(tensor: Tensor) -> bool:
    return tensor.type == "INT8" and tensor.quant is not None


def _twin(case: Case, zero: int) -> Case:
    """The case with uint8 in place of int8; weights get the zero point ``zero``."""
    node, place = case.node, 1 if _is_layer(case.node) else None
    memo: dict[int, Tensor] = {}

    def flipped(i: int | None, tensor: Tensor | None) -> Tensor | None:
        if tensor is None or tensor.quant is None or tensor.type not in ("INT8", "INT32"):
            return tensor
        if id(tensor) not in memo:
            memo[id(tensor)] = _flipped(tensor, zero if place is not None and i == place else None)
        return memo[id(tensor)]

    inputs = tuple(flipped(i, t) for i, t in enumerate(node.inputs))
    outputs = tuple(t for t in (flipped(None, t) for t in node.outputs) if t is not None)
    values = case.inputs and tuple(v.view(np.uint8) ^ 0x80 if v.dtype == np.int8 else v for v in case.inputs)
    return replace(case, node=replace(node, inputs=inputs, outputs=outputs), inputs=values, oracle="litert", why="")


def _flipped(tensor: Tensor, zero: int | None) -> Tensor:
    quant = tensor.quant
    assert quant is not None
    zeros = quant.zero_point[:1] + 128 * (tensor.type == "INT8")
    once = Quant(quant.scale[:1], zeros if zero is None else np.array([zero]), 0)
    if tensor.type != "INT8":
        return replace(tensor, quant=once)
    data = None if tensor.data is None else tensor.data.view(np.uint8) ^ 0x80
    return replace(tensor, type="UINT8", quant=once, data=data)


def meaning(graph: Graph, values: Mapping[Tensor, Any]) -> list[Array]:
    """The outputs of a graph by the operators' references in numpy, after what planning makes of uint8."""
    known = dict(values)
    run = make_signed(graph)
    for node in run.nodes:
        inputs = [None if t is None else t.data if t.data is not None else known[t] for t in node.inputs]
        results: Sequence[Any] = operators()[node.op].reference(node, inputs)
        known.update(zip(node.outputs, results, strict=True))
    return [known[t] if t.data is None else t.data for t in run.outputs]
