"""Edge cases of the names of constants and of the sums over a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny

from twinfer.aot.build import boards
from twinfer.aot.build.banks import CardBank
from twinfer.aot.build.firmware import arenas_of
from twinfer.aot.build.fits import live_bytes, overflow
from twinfer.aot.build.stack import StackBound
from twinfer.aot.build.targets import find
from twinfer.aot.build.toolchain import named_symbols, section_kind
from twinfer.aot.print.choice import share_all
from twinfer.aot.print.data import Constants
from twinfer.aot.print.emit import emit
from twinfer.aot.print.guard import STATUS, check_status, merged
from twinfer.aot.print.literals import check_name, identifier
from twinfer.bench.models.builtin import builtin
from twinfer.converter.build import Builder
from twinfer.runtime.cache import unsealed
from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.errors import GuardError, InvalidArgumentError, ToolError, ToolWarning
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Place, Region
from twinfer.runtime.target import Bank
from twinfer.runtime.tools import built

M4 = find("cortex-m4")


def test_a_constant_without_elements_has_no_name() -> None:
    plan = tiny.dense()
    constants = Constants(plan, "m")
    assert constants.symbol(Constant(np.zeros(0, np.int8), Role.WEIGHTS)) is None
    assert {constants.symbol(constant) for constant in plan.constants} == {c.symbol for c in constants.all}


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
    params = [line.split()[3] for line in code.splitlines() if line.startswith("static const tw_copy_params")]
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


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("block", [0x400, 0x8000], ids=["apart", "together"])
def test_every_array_serves_the_largest_of_several_models(order: int, block: int) -> None:
    """An input in place lies behind its own model's memory; every bank has what the model needs that needs most."""
    large = tiny.sized(tiny.dense(), 4096)
    camera = Builder("camera")
    options = {"padding": "SAME", "stride_h": 4, "stride_w": 4, "filter_height": 4, "filter_width": 4}
    pooled = camera.op("MAX_POOL_2D", [camera.input("x", "INT8", (1, 80, 80, 1), 0.5)], **options)
    lent = make_plan(camera.graph([pooled]), M4.target, Options(input_in_place=True))
    assert lent.borrowed is not None
    projects = [emit(large, "large"), emit(lent, "lent")][::order]
    own = [4096, -(-lent.memory_bytes // 16) * 16 + 6400]
    assert arenas_of(projects) == {"arena": max(own)}
    target = M4.target.with_banks(Bank("block", block), Bank("psram", 0x100000))
    plans = [make_plan(builtin()["digits_int8"](), target), make_plan(tiny.dense().graph, target)][::order]
    sizes = [{region.value: plan.regions[region].nbytes for region in plan.arenas} for plan in plans]
    got = arenas_of([emit(plan, f"m{i}") for i, plan in enumerate(plans)])
    assert {name: got[name] for name in got if name != "arena"} == {
        name: max(each.get(name, 0) for each in sizes) for name in {*sizes[0], *sizes[1]} - {"arena"}
    }
    assert len(got) > 1
    shared = set(sizes[0]) & set(sizes[1]) - {"arena"}
    assert bool(shared) == (block == 0x8000)
    assert all(sizes[0][name] != sizes[1][name] for name in shared)


def section(kind: str = "SHT_PROGBITS", flags: int = 2, size: int = 64, at: int = 0x100) -> dict[str, object]:
    return {"sh_type": kind, "sh_flags": flags, "sh_size": size, "sh_addr": at}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (section(flags=2 | 4), "code"), (section(), "constants"), (section(flags=2 | 1), "data"),
        (section("SHT_NOBITS", 2 | 1), "bss"), (section(flags=4), ""), (section(flags=0), ""), (section(size=0), ""),
        (section("SHT_NOBITS", 2 | 1, 0), ""),
    ],
)  # fmt: skip
def test_what_a_section_holds(given: dict[str, object], kind: str) -> None:
    assert section_kind(given) == kind


