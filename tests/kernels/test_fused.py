"""``Options.floats`` "fused": products of float32 and their sums are rounded once, to the same bits everywhere."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cases import assert_exact_on, graph_of, outputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_fast_floats import OPERATORS, node_of

from twinfer.aot.build.targets import find
from twinfer.bench.models.source import load
from twinfer.bench.models.verify import verify
from twinfer.kernels_c import LEVELS, lib
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.core.madd import FUSED, madd
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import AVX2, GENERIC, HOST, SIMD128

FUSING = Options(floats="fused")

#: The rounding of one float32 operation: half a unit in the last place of 1.
UNIT = 2.0**-24


def rounded(exact: Fraction) -> np.float32:
    """The float32 that is nearest, of two the one with an even last bit."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)]
    return min([near, *around], key=lambda value: (abs(Fraction(float(value)) - exact), int(value.view(np.int32)) & 1))


def hard(rng: np.random.Generator) -> list[np.float32]:
    """Factors and an addend whose sum may lie just beside the middle of two float32, or cancel, or be subnormal."""
    a, b = (np.float32(rng.choice([-1, 1]) * (1 + 2.0 ** -int(rng.integers(1, 24)))) for _ in range(2))
    product = float(a) * float(b)
    scale = 2.0 ** int(rng.integers(-60, 61))
    c = [product, -product, scale, -scale * (1 + 2.0**-23), -scale * product][int(rng.integers(5))]
    if rng.random() < 0.2:
        a, b, c = a * np.float32(2.0**-70), b * np.float32(2.0**-70), c * 2.0 ** -int(rng.integers(120, 150))
    return [a, b, np.float32(c)]


def test_madd_rounds_once() -> None:
    rng = np.random.default_rng(0)
    values = np.array([hard(rng) for _ in range(5000)], np.float32)
    want = [rounded(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))) for a, b, c in values]
    np.testing.assert_array_equal(madd(*values.T, fused=True), want)
    assert (madd(*values.T) != want).any()


def test_madd_of_infinities_and_zeros() -> None:
    inf, big = np.float32(np.inf), np.float32(3e38)
    a, b = np.array([inf, big, -big, 0, 1], np.float32), np.array([1, big, big, inf, 1], np.float32)
    with np.errstate(all="ignore"):
        got = madd(a, b, np.array([-inf, 1, -big, 1, -1], np.float32), fused=True)
    np.testing.assert_array_equal(got, np.array([np.nan, inf, -inf, np.nan, 0], np.float32))
    assert not np.signbit(got[4])


def fused(node: Node) -> Node:
    return replace(node, options={**node.options, FUSED: True})


def reference(node: Node, value: Array) -> Array:
    with np.errstate(all="ignore"):
        first: Array = OPERATORS[node.op].OP.reference(node, [value, *(t.data for t in node.inputs[1:] if t)])[0]
    return first


def assert_everywhere(node: Node, value: Array) -> None:
    """The reference's bits from every kernel, with instructions and without."""
    want = reference(node, value).view(np.int32)
    for target in (GENERIC, HOST):
        plan = make_plan(graph_of(node), target)
        for level in range(lib.tw_level() + 1):
            (got,) = outputs_of(Session(plan, level), [value])
            message = f"{target.name}, {LEVELS[level]}: {node}"
            np.testing.assert_array_equal(got.reshape(want.shape).view(np.int32), want, err_msg=message)


@pytest.mark.parametrize("op", OPERATORS)
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, (1 << 32) - 1))
def test_every_level_gives_the_references_bits(op: str, seed: int) -> None:
    node, value = node_of(np.random.default_rng(seed), op)
    assert_everywhere(fused(node), value)


