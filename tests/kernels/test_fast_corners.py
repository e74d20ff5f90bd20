"""Operators that few models have on SMLAD and Helium: numpy's integers, bit for bit, at every tile's edge.

Random nodes as in test_fast_paths.py. On the host plain C stands in for the instruction sets; some of the nodes also
run on the cores that have them, under QEMU.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import assert_exact, assert_exact_on, assert_sanitized, graph_of
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but
from test_compiled import WARNINGS
from test_fast_paths import integers, size, some
from test_recurrent import limits

from twinfer.aot.print.emit import emit
from twinfer.runtime.graph import Array, Graph, Node, Quant, Tensor
from twinfer.runtime.op import along, tensor
from twinfer.runtime.ops.move._move import index
from twinfer.runtime.ops.recurrent import svdf
from twinfer.runtime.ops.recurrent._lstm_cases import Form, case
from twinfer.runtime.ops.recurrent._lstm_s8 import GATES
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, HOST, MVE, Target
from twinfer.runtime.tools import run_tool

#: Nodes of each kind for a core under QEMU.
ON_CORES = 8

Drawn = tuple[Node, list[Array]]


def zero(rng: np.random.Generator) -> int:
    return int(some(rng, 0, -128, 127, rng.integers(-128, 128)))


def value(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return integers(rng, shape, -128).astype(np.int8)


def matmul(rng: np.random.Generator) -> Drawn:
    """Two computed matrices, both ways round, with batches that broadcast."""
    rows, depth, cols = size(rng, 9), size(rng, 70), size(rng, 9)
    of_a, of_b = some(rng, ((), ()), ((2,), ()), ((2, 1), (3,)), ((1, 2), (2, 2)))
    options = {"adj_x": bool(rng.integers(2)), "adj_y": bool(rng.integers(2))}
    a = (*of_a, *((depth, rows) if options["adj_x"] else (rows, depth)))
    b = (*of_b, *((cols, depth) if options["adj_y"] else (depth, cols)))
    y = tensor((*np.broadcast_shapes(of_a, of_b), rows, cols), "INT8", 0.001 * depth**0.5 * some(rng, 1, 40), zero(rng))
    ends = tensor(a, "INT8", 0.05, zero(rng), name="a"), tensor(b, "INT8", 0.02, zero(rng), name="b")
    return Node("BATCH_MATMUL", ends, (y,), options), [value(rng, a), value(rng, b)]


def dense(rng: np.random.Generator) -> Drawn:
    """Weights that are fed, or have a zero point; with and without a bias."""
    batches, depth, out = int(rng.integers(1, 6)), size(rng, 70), size(rng, 9)
    fed = bool(rng.integers(2))
    x = tensor((batches, depth), "INT8", 0.05, zero(rng), name="x")
    data = None if fed else value(rng, (out, depth))
    w = tensor((out, depth), "INT8", 0.02, zero(rng) if fed else 7, data=data, name="w")
    bias = tensor((out,), "INT32", 0.001, data=rng.integers(-9000, 9000, out), name="b")
    y = tensor((batches, out), "INT8", 0.001 * depth**0.5 * some(rng, 1, 40), zero(rng), name="y")
    options = {"fused_activation_function": some(rng, "NONE", "RELU", "RELU6"), "weights_format": "DEFAULT"}
    ends = (x, w, bias) if rng.integers(2) else (x, w)
    values = [value(rng, (batches, depth))] + [value(rng, (out, depth))] * fed
    return Node("FULLY_CONNECTED", ends, (y,), options | {"keep_num_dims": False}), values


def lstm(rng: np.random.Generator) -> Drawn:
    """Weights of any scale, so that sums are shifted both ways."""
    sizes = (int(rng.integers(1, 3)), int(rng.integers(1, 5)), size(rng, 40), size(rng, 20))
    options = {"time_major": bool(rng.integers(2))}
    node = case(rng, Form("INT8", sizes, some(rng, 0.0, 1.0, 10.0), options=options)).node
    inputs = list(node.inputs)
    for i in (i for w, r, _ in GATES for i in (w, r)):
        w = node.input(i)
        quant = Quant.per_tensor(w.scale * some(rng, 0.1, 1, 1, 20, 90))
        inputs[i] = replace(w, data=integers(rng, w.shape, -127).astype(np.int8), quant=quant)
    return replace(node, inputs=tuple(inputs)), [value(rng, node.input(0).shape)]


def filters(rng: np.random.Generator) -> Drawn:
    """An SVDF with a state of int8 or int16, and now and then features of -128."""
    kind, sizes = some(rng, "INT8", "INT16"), (size(rng, 20), int(rng.integers(1, 4)), size(rng, 12))
    held = float(some(rng, 0.01, 0.2, 2.0)) * (0.01 if kind == "INT16" else 1), int(some(rng, 0, -3, 5))
    node = svdf._case(rng, kind, (int(rng.integers(1, 3)), size(rng, 40)), sizes, held).node
    y = replace(node.output, quant=Quant.per_tensor(held[0] * some(rng, 0.1, 1, 5), zero(rng)))
    x, features, *others = node.inputs
    assert features is not None
    features = replace(features, data=integers(rng, features.shape, some(rng, -127, -127, -128)).astype(np.int8))
    return replace(node, inputs=(x, features, *others), outputs=(y,)), [value(rng, node.input(0).shape)]


def convolution(rng: np.random.Generator, op: str, w: Array, x: tuple[int, ...], options: dict[str, Any]) -> Drawn:
    """A CONV_2D or TRANSPOSE_CONV; its output gets its shape from ``infer``."""
    out = len(w)
    scales = (0.01 * 2.0 ** rng.uniform(-3, 3, some(rng, 1, out))).tolist()
    weights = along(tensor(w.shape, "INT8", scales, data=w, name="w"), 0)
    bias = tensor((out,), "INT32", 1.0, data=rng.integers(-20_000, 20_000, out), name="b")
    image = tensor(x, "INT8", 0.05, zero(rng), name="x")
    shape = options.pop("shape", None)
    ends = (image, weights, bias) if shape is None else (index(shape), weights, image, bias)
    y = tensor(shape or (1,), "INT8", 0.001 * (w.size / out) ** 0.5 * some(rng, 1, 30), zero(rng), name="y")
    options |= {"padding": some(rng, "SAME", "VALID"), "fused_activation_function": some(rng, "NONE", "RELU6")}
    node = Node(op, ends, (y,), options)
    return replace(node, outputs=(replace(y, shape=operators()[op].infer(node)[0]),)), [value(rng, x)]


def grouped(rng: np.random.Generator) -> Drawn:
    """Groups of few channels, whose windows leave the image; dilated, too."""
    groups, depth, out = int(rng.integers(1, 5)), size(rng, 9), size(rng, 9)
    x = (int(rng.integers(1, 3)), int(rng.integers(5, 10)), int(rng.integers(5, 10)), groups * depth)
    w = integers(rng, (groups * out, int(rng.integers(1, 4)), int(rng.integers(1, 4)), depth), -127)
    options = {f"stride_{axis}": int(rng.integers(1, 3)) for axis in "hw"}
    options |= {f"dilation_{axis}_factor": int(some(rng, 1, 1, 2)) for axis in "hw"}
    return convolution(rng, "CONV_2D", w, x, options)


def transposed(rng: np.random.Generator) -> Drawn:
    """Strides up to 3, windows at least as large, outputs of any size."""
    strides = {f"stride_{axis}": int(rng.integers(1, 4)) for axis in "hw"}
    k_h, k_w = (stride + int(rng.integers(0, 4)) for stride in strides.values())
    x = (int(rng.integers(1, 3)), size(rng, 6), size(rng, 6), size(rng, 20))
    w = integers(rng, (size(rng, 9), k_h, k_w, x[3]), -127)
    sides = [n * stride + int(rng.integers(0, 4)) for n, stride in zip(x[1:3], strides.values(), strict=True)]
    return convolution(rng, "TRANSPOSE_CONV", w, x, {**strides, "shape": (x[0], *sides, len(w))})


#: Kind -> how nodes of it are drawn, and what the names of its kernels contain.
KINDS = {
    "matmul": (matmul, "batch_matmul"),
    "dense": (dense, "batch_matmul"),
    "lstm": (lstm, "lstm"),
    "svdf": (filters, "svdf"),
    "groups": (grouped, "conv2d_groups"),
    "transposed": (transposed, "transpose_conv"),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, (1 << 32) - 1))
def test_on_the_host(kind: str, seed: int) -> None:
    assert_exact(*KINDS[kind][0](np.random.default_rng(seed)), (DSP, MVE, GENERIC))


@pytest.mark.parametrize("kind", ["lstm", "svdf"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, (1 << 32) - 1))
def test_runs_from_any_state(kind: str, seed: int) -> None:
    """Runs one after the other are those of plain C, which test_recurrent.py holds against TFLM."""
    rng = np.random.default_rng(seed)
    graph = graph_of(KINDS[kind][0](rng)[0])
    states = {t: integers(rng, t.shape, *limits(t)) for t in graph.tensors if t.variable}
    runs = [random_inputs(graph, seed % 1000 + i) for i in range(3)]
    *others, plain = (_after(graph, states, runs, target) for target in (DSP, MVE, HOST, GENERIC))
    for got, want in zip([each for other in others for each in other], 3 * plain, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=str(graph.nodes[0]))


def _after(graph: Graph, states: dict[Tensor, Array], runs: list[list[Array]], target: Target) -> list[Array]:
    """The outputs of all runs, and the states that they leave."""
    session = Session(make_plan(graph, target), 0)
    for variable, state in states.items():
        session.view(variable)[...] = state
    outputs = []
    for values in runs:
        poison(session)
        session.feed(values)
        session.run()
        outputs += [np.array(value) for value in session.outputs()]
    return outputs + [np.array(session.view(variable)) for variable in states]


@pytest.mark.parametrize("kind", KINDS)
def test_every_choice_is_tried(kind: str) -> None:
    """The random nodes reach the kernels of both instruction sets."""
    draw, name = KINDS[kind]
    for target, feature in ((DSP, "dsp"), (MVE, "mve")):
        rng, kernels = np.random.default_rng(1), []
        for _ in range(40):
            kernels.append(lower_node(draw(rng)[0], target)[0].kernel)
        assert sum(kernel.startswith(f"tw_{name}_{feature}") for kernel in kernels) > 15, kernels


def test_features_of_both_forms_are_tried() -> None:
    """On the DSP extension, in halves of words, and as bytes where a weight of -128 lies beside a negative one."""
    rng = np.random.default_rng(1)
    calls = [lower_node(filters(rng)[0], DSP)[0] for _ in range(120)]
    forms = [call.params["bytes"] for call in calls if "_dsp_" in call.kernel]
    assert min(forms.count(0), forms.count(1)) > 10, forms


def test_no_fault_under_sanitizers(tmp_path: Path) -> None:
    rng, programs = np.random.default_rng(9), []
    for i, (target, (draw, _)) in enumerate(product((DSP, MVE), [*KINDS.values()] * 2)):
        node, values = draw(rng)
        programs.append((emit(make_plan(graph_of(node), target), f"n{i}"), values))
    assert_sanitized(tmp_path, programs)
    run_tool(["g++", "-x", "c++", "-std=c++20", "-fsyntax-only", *WARNINGS, *(f"n{i}.c" for i in range(24))], tmp_path)


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize(
    "core", deep_but(["cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"], "cortex-m4", "cortex-m55")
)
def test_under_qemu(core: str) -> None:
    rng, draws = np.random.default_rng(20261125), [draw for draw, _ in KINDS.values()]
    assert_exact_on(core, (draw(rng) for draw in draws * ON_CORES))
