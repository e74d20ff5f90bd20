"""Recurrent layers become loops: the same values as ONNX Runtime's, the bits of what is written out step by step here
and in LiteRT, and a file that is little larger than the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needs import deep_but, needs

needs("onnx", "onnxruntime", "ai_edge_litert")

from onnx import helper  # noqa: E402
from onnx_tools import by_litert, by_onnxruntime, by_ours, compare, floats, model  # noqa: E402

from twinfer.converter.build import Builder  # noqa: E402
from twinfer.converter.convert import conversion  # noqa: E402
from twinfer.converter.loops import roll  # noqa: E402
from twinfer.converter.quantize.calibrate import calibrate  # noqa: E402
from twinfer.converter.quantize.quantize import Options, quantize  # noqa: E402
from twinfer.converter.quantize.recipe import Choice, Recipe  # noqa: E402
from twinfer.runtime.graph import Graph  # noqa: E402
from twinfer.runtime.write.tflite import write  # noqa: E402

TIME, DEPTH, HIDDEN = 12, 3, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(kind: str, batch: int, outputs: str, **options: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """A model of one layer and its inputs; ``outputs``: "sequence", "last" or "both"."""
    rng = np.random.default_rng(1)
    directions, rows = 2 if options.get("direction") == "bidirectional" else 1, GATES[kind] * HIDDEN
    weights = {
        "w": floats(rng, directions, rows, DEPTH), "r": floats(rng, directions, rows, HIDDEN) / 2,
        "b": floats(rng, directions, 2 * rows),
    }  # fmt: skip
    feeds, names = {"x": floats(rng, TIME, batch, DEPTH)}, ["x", *weights]
    if options.pop("states", False):
        states = ("h", "c") if kind == "LSTM" else ("h",)
        feeds |= {name: floats(rng, directions, batch, HIDDEN) for name in states}
        names += ["", *states]
    wanted = ["y" if outputs != "last" else "", "last" if outputs != "sequence" else ""]
    node = helper.make_node(kind, names, wanted, hidden_size=HIDDEN, **options)
    return model([node], feeds, weights, [name for name in wanted if name], opset=14), feeds


def loops(graph: Graph) -> int:
    return sum(node.op == "WHILE" for node in graph.nodes)


CASES: list[tuple[str, int, str, dict[str, Any]]] = [
    ("LSTM", 1, "both", {}),
    ("LSTM", 3, "last", {"direction": "reverse", "states": True}),
    ("LSTM", 2, "sequence", {"clip": 0.7}),
    ("GRU", 1, "both", {"direction": "bidirectional", "states": True}),
    ("GRU", 2, "sequence", {"linear_before_reset": 1, "direction": "reverse"}),
    ("RNN", 1, "last", {"states": True}),
]


EVERY = [(*case, quantize) for case in CASES for quantize in (None, "int8", "int16x8")]


@pytest.mark.parametrize(("kind", "batch", "outputs", "options", "quantize"),
                         deep_but(EVERY, *(e for e in EVERY if e[-1] is None), EVERY[4], EVERY[16]))  # fmt: skip
def test_a_recurrent_layer_is_a_loop(
    kind: str, batch: int, outputs: str, options: dict[str, Any], quantize: str | None
) -> None:
    proto, feeds = recurrent(kind, batch, outputs, **options)
    rng = np.random.default_rng(2)
    how: dict[str, Any] = {}
    if quantize:
        samples = [feeds, *({name: floats(rng, *x.shape) for name, x in feeds.items()} for _ in range(5))]
        how = {"quantize": quantize, "calibration": samples, "inference_type": "FLOAT32"}
    made = conversion(proto, **how)
    if kind == "LSTM" and not options and quantize != "int16x8":
        assert [node.op for node in made.graph.nodes].count("UNIDIRECTIONAL_SEQUENCE_LSTM") == 1
        return
    assert loops(made.graph) == (2 if options.get("direction") == "bidirectional" else 1)
    assert loops(made.flat) == 0
    assert in_steps(made.graph) == 0  # no step is outside, not even the first, which begins with zeros
    assert len(write(made.graph)) < len(write(made.flat)) / 2
    got, want = by_ours(made.graph, feeds), by_onnxruntime(proto, feeds)
    assert all(np.array_equal(g, f) for g, f in zip(got, by_ours(made.flat, feeds), strict=True))
    if quantize is None:
        compare(got, want, 1e-5)
        assert all(np.array_equal(g, t) for g, t in zip(got, by_litert(made.graph, feeds), strict=True))
        return
    for g, w, theirs, flat in zip(got, want, by_litert(made.graph, feeds), by_litert(made.flat, feeds), strict=True):
        assert np.array_equal(theirs, flat)  # LiteRT rounds once where we round twice, in both alike
        assert np.sqrt(((g - w) ** 2).mean()) < (0.1 if quantize == "int8" else 0.01) * np.abs(w).max()


def repeated(rng: np.random.Generator) -> Graph:
    """Steps of a recurrent layer written out, mostly as a loop can have them, with oddities that none can have."""
    n, h, plain = int(rng.integers(9, 14)), 4, {"fused_activation_function": "NONE"}

    def pick(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    b = Builder("net")
    rows = []
    for i in range(pick(0, 1, 1, 1, 2)):
        (width, stride), axis = pick((1, 1), (1, 1), (1, -1), (1, -1), (1, 2), (2, 1)), pick(0, 0, 1)
        extent = (n - 1) * abs(stride) + width + pick(0, 1)
        x = b.input(f"x{i}", "FLOAT32", (extent, h) if axis == 0 else (h, extent))
        rows.append((x, width, stride, axis, extent - width - (n - 1) * max(stride, 0)))
    s = b.input("s", "FLOAT32", (1, h)) if pick(0, 1) else b.constant(floats(rng, 1, h))
    c, u = b.input("c", "FLOAT32", (1, h)) if pick(0, 1, 1) else s, b.input("u", "FLOAT32", (1, h))
    weights, bias, active = floats(rng, h, h), b.constant(floats(rng, h)), pick("NONE", "RELU", "RELU6")
    same, odd, changed = b.constant(weights), int(rng.integers(n)), pick(*[""] * 8, "weights", "options")
    second, scaled = pick("", "", "own", "own", "old", "same", "same"), pick(0, 1)
    states, inner = [], []
    for t in range(n):
        w = b.constant(floats(rng, h, h)) if changed == "weights" and t == odd else same
        y = b.op("FULLY_CONNECTED", [s, w, bias])
        for x, width, stride, axis, first in rows:
            at = first + t * stride
            begin, size = (np.array([v, k] if axis == 0 else [k, v], np.int32) for v, k in ((at, 0), (width, h)))
            row = b.op("SLICE", [x, begin, size])
            row = b.op("SUM", [row, np.array([axis], np.int32)], keep_dims=True) if width > 1 else row
            row = b.op("RESHAPE", [row, np.array([1, h], np.int32)], new_shape=(1, h))
            y = b.op("ADD", [y, row], fused_activation_function=active)
        y = b.op("MUL", [y, u], **plain) if scaled else y
        own = "RELU" if changed == "options" and t == odd else "NONE"
        y = b.op("ADD", [y, c], fused_activation_function=own) if second else y
        old, s = s, b.op("TANH", [y])
        c = b.op("LOGISTIC", [c]) if second == "own" else {"old": old, "same": s}.get(second, c)
        states.append(s)
        inner.append(y)
    outs = [] if pick(0, 1) else [b.op("RELU", [states[-1]])]
    how = pick("last", "after", "row", "row", "back", "both", "head", "twice", "part", "shuffled", "middle")
    for values, way in zip(pick((states, inner), (inner, states)), (how, pick("", "", how)), strict=True):
        order = list(values)
        joined = {
            "row": [order], "back": [order[::-1]], "both": [order, order[::-1]], "head": [[u, *order, u]],
            "twice": [[*order, order[0]]], "part": [order[1:]], "shuffled": [[order[i] for i in rng.permutation(n)]],
        }.get(way, [])  # fmt: skip
        outs += [b.op("CONCATENATION", each, axis=pick(0, 1, -1, -2), **plain) for each in joined]
        outs += {"last": values[-1:], "middle": [values[n // 2]]}.get(way, [])
        outs += [b.op("RELU", values[-1:])] if way == "after" else []
    return b.graph(list(dict.fromkeys(outs)) or [b.op("RELU", [states[-1]])])


def in_steps(graph: Graph) -> int:
    return sum(node.op == "TANH" for node in graph.nodes)


def test_any_repetition_gives_the_same_bits() -> None:
    made = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        graph = repeated(rng)
        loop = roll(graph)
        if loops(loop):
            made += 1
            feeds = {t.name: floats(rng, *t.shape) for t in graph.inputs}
            got, want = by_litert(loop, feeds), by_litert(graph, feeds)
            assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True)), seed
            seen = calibrate(graph, [feeds, {name: -value for name, value in feeds.items()}])
            tied = roll(quantize(graph, seen, Recipe((), Choice("int8")), Options("FLOAT32")))
            assert (loops(tied), in_steps(tied)) == (loops(loop), in_steps(loop)), seed
    assert made > 10


def test_rows_that_are_cut_ahead_of_all_steps_are_cut_in_the_loop() -> None:
    rng, b = np.random.default_rng(3), Builder("net")
    x, h, w = b.input("x", "FLOAT32", (9, 16)), b.input("h", "FLOAT32", (1, 16)), b.constant(floats(rng, 16, 16))
    rows = [b.op("SLICE", [x, np.array([t, 0], np.int32), np.array([1, 16], np.int32)]) for t in range(9)]
    for row in rows:
        h = b.op("TANH", [b.op("ADD", [b.op("FULLY_CONNECTED", [h, w, b.constant(np.zeros(16, np.float32))]), row])])
    graph = b.graph([b.op("RELU", [h])])
    loop, feeds = roll(graph), {"x": floats(rng, 9, 16), "h": floats(rng, 1, 16)}
    assert (loops(loop), in_steps(loop)) == (1, 0)
    assert np.array_equal(by_ours(loop, feeds)[0], by_ours(graph, feeds)[0])
