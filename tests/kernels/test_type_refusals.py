"""Types that operators refuse, and what the messages name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cases import refused

from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Node, Quant
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.reduce import detection
from twinfer.runtime.shapes import infer_node


def _pair(op: str, types: str, *, scale: float | None = None, **options: object) -> Node:
    """An operator over two inputs of shape [3]; ``types`` of both and of the output."""
    a, b, y = (tensor((3,), type, scale, name=name) for type, name in zip(types.split(), "aby", strict=True))
    return Node(op, (a, b), (y,), options)


@pytest.mark.parametrize(
    ("node", "parts"),
    [
        (_pair("ADD", "INT64 INT32 INT64"), ("'a' INT64", "'b' INT32", "differ in type")),
        (_pair("ADD", "INT64 INT64 INT32"), ("'y' INT32", "differ in type")),
        (_pair("ADD", "UINT32 UINT32 UINT32"), ("'a' UINT32", "supported: ", "INT64")),
        (_pair("MUL", "UINT64 UINT64 UINT64"), ("'a' UINT64", "supported: ", "UINT32")),
        (_pair("MUL", "INT64 INT64 INT64", fused_activation_function="TANH"), ("TANH",)),
        (_pair("MAXIMUM", "UINT8 INT8 UINT8"), ("'a' UINT8", "'b' INT8")),
        (_pair("PRELU", "INT16 INT16 INT16", scale=0.1), ("'b' INT16", "supported: INT8")),
        (_pair("GATHER", "INT8 UINT8 INT8", axis=0), ("'b' UINT8", "INT16")),
    ],
    ids=lambda value: value.op if isinstance(value, Node) else "",
)
def test_types_without_a_kernel(node: Node, parts: tuple[str, ...]) -> None:
    refused(node, UnsupportedOperatorError, *parts)


@pytest.mark.parametrize(("op", "types"), [("SUB", "INT16 INT16 INT16"), ("SQUARED_DIFFERENCE", "INT16 INT16 INT16")])
def test_int16_needs_scales_where_litert_does(op: str, types: str) -> None:
    with pytest.raises(ModelError, match=r"'a' INT16.* has no quantisation"):
        infer_node(_pair(op, types))


def test_one_scale_for_some_int16_is_a_contradiction() -> None:
    a, b, y = (tensor((3,), "INT16", scale, name=name) for scale, name in zip((0.1, None, 0.1), "aby", strict=True))
    for op in ("ADD", "MUL"):
        with pytest.raises(ModelError, match=r"'b' INT16.* has no quantisation"):
            infer_node(Node(op, (a, b), (y,)))


@pytest.mark.parametrize(
    ("given", "to"), [("UINT64", "INT32"), ("INT32", "UINT64"), ("COMPLEX64", "FLOAT32"), ("FLOAT16", "COMPLEX64")]
)
def test_cast_names_the_types_that_it_takes(given: str, to: str) -> None:
    node = Node("CAST", (tensor((3,), given, name="x"),), (tensor((3,), to, name="y"),))
    refused(node, UnsupportedOperatorError, "supported: ", "FLOAT16", "FLOAT64")


def test_a_hybrid_product_needs_symmetric_weights() -> None:
    def of(zero: int, scales: tuple[float, ...] = (0.1,), constant: bool = True) -> Node:
        data = np.ones((4, 2)) if constant else None
        quant = Quant(np.array(scales, np.float32), np.full(len(scales), zero), 1)
        b = replace(tensor((4, 2), "INT8", data=data, name="b"), quant=quant)
        return Node("BATCH_MATMUL", (tensor((3, 4), name="a"), b), (tensor((3, 2), name="y"),), {})

    assert infer_node(of(0)) == infer_node(of(0, (0.1, 0.2))) == [(3, 2)]
    refused(of(3), ModelError, "'b' INT8", "zero point of 0")
    refused(of(0, (0.1, 0.2), constant=False), UnsupportedOperatorError, "one constant int8 matrix")


def test_detections_from_int8_are_refused() -> None:
    case = next(iter(detection.cases(np.random.default_rng(0))))
    codes = tensor(case.node.input(0).shape, "INT8", 0.1, name="codes")
    node = replace(case.node, inputs=(codes, *case.node.inputs[1:]))
    refused(node, UnsupportedOperatorError, "'codes' INT8", "supported: FLOAT32")
