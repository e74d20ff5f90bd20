"""Variants whose constants take more flash: which layers get them, and that they give the same bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from cases import assert_exact_on, cases_of, graph_of, outputs_of, same, values_of

from twinfer.aot.build.targets import find
from twinfer.bench.models.source import load
from twinfer.runtime.graph import Array, Graph, Node
from twinfer.runtime.ops.conv._winograd import transformed, transformed_line
from twinfer.runtime.options import Optimize, Options
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, TILES, Target

M0 = find("cortex-m0").target


@pytest.fixture(scope="module")
def ic() -> Graph:
    return load("ic_int8").graph


@pytest.fixture(scope="module")
def tcn() -> Graph:
    return load("tcn_int8").graph


def places(plan: Plan) -> Sequence[int]:
    return [step.position for step in plan.steps if step.call.kernel.startswith("tw_conv2d_winograd_")]


@pytest.mark.parametrize("target", [DSP, GENERIC, M0, TILES], ids=lambda target: target.name)
def test_speed_takes_all_that_are_faster(ic: Graph, target: Target) -> None:
    """All layers of 3 x 3 taps a pixel apart, but the first one of three channels."""
    assert places(make_plan(ic, target, Options(optimize="speed"))) == [1, 2, 5, 9]


@pytest.mark.parametrize(
    ("target", "faster"), [(DSP, 4), (GENERIC, 4), (M0, 4), (TILES, 0)], ids=["dsp", "generic", "cortex-m0", "tiles"]
)
def test_taps_along_a_line(tcn: Graph, target: Target, faster: int) -> None:
    """Gaps or not; beside tiles they would save too little."""
    assert places(make_plan(tcn, target, Options(optimize="speed"))) == list(range(faster))


def test_none_where_another_kernel_is_better(ic: Graph) -> None:
    assert not places(make_plan(ic, find("cortex-m55").target, Options(optimize="speed")))


def test_weights_of_16_bits_where_winograd_declines() -> None:
    """For the fewest instructions; flash in balance takes them for the first layer of few channels alone."""

    def halves(name: str, options: Options) -> list[int]:
        plan = make_plan(load(name).graph, DSP, options)
        return [step.position for step in plan.steps if step.call.kernel == "tw_conv2d_halves_dsp_s8"]

    assert halves("kws_int8", Options(optimize="speed")) == [0, 2, 4, 6, 8]
    assert halves("ic_int8", Options(optimize="speed")) == [0, 4, 6, 8, 10]
    assert halves("vww_int8", Options()) == [0, 2]
    assert not halves("vww_int8", Options(optimize="size"))


@pytest.mark.parametrize("options", [
    Options(optimize="size"), Options(), Options(optimize="speed", memory="rows"),
    Options(optimize="speed", ram=50_000), Options(optimize="speed", weights="auto"),
    Options(optimize="speed", weights_as="paged"),
], ids=str)  # fmt: skip
def test_none_where_bytes_come_first(ic: Graph, options: Options) -> None:
    assert not places(make_plan(ic, DSP, options))


def test_balanced_weighs_bytes(ic: Graph) -> None:
    """A layer by itself is all of the model's instructions, for a few kilobytes more."""
    part = next(node for node in ic.nodes if node.index == 1)
    alone = Graph("alone", [t for t in (*part.inputs, *part.outputs) if t], [part], [part.input(0)], [part.output])
    assert places(make_plan(alone, DSP)) == [0]
    assert not places(make_plan(alone, DSP, Options(optimize="size")))


@pytest.mark.parametrize("target", [DSP, GENERIC, TILES], ids=lambda target: target.name)
@pytest.mark.parametrize("memory", ["layers", "auto"])
@pytest.mark.parametrize("name", ["ic", "tcn"])
def test_the_same_bits(name: str, memory: str, target: Target, request: pytest.FixtureRequest) -> None:
    """Whole, and in bands of rows."""
    graph = request.getfixturevalue(name)
    fast, small = (make_plan(graph, target, Options(optimize=how, memory=memory)) for how in ("speed", "size"))  # type: ignore[arg-type]
    values = random_inputs(fast.graph)
    same(outputs_of(Session(fast), values), outputs_of(Session(small), values))


@pytest.mark.deep
@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize(("core", "compiled"), [
    ("cortex-m0", "speed"), ("cortex-m0", "size"), ("cortex-m3", "speed"), ("cortex-m4", "speed"), ("riscv32", "speed"),
    ("riscv32emc", "size"),
])  # fmt: skip
def test_under_qemu(core: str, compiled: Optimize) -> None:
    """All cases of Winograd's, which compilers for size save registers for, too."""
    nodes, target = list[tuple[Node, list[Array]]](), find(core).target
    for case in cases_of("CONV_2D").values():
        if case.node.input(0).type == "INT8" and "winograd" in lower_node(case.node, target)[0].kernel:
            nodes.append((case.node, values_of(case, graph_of(case.node))))
    assert len(nodes) > 10
    assert_exact_on(core, nodes, compiled)


def test_transformed_weights_and_inputs_fit_sixteen_bits() -> None:
    """Both transforms are linear: they are greatest where every value is an end of its range, signed as its factor."""
    units = np.eye(9, dtype=np.int8).reshape(9, 3, 3, 1)
    factors = transformed(units)[..., 0].astype(np.int64)  # [taps, 4, 4]
    assert int((128 * np.abs(factors).sum(0)).max()) == 9 * 128
    rows = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]])
    assert int(128 * np.abs(np.einsum("ia,jb->ijab", rows, rows)).sum((2, 3)).max()) == 4 * 128
    ends = np.array([[1, 1, 1, 0], [0, 1, -1, 1]])
    assert np.array_equal(  # four times the convolution, of every tap and input: so of all sums of them
        np.einsum("pi,qj,tij,ia,jb->tpqab", ends, ends, factors, rows, rows),
        [[[4 * np.outer(np.eye(4)[p + ky], np.eye(4)[q + kx]) for q in (0, 1)] for p in (0, 1)]
         for ky in range(3) for kx in range(3)],
    )  # fmt: skip


def test_transformed_weights_and_inputs_of_a_line_fit_sixteen_bits() -> None:
    """As above, with twice the convolution."""
    factors = transformed_line(np.eye(3, dtype=np.int8).reshape(3, 3, 1))[..., 0].astype(np.int64)  # [taps, 4]
    assert int((128 * np.abs(factors).sum(0)).max()) == 3 * 128
    rows = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]])
    assert int(128 * np.abs(rows).sum(1).max()) == 2 * 128
    ends = np.array([[1, 1, 1, 0], [0, 1, -1, 1]])
    twice = np.einsum("pi,ti,ia->tpa", ends, factors, rows)
    assert np.array_equal(twice, [[2 * np.eye(4)[p + k] for p in (0, 1)] for k in range(3)])
