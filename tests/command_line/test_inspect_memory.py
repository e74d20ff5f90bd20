"""``twinfer inspect --memory``: the certificate of a plan's memory as text and JSON."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import deep_but
from rich.console import Console
from row_nets import network

from twinfer.aot.build.targets import find
from twinfer.bench.memory.certificate import _layer, certificate
from twinfer.bench.memory.halve import halve
from twinfer.bench.models.source import load
from twinfer.command_line.main import main
from twinfer.command_line.show.memory import ArenaMap
from twinfer.converter.build import Builder
from twinfer.converter.stream.convert import stream
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.options import Memory, Options
from twinfer.runtime.plan.by_rows.price import rows_share
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.program import Chain
from twinfer.runtime.target import GENERIC

M4 = find("cortex-m4").target


@pytest.mark.parametrize("seed", range(3))
def test_what_forces_the_peak(seed: int) -> None:
    """Values that are written before or at the operator and read there or behind it, the largest first."""
    told = certificate(network(seed, "INT8"), GENERIC, Options(memory="layers"))
    forced, graph = told.forced_by, told.plan.graph
    at, sizes = forced.position, [size for _, size in forced.tensors]
    assert sizes == sorted(sizes, reverse=True)
    assert told.plan.lower_bound_bytes == forced.nbytes <= sum(sizes)
    live = set()
    for t in {t for node in graph.nodes for t in (*node.inputs, *node.outputs) if t is not None and t.data is None}:
        first = next((i for i, node in enumerate(graph.nodes) if t in node.outputs), -1)
        last = max((i for i, node in enumerate(graph.nodes) if t in node.inputs), default=first)
        if first <= at <= (len(graph.nodes) if t in graph.outputs else last) and not t.variable:
            live.add((t.name, t.nbytes))
    scratch = {(s.scratch.name, s.scratch.nbytes) for s in told.plan.steps if s.scratch is not None}
    assert {*forced.tensors} - scratch == live
    node = graph.nodes[at] if 0 <= at < len(graph.nodes) else None
    assert forced.layer == (f"operator {node.index} {node.op}" if node else "the graph's inputs and outputs")


@pytest.mark.parametrize("seed", range(3))
def test_a_peak_within_rows_is_that_of_the_rows(seed: int) -> None:
    plan = (told := certificate(network(seed, "INT8"), GENERIC, Options(memory="rows"))).plan
    numbers = [[layer.step.position for layer in part.layers] for part in plan.program if isinstance(part, Chain)]
    for own in (own for own in numbers if own):
        ends = dict.fromkeys((plan.nodes[own[0]].index, plan.nodes[own[-1]].index))
        text = "-".join(map(str, ends))
        for at in own:
            assert _layer(plan, at) == f"rows of operator{'s' * (len(own) > 1)} {text}"
    assert told.forced_by.layer == _layer(plan, plan.forced_at)


def test_what_ends_rows() -> None:
    """A SOFTMAX of whole pixels between layers by rows has its values whole; by layers nobody asks."""
    b, options = Builder("m"), {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    weights = np.ones((4, 3, 3, 4), np.float32)
    first = b.op("CONV_2D", [b.input("x", "FLOAT32", (1, 32, 32, 4)), weights, None], **options)
    middle = b.op("CONV_2D", [first, weights, None], **options)
    soft = b.op("SOFTMAX", [middle], beta=1.0)
    last = b.op("CONV_2D", [b.op("CONV_2D", [soft, weights, None], **options), weights, None], **options)
    graph = b.graph([last])
    (end,) = certificate(graph, M4, Options(memory="rows")).ends
    assert end.layer == "operator 2 SOFTMAX"
    assert end.nbytes == middle.nbytes + soft.nbytes
    assert "all rows at once" in end.why
    assert not certificate(graph, M4, Options(memory="layers")).ends


def test_half_the_channels() -> None:
    """Where they can be halved the rest fits: it plans, ends stay, weights and scales are the first halves."""
    cut = 0
    for graph in (load("kws_int8").graph, *(network(seed, "INT8") for seed in range(4))):
        for whole in (t for node in graph.nodes for t in node.outputs):
            half = halve(graph, whole)
            if whole.shape[-1] < 2 or whole in graph.outputs:
                assert half is None
            if half is None:
                continue
            cut += 1
            make_plan(half, GENERIC)
            new = dict(zip(graph.tensors, half.tensors, strict=True))
            assert new[whole].shape == (*whole.shape[:-1], whole.shape[-1] // 2)
            assert (half.inputs, half.outputs) == (graph.inputs, graph.outputs)
            for old, now in new.items():
                if old.data is not None and now is not old:
                    assert np.array_equal(now.data, np.asarray(old.data)[tuple(map(slice, now.shape))])
                if now.quant is not None and now.quant.per_channel:
                    assert now.quant.scale.size == now.shape[now.quant.axis]
    assert cut > 9
    two = network_of_channels(2)
    assert halve(two, two.nodes[0].output) is not None


@pytest.mark.parametrize(("behind", "fits"), [("flat", False), ("scaled", True)])
def test_half_the_channels_of_an_image(behind: str, fits: bool) -> None:
    """A dense layer that reads a whole image has its channels in between; a factor for all channels stays."""
    b, options = Builder("image"), {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    y = b.op("CONV_2D", [b.input("x", "FLOAT32", (1, 4, 4, 2)), np.ones((6, 1, 1, 2), np.float32), None], **options)
    if behind == "flat":
        end = b.op("FULLY_CONNECTED", [y, np.ones((3, 96), np.float32)], shape=(1, 3))
    else:
        scaled = b.op("MUL", [y, np.ones((1, 1, 1, 1), np.float32)])
        end = b.op("CONV_2D", [scaled, np.ones((3, 1, 1, 6), np.float32), None], **options)
    half = halve(b.graph([end]), y)
    assert (half is not None) == fits
    if half is not None:
        assert make_plan(half, GENERIC).macs == make_plan(b.graph([end]), GENERIC).macs // 2


def network_of_channels(count: int) -> Graph:
    b = Builder("narrow")
    y = b.op("FULLY_CONNECTED", [b.input("x", "FLOAT32", (1, 5)), np.ones((count, 5), np.float32)], shape=(1, count))
    return b.graph([b.op("FULLY_CONNECTED", [y, np.ones((3, count), np.float32)], shape=(1, 3))])


@pytest.mark.parametrize("model", deep_but(["kws_int8", "vww_int8"], "kws_int8"))
def test_every_hint_is_a_plan(model: str) -> None:
    """What a hint promises is what planning that gives, and less than the plan at hand takes."""
    graph = load(model).graph
    told = certificate(graph, M4, Options(memory="layers"))
    hints = {hint.kind: hint for hint in told.hints}
    assert "rows" in hints
    options = {
        "rows": Options(memory="rows"),
        "input_rows": Options(memory="rows", input_rows=True),
        "input_in_place": Options(memory="layers", input_in_place=True),
    }
    for kind, asked in options.items():
        plan = make_plan(graph, M4, asked)
        assert hints[kind].ram_bytes == plan.memory_bytes if kind in hints else kind != "rows"
    for hint in told.hints:
        assert hint.ram_bytes < told.plan.memory_bytes
        assert hint.ram_change == pytest.approx(hint.ram_bytes / told.plan.memory_bytes - 1)
        assert hint.text


@pytest.mark.parametrize(
    ("model", "way", "fed"),
    [
        ("ic_int8", "layers", False),
        pytest.param("vww_int8", "layers", False, marks=pytest.mark.deep),
        pytest.param("vww_int8", "rows", False, marks=pytest.mark.deep),
        ("ic_int8", "rows", True),
    ],
)
def test_operators_are_numbered_as_in_the_file(model: str, way: Memory, fed: bool) -> None:
    """Planning may drop and move operators: here their numbers begin at 7. Which is halved is the one whose output, or
    the rows of it, takes most at the peak of those that are computed."""
    graph = load(model).graph
    graph = replace(graph, nodes=tuple(replace(node, index=node.index + 7) for node in graph.nodes))
    told = certificate(graph, M4, Options(memory=way, input_rows=fed))
    texts = {hint.kind: hint.text for hint in told.hints}
    plan = told.plan if way == "rows" else make_plan(graph, M4, Options(memory="rows"))
    chains = [[layer.step.node.index for layer in part.layers] for part in plan.program if isinstance(part, Chain)]
    spans = ["-".join(map(str, dict.fromkeys((min(own), max(own))))) for own in chains]
    saved = plan.memory_bytes - told.plan.memory_bytes
    if way == "layers":
        share = 100 * plan.memory_bytes / told.plan.memory_bytes - 100
        assert texts["rows"].startswith(f"operators {', '.join(spans)} by rows: {share:+.0f} % ({saved:+,} bytes), +")
        number, op = re.fullmatch(r"operator (\d+) (\w+)", told.forced_by.layer).groups()  # type: ignore[union-attr]
        assert graph.nodes[int(number) - 7].op == op
    else:
        (own,) = (
            i for i, numbers in enumerate(chains) if told.plan.nodes[max(0, told.plan.forced_at)].index in numbers
        )
        given = "the input and " * (fed and own == 0)
        assert told.forced_by.layer == f"rows of {given}operator{'s' * ('-' in spans[own])} {spans[own]}"
    writers = {node.output.name: node for node in graph.nodes}
    live = [name.removeprefix("rows of ") for name, _ in told.forced_by.tensors]
    largest = next(writers[name] for name in live if name in writers)
    assert texts["channels"].startswith(f"half the channels of operator {largest.index} {largest.op}: ")


def test_what_rows_cost_more_is_told_of_the_plan_at_hand() -> None:
    """That has rows itself: the hint's share is of its instructions, and of what the hint adds."""
    seen = 0
    for seed in range(8):
        graph = network(seed, "INT8")
        told = certificate(graph, M4, Options())
        before = rows_share(told.plan)
        for hint in (hint for hint in told.hints if hint.kind == "rows" and before > 0):
            after = rows_share(make_plan(graph, M4, Options(memory="rows")))
            assert hint.instructions_change == pytest.approx((after - before) / (1 + before))
            seen += 1
    assert seen > 0


