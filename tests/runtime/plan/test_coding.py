"""Models whose weights are stored coded give the same bits: on the host, as emitted C, and on cores under QEMU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from cases import assert_sanitized, distinct_plans, graph_of, lowered, numpy_outputs, outputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but
from test_compiled import WARNINGS
from test_fast_paths import OPERATORS, node_of

from twinfer.aot.build.firmware import build
from twinfer.aot.build.host import compile_plans
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.models.builtin import builtin
from twinfer.bench.models.source import Source
from twinfer.bench.models.verify import verify
from twinfer.converter.compress.cluster import cluster
from twinfer.converter.quantize.recipe import Choice, Recipe
from twinfer.runtime.graph import Array, Graph, Node
from twinfer.runtime.op import Case, tensor
from twinfer.runtime.options import USUAL, Coding, Decoding, Mode, Options
from twinfer.runtime.plan import weights
from twinfer.runtime.plan.choice import specialise
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Loop, Step
from twinfer.runtime.run.guard import Guard, spread
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, HOST, MVE, TARGETS, Target
from twinfer.runtime.tools import run_tool

CODINGS: list[Coding] = ["auto", "lut", "huffman", "bitmap"]
STORAGES = [Options(weights=how, decode=when) for how in CODINGS for when in get_args(Decoding)]


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes slices so small that small layers are cut, too."""
    monkeypatch.setattr(weights, "SLICE_BYTES", 128)


def few_values(rng: np.random.Generator, node: Node) -> Node:
    """The node, perhaps with weights of few values."""
    x, w, *rest = node.inputs
    count = int(rng.choice([1, 2, 3, 4, 7, 12, 16, 30, 60, 100, 300]))
    if count == 300 or w is None or w.data is None:
        return node
    values = rng.choice(w.data.reshape(-1), min(count, w.size), replace=False)
    data = np.where(rng.random(w.shape) < rng.choice([0, 0.7]), 0, rng.choice(values, w.shape)).astype(np.int8)
    return replace(node, inputs=(x, replace(w, data=data), *rest))


def layer_of(rng: np.random.Generator, op: str) -> tuple[Node, Array]:
    """A node and a value for its input; many fully connected ones are cut into slices."""
    if op == "FULLY_CONNECTED" and rng.integers(2):
        out, depth = int(rng.choice([16, 32, 48, rng.integers(5, 50)])), int(rng.integers(10, 70))
        x = tensor((1, depth), "INT8", 0.05, 3, name="x")
        w = tensor((out, depth), "INT8", 0.01, data=rng.integers(-127, 128, (out, depth)), name="w")
        b = tensor((out,), "INT32", 0.0005, data=rng.integers(-5000, 5000, out), name="b")
        node = Node(op, (x, w, b), (tensor((1, out), "INT8", 0.3, -7, name="y"),), {})
        return few_values(rng, node), rng.integers(-128, 128, (1, depth)).astype(np.int8)
    node, value = node_of(rng, op)
    return few_values(rng, node), value


