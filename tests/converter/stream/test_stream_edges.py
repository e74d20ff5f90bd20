"""Corners of streaming: metadata, names, types that are kept, layers that need the whole window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from flows import Sub

from twinfer.bench.models.builtin import builtin
from twinfer.converter.stream.convert import prove, stream
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.run.stream import METADATA


def test_other_metadata_stay() -> None:
    """But not a memory plan: it names the window model's tensors by their position."""
    graph = replace(builtin()["tcn_int8"](), metadata={"author": b"me", "OfflineMemoryAllocation": bytes(16)})
    kept = stream(graph).graph.metadata
    assert kept == {"author": b"me", METADATA: kept[METADATA]}


def test_names_need_not_be_unique() -> None:
    net = Sub()
    x = net.input((1, 16, 1, 4))
    y = [x]
    for _ in range(3):
        y.append(_taps(net, y[-1]))
    graph = _renamed(net.graph([y[-1]]))
    assert {t.name for t in graph.tensors} == {"t"}
    assert prove(graph, stream(graph)).different == 0


def _taps(net: Sub, x: Tensor) -> Tensor:
    w = np.random.default_rng(len(net.tensors)).standard_normal((4, 3, 1, 4)).astype(np.float32)
    shape = (1, x.shape[1] - 2, 1, 4)
    window = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    inputs = [x, w, np.zeros(4, np.float32)]
    return net.op("CONV_2D", inputs, shape=shape, **window, fused_activation_function="NONE")


def _renamed(graph: Graph) -> Graph:
    new = {t: replace(t, name="t") for t in graph.tensors}
    nodes = [
        replace(n, inputs=tuple(new[t] for t in n.inputs if t), outputs=tuple(new[t] for t in n.outputs))
        for n in graph.nodes
    ]
    ends = {side: tuple(new[t] for t in getattr(graph, side)) for side in ("inputs", "outputs")}
    return replace(graph, tensors=tuple(new.values()), nodes=tuple(nodes), **ends)


REVERSED = np.array([1], np.int32)


def kept_bool(net: Sub) -> Tensor:
    above = net.less(net.input((1, 16, 4)), np.float32([0]))
    return net.op("REDUCE_ANY", [above, REVERSED], shape=(1, 4), keep_dims=False)


def kept_int64(net: Sub) -> Tensor:
    large = net.op("CAST", [net.input((1, 16, 4), "INT32")], "INT64", in_data_type="INT32", out_data_type="INT64")
    return net.op("REVERSE_V2", [large, REVERSED])


def padded_by_int64(net: Sub) -> Tensor:
    x = net.input((1, 16, 4))
    wide = net.op("PAD", [x, np.array([[0, 0], [2, 0], [0, 0]], np.int64)], shape=(1, 18, 4))
    return net.op("REVERSE_V2", [wide, REVERSED])


def joined_with_all_rows(net: Sub) -> Tensor:
    x = net.input((1, 16, 4))
    return _joined(net, x, net.op("REVERSE_V2", [x, REVERSED]))


def joined_with_other_times(net: Sub) -> Tensor:
    x = net.input((1, 8, 8, 2))
    return _joined(net, x, net.op("TRANSPOSE", [x, np.array([0, 2, 1, 3], np.int32)]))


def joined_with_a_constant(net: Sub) -> Tensor:
    return _joined(net, net.input((1, 16, 4)), net.constant(np.ones((1, 16, 4))))


def added_by_row(net: Sub) -> Tensor:
    return net.add(net.input((1, 16, 4)), net.constant(np.arange(64).reshape(16, 4)))


def _joined(net: Sub, a: Tensor, b: Tensor) -> Tensor:
    shape, last = (*a.shape[:-1], 2 * a.shape[-1]), len(a.shape) - 1
    return net.op("CONCATENATION", [a, b], shape=shape, axis=last, fused_activation_function="NONE")


def weights_are_the_input(net: Sub) -> Tensor:
    x = net.input((8, 4))
    return _dense(net, x, x)


def weights_are_in_time(net: Sub) -> Tensor:
    x = net.input((8, 4))
    return _dense(net, net.constant(np.arange(32).reshape(8, 4)), x)


def _dense(net: Sub, x: Tensor, w: Tensor) -> Tensor:
    options = {"keep_num_dims": False, "weights_format": "DEFAULT", "asymmetric_quantize_inputs": False}
    return net.op("FULLY_CONNECTED", [x, w], shape=(8, 8), fused_activation_function="NONE", **options)


def scaled_by_the_whole_window(net: Sub) -> Tensor:
    """Squeeze and excite: what is new in a window changes all of its rows."""
    x = net.input((1, 16, 4))
    mean = net.op("MEAN", [x, REVERSED], shape=(1, 1, 4), keep_dims=True)
    return net.op("REVERSE_V2", [net.mul(x, net.op("LOGISTIC", [mean])), REVERSED])


def weights_of_the_whole_window(net: Sub) -> Tensor:
    x = net.input((8, 4))
    w = net.op("REVERSE_V2", [x, np.array([0], np.int32)])
    return net.op("REVERSE_V2", [_dense(net, x, w), np.array([0], np.int32)])


#: Models, and why an operator of theirs needs all rows.
WHOLE = {
    kept_bool: "it reads all rows",
    kept_int64: "it reads all rows",
    padded_by_int64: "it reads all rows",
    joined_with_all_rows: "has other values in every window",
    joined_with_other_times: "its inputs have time in different dimensions",
    joined_with_a_constant: "it reads all rows of one of its inputs",
    added_by_row: "differs from row to row",
    weights_are_the_input: "it reads all rows of one of its inputs",
    weights_are_in_time: "it reads all rows of one of its inputs",
    scaled_by_the_whole_window: "has other values in every window",
    weights_of_the_whole_window: "has other values in every window",
}


@pytest.mark.parametrize("model", WHOLE)
def test_layers_over_the_whole_window(model: Callable[[Sub], Tensor]) -> None:
    net = Sub("main")
    graph = net.graph([model(net)])
    streaming = stream(graph)
    assert any(why.endswith(WHOLE[model]) for why in streaming.whole.values())
    assert prove(graph, streaming).different == 0


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    "axes", [[0], [1], [0, 1], [3], [1, 3], [0, 1, 3], [-1], [-4, -1], [-3, 0, 3], [1, 1], [2], [-2, 0]]
)
def test_reductions_beside_time(axes: list[int], keep: bool) -> None:
    """Rows are reduced one by one, however many dimensions go, and from which end they are counted."""
    net = Sub("main")
    x = net.input((1, 1, 8, 4))
    gone = {axis % 4 for axis in axes}
    shape = tuple(1 if d in gone else n for d, n in enumerate(x.shape) if keep or d not in gone)
    y = net.op("MEAN", [net.op("NEG", [x]), np.array(axes, np.int32)], shape=shape, keep_dims=keep)
    graph = net.graph([net.op("ABS", [y])])
    streaming = stream(graph, axis=2)
    assert bool(streaming.whole) == (2 in gone)
    assert prove(graph, streaming).different == 0
