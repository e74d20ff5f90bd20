"""What operators that compute refuse, and what lies just within their bounds. Data movers: test_movers.py."""

from __future__ import annotations

import numpy as np
import pytest
from cases import graph_of, interpreted

from twinfer.bench.peers import open_peer
from twinfer.runtime.errors import ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Node
from twinfer.runtime.op import tensor
from twinfer.runtime.shapes import infer_node
from twinfer.runtime.target import HOST
from twinfer.runtime.tflite_write import write


def softmax(scale: float, beta: float = 1.0, type: str = "INT16") -> Node:
    y = tensor((1, 4), type, *{"INT8": (1 / 256, -128), "INT16": (1 / 32768, 0)}[type], name="y")
    return Node("SOFTMAX", (tensor((1, 4), type, scale, name="x"),), (y,), {"beta": beta})


def refused(node: Node, error: type[TwinferError], *parts: str) -> None:
    """The node is refused in words that name its operator and hold all parts."""
    with pytest.raises(error) as caught:
        infer_node(node)
    assert all(part in str(caught.value) for part in (node.op, *parts)), caught.value


def test_int16_softmax_ends_where_differences_leave_int32() -> None:
    """From 10 * 2^15 / 65535 of scale * beta TFLM shifts differences left by 16 bits, and the far ones wrap."""
    bound = np.float32(10 * 2**15 / 65535)
    x = np.array([[32767, -32768, -1, 32766]], np.int16)
    for scale, beta in ((np.nextafter(bound, np.float32(0)), 1.0), (float(bound) / 4, 3.999)):
        graph = graph_of(softmax(float(scale), beta))
        (got,) = interpreted(graph, [x], HOST, 0)
        (want,) = open_peer("tflm", write(graph), 1)([x])
        np.testing.assert_array_equal(got, want)
        assert got[0, 0] > 32000
        assert got[0, 1:3].max() <= 2  # exp(-10) is 1.5, and nothing is less


@pytest.mark.parametrize(("scale", "beta"), [(5.0001, 1.0), (1.0, 5.0001), (3.3e5, 1.0), (1e30, 1e30)])
def test_int16_softmax_refuses_what_wraps(scale: float, beta: float) -> None:
    refused(softmax(scale, beta), UnsupportedOperatorError, "'x' INT16", f"scale {np.float32(scale)}", "5.00007")


def test_tflm_wraps_beyond_that_bound() -> None:
    """Else the bound would be smaller than need be: the least value of all gets as great a share as the greatest."""
    node = softmax(5.0001)
    (got,) = open_peer("tflm", write(graph_of(node)), 1)([np.array([[32767, -32768, -32768, -32768]], np.int16)])
    assert got[0, 1] > 8000


@pytest.mark.parametrize("beta", [-1.0, -1e-9, float("inf"), float("nan")])
def test_softmax_refuses_a_beta_that_is_negative_or_no_number(beta: float) -> None:
    refused(softmax(0.1, beta, "INT8"), ModelError, f"beta {beta}", "not negative")
    assert infer_node(softmax(0.1, 0.0, "INT8")) == [(1, 4)]