def test_an_int8_input_is_a_hint() -> None:
    """A float input that is quantised first takes four bytes where one would do."""
    b = Builder("camera")
    x = b.input("x", "FLOAT32", (1, 64, 64, 1))
    q = tensor((1, 64, 64, 1), "INT8", 0.1, 0, name="q")
    options = {"padding": "SAME", "stride_h": 2, "stride_w": 2, "fused_activation_function": "NONE"}
    b.node("QUANTIZE", [x], [q])
    graph = b.graph([b.op("MAX_POOL_2D", [q], filter_height=2, filter_width=2, **options)])
    told = certificate(graph, GENERIC, Options(memory="layers"))
    (hint,) = (hint for hint in told.hints if hint.kind == "int8_input")
    assert told.plan.memory_bytes - hint.ram_bytes >= 3 * 64 * 64


@pytest.mark.parametrize("names", [("", "", ""), ("x", "rows of y", "y"), ("x", "x", "x")])
def test_hints_whatever_tensors_are_called(names: Sequence[str]) -> None:
    """Names are the user's: none, one for all, or one that looks like a ring's. The hint is planned all the same."""
    x, y, z = (tensor((1, 8, 8, depth), "FLOAT32", name=name) for name, depth in zip(names, (2, 64, 3), strict=True))
    wide, narrow = (
        tensor((y.shape[3], 1, 1, 2), "FLOAT32", data=np.ones((64, 1, 1, 2)), name="w"),
        tensor((3, 1, 1, 64), "FLOAT32", data=np.ones((3, 1, 1, 64)), name="v"),
    )
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"}
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    nodes = Node("CONV_2D", (x, wide, None), (y,), options), Node("CONV_2D", (y, narrow, None), (z,), options, index=1)
    graph = Graph("named", (x, y, z, wide, narrow), nodes, (x,), (z,))
    told = certificate(graph, GENERIC, Options(memory="layers"))
    (hint,) = (hint for hint in told.hints if hint.kind == "channels")
    assert hint.text.startswith("half the channels of operator 0 CONV_2D: ")
    assert told.plan.memory_bytes - hint.ram_bytes == 8 * 8 * 32 * 4  # the arena without half of y


