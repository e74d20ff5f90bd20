"""An input that is read where the caller has it: the same bits, nothing written there, and no memory of the arena."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import assert_sanitized, compiled_together, outputs_of, same
from flows import Sub
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but
from row_nets import network
from sum_nets import flat_input

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.models.source import load
from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.options import Memory, Mode, Options
from twinfer.runtime.plan import replay
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Place, Plan, Region
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, HOST, MVE, TARGETS, Target

BORROWED = Options(input_in_place=True)
MEMORIES: tuple[Memory, ...] = ("layers", "rows")


def graph_of(seed: int) -> Graph:
    """A random network; the input of some is flat and reshaped."""
    return flat_input(seed) if seed % 5 == 4 else network(seed, ("INT8", "FLOAT32", "INT16")[seed % 3])


def ran(session: Session, graph: Graph, seed: int = 1) -> list[Array]:
    """The outputs of a run over memory full of rubbish; the input is what it was."""
    poison(session)
    outputs: list[Array] = outputs_of(session, random_inputs(graph, seed))
    extent = session.plan.regions[Region.INPUT]
    assert session.plan.borrowed is not None
    given = random_inputs(graph, seed)[session.plan.graph.inputs.index(session.plan.borrowed)]
    np.testing.assert_array_equal(session.memory[extent.offset : extent.end], given.view(np.uint8).reshape(-1))
    return outputs


def usual(graph: Graph, target: Target = HOST, seed: int = 1) -> list[Array]:
    outputs: list[Array] = outputs_of(
        Session(make_plan(graph, target, Options(memory="layers"))), random_inputs(graph, seed)
    )
    return outputs


@given(seed=st.integers(0, 1 << 20), target=st.sampled_from(TARGETS), memory=st.sampled_from(MEMORIES))
@settings(max_examples=80, deadline=None)
def test_interpreted(seed: int, target: Target, memory: Memory) -> None:
    graph = graph_of(seed)
    plan = make_plan(graph, target, replace(BORROWED, memory=memory))
    alone = [tensor for tensor, place in plan.places.items() if place.region == Region.INPUT]
    assert alone == [plan.borrowed] == list(plan.graph.inputs)
    same(ran(Session(plan), graph, seed), usual(graph, target, seed))


@pytest.mark.parametrize("memory", MEMORIES)
def test_the_arena_has_no_room_for_it(memory: Memory) -> None:
    """Where the input counts at the peak the arena is smaller, and never larger than with one of its own beside it."""
    smaller = 0
    for seed in range(40):
        graph = graph_of(seed)
        usual_plan, plan = (make_plan(graph, DSP, Options(memory=memory, input_in_place=on)) for on in (False, True))
        smaller += plan.arena_bytes < usual_plan.arena_bytes
        assert plan.lower_bound_bytes <= plan.arena_bytes == plan.memory_bytes
    assert smaller >= 10


def plans(mode: Mode, *targets: Target) -> dict[str, tuple[Graph, Plan]]:
    every = {}
    for i in range(12):
        graph = graph_of(i)
        options = replace(BORROWED, memory=MEMORIES[i % 2], mode=mode)
        every[f"n{i}"] = graph, make_plan(graph, targets[i % len(targets)], options)
    return every


@pytest.mark.parametrize("mode", deep_but(["compiled", "interpreted"], "compiled"))
def test_compiled(mode: Mode) -> None:
    """Whole runs read the caller's memory, steps one by one the session's."""
    every = plans(mode, *TARGETS)
    for name, session in compiled_together({name: plan for name, (_, plan) in every.items()}).items():
        graph, plan = every[name]
        want = usual(graph, plan.target)
        poison(session)
        same(outputs_of(session, random_inputs(graph, 1)), want)
        poison(session)
        session.feed(random_inputs(graph, 1))
        session.run_observed(None)
        same(session.outputs(), want)


@pytest.mark.skipif(not (shutil.which("clang") or shutil.which("gcc")), reason="no compiler")
@pytest.mark.deep
@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_sanitized(mode: Mode, tmp_path: Path) -> None:
    """Self-tests: the input stays what it is, and none, or one at an odd address, is refused."""
    programs = [(emit(plan, name), random_inputs(graph, 1)) for name, (graph, plan) in plans(mode, DSP, MVE).items()]
    for i in range(0, 10, 2):
        guarded = make_plan(graph_of(i), GENERIC, replace(BORROWED, memory="layers", mode=mode, guard=True))
        programs.append((emit(guarded, f"g{i}"), random_inputs(guarded.graph, 1)))
    text = str(programs[0][0].code["n0.h"])
    assert "#define N0_INPUT_0_IN_PLACE 1" in text
    assert "#define N0_INPUT_0_ALIGN " in text
    assert "N0_INPUT_0_OFFSET" not in text
    assert_sanitized(tmp_path, programs)


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("core", deep_but(["cortex-m0", "cortex-m4", "cortex-m55"], "cortex-m55"))
def test_under_qemu(core: str) -> None:
    card, modes = find(core), [*["compiled"] * 2, *["interpreted"] * 2]
    graphs = [graph_of(seed) for seed in range(16)]
    options = [replace(BORROWED, memory=MEMORIES[i % 2], mode=modes[i % 4]) for i in range(len(graphs))]
    firmware = build([emit(make_plan(graph, card.target, options[i]), f"n{i}") for i, graph in enumerate(graphs)], card)
    jobs = [Job(random_inputs(graph, 1), i) for i, graph in enumerate(graphs)]
    for graph, result in zip(graphs, run_jobs(firmware, jobs, count=False), strict=True):
        same(list(result.outputs), usual(graph, card.target))


def test_rows_of_vww_take_half() -> None:
    """The input is what forces the peak of the plan by rows: figures in docs/ram.md."""
    graph = load("vww_int8").graph
    whole, borrowed = (make_plan(graph, DSP, Options(memory="rows", input_in_place=on)) for on in (False, True))
    assert borrowed.arena_bytes < 0.55 * whole.arena_bytes


def test_under_guard() -> None:
    """Gaps lie around the arena's blocks alone."""
    for seed in range(10):
        graph = graph_of(seed)
        interpreter = Interpreter.from_graph(graph, replace(BORROWED, guard=True))
        interpreter.allocate_tensors()
        (about,) = interpreter.get_input_details()
        interpreter.set_tensor(about["index"], random_inputs(graph, 1)[0])
        interpreter.invoke()
        same([interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()], usual(graph))


