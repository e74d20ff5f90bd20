"""The state that a model keeps in its arena from run to run: its place, and what the header promises of it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tiny
from cases import cases_of, graph_of
from hypothesis import given
from hypothesis import strategies as st

from twinfer.aot.build.host import build, find_compiler
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan import arena
from twinfer.runtime.plan.arena import Block
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.placement import Problem, solved
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.run.guard import spread
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import GENERIC, HOST

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
    """Two models over one arena, by their functions only; macros are read from the header's text."""

    def __init__(self, *projects: Project) -> None:
        self.library = ctypes.CDLL(str(build(projects, find_compiler(), ("-shared", "-fPIC", "-O0"))))
        self.projects = projects
        size = max(p.plan.arena_bytes for p in projects)
        memory = (ctypes.c_ubyte * (size + 64))(*[0xA5] * (size + 64))
        self.memory, self.base = memory, ctypes.addressof(memory) + -ctypes.addressof(memory) % 64

    def reset(self, project: Project) -> None:
        getattr(self.library, f"{project.name}_reset")(ctypes.c_void_p(self.base))

    def run(self, project: Project, seed: int) -> list[bytes]:
        graph = project.plan.graph
        fed = [np.ascontiguousarray(value) for value in random_inputs(graph, seed)]
        outputs = [np.zeros(max(t.nbytes, 1), np.uint8) for t in graph.outputs]
        input_places = (ctypes.c_void_p * max(len(fed), 1))(*[value.ctypes.data for value in fed])
        output_places = (ctypes.c_void_p * len(outputs))(*[value.ctypes.data for value in outputs])
        run = getattr(self.library, f"{project.name}_run")
        assert run(ctypes.c_void_p(self.base), input_places, output_places) == 0
        return [value.tobytes() for value in outputs]

    def state(self, project: Project) -> tuple[int, int]:
        """Address and bytes of the state, as the header gives them."""
        header = project.files[f"{project.name}.h"]
        offset, size = (int(re.search(rf"_STATE_{word} (\d+)", header)[1]) for word in ("OFFSET", "BYTES"))  # type: ignore[index]
        return self.base + offset, size


def alone(project: Project) -> list[list[bytes]]:
    """The outputs of some runs over an arena of its own."""
    place = Shared(project)
    place.reset(project)
    return [place.run(project, seed) for seed in range(RUNS)]


def in_turn(project: Project, other: Project, *, saved: bool) -> list[list[bytes]]:
    """The same outputs with another model's run between any two runs, over one arena."""
    place, outputs = Shared(project, other), []
    place.reset(project)
    at, size = place.state(project)
    kept = ctypes.string_at(at, size)
    for seed in range(RUNS):
        if saved:
            ctypes.memmove(at, kept, size)
        outputs.append(place.run(project, seed))
        kept = ctypes.string_at(at, size)
        ctypes.memset(place.base, 0x5A, project.plan.arena_bytes)  # the other one may be larger
        place.run(other, seed)
    return outputs


@pytest.mark.parametrize("plan", [*stateful()])
def test_two_models_over_one_arena(plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The other model destroys the state, unless exactly the bytes that the header names are saved and restored."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    project, other = emit(plan, "one"), emit(tiny.dense(), "other")
    want = alone(project)
    assert in_turn(project, other, saved=False) != want
    assert in_turn(project, other, saved=True) == want


@pytest.mark.parametrize("plan", [*stateful()])
def test_state_is_one_block(plan: Plan) -> None:
    """The block holds only the state and its alignment, and the arena is not larger for it."""
    offset, size = plan.regions[Region.STATE].offset, plan.regions[Region.STATE].nbytes
    kept = [t for t in plan.offsets if plan.offsets[t] >= offset and plan.offsets[t] + t.nbytes <= offset + size]
    assert set(plan.variables) <= set(kept)
    end = len(plan.graph.nodes)
    assert {plan.lives[t] for t in kept} == {(-1, end)}
    assert size <= sum(arena.aligned(t.nbytes, plan.target.alignment) for t in kept)
    guarded = spread(plan)
    begin, length = guarded.regions[Region.STATE].offset, guarded.regions[Region.STATE].nbytes
    assert all(begin <= guarded.offsets[t] < begin + length for t in plan.variables)


def test_header_says_what_sharing_costs() -> None:
    one, none = emit(tiny.state(), "one").files["one.h"], emit(tiny.dense(), "none").files["none.h"]
    assert re.search(r"#define ONE_STATE_BYTES [1-9]", one)
    assert "no other model may use the arena" in " ".join(one.replace(" * ", " ").split())
    assert "#define NONE_STATE_OFFSET 0\n#define NONE_STATE_BYTES 0 " in none
    assert "models may take turns in one arena" in " ".join(none.replace(" * ", " ").split())


BLOCKS = st.lists(st.builds(lambda size, a, b: Block(size, min(a, b), max(a, b)), *[st.integers(0, 9)] * 3), max_size=9)


@given(BLOCKS, st.lists(st.integers(0, 70), max_size=5), st.sampled_from([1, 4, 16]))
def test_state_is_a_row_beside_all_else(others: list[Block], sizes: list[int], alignment: int) -> None:
    """Only the state is in it. It costs its own bytes and padding on one side."""
    blocks = [Block(17 * block.size, block.first, block.last) for block in others]
    tensors = [Tensor(str(i), "INT8", (block.size,)) for i, block in enumerate(blocks)]
    state = [Tensor("state", "INT8", (size,)) for size in sizes]
    solution = solved(Problem(blocks, [[tensor] for tensor in tensors], state, alignment), "g")
    scratch, row = solution.regions[Region.SCRATCH], solution.regions[Region.STATE]
    assert scratch.nbytes == arena.height(blocks, arena.place(blocks, alignment))
    starts = sorted((solution.places[t].offset, arena.aligned(t.nbytes, alignment)) for t in state)
    assert all(at + size == behind for (at, size), (behind, _) in pairwise(starts))
    assert row.nbytes <= sum(size for _, size in starts)
    assert solution.arena_bytes == max(e.offset + e.nbytes for e in (scratch, row))
    below, above = (arena.aligned(a.nbytes, alignment) + b.nbytes for a, b in ((row, scratch), (scratch, row)))
    assert solution.arena_bytes == (min(above, below) if row.nbytes else scratch.nbytes)


def test_without_state_there_is_none() -> None:
    plan = make_plan(Graph("none", (), (), (), ()))
    assert plan.regions[Region.STATE].nbytes == 0