@pytest.mark.deep
def test_hints_beyond_a_limit_of_ram() -> None:
    """``--ram`` limits the plan at hand, not the changes: what they take is what planning without a limit gives."""
    graph = load("vww_int8").graph
    tight = make_plan(graph, M4, Options(memory="rows")).memory_bytes
    told = certificate(graph, M4, Options(memory="layers"))
    limited = certificate(graph, M4, Options(ram=tight))
    assert {hint.kind: hint.ram_bytes for hint in told.hints}["rows"] == tight
    assert all(hint.ram_bytes < limited.plan.memory_bytes for hint in limited.hints)
    wide = certificate(graph, M4, Options(ram=1 << 20))  # so much that layers stay whole
    in_place = make_plan(graph, M4, Options(input_in_place=True)).memory_bytes
    assert {hint.kind: hint.ram_bytes for hint in wide.hints}["input_in_place"] == in_place


def shown(parts: Any) -> str:
    console = Console(file=io.StringIO(), width=200)
    for part in parts:
        console.print(part, soft_wrap=True)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(("seed", "way"), [(0, "layers"), (1, "rows"), (2, "layers"), (3, "layers")])
def test_the_map_of_an_arena(seed: int, way: Memory) -> None:
    """Counted byte by byte: what is live at every operator, and where most is."""
    graph = stream(load("tcn_int8").graph).graph if seed == 3 else network(seed, "INT8")
    plan = make_plan(graph, GENERIC, Options(memory=way))
    whole, live = max(plan.arena_bytes, 1), list[int]()
    for at in range(len(plan.nodes)):
        taken = np.zeros(whole, bool)
        for t, (first, last) in plan.lives.items():
            if first <= at <= last and plan.places[t].region.kind == "arena":
                taken[plan.offsets[t] : plan.offsets[t] + t.nbytes] = True
        live.append(int(taken.sum()))
    drawn = ArenaMap(plan)
    assert [drawn.live_bytes(at) for at in range(len(plan.nodes))] == live
    if way == "layers":
        for step in plan.steps:
            node, at = step.node, step.position
            picture = np.full(whole, "·")
            alive = [t for t, (first, last) in plan.lives.items() if first <= at <= last and t in drawn.offsets]
            for glyph, own in (
                ("░", alive),
                ("▒", [step.scratch]),
                ("▓", node.inputs),
                ("█", node.outputs),
            ):  # the most important last
                for t in alive:
                    if any(t is each for each in own):
                        picture[plan.offsets[t] : plan.offsets[t] + t.nbytes] = glyph
            assert drawn.bar(at, whole).plain == "".join(picture)
    assert drawn.peak == live.index(max(live))
    text = shown(drawn.render(120))
    bound = plan.lower_bound_bytes
    above = f"{100 * (plan.arena_bytes - bound) / bound:.1f} % above" if plan.arena_bytes > bound else "at"
    assert f"Arena: {plan.arena_bytes:,} bytes, {above} the lower bound of {bound:,}" in text
    assert (f"State: {plan.state_bytes:,} bytes that last" in text) == (plan.state_bytes > 0)
    node = plan.nodes[drawn.peak]
    peak = f"peak: {max(live):,} bytes live at operator {node.index} {node.op}, "
    assert f"{peak}scratch at most {plan.scratch_bytes:,}" in text
    lines = text.splitlines()[-len(plan.nodes) :]
    assert [line.rstrip().endswith("◀ peak") for line in lines] == [at == drawn.peak for at in range(len(lines))]
    assert [f" {n:,} " in line for n, line in zip(live, lines, strict=True)] == [True] * len(lines)


def test_a_model_without_rows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder("two")
    x, y = b.input("x", "FLOAT32", (1, 4)), b.input("y", "FLOAT32", (1, 4))
    graph: Graph = b.graph([b.op("ADD", [x, y], fused_activation_function="NONE")])
    graph.save(tmp_path / "two.tflite")
    assert main(["inspect", str(tmp_path / "two.tflite"), "--memory", "--input-rows"]) == 2
    assert "has 2 inputs" in capsys.readouterr().err