# -- the proof ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", MEMORIES)
def test_the_proof_notices_what_lies_on_the_input(memory: Memory) -> None:
    tried = 0
    for seed in range(12):
        plan = make_plan(graph_of(seed), DSP, replace(BORROWED, memory=memory))
        room = plan.regions[Region.INPUT].nbytes
        for tensor in [t for t in plan.places if t is not plan.borrowed and 0 < t.nbytes <= room]:
            moved = replace(plan, places={**plan.places, tensor: Place(Region.INPUT, 0)})
            assert replay.fault(moved) is not None
            tried += 1
    assert tried >= 20


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_two_inputs_are_refused() -> None:
    builder = Builder("pair")
    a, b = (builder.input(name, "FLOAT32", (1, 4)) for name in "ab")
    graph = builder.graph([builder.op("ADD", [a, b], fused_activation_function="NONE")])
    with pytest.raises(InvalidArgumentError, match="'pair' has 2 inputs: one alone can be read in place"):
        make_plan(graph, HOST, BORROWED)


def test_an_input_that_is_an_output_is_refused() -> None:
    graph = network(3)
    graph = replace(graph, outputs=(*graph.outputs, graph.inputs[0]))
    with pytest.raises(InvalidArgumentError, match="cannot be read in place: it is an output, too"):
        make_plan(graph, HOST, BORROWED)


def test_an_input_without_bytes_is_refused() -> None:
    builder = Builder("nothing")
    x = builder.input("x", "FLOAT32", (0, 4))
    graph = builder.graph([builder.op("ABS", [x])])
    with pytest.raises(InvalidArgumentError, match="cannot be read in place: it has no bytes"):
        make_plan(graph, HOST, BORROWED)


def test_an_input_that_the_model_writes_is_refused() -> None:
    builder = Builder("kept")
    x = builder.variable("x", "FLOAT32", (1, 4))
    graph = replace(builder.graph([builder.op("ABS", [x])]), inputs=(x,))
    sub = Sub("written")
    y = sub.op("ABS", [sub.input((1, 4))])
    sub.run("RELU", [y], [sub.inputs[0]])
    for written in (graph, sub.graph([y])):
        with pytest.raises(InvalidArgumentError, match="cannot be read in place: the model writes it"):
            make_plan(written, HOST, BORROWED)


def test_rows_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="an input by rows is nowhere in place: take one"):
        Options(input_rows=True, input_in_place=True)
