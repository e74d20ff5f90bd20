"""Converting, planning and comparing graphs of 250 to 2,000 operators: twice as many should take twice as long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from twinfer.converter.build import Builder
from twinfer.converter.convert import convert
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.run.interpreter import Interpreter

SIZES = (250, 500, 1000, 2000)

NCHW, NHWC = np.array([0, 3, 1, 2], np.int32), np.array([0, 2, 3, 1], np.int32)

#: Adds operators behind the last value, as block ``i``.
Block = Callable[[Builder, Tensor, int], Tensor]


def _weights(*shape: int) -> Any:
    return np.random.default_rng(0).normal(0, 0.3, shape).astype(np.float32)


def _conv(b: Builder, x: Tensor) -> Tensor:
    return b.op("CONV_2D", [x, _weights(4, 3, 3, 4), _weights(4)], padding="SAME", stride_h=1, stride_w=1)


def _element(b: Builder, x: Tensor, i: int) -> Tensor:
    return b.op(("TANH", "ABS", "LOGISTIC", "RELU")[i % 4], [x])


def _clip(b: Builder, x: Tensor, i: int) -> Tensor:
    return b.op("RELU", [x])


def _affine(b: Builder, x: Tensor, i: int) -> Tensor:
    return b.op(("ADD", "MUL")[i % 2], [x, _weights(4)])


def _residual(b: Builder, x: Tensor, i: int) -> Tensor:
    scaled = b.op("MUL", [_conv(b, x), _weights(4)])
    return b.op("ADD", [x, b.op("RELU", [scaled])])


def _nchw(b: Builder, x: Tensor, i: int) -> Tensor:
    y = b.op("TRANSPOSE", [_conv(b, b.op("TRANSPOSE", [x, NHWC])), NCHW])
    return b.op("ADD", [x, b.op("RELU", [y])])


def _channel_softmax(b: Builder, x: Tensor, i: int) -> Tensor:
    y = b.op("SOFTMAX", [b.op("TRANSPOSE", [x, NHWC])], beta=1.0)
    return b.op("TANH", [b.op("TRANSPOSE", [y, NCHW])])


#: Kind -> operators per block, and the block.
BLOCKS: dict[str, tuple[int, Block]] = {
    "element-wise": (1, _element),
    "clips": (1, _clip),
    "affine": (1, _affine),
    "residual": (4, _residual),
    "nchw": (5, _nchw),
    "channel softmax": (4, _channel_softmax),
}


def net(kind: str, size: int) -> Graph:
    """A graph of about ``size`` operators: blocks of one kind behind each other, after a RESHAPE."""
    count, block = BLOCKS[kind]
    b = Builder(kind)
    x = b.input("x", "FLOAT32", (1, 4 * 4 * 4))
    x = b.op("RESHAPE", [x, np.array([1, 4, 4, 4], np.int32)], shape=(1, 4, 4, 4))
    for i in range(size // count):
        x = block(b, x, i)
    return b.graph([x])


def wide(size: int) -> Graph:
    """A graph with ``size`` outputs, each by one operator from the input. All live to the end."""
    b = Builder("wide")
    x = b.input("x", "FLOAT32", (1, 4))
    return b.graph([b.op("TANH", [x]) for _ in range(size)])


def samples(count: int = 4) -> dict[str, Any]:
    return {"x": np.random.default_rng(1).normal(0, 1, (count, 1, 64)).astype(np.float32)}


@pytest.mark.parametrize("size", [250, 1000])
@pytest.mark.parametrize("kind", BLOCKS)
def bench_convert(benchmark: Any, kind: str, size: int) -> None:
    graph = net(kind, size)
    benchmark.pedantic(lambda: convert(graph), rounds=3)


@pytest.mark.parametrize("size", [1000, 4000])
def bench_allocate(benchmark: Any, size: int) -> None:
    graph = wide(size)
    benchmark.pedantic(lambda: Interpreter.from_graph(graph).allocate_tensors(), rounds=3)