@pytest.mark.parametrize("order", [1, -1])
def test_symbols_of_a_section(order: int) -> None:
    """By address, without the bit of Thumb; of aliases the longest, then a global one; others are not of it."""

    def symbol(name: str, at: int, size: int, kind: str = "STT_FUNC", bind: str = "STB_LOCAL") -> Any:
        about = {"st_info": {"type": kind, "bind": bind}, "st_size": size, "st_value": at}
        return type("Symbol", (dict,), {"name": name})(about)

    symbols = [
        symbol("last", 0x13D, 4), symbol("local", 0x111, 8), symbol("seen", 0x111, 8, bind="STB_GLOBAL"),
        symbol("short", 0x121, 4, bind="STB_GLOBAL"), symbol("long", 0x121, 6), symbol("array", 0x131, 3, "STT_OBJECT"),
        symbol("before", 0xFF, 4), symbol("behind", 0x141, 4), symbol("label", 0x105, 0),
        symbol("$t", 0x105, 4, "STT_NOTYPE"),
    ]  # fmt: skip
    elf = SimpleNamespace(get_section_by_name=lambda name: SimpleNamespace(iter_symbols=lambda: symbols[::order]))
    assert named_symbols(elf, section(), 1) == [
        (0x110, 8, "seen"), (0x120, 6, "long"), (0x131, 3, "array"), (0x13C, 4, "last")]  # fmt: skip
    assert named_symbols(SimpleNamespace(get_section_by_name=lambda name: None), section(), 1) == []


def test_all_reasons_why_a_stack_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    project = emit(tiny.dense(), "net")
    monkeypatch.setattr(boards.Card, "toolchain", SimpleNamespace(need=lambda: None, version="gcc 9 */\nCopyright"))
    monkeypatch.setattr(boards, "worst_bound", lambda *_: StackBound(None, (), ("f calls itself", "g: its frame")))
    with pytest.warns(ToolWarning, match="NET_STACK_BYTES is left out: f calls itself; g: its frame"):
        assert boards.worst_stack(project, M4) is None
    monkeypatch.setattr(boards, "worst_bound", lambda *_: StackBound(120, ("net_run",)))
    stack = boards.worst_stack(project, M4)
    assert stack is not None
    assert stack.nbytes == 120
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
    assert own.linking("board/") == ("-Wl,--gc-sections", *own.link)


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


@pytest.mark.parametrize(("region", "what"), [("RAM", "RAM"), ("FLASH", "flash"), ("BANK_DTCM", "dtcm")])
def test_what_a_linker_lacks_is_told_in_bytes(region: str, what: str) -> None:
    """What all models need together: the whole and what is missing; constants of all, the arena of the largest."""
    card = replace(find("cortex-m4"), name="tiny", ram_bytes=70_000, flash_bytes=90_000, stack_bytes=777)
    card = replace(card, banks=(CardBank(Bank("dtcm", 5000), 0x2000_0000),))
    projects = [emit(tiny.sized(tiny.dense(), size), f"m{size}") for size in (64, 4096, 512)]
    constants = sum(each.array.nbytes for project in projects for each in project.constants.all)
    said = overflow(ToolError(f"ld: region `{region}' overflowed by 1234 bytes\nmore"), projects, card)
    total = {"RAM": 70_000, "flash": 90_000, "dtcm": 5000}[what]
    assert str(said) == (
        f"m64, m4096, m512: needs {total + 1234:,} B of {what}, tiny has {total:,} B; weights and other constants "
        f"take {constants:,} B, the arena 4,096 B, the stack 777 B"
    )
    other = ToolError("ld: cannot find -lm")
    assert overflow(other, projects, card) is other


@pytest.mark.parametrize(
    ("file", "name"),
    [("int", "model_int"), ("Install", "model_install"), ("stdint", "model_stdint"), ("tw_add", "model_tw_add"),
     ("3d", "model_3d"), ("kws", "kws")],
)  # fmt: skip
def test_a_file_s_name_that_c_knows(file: str, name: str) -> None:
    assert identifier(file) == name
    assert check_name(name) == name


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