def test_padding_does_not_show_the_sign_of_a_sum_that_underflows() -> None:
    """-2^-160 is rounded to -0.0, which a bias of -0.0 leaves; a zero of padding behind it would make it 0.0."""
    w = tensor((1, 1, 3, 1), data=np.full((1, 1, 3, 1), 2.0**-80, np.float32), name="w")
    bias = tensor((1,), data=np.array([-0.0], np.float32), name="b")
    shape = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    options = {**shape, "fused_activation_function": "NONE"}
    x = tensor((1, 1, 4, 1), name="x")
    node = fused(Node("CONV_2D", (x, w, bias), (tensor((1, 1, 4, 1), name="y"),), options))
    value = np.full((1, 1, 4, 1), -(2.0**-80), np.float32)
    assert np.signbit(reference(node, value)).all()
    assert_everywhere(node, value)


@pytest.mark.parametrize("floats", ["exact", "fused"])
@pytest.mark.parametrize("op", OPERATORS)
def test_errors_have_the_bound_that_is_documented(op: str, floats: str) -> None:
    """A product takes part in no more roundings than the sum has terms, the bias among them: docs/limits.md."""
    worst = 0.0
    for seed in range(60):
        node, value = node_of(np.random.default_rng(seed), op)
        node = replace(node, options={**node.options, "fused_activation_function": "NONE"})
        got = reference(fused(node) if floats == "fused" else node, value).astype(np.float64)
        exact, size = (in_float64(node, value, of) for of in (np.asarray, np.abs))
        terms = node.input(1).size // (node.output.shape[-1]) + 1
        bound = terms * UNIT / (1 - terms * UNIT) * size + 2.0**-149 * terms
        worst = max(worst, float((np.abs(got - exact) / bound).max()))
    assert 0 < worst <= 1


def in_float64(node: Node, value: Array, of: Any) -> Array:
    """The node's output, summed in float64 of what ``of`` makes of input, weights and bias."""
    wide = [of(np.asarray(each, np.float64)) for each in (value, *(t.data for t in node.inputs[1:] if t))]
    x, w, bias = wide
    if node.op == "FULLY_CONNECTED":
        return np.asarray((x @ w.T + bias).reshape(node.output.shape))
    module: Any = OPERATORS[node.op]
    window = module.geometry(node)
    return np.asarray(module._sums(x, w, window, fused=False) + bias)


@pytest.mark.parametrize("name", ["tcn_float32", "digits_float32"])
def test_engines_agree_on_a_model(name: str) -> None:
    """numpy layer by layer, interpreter, compiled code and both plans; results differ from those of exact floats."""
    source = load(name)
    assert verify(source, options=FUSING).proven
    plans = [make_plan(source.graph, options=options) for options in (Options(), FUSING)]
    x = np.random.default_rng(0).standard_normal(plans[0].graph.inputs[0].shape).astype(np.float32)
    exact, fused_ = (outputs_of(Session(plan), [x])[0] for plan in plans)
    assert (exact != fused_).any()


@pytest.mark.parametrize("target", [GENERIC, SIMD128, *(find(n).target for n in ("cortex-m0", "riscv32", "wasm32"))])
def test_targets_without_the_instruction_are_refused(target: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"floats cannot be fused on {target.name}.*name a target that does"):
        make_plan(load("digits_float32").graph, target, FUSING)


@pytest.mark.parametrize("name", ["cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "riscv32imafc", "aarch64"])
def test_targets_with_the_instruction(name: str) -> None:
    kernels = {step.call.kernel for step in make_plan(load("digits_float32").graph, find(name).target, FUSING).steps}
    assert sum("_fused_f32" in kernel for kernel in kernels) == 3
    assert HOST.fuses
    assert AVX2.fuses


@pytest.mark.deep
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m33", "cortex-m55", "riscv32imafc", "aarch64"])
def test_cores_give_the_references_bits(core: str) -> None:
    nodes = []
    for op in OPERATORS:
        for seed in range(12):
            rng = np.random.default_rng(seed)
            node, _ = node_of(rng, op)
            nodes.append((fused(node), [rng.standard_normal(node.input(0).shape).astype(np.float32)]))
    assert_exact_on(core, nodes)
