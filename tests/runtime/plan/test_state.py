"""The state that a model keeps from run to run: its place, and what the header promises of it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tiny
from cases import cases_of, graph_of
from hypothesis import given
from hypothesis import strategies as st

from twinfer.aot.build.host import build
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan import arena
from twinfer.runtime.plan.arena import Block
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.placement import Problem, solve
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.plan.solve.puzzle import aligned
from twinfer.runtime.run.guard import spread
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import GENERIC, HOST
from twinfer.runtime.tools import find_compiler

#: Cases of operators with state: float and integers, one variable and two.
STATEFUL = {"SVDF": (1, 4), "UNIDIRECTIONAL_SEQUENCE_LSTM": (3, 7)}
RUNS = 4


def decoded() -> Plan:
    """A plan with weights that are decoded once, at the start."""
    return make_plan(builtin()["digits_int8"](), GENERIC, Options(weights="huffman", decode="start"))


def stateful() -> Iterator[Any]:
    for op, numbers in STATEFUL.items():
        for case in (f"{op.lower()}-{i}" for i in numbers):
            yield pytest.param(make_plan(graph_of(cases_of(op)[case].node), HOST), id=case)
    yield pytest.param(decoded(), id="decoded")


class Shared:
    """Models over one arena, each with a state of its own, by their functions only."""

    def __init__(self, *projects: Project) -> None:
        self.library = ctypes.CDLL(str(build(projects, find_compiler(), ("-shared", "-fPIC", "-O0"))))
        self.arena = rubbish(max(project.plan.arena_bytes for project in projects))
        self.states = {project.name: rubbish(project.plan.state_bytes) for project in projects}

    def reset(self, project: Project) -> None:
        blocks = {"arena": self.arena, "state": self.states[project.name]}
        given = [blocks[region.value] for region in Memory(project.plan).start_regions]
        getattr(self.library, f"{project.name}_reset")(*given)

    def run(self, project: Project, seed: int) -> list[bytes]:
        graph = project.plan.graph
        fed = [np.ascontiguousarray(value) for value in random_inputs(graph, seed)]
        outputs = [np.zeros(max(t.nbytes, 1), np.uint8) for t in graph.outputs]
        input_places = (ctypes.c_void_p * max(len(fed), 1))(*[value.ctypes.data for value in fed])
        output_places = (ctypes.c_void_p * len(outputs))(*[value.ctypes.data for value in outputs])
        state = [self.states[project.name]] if project.plan.state_bytes else []
        run = getattr(self.library, f"{project.name}_run")
        assert run(self.arena, *state, input_places, output_places) == 0
        return [value.tobytes() for value in outputs]


def rubbish(size: int) -> ctypes.c_void_p:
    """The address of so many bytes, aligned to 64, which are not zero."""
    memory = (ctypes.c_ubyte * (size + 64))(*[0xA5] * (size + 64))
    address = ctypes.c_void_p(ctypes.addressof(memory) + -ctypes.addressof(memory) % 64)
    address.memory = memory  # type: ignore[attr-defined]  # kept as long as the address is
    return address


def alone(project: Project) -> list[list[bytes]]:
    """The outputs of some runs over an arena of its own."""
    place = Shared(project)
    place.reset(project)
    return [place.run(project, seed) for seed in range(RUNS)]


def destroyed(project: Project) -> list[list[bytes]]:
    """The same outputs if something else writes the state after every run."""
    place, outputs = Shared(project), []
    place.reset(project)
    for seed in range(RUNS):
        outputs.append(place.run(project, seed))
        ctypes.memset(place.states[project.name], 0x5A, project.plan.state_bytes)
    return outputs


@pytest.mark.parametrize("plan", [*stateful()])
@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_models_take_turns_in_one_arena(plan: Plan, mode: Mode, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A model with state, another one with state and one without run in turn, and give what each gives alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    projects = [
        emit(each.printed(mode=mode), f"model_{i}") for i, each in enumerate((plan, tiny.state(), tiny.dense()))
    ]
    place, want = Shared(*projects), {}
    for project in projects:
        if project.plan.state_bytes:
            place.reset(project)
            want[project.name] = alone(project)
    got: dict[str, list[list[bytes]]] = {project.name: [] for project in projects}
    for seed in range(RUNS):
        for project in projects:
            got[project.name].append(place.run(project, seed))
    assert {name: got[name] for name in want} == want
    assert destroyed(projects[0]) != want["model_0"], "the state must matter"


@pytest.mark.parametrize("plan", [*stateful()])
def test_state_is_a_block_of_its_own(plan: Plan) -> None:
    """The block holds only the state and its alignment; in one buffer it lies behind the arena."""
    extent = plan.regions[Region.STATE]
    kept = [t for t in plan.offsets if plan.offsets[t] >= extent.offset and plan.offsets[t] + t.nbytes <= extent.end]
    assert set(plan.variables) <= set(kept)
    assert set(plan.lasting) == set(kept)
    assert {plan.lives[t] for t in kept} == {(-1, len(plan.graph.nodes))}
    assert plan.state_bytes <= sum(aligned(t.nbytes, plan.target.alignment) for t in kept)
    assert extent.offset == aligned(plan.arena_bytes, plan.target.alignment)
    assert plan.memory_bytes == extent.offset + plan.state_bytes
    guarded = spread(plan)
    moved = guarded.regions[Region.STATE]
    assert all(moved.offset <= guarded.offsets[t] < moved.end for t in plan.variables)


BLOCKS = st.lists(st.builds(lambda size, a, b: Block(size, min(a, b), max(a, b)), *[st.integers(0, 9)] * 3), max_size=9)


@given(BLOCKS, st.lists(st.integers(0, 70), max_size=5), st.sampled_from([1, 4, 16]))
def test_state_is_a_row(others: list[Block], sizes: list[int], alignment: int) -> None:
    """Only the state is in it, without gaps but for alignment; the arena takes no notice of it."""
    blocks = [Block(17 * block.size, block.first, block.last, alignment) for block in others]
    tensors = [Tensor(str(i), "INT8", (block.size,)) for i, block in enumerate(blocks)]
    state = [Tensor("state", "INT8", (size,)) for size in sizes]
    solution = solve(Problem(blocks, [[tensor] for tensor in tensors], state, alignment), "g")
    scratch, row = solution.regions[Region.ARENA], solution.regions[Region.STATE]
    assert (scratch.offset, scratch.nbytes) == (0, arena.height(blocks, arena.place(blocks).offsets))
    starts = sorted((solution.places[t].offset, aligned(t.nbytes, alignment)) for t in state)
    assert all(at + size == behind for (at, size), (behind, _) in pairwise(starts))
    assert row.nbytes <= sum(size for _, size in starts)
    assert row.offset == (aligned(scratch.nbytes, alignment) if row.nbytes else 0)


def test_without_state_there_is_none() -> None:
    plan = make_plan(Graph("none", (), (), (), ()))
    assert plan.regions[Region.STATE].nbytes == plan.memory_bytes == 0