def layers(rng: np.random.Generator, count: int, *targets: Target) -> Iterator[tuple[Node, Array, Target, Options]]:
    """``count`` random layers with an input, each for another target and stored in another way."""
    for i in range(count):
        node, value = layer_of(rng, list(OPERATORS)[i % len(OPERATORS)])
        yield node, value, targets[i // len(OPERATORS) % len(targets)], STORAGES[int(rng.integers(len(STORAGES)))]


def plans(rng: np.random.Generator, count: int, *targets: Target) -> Iterator[tuple[str, Plan, Array, Array]]:
    """Name, plan, input and output of such layers."""
    for i, (node, value, target, storage) in enumerate(layers(rng, count, *targets)):
        graph = graph_of(node)
        (want,) = numpy_outputs(Case(node), graph, [value])
        yield f"n{i}", make_plan(graph, target, storage), value, want


def deep(target: Target, out: int = 128) -> tuple[str, Plan, Array, Array]:
    """A layer with its input right behind the weights of a slice: they end at the address where it begins."""
    rng = np.random.default_rng(2)
    w = tensor((out, 640), "INT8", 0.01, data=rng.integers(-7, 8, (out, 640)), name="w")
    x, y = tensor((1, 640), "INT8", 0.1, name="x"), tensor((1, out), "INT8", 0.5, name="y")
    node, value = Node("FULLY_CONNECTED", (x, w, None), (y,), {}), rng.integers(-128, 128, (1, 640)).astype(np.int8)
    graph = graph_of(node)
    (want,) = numpy_outputs(Case(node), graph, [value])
    return f"deep{out}", make_plan(graph, target, Options(weights="lut")), value, want


@pytest.mark.parametrize("op", OPERATORS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, (1 << 32) - 1))
def test_on_the_host(op: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    node, value = layer_of(rng, op)
    graph = graph_of(node)
    (want,) = numpy_outputs(Case(node), graph, [value])
    for target in TARGETS:
        storage = STORAGES[int(rng.integers(len(STORAGES)))]
        plan = make_plan(graph, target, storage)
        (got,) = outputs_of(Session(plan), [value])
        np.testing.assert_array_equal(got, want.reshape(got.shape), err_msg=f"{target.name}, {storage}: {node}")


def loops(step: Step) -> list[Loop]:
    return [instruction for instruction in step.body if isinstance(instruction, Loop)]


def test_every_decoder_is_tried() -> None:
    """The random layers reach all decoders, before layers and at the start, and slices of every kernel."""
    before, start, cut, rest = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for node, _, target, storage in layers(np.random.default_rng(3), 2400, *TARGETS):
        made = lowered(graph_of(node), target, storage)
        (step,) = made.steps
        start.update(call.kernel for decoding in made.start for call in decoding.calls)
        before.update(call.kernel for call in step.calls if call.kernel != step.call.kernel)
        cut.update([step.call.kernel] if loops(step) else [])
        rest.update([step.call.kernel] if sum(call.kernel == step.call.kernel for call in step.calls) > 1 else [])
    names = {f"lut{bits}" for bits in range(1, 8)} | {"lut4_mve", "lut_pairs", "huffman", "huffman_table", "bitmap"}
    assert set(before) == set(start) == {f"tw_decode_{name}" for name in names}
    assert {f"tw_fully_connected{ending}_s8" for ending in ("", "_wide", "_dsp", "_mve", "_tiles")} <= set(cut)
    assert {f"tw_fully_connected{ending}_s8" for ending in ("_wide", "_dsp", "_mve", "_tiles")} <= set(rest)


@pytest.mark.parametrize("out", [2, 3, 4])
def test_slices_share_one_multiplier(out: int) -> None:
    """Four bytes cannot be divided among so few channels."""
    _, plan, value, want = deep(GENERIC, out)
    (step,) = plan.steps
    assert step.call.params["mults"] == 1
    assert loops(step)
    (got,) = outputs_of(Session(plan), [value])
    np.testing.assert_array_equal(got, want)


#: Kind of a layer -> types of its activations and of its weights.
TYPES = {"int16x8": ("INT16", "INT8"), "int4": ("INT8", "INT4"), "hybrid": ("FLOAT32", "INT8")}


@pytest.mark.parametrize("kind", TYPES)
def test_other_types(kind: str) -> None:
    rng = np.random.default_rng(3)
    for op, module in OPERATORS.items():
        cases = [c for c in module.cases(rng) if (c.node.input(0).type, c.node.input(1).type) == TYPES[kind]]
        assert cases, op
        for case in cases[:4]:
            assert_stored_alike(graph_of(case.node), case.inputs)


def assert_stored_alike(graph: Graph, inputs: Sequence[Array] | None) -> None:
    """Every storage gives the same bits, on every target."""
    values = list(inputs or random_inputs(graph))
    for target, _ in distinct_plans(graph, TARGETS):
        want = outputs_of(Session(make_plan(graph, target, Options(weights="plain"))), values)
        for storage in (USUAL, *STORAGES):
            got = outputs_of(Session(make_plan(graph, target, storage)), values)
            assert [g.tobytes() for g in got] == [w.tobytes() for w in want], (graph.nodes, target, storage)


@pytest.mark.parametrize(
    ("compiler", "mode"), deep_but([("gcc", "compiled"), ("clang", "interpreted")], ("gcc", "compiled"))
)
def test_emitted(compiler: str, mode: Mode) -> None:
    """The emitted C compiles without warnings and gives the same bits."""
    models = list(plans(np.random.default_rng(5), 24, DSP, MVE, GENERIC, HOST))
    flags = ("-std=c11", "-O1", "-ffp-contract=off", "-shared", "-fPIC", *WARNINGS)
    engines = compile_plans(
        {name: plan.printed(mode=mode) for name, plan, *_ in models}, compiler=compiler, flags=flags
    )
    for name, plan, value, want in models:
        (got,) = outputs_of(engines[name], [value])
        np.testing.assert_array_equal(got, want.reshape(got.shape), err_msg=str(plan.graph.nodes[0]))


def test_no_fault_under_sanitizers(tmp_path: Path) -> None:
    """The self-tests of both modes in one program; they decode at the start, over an arena full of rubbish."""
    programs = []
    cut = [deep(DSP, 10), deep(MVE, 11), deep(MVE, 7), deep(DSP, 6)]
    for i, (name, plan, value, _) in enumerate([*cut, *plans(np.random.default_rng(7), 9, DSP, MVE, GENERIC)]):
        programs.append((emit(plan.printed(mode="interpreted" if i % 2 else "compiled"), name), [value]))
    assert_sanitized(tmp_path, programs)
    run_tool(["g++", "-x", "c++", "-std=c++20", "-fsyntax-only", *WARNINGS, "n0.c", "n0_data.c"], tmp_path)


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("core", deep_but(["cortex-m0", "cortex-m4", "cortex-m55"], "cortex-m55"))
def test_under_qemu(core: str) -> None:
    card = find(core)
    models = [deep(card.target), *(deep(card.target, out) for out in (10, 11))]
    models += plans(np.random.default_rng(11), 13, card.target)
    modes: list[Mode] = ["compiled", "interpreted"]
    projects = [
        emit(plan.printed(mode=modes[i % 2]), name, policy=specialise) for i, (name, plan, *_) in enumerate(models)
    ]
    jobs = [Job([value], i) for i, (*_, value, _) in enumerate(models)]
    for (_, plan, _, want), result in zip(models, run_jobs(build(projects, card), jobs, count=False), strict=True):
        np.testing.assert_array_equal(result.outputs[0], want.reshape(result.outputs[0].shape), err_msg=str(plan.steps))


# -- whole models ------------------------------------------------------------------------------------------------------


def digits() -> Graph:
    return cluster(builtin()["digits_int8"](), Recipe(default=Choice(cluster=4)))


@pytest.mark.parametrize(("how", "when"), [("auto", "layer"), ("huffman", "start")])
def test_verify(how: str, when: str) -> None:
    """The interpreter with plain weights and compiled code with coded ones agree on every tensor, under guard."""
    source = Source("digits", digits())
    assert verify(source, options=Options(weights=how, decode=when, guard=True)).proven
    plan = spread(make_plan(source.graph, DSP, Options(weights=how, decode=when)))
    session = Session(plan)
    Guard(session).run()


def test_auto_is_the_smallest() -> None:
    """Clustered weights take no more bytes than with any single coding, but for speed; others are not coded."""
    graph = digits()
    plain, *others = (
        make_plan(graph, DSP, Options(weights=how)) for how in ("plain", "auto", "lut", "huffman", "bitmap")
    )
    auto, *others = (plan.constant_bytes + plan.decoding_bytes for plan in others)
    assert auto <= min(others) * 1.05
    assert auto < 0.75 * plain.constant_bytes
    rng = np.random.default_rng(1)
    w = tensor((16, 64), "INT8", 0.01, data=rng.integers(-127, 128, (16, 64)), name="w")
    node = Node("FULLY_CONNECTED", (tensor((1, 64), "INT8", 0.1), w, None), (tensor((1, 16), "INT8", 0.5),), {})
    (step,) = make_plan(graph_of(node), DSP, Options(weights="auto")).steps
    assert step.body == (step.call,)


def test_a_large_layer_needs_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for target in (DSP, MVE, GENERIC):
        _, plan, _, _ = deep(target)
        assert plan.arena_bytes < 5000
        assert [loop.count for loop in loops(plan.steps[0])] == [32]


def test_a_rest_of_the_channels_needs_no_decoder_of_its_own() -> None:
    for target in (DSP, MVE):
        (_, even, _, _), (_, odd, _, _) = (deep(target, out) for out in (128, 129))
        (step,) = odd.steps
        assert len(step.calls) == len(step.kernels) + 2, "weights of the rest, and the rest"
        assert odd.decoding_bytes == even.decoding_bytes > 0
