"""Cards with several data memories: what a card may say of them, and programs whose arenas lie in each, under QEMU."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny
from cases import outputs_of
from needs import need_tools

from twinfer.aot.build.banks import CardBank, need_apart
from twinfer.aot.build.firmware import build, in_blocks
from twinfer.aot.build.fits import check_fits
from twinfer.aot.build.project import write_project
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.errors import InvalidArgumentError, ToolError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import Bank

#: What is asked of the shell that builds and runs programs.
TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm")

#: The board of the M4 has SSRAM at 0x20000000, block RAM at 0x01000000 and PSRAM at 0x21000000; QEMU has all three.
#: That of the M55 has a tightly coupled memory at 0x30000000 beside its SRAM.
M4 = """
[m4]
base = "cortex-m4"
ram_bytes = 0x100000
[[m4.banks]]
name = "block"
origin = 0x01000000
bytes = 0x1800
[[m4.banks]]
name = "psram"
origin = 0x21000000
bytes = 0x1000000
read_cost = 5
write_cost = 4
"""
M55 = """
[m55]
base = "cortex-m55"
ram_bytes = 0x200000
[[m55.banks]]
name = "dtcm"
origin = 0x30000000
bytes = 0x1800
[[m55.banks]]
name = "sram"
origin = 0x31200000
bytes = 0x200000
read_cost = 2
write_cost = 2
"""

each_board = pytest.mark.parametrize(("text", "symbols"), [
    pytest.param(M4, {"tw_arena": 0x20000000, "tw_arena_block": 0x01000000, "tw_arena_psram": 0x21000000}, id="m4"),
    pytest.param(M55, {"tw_arena": 0x31000000, "tw_arena_dtcm": 0x30000000, "tw_arena_sram": 0x31200000}, id="m55",
                 marks=pytest.mark.deep),
])  # fmt: skip


@pytest.fixture
def tools(kept_builds: None) -> None:
    need_tools(*TOOLS)


def card_of(folder: Path, text: str) -> Card:
    path = folder / "board.toml"
    path.write_text(text)
    return find(path)


BANK = '[a]\nbase = "cortex-m4"\nram_bytes = 4096\n[[a.banks]]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[a]\nbase = "cortex-m4"\nbanks = 3', r"a: banks should be tables, each headed \[\[NAME.banks\]\], not 3"),
        ('[a]\nbase = "cortex-m4"\nbanks = [3]', "a: banks should be tables"),
        (BANK + 'name = "x"\norigin = 16\nbytes = 32\nspeed = 3', "a: a bank has no 'speed'; known are name, origin,"),
        (BANK + "origin = 16\nbytes = 32", "a: the name of a bank should be a word, not None"),
        (BANK + 'name = "x"\nbytes = 32', "a: origin of bank 'x' should be a number, not None"),
        (BANK + 'name = "x"\norigin = 16\nbytes = "2K"', "a: bytes of bank 'x' should be a number, not '2K'"),
        (BANK + 'name = "x"\norigin = 16\nbytes = 32\nread_cost = -1', "a: read_cost of bank 'x' should be a number"),
        (BANK + 'name = "x"\norigin = 0x100000000\nbytes = 32', "a: origin of bank 'x' should be a number, not 42949"),
        (BANK + 'name = "x"\norigin = 16\nbytes = 32\nwrite_cost = true', "a: write_cost of bank 'x' should be a num"),
        (BANK + 'name = "x;"\norigin = 16\nbytes = 32', "a: bank 'x;': its name should be a-z"),
        (BANK + 'name = "ram"\norigin = 16\nbytes = 32', "a: two memories are called 'ram'"),
        (BANK + 'name = "x"\norigin = 0x20000800\nbytes = 32', "a: bank 'x' and ram have bytes in common"),
        (BANK + 'name = "x"\norigin = 0x3ffff0\nbytes = 32', "a: bank 'x' and flash have bytes in common"),
        (BANK + 'name = "x"\norigin = 8\nbytes = 32', "a: origin of bank 'x' should be a multiple of 16, .*, not 0x8"),
        (BANK + 'name = "x"\norigin = 16\nbytes = 17', "a: bytes of bank 'x' should be a multiple of 16, .*, not 0x11"),
        (
            f'{BANK}name = "x"\norigin = 0x30000000\nbytes = 32\n[[a.banks]]\nname = "y"\norigin = 0x30000010\n'
            "bytes = 32",
            "a: bank 'y' and x have bytes in common",
        ),
    ],
)
def test_bad_memories(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        card_of(tmp_path, text)


def test_the_least_that_a_memory_may_be(tmp_path: Path) -> None:
    """At address 0, without a price, of one unit; what is not said of prices is 1."""
    text = BANK.replace("[[a.banks]]", "flash_origin = 0x400000\n[[a.banks]]")
    free = card_of(tmp_path, f'{text}name = "x"\norigin = 0\nbytes = 16\nread_cost = 0\nwrite_cost = 3')
    assert free.banks == (CardBank(Bank("x", 16, 0, 3), 0),)
    usual = card_of(tmp_path, f'{text}name = "x"\norigin = 0\nbytes = 16')
    assert usual.banks == (CardBank(Bank("x", 16, 1, 1), 0),)


def emitted(card: Card) -> dict[str, Project]:
    """A model by layers, in both modes, by rows, with given rows and under guard; and one with state."""
    kws = builtin()["kws_int8"]()
    plans: dict[str, tuple[Graph, Options]] = {
        "layers": (kws, Options(memory="layers")),
        "rows": (kws, Options(memory="rows")),
        "fed": (kws, Options(memory="rows", input_rows=True)),
        "table": (kws, Options(memory="layers", mode="interpreted")),
        "state": (tiny.state().graph, Options()),
        "guarded": (kws, Options(memory="layers", guard=True)),
    }
    return {name: emit(make_plan(graph, card.target, options), name) for name, (graph, options) in plans.items()}


def wanted(project: Project, inputs: Sequence[Any]) -> list[bytes]:
    """The interpreter's outputs."""
    session = Session(make_plan(project.plan.graph, project.plan.target, project.plan.options))
    return [value.tobytes() for value in outputs_of(session, inputs)]


