"""Random networks over time: rows fed one by one give what whole windows give, and no row is computed in vain."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer.converter.build import Builder
from twinfer.converter.stream.convert import prove, stream
from twinfer.runtime.errors import InvalidArgumentError, TwinferError
from twinfer.runtime.graph import Array, Graph, Tensor
from twinfer.runtime.run.interpreter import Interpreter

NONE = {"fused_activation_function": "NONE"}

#: Shapes of inputs (R: the rows), with time along the first dimension that is not 1.
INPUTS = [(1, "R", 3, 2), (1, "R", 1, 4), (1, 1, "R", 3), (1, "R", 4), (1, 1, "R"), ("R", 4), ("R", 2, 3), ("R",)]

KINDS = [
    "window", "window", "window", "pad", "reduce", "reduce", "reshape", "transpose", "dense", "arithmetic", "constant",
    "wider", "concat", "split", "slice", "softmax", "relu", "reverse", "squeeze", "expand",
]  # fmt: skip

#: Those that keep time where it is, or nearly.
SLIDING = ["window", "window", "window", "pad", "pad", "arithmetic", "concat", "relu", "transpose"]


class Skipped(Exception):
    """The layer does not suit its input."""


def need(condition: Any) -> None:
    if not condition:
        raise Skipped


class Net:
    """A network of one type, layer by layer; ``there`` are all tensors that a layer may read."""

    def __init__(self, type: str, shape: tuple[int, ...], seed: int) -> None:
        self.b, self.rng, self.type = Builder("net"), np.random.default_rng(seed), type
        self.scale = None if type == "FLOAT32" else 0.1 if type == "INT8" else 0.001
        self.zero = 3 if type == "INT8" else 0
        self.there = [self.b.input("x", type, shape, self.scale, self.zero)]

    def op(self, op: str, inputs: list[Any], **options: Any) -> Tensor:
        out = self.b.op(op, inputs, scale=self.scale, zero=self.zero, **options)
        self.there.append(out)
        return out

    def values(self, shape: tuple[int, ...]) -> Tensor:
        if self.scale is None:
            return self.b.constant(self.rng.standard_normal(shape).astype(np.float32))
        return self.b.constant(self.rng.integers(-90, 90, shape).astype(self.type.lower()), self.scale, self.zero)

    def weights(self, shape: tuple[int, ...], axis: int) -> list[Tensor]:
        bias = self.rng.integers(-40, 40, shape[axis])
        if self.scale is None:
            w = self.rng.standard_normal(shape).astype(np.float32)
            return [self.b.constant(w), self.b.constant(bias.astype(np.float32) / 64)]
        w = self.b.constant(self.rng.integers(-127, 128, shape).astype(np.int8), 0.01)
        wide = np.int32 if self.type == "INT8" else np.int64
        return [w, self.b.constant(bias.astype(wide), self.scale * 0.01)]


def window(draw: Any, net: Net, x: Tensor) -> None:
    """A convolution or pooling layer with windows, strides and dilations of its own in both dimensions."""
    need(len(x.shape) == 4)
    _, h, w, c = x.shape
    op = draw(st.sampled_from(["CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D"]))
    k_h, k_w = draw(st.integers(1, min(4, h))), draw(st.integers(1, min(4, w)))
    strides = {"stride_h": draw(st.integers(1, 3)), "stride_w": draw(st.integers(1, 3))}
    padding = draw(st.sampled_from(["SAME", "VALID"]))
    if op in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        net.op(op, [x], padding=padding, filter_height=k_h, filter_width=k_w, **strides)
        return
    most = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    dilations = {
        "dilation_h_factor": most[0] if (k_h - 1) * most[0] < h and strides["stride_h"] == 1 else 1,
        "dilation_w_factor": most[1] if (k_w - 1) * most[1] < w and strides["stride_w"] == 1 else 1,
    }
    activation = draw(st.sampled_from(["NONE", "RELU"]))
    options = {"padding": padding, **strides, **dilations, "fused_activation_function": activation}
    if op == "CONV_2D":
        net.op(op, [x, *net.weights((draw(st.integers(1, 4)), k_h, k_w, c), 0)], **options)
    else:
        times = draw(st.integers(1, 2))
        net.op(op, [x, *net.weights((1, k_h, k_w, c * times), 3)], depth_multiplier=times, **options)


def pad(draw: Any, net: Net, x: Tensor) -> None:
    table = np.array([[draw(st.sampled_from([0, 0, 1, 3])) for _ in "ab"] for _ in x.shape], np.int32)
    if x.shape[0] == 1:
        table[0] = 0
    value = [net.values(())] if draw(st.booleans()) else []
    net.op("PADV2" if value else "PAD", [x, table, *value])


def reduce(draw: Any, net: Net, x: Tensor) -> None:
    rank = len(x.shape)
    axes = draw(st.lists(st.integers(-rank, rank - 1), min_size=1, max_size=2, unique_by=lambda a: a % rank))
    op = draw(st.sampled_from(["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"]))
    net.op(op, [x, np.array(axes, np.int32)], keep_dims=draw(st.booleans()))


def reshape(draw: Any, net: Net, x: Tensor) -> None:
    """Any shape of as many elements; half of the time one that keeps a dimension."""
    left, shape = x.size, list[int]()
    for extent in draw(st.permutations(x.shape)) if draw(st.booleans()) else x.shape:
        merge = draw(st.booleans()) and shape
        if merge and shape[-1] * extent <= x.size:
            shape[-1] *= extent
        else:
            shape += [1, extent] if draw(st.integers(0, 3)) == 0 and len(shape) < 3 else [extent]
        left //= extent
    known = [np.array(shape, np.int32)] if draw(st.booleans()) else []  # else as an option alone
    net.op("RESHAPE", [x, *known], shape=tuple(shape), new_shape=tuple(shape))


def transpose(draw: Any, net: Net, x: Tensor) -> None:
    net.op("TRANSPOSE", [x, np.array(draw(st.permutations(range(len(x.shape)))), np.int32)])


def dense(draw: Any, net: Net, x: Tensor) -> None:
    """Over the last dimension or over several; half of the time as many outputs as there is of something else."""
    places = [i for i in range(len(x.shape)) if np.prod(x.shape[i:]) <= 64]
    need(places)
    depth = int(np.prod(x.shape[draw(st.sampled_from(places)) :]))
    keep = depth == x.shape[-1] and draw(st.booleans())
    units = draw(st.sampled_from([1, 2, 3, 4, *x.shape, *net.there[0].shape]))
    net.op("FULLY_CONNECTED", [x, *net.weights((units, depth), 0)], keep_num_dims=keep)


def arithmetic(draw: Any, net: Net, x: Tensor) -> None:
    other = draw(st.sampled_from(net.there))
    try:
        np.broadcast_shapes(x.shape, other.shape)
    except ValueError:
        need(False)
    net.op(draw(st.sampled_from(["ADD", "SUB", "MUL", "MAXIMUM"])), draw(st.permutations([x, other])))


def constant(draw: Any, net: Net, x: Tensor) -> None:
    shape = tuple(draw(st.sampled_from([1, extent])) for extent in x.shape[draw(st.integers(0, len(x.shape))) :])
    net.op(draw(st.sampled_from(["ADD", "MUL", "MINIMUM"])), draw(st.permutations([x, net.values(shape)])))


def wider(draw: Any, net: Net, x: Tensor) -> None:
    need(len(x.shape) < 4)
    shape = (draw(st.integers(1, 2)), *(draw(st.sampled_from([1, extent])) for extent in x.shape))
    net.op(draw(st.sampled_from(["ADD", "MUL"])), [x, net.values(shape)])


def concat(draw: Any, net: Net, x: Tensor) -> None:
    like = [t for t in net.there if len(t.shape) == len(x.shape)]
    axis = draw(st.integers(-len(x.shape), len(x.shape) - 1))
    others = [t for t in like if all(a == b for d, (a, b) in enumerate(zip(t.shape, x.shape, strict=True))
                                     if d != axis % len(x.shape))]  # fmt: skip
    parts = [x, draw(st.sampled_from(others)), *([net.values(x.shape)] if draw(st.integers(0, 3)) == 0 else [])]
    net.op("CONCATENATION", draw(st.permutations(parts)), axis=axis, **NONE)


def split(draw: Any, net: Net, x: Tensor) -> None:
    axis = draw(st.integers(-len(x.shape), len(x.shape) - 1))
    extent = x.shape[axis]
    need(many := [n for n in (2, 3) if extent % n == 0])
    parts = draw(st.sampled_from(many))
    shape = tuple(extent // parts if d == axis % len(x.shape) else n for d, n in enumerate(x.shape))
    outs = [Tensor(f"split{len(net.there)}_{i}", x.type, shape, x.quant) for i in range(parts)]
    net.there += net.b.node("SPLIT", [np.array(axis, np.int32), x], outs, {"num_splits": parts})


def slice(draw: Any, net: Net, x: Tensor) -> None:
    begin, end, stride = np.zeros((3, len(x.shape)), np.int32)
    for d, extent in enumerate(x.shape):
        whole = extent == 1 or draw(st.booleans())
        begin[d] = 0 if whole else draw(st.integers(0, extent - 1))
        end[d] = extent if whole else draw(st.integers(int(begin[d]) + 1, extent))
        stride[d] = 1 if whole else draw(st.integers(1, 2))
    net.op("STRIDED_SLICE", [x, begin, end, stride])


def softmax(draw: Any, net: Net, x: Tensor) -> None:
    out = {"FLOAT32": {}, "INT8": {"scale": 1 / 256, "zero": -128}, "INT16": {"scale": 1 / 32768}}[net.type]
    y = net.b.op("SOFTMAX", [x], beta=1.0, **out)
    net.op("QUANTIZE" if net.scale else "NEG", [y])  # back to the network's scale


def relu(draw: Any, net: Net, x: Tensor) -> None:
    net.op(draw(st.sampled_from(["RELU", "LEAKY_RELU"])), [x])


def reverse(draw: Any, net: Net, x: Tensor) -> None:
    net.op("REVERSE_V2", [x, np.array([draw(st.integers(0, len(x.shape) - 1))], np.int32)])


def squeeze(draw: Any, net: Net, x: Tensor) -> None:
    ones = [d for d, extent in enumerate(x.shape) if extent == 1]
    need(ones)
    net.op("SQUEEZE", [x], squeeze_dims=(draw(st.sampled_from(ones)),))


def expand(draw: Any, net: Net, x: Tensor) -> None:
    need(len(x.shape) < 4)
    net.op("EXPAND_DIMS", [x, np.array(draw(st.integers(0, len(x.shape))), np.int32)])


@st.composite
def nets(draw: Any, most: int = 6, kind: str = "") -> Graph:
    rows, sliding = draw(st.integers(4, 20)), not kind and draw(st.booleans())
    shape = tuple(rows if n == "R" else n for n in draw(st.sampled_from(INPUTS[:3] if sliding else INPUTS)))
    net = Net(draw(st.sampled_from(["FLOAT32", "FLOAT32", "INT8", "INT16"])), shape, draw(st.integers(0, 99)))
    kinds = [kind] if kind else SLIDING if sliding else KINDS
    for name in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=most)):
        x = net.there[-1] if draw(st.integers(0, 2)) else draw(st.sampled_from(net.there))
        count = len(net.b.nodes)
        try:
            need(x.shape)
            globals()[name](draw, net, x)
        except (TwinferError, Skipped):  # this type or shape has no such layer
            assert len(net.b.nodes) in (count, count + 1)
    if draw(st.booleans()):  # who reads all rows of it
        x = net.there[-1]
        net.op("REVERSE_V2", [net.op("RESHAPE", [x, np.array([x.size], np.int32)]), np.array([0], np.int32)])
    outputs = [net.there[-1], *draw(st.lists(st.sampled_from(net.there[1:-1] or [net.there[-1]]), max_size=1))]
    return net.b.graph(list(dict.fromkeys(outputs)), signature="serving_default")


def rows_of(graph: Graph, row: int, count: int) -> Array:
    (source,) = graph.inputs
    rng = np.random.default_rng(1)
    if source.type == "FLOAT32":
        return rng.standard_normal((count, row)).astype(np.float32)
    return rng.integers(-100, 100, (count, row)).astype(source.type.lower())


def run(graph: Graph, values: list[Array]) -> list[list[Array]]:
    model = Interpreter.from_graph(graph)
    model.allocate_tensors()
    place = model.get_input_details()[0]
    results = []
    for value in values:
        model.set_tensor(place["index"], value.reshape(place["shape"]))
        model.invoke()
        results.append([model.get_tensor(each["index"]) for each in model.get_output_details()])
    return results


def last_rows(want: Array, like: Array) -> Array:
    """Of an output over time the rows that are new: the last ones along the one dimension that is shorter."""
    shorter = [d for d, (a, b) in enumerate(zip(like.shape, want.shape, strict=True)) if a != b]
    assert len(shorter) <= 1
    for d in shorter:
        want = want.take(range(want.shape[d] - like.shape[d], want.shape[d]), d)
    return want


def assert_slides(window: Graph, step: Graph, rows: int, hop: int) -> None:
    """Rows fed step by step give the outputs of the windows that slide over them."""
    row = window.inputs[0].size // rows
    assert step.inputs[0].size == hop * row
    first = -(-rows // hop)
    fed = rows_of(window, row, (first + 5) * hop)
    got = run(step, np.split(fed, first + 5))[first - 1 :]
    want = run(window, [fed[end - rows : end] for end in range(first * hop, len(fed) + 1, hop)])
    for pair in zip(got, want, strict=True):
        for a, b in zip(*pair, strict=True):
            assert a.tobytes() == last_rows(b, a).tobytes(), [
                str(node) + str([t.shape for t in node.inputs]) for node in window.nodes
            ]


HOPS = st.sampled_from(["default", "least", "most", "any"])


@settings(max_examples=150, deadline=None)
@given(nets(), HOPS, st.integers(0, 99))
def test_random_networks(graph: Graph, kind: str, number: int) -> None:
    assert_streams(graph, kind, number)


@pytest.mark.parametrize("layer", sorted({*KINDS}))
def test_each_kind_of_layer(layer: str) -> None:
    @settings(max_examples=20, deadline=None)
    @given(nets(2, layer), HOPS, st.integers(0, 99))
    def check(graph: Graph, kind: str, number: int) -> None:
        assert_streams(graph, kind, number)

    check()


def assert_streams(graph: Graph, kind: str, number: int) -> None:
    rows = max(graph.inputs[0].shape)
    hop = {"default": None, "least": 1, "most": rows - 1, "any": number % (rows - 1) + 1}[kind]
    streaming = stream(graph, hop=hop)
    assert hop in (None, streaming.hop)
    if graph.inputs[0].size > rows or not {"RESHAPE", "EXPAND_DIMS", "SQUEEZE"} & {n.op for n in graph.nodes}:
        assert (streaming.rows, streaming.steps) == (rows, math.ceil(rows / streaming.hop))
    assert_slides(graph, streaming.graph, streaming.rows, streaming.hop)
    proof = prove(graph, streaming, windows=1)
    assert (proof.windows, proof.different) == (streaming.steps + 1, 0)
    firsts = [node.input(1) for sub in streaming.graph.subgraphs for node in sub.nodes if node.op == "ASSIGN_VARIABLE"]
    assert len(firsts) == sum(node.op == "READ_VARIABLE" for node in streaming.graph.nodes)
    for first in firsts:  # before its first row a stream stands for 0
        assert first.quant is not None or first.type == "FLOAT32"
        assert (first.data == (0 if first.quant is None else first.quant.zero_point[0])).all()


@st.composite
def forks(draw: Any) -> Graph:
    """Two ways of as many rows, each with padding and windows of its own at both ends; their ends are joined."""
    net = Net(draw(st.sampled_from(["FLOAT32", "INT8"])), (1, draw(st.integers(5, 20)), draw(st.integers(1, 2)), 2), 0)
    around, stride, ends = draw(st.integers(0, 3)), draw(st.integers(1, 2)), list[Tensor]()
    for _ in "ab":
        x = net.there[0]
        if around:
            before = draw(st.integers(0, around))
            x = net.op("PAD", [x, np.array([[0, 0], [before, around - before], [0, 0], [0, 0]], np.int32)])
        if stride > 1 or draw(st.booleans()):
            weights = net.weights((2, draw(st.integers(1, 5)), draw(st.integers(1, 2)), 2), 0)
            dilation = draw(st.integers(1, 2)) if stride == 1 else 1
            own = {"padding": "SAME", "stride_h": stride, "stride_w": 1, "dilation_h_factor": dilation}
            x = net.op("CONV_2D", [x, *weights], **own, dilation_w_factor=1, **NONE)
        ends.append(x)
    if draw(st.booleans()):
        y = net.op("CONCATENATION", ends, axis=3, **NONE)
    else:
        y = net.op(draw(st.sampled_from(["ADD", "SUB", "MAXIMUM"])), ends)
    if draw(st.booleans()):
        window(draw, net, y)
    return net.b.graph([net.there[-1], net.op("REVERSE_V2", [net.there[-1], np.array([1], np.int32)])])


@settings(max_examples=60, deadline=None)
@given(forks(), st.integers(0, 99))
def test_ways_that_meet(graph: Graph, number: int) -> None:
    """What is joined has as many rows of its own in every window as the way that has most, whichever comes first."""
    hop = number % (graph.inputs[0].shape[1] - 1) + 1
    streaming = stream(graph, axis=1, hop=hop)
    assert_slides(graph, streaming.graph, streaming.rows, hop)


def windows(graph: Graph, hop: int, count: int = 3) -> list[list[Array]]:
    (source,) = graph.inputs
    rows = max(source.shape)
    fed = rows_of(graph, source.size // rows, rows + (count - 1) * hop)
    return run(graph, [fed[i * hop : i * hop + rows] for i in range(count)])


def reused(before: Array, after: Array, axis: int, shift: int) -> list[int]:
    """The rows of ``after`` that ``before`` has ``shift`` rows later."""
    rows = range(after.shape[axis] - shift) if shift else []
    return [j for j in rows if np.array_equal(after.take(j, axis), before.take(j + shift, axis))]


@st.composite
def layers(draw: Any) -> tuple[Graph, Tensor, int, int]:
    """A layer with windows and what it returns, all of whose rows are read; the dimension of time, the stride there."""
    axis, rows = draw(st.sampled_from([1, 2])), draw(st.integers(4, 20))
    shape = (1, rows, draw(st.integers(1, 3)), 2) if axis == 1 else (1, 1, rows, 2)
    net = Net("FLOAT32", shape, draw(st.integers(0, 99)))
    window(draw, net, net.there[0])
    node = net.b.nodes.pop()
    plain = {**NONE, f"dilation_{'hw'[axis - 1]}_factor": 1}  # all rows that one row reads lie side by side
    options = {name: plain.get(name, value) for name, value in node.options.items()}
    y = net.op(node.op, node.inputs, **options)
    end = net.op("REVERSE_V2", [y, np.array([axis], np.int32)])
    return net.b.graph([y, end]), y, axis, node.options[f"stride_{'hw'[axis - 1]}"]


@settings(max_examples=40, deadline=None)
@given(layers(), st.integers(0, 99))
def test_only_rows_that_the_window_before_lacks_are_computed(
    layer: tuple[Graph, Tensor, int, int], number: int
) -> None:
    """Also the rows that are kept are those that are needed again: the fewest."""
    graph, y, axis, stride = layer
    hop = number % (graph.inputs[0].shape[axis] - 1) + 1
    before, after = (each[0] for each in windows(graph, hop, 2))
    shift = hop // stride if hop % stride == 0 else 0
    same = reused(before, after, axis, shift)
    streaming = stream(graph, axis=axis, hop=hop)
    reason = next((why for node, why in streaming.whole.items() if node.output is y), "")
    if reason == "it pools over padding, which counts as nothing":
        assert graph.nodes[0].op in ("MAX_POOL_2D", "AVERAGE_POOL_2D")
        assert graph.nodes[0].options["padding"] == "SAME"
        return
    nodes = [node for node in streaming.graph.nodes if node.op == graph.nodes[0].op]
    assert sum(node.output.shape[axis] for node in nodes) == y.shape[axis] - len(same)
    assert bool(reason) == (not same), reason
    kept = [node.output.shape[axis] for node in streaming.graph.nodes if node.op == "READ_VARIABLE"]
    assert kept == [n for n in (kept_of_input(graph, axis, hop, same), len(same)) if n]


def kept_of_input(graph: Graph, axis: int, hop: int, same: list[int]) -> int:
    """Old rows of the input from the first that a row of output 0 reads which is not the ``same`` as before."""
    (source,) = graph.inputs
    size = source.shape[axis]
    base = np.random.default_rng(2).standard_normal(source.shape).astype(np.float32)
    changed = np.repeat(base[None], size - hop, 0)
    for r in range(size - hop):
        changed[r].swapaxes(0, axis)[r] += 50
    first, *others = (each[0] for each in run(graph, [base, *changed]))
    new = [j for j in range(first.shape[axis]) if j not in same]
    read = [r for r, each in enumerate(others) if not np.array_equal(each.take(new, axis), first.take(new, axis))]
    return size - hop - min(read, default=size - hop)


def strided(rows: int, pad: int, *strides: int) -> Graph:
    net = Net("INT8", (1, rows, 1, 2), 0)
    net.op("PAD", [net.there[-1], np.array([[0, 0], [pad, 0], [0, 0], [0, 0]], np.int32)])
    for stride in strides:
        options = {"padding": "SAME", "stride_h": stride, "stride_w": 1, **NONE}
        net.op("CONV_2D", [net.there[-1], *net.weights((2, 2, 1, 2), 0)], **options)
    return net.b.graph(net.there[-1:])


@pytest.mark.parametrize(("rows", "pad", "strides"), [
    (12, 0, (1,)), (12, 0, (2,)), (12, 0, (2, 2)), (12, 0, (3, 2)), (13, 0, (2, 3, 1)), (24, 0, (2, 2, 2)),
    (24, 0, (3, 3)),
    (4, 4, (4,)), (8, 8, (2, 4)), (8, 8, (4, 2)), (5, 4, (4,)), (6, 6, (2, 3)), (9, 9, (3, 3)), (2, 2, (2,)),
])  # fmt: skip
def test_the_default_is_the_least_hop_that_fits_all_strides(rows: int, pad: int, strides: tuple[int, ...]) -> None:
    """Where none of fewer rows than a window fits all, it is the least that fits the first ones: never a refusal."""
    graph = strided(rows, pad, *strides)
    least = math.prod(strides)
    while least >= rows:
        *strides, _ = strides
        least = math.prod(strides)
    streaming = stream(graph)
    assert streaming.hop == least
    assert_slides(graph, streaming.graph, rows, least)


def test_hops_at_the_ends() -> None:
    graph = strided(6, 0, 1)
    for hop in (1, 5):
        streaming = stream(graph, hop=hop)
        assert (streaming.rows, streaming.hop, streaming.steps) == (6, hop, 6 if hop == 1 else 2)
        assert_slides(graph, streaming.graph, 6, hop)
    for hop in (0, -1, 6, 7):
        with pytest.raises(InvalidArgumentError, match=r"no stream|at least one"):
            stream(graph, hop=hop)
