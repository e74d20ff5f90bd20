"""Edge cases of the names of constants and of the sums over a plan."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny

from twinfer.aot.build import boards
from twinfer.aot.build.firmware import arenas_of
from twinfer.aot.build.fits import live_bytes
from twinfer.aot.build.stack import StackBound
from twinfer.aot.build.targets import find
from twinfer.aot.print.data import Constants
from twinfer.aot.print.emit import emit
from twinfer.aot.print.guard import STATUS, check_status, merged
from twinfer.aot.print.literals import check_name, identifier
from twinfer.bench.models.builtin import builtin
from twinfer.converter.build import Builder
from twinfer.runtime.cache import unsealed
from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.errors import GuardError, InvalidArgumentError, ToolWarning
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.plan.choice import share_all
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Place, Region
from twinfer.runtime.target import Bank
from twinfer.runtime.tools import built

M4 = find("cortex-m4")


def test_a_constant_without_elements_has_no_name() -> None:
    plan = tiny.dense()
    constants = Constants(plan, "m")
    assert constants.address(Constant(np.zeros(0, np.int8), Role.WEIGHTS)) is None
    assert {constants.address(constant) for constant in plan.constants} == {c.symbol for c in constants.all}


def test_an_output_without_elements_has_no_array() -> None:
    b = Builder("none")
    plan = make_plan(b.graph([b.constant(np.zeros(0, np.float32)), b.constant(np.ones(3, np.float32))]))
    assert [constant.array.size for constant in plan.constants] == [0, 3]
    assert [c.declaration for c in Constants(plan, "m").all] == ["const float m_output_1[3]"]


def test_every_constant_has_a_symbol_of_its_own() -> None:
    """Also those that one layer reads in one role."""
    b = Builder("three")
    parts = [b.input("x", "FLOAT32", (2,)), *(np.full(n, n, np.float32) for n in (1, 3, 4))]
    plan = make_plan(b.graph([b.op("CONCATENATION", parts, shape=(10,), axis=0)]))
    symbols = [c.symbol for c in Constants(plan, "m").all]
    assert symbols == ["m_0_weights", "m_0_weights_2", "m_0_weights_3", "m_0_index"]


def test_params_that_a_layer_shares_with_what_runs_once_come_before_the_layer() -> None:
    """A variable is set once to a constant, and later by a layer: two copies of the same params."""
    handle, name = tensor((), "RESOURCE", name="h"), {"container": "", "shared_name": "v"}
    once = Builder("once")
    (inner,) = once.node("VAR_HANDLE", [], [handle], name)
    once.node("ASSIGN_VARIABLE", [inner, once.constant(np.ones(3, np.float32))], [])
    b = Builder("main")
    x = b.input("x", "FLOAT32", (3,))
    b.node("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    (outer,) = b.node("VAR_HANDLE", [], [replace(handle)], name)
    (old,) = b.node("READ_VARIABLE", [outer], [tensor((3,), name="old")])
    b.node("ASSIGN_VARIABLE", [outer, x], [])
    plan = make_plan(b.graph([b.op("MAXIMUM", [old, x]), old], subgraphs=[once.graph([])]))
    code = emit(plan, "m", policy=share_all).code["m.c"]
    params = re.findall(r"^static .*const tw_copy_params (\w+) = ", code, re.MULTILINE)
    assert params
    assert code.count("tw_copy(&") > len(params)
    assert all(code.index(f"{symbol} =") < code.index(f"&{symbol},") for symbol in params)


def test_spans_that_touch_are_one() -> None:
    assert merged([(8, 12), (0, 4), (4, 8), (20, 30), (22, 25), (5, 5)]) == [(0, 12), (20, 30)]


def test_every_layer_s_status_is_named() -> None:
    plan = tiny.dense()
    for i, step in enumerate(plan.steps):
        with pytest.raises(GuardError, match=str(step.node.index)):
            check_status(plan, STATUS + i)
    check_status(plan, STATUS + len(plan.steps))
    check_status(plan, STATUS - 1)


def test_all_reasons_why_a_stack_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    project = emit(tiny.dense(), "net")
    monkeypatch.setattr(
        boards.Card, "toolchain", SimpleNamespace(builds={}, need=lambda: None, version="gcc 9 */\nCopyright")
    )
    known, unknown = StackBound(120, ("net_run",)), StackBound(None, (), ("f calls itself", "g: its frame"))
    monkeypatch.setattr(boards, "worst_bounds", lambda *_: {"": unknown, "O0": known})
    with pytest.warns(ToolWarning, match="NET_STACK_BYTES is left out: f calls itself; g: its frame"):
        assert boards.worst_stack(project, M4) is None
    monkeypatch.setattr(boards, "worst_bounds", lambda *_: {"": known, "O0": unknown, "OG": known})
    with pytest.warns(ToolWarning, match="NET_STACK_BYTES_O0 is left out: f calls itself; g: its frame"):
        stack = boards.worst_stack(project, M4)
    assert stack is not None
    assert (stack.nbytes, stack.others) == (120, {"OG": 120})
    assert "*/" not in " ".join(stack.about)
    assert "Copyright" not in " ".join(stack.about)
    assert all(flag in " ".join(stack.about) for flag in M4.flags)


def test_a_board_has_files_of_its_own_first(tmp_path: Path) -> None:
    own = replace(M4.architecture, folder=tmp_path)
    shared = own.read("semihost.h")
    assert shared == M4.architecture.read("semihost.h")
    (tmp_path / "semihost.h").write_text("mine")
    assert own.read("semihost.h") == "mine"
    assert (own.bare, M4.architecture.bare) == (False, True)
    assert own.linking(M4.toolchain, "board/") == ("-Wl,--gc-sections", *own.link)


@pytest.mark.parametrize("order", [1, -1])
def test_every_array_serves_the_largest_of_several_models(order: int) -> None:
    projects = [emit(tiny.sized(tiny.dense(), size), f"m{size}") for size in (64, 4096, 512)]
    assert arenas_of(projects[::order]) == {"arena": 4096}
    target = M4.target.with_banks(Bank("block", 0x8000), Bank("psram", 0x100000))
    plans = [make_plan(graph, target) for graph in (builtin()["digits_int8"](), tiny.dense().graph)][::order]
    sizes = [{region.value: plan.regions[region].nbytes for region in plan.arenas} for plan in plans]
    got = arenas_of([emit(plan, f"m{i}") for i, plan in enumerate(plans)])
    assert got == {"arena": got["arena"], "arena_block": max(each["arena_block"] for each in sizes)}
    assert sizes[0] != sizes[1]


def test_memory_that_is_shared_counts_once() -> None:
    """In place, input and output share memory."""
    x, middle, y = (tensor((1000,), name=name) for name in "xmy")
    nodes = tuple(Node("ABS", (a,), (b,)) for a, b in ((x, middle), (middle, y)))
    plan = make_plan(Graph("g", (x, middle, y), nodes, (x,), (y,)))
    assert plan.offsets[x] == plan.offsets[middle] == plan.offsets[y]
    assert [live_bytes(plan, step) for step in plan.steps] == [4000, 4000]
    places = {t: Place(Region.ARENA, at) for t, at in ((x, 0), (middle, 2000), (y, 4000))}
    apart = replace(plan, places=places)
    assert live_bytes(apart, apart.steps[0]) == 6000


@pytest.mark.parametrize("name", ["features", "Endian", "String", "malloc", "sched", "unistd", "pthread", "newlib"])
def test_a_library_s_header_is_no_model(name: str) -> None:
    assert identifier(name) == f"model_{name.lower()}"
    with pytest.raises(InvalidArgumentError, match=f"try 'model_{name.lower()}'"):
        check_name(name)


def test_other_sources_of_the_same_length_are_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def copied(text: str) -> str:
        return unsealed(built({"a": text}, ("cp", "a", "b"), "b", "cp")).decode()

    assert [copied(text) for text in ("one", "two", "one")] == ["one", "two", "one"]