def addresses(program: Path, prefix: str) -> dict[str, int]:
    """Where the arrays of the arenas, whose names begin so, lie in a program."""
    sections = find("cortex-m4").toolchain.image(program, 1).sections
    return {name: at for section in sections for at, _, name in section.symbols if name.startswith(prefix)}


@each_board
@pytest.mark.usefixtures("tools")
def test_the_same_bits(text: str, symbols: dict[str, int], tmp_path: Path) -> None:
    """Arenas lie in the memories that the card names; whole runs and runs step by step give the interpreter's bits."""
    card = card_of(tmp_path, text)
    projects = emitted(card)
    assert len(projects["layers"].plan.arenas) == 2
    firmware = build(list(projects.values()), card)
    places = addresses(firmware.elf, "tw_arena")
    assert {name: at & ~0xFFFF for name, at in places.items()} == symbols
    for i, project in enumerate(projects.values()):
        inputs = random_inputs(project.plan.graph, 3)
        whole, steps = run_jobs(firmware, [Job(inputs, i), Job(inputs, i, by_step=True)])
        assert [value.tobytes() for value in whole.outputs] == wanted(project, inputs)
        assert [value.tobytes() for value in steps.outputs] == wanted(project, inputs)


@pytest.mark.usefixtures("tools")
def test_a_projects_self_test(tmp_path: Path) -> None:
    """The static arenas of a written project lie in the memories, too."""
    card = card_of(tmp_path, M4)
    plan = make_plan(builtin()["kws_int8"](), card.target, Options(memory="layers"))
    write_project(plan, "kws", tmp_path / "out", card=card, stack_bytes=0)
    command = ["make", "-C", str(tmp_path / "out"), "test"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert "kws: ok" in done.stdout + done.stderr
    assert "only memory that is written" not in (tmp_path / "out" / "README.md").read_text(), "there are two"
    places = addresses(tmp_path / "out" / "build" / "kws_test", "kws_static_arena")
    assert places == {"kws_static_arena_block": 0x01000000, "kws_static_arena_psram": 0x21000000}


@pytest.mark.parametrize("end", [0x01001800, 0x20100000])
def test_memories_may_touch(end: int, tmp_path: Path) -> None:
    """One begins where another bank ends, or the RAM; a unit nearer they have bytes in common."""
    card = card_of(tmp_path, M4.replace("0x21000000", hex(end)))
    assert [bank.origin for bank in card.banks] == [0x01000000, end]
    with pytest.raises(InvalidArgumentError, match="have bytes in common"):
        card_of(tmp_path, M4.replace("0x21000000", hex(end - 16)))
    bank = CardBank(Bank("block", 0x100), 0x100)
    for ram in ((0x80, 0x100), (0x200, 0x300)):
        need_apart("here", {"ram": ram}, [bank])
    for ram in ((0x80, 0x101), (0x1FF, 0x300)):
        with pytest.raises(InvalidArgumentError, match="here: bank 'block' and ram have bytes in common"):
            need_apart("here", {"ram": ram}, [bank])


def test_spans_of_one_buffer_lie_in_the_blocks(tmp_path: Path) -> None:
    """All of it is all of every block, not a byte more; what lies across an end is in two."""
    plan = emitted(card_of(tmp_path, M4))["layers"].plan
    extents = [(f"tw_{region.value}", extent) for region, extent in plan.regions.items() if extent.nbytes]
    assert sorted(in_blocks(plan, [(0, plan.buffer_bytes)])) == sorted((f"{at} + 0", e.nbytes) for at, e in extents)
    assert len(extents) == 2
    (low, first), (high, then) = sorted(extents, key=lambda each: each[1].offset)
    across = [*in_blocks(plan, [(first.end - 3, then.offset + 5)])]
    assert sorted(across) == sorted([(f"{low} + {first.nbytes - 3}", 3), (f"{high} + 0", 5)])


def test_a_plan_for_other_memories(tmp_path: Path) -> None:
    """A program for a card with smaller memories, or none of that name, is refused before it is compiled."""
    project = emitted(card_of(tmp_path, M4))["layers"]
    small = card_of(tmp_path, M4.replace("0x1800", "0x100"))
    check_fits(project, card_of(tmp_path, M4.replace("0x1800", "0x310")))  # 784 bytes
    with pytest.raises(ToolError, match="layers needs 784 B of block, m4 has 768 B"):
        check_fits(project, card_of(tmp_path, M4.replace("0x1800", "0x300")))
    with pytest.raises(
        ToolError, match="layers needs 784 B of block, m4 has 256 B: plan it for the target of this card"
    ):
        build(project, small)
    with pytest.raises(ToolError, match="B of block, cortex-m4 has 0 B"):
        build(project, find("cortex-m4"))


def test_a_model_that_does_not_fit(tmp_path: Path) -> None:
    card = card_of(tmp_path, M4.replace("0x1000000\n", "0x1000\n"))
    message = (
        r"does not fit into the memories block of 6,144 bytes, psram of 4,096 bytes: operator 2 CONV_2D .*more than"
    )
    with pytest.raises(UnsupportedOperatorError, match=message):
        make_plan(builtin()["kws_int8"](), card.target, Options(memory="layers"))
