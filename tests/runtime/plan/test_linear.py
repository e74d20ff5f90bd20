"""Work grows with the size of a graph, not with its square. Calls are counted, not time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from twinfer.converter.build import Builder
from twinfer.converter.convert import convert
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.run.interpreter import Interpreter

#: Four times the nodes take four times the calls, and a little more for sorting. Placing by pairs took 5.6 times.
MOST = 5


def _weights(*shape: int) -> Any:
    return np.random.default_rng(0).normal(0, 0.3, shape).astype(np.float32)


def _conv(b: Builder, x: Tensor) -> Tensor:
    return b.op("CONV_2D", [x, _weights(4, 3, 3, 4), _weights(4)], padding="SAME", stride_h=1, stride_w=1)


def _residual(b: Builder, x: Tensor, i: int) -> Tensor:
    return b.op("ADD", [x, b.op("RELU", [b.op("MUL", [_conv(b, x), _weights(4)])])])


def _nchw(b: Builder, x: Tensor, i: int) -> Tensor:
    y = b.op("TRANSPOSE", [_conv(b, b.op("TRANSPOSE", [x, np.array([0, 2, 3, 1], np.int32)])), NCHW])
    return b.op("ADD", [x, b.op("RELU", [y])])


def _channel_softmax(b: Builder, x: Tensor, i: int) -> Tensor:
    y = b.op("SOFTMAX", [b.op("TRANSPOSE", [x, np.array([0, 2, 3, 1], np.int32)])], beta=1.0)
    return b.op("TANH", [b.op("TRANSPOSE", [y, NCHW])])


NCHW = np.array([0, 3, 1, 2], np.int32)

#: Kind -> operators per block, and what adds block i behind the last value.
BLOCKS: dict[str, tuple[int, Callable[[Builder, Tensor, int], Tensor]]] = {
    "element-wise": (1, lambda b, x, i: b.op(("TANH", "ABS", "LOGISTIC", "RELU")[i % 4], [x])),
    "clips": (1, lambda b, x, i: b.op("RELU", [x])),
    "affine": (1, lambda b, x, i: b.op(("ADD", "MUL")[i % 2], [x, _weights(4)])),
    "residual": (4, _residual),
    "nchw": (5, _nchw),
    "channel softmax": (4, _channel_softmax),
}


def net(kind: str, size: int) -> Graph:
    """About so many operators: blocks of one kind behind each other, after a RESHAPE."""
    count, block = BLOCKS[kind]
    b = Builder(kind)
    x = b.op("RESHAPE", [b.input("x", "FLOAT32", (1, 64)), np.array([1, 4, 4, 4], np.int32)], shape=(1, 4, 4, 4))
    for i in range(size // count):
        x = block(b, x, i)
    return b.graph([x])


def wide(size: int) -> Graph:
    """So many outputs, each by one operator from the input."""
    b = Builder("wide")
    x = b.input("x", "FLOAT32", (1, 4))
    return b.graph([b.op("TANH", [x]) for _ in range(size)])


def calls(work: Callable[[], object]) -> int:
    """The number of functions called, including C's."""
    count = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def allocate(graph: Any, *, preserve_all: bool = False) -> Callable[[], object]:
    return Interpreter.from_graph(graph, Options(preserve_all=preserve_all)).allocate_tensors


PLANS: dict[str, Callable[[int], Callable[[], object]]] = {
    "a chain of which all is kept": lambda n: allocate(net("clips", n), preserve_all=True),
    "outputs that all live to the end": lambda n: allocate(wide(n)),
    "a chain": lambda n: allocate(net("residual", n)),
}


@pytest.mark.parametrize("kind", PLANS)
def test_planning_is_linear(kind: str) -> None:
    PLANS[kind](8)()  # work that is done once
    assert calls(PLANS[kind](800)) < MOST * calls(PLANS[kind](200))


@pytest.mark.parametrize("kind", ["clips", "affine", "nchw"])
def test_converting_is_linear(kind: str) -> None:
    convert(net(kind, 10))
    few, many = (net(kind, size) for size in (200, 800))
    assert calls(lambda: convert(many)) < MOST * calls(lambda: convert(few))
