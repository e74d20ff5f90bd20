"""The table of targets, and cards that users add."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny
from needs import need_tools

from twinfer.aot.build import firmware, toolchain
from twinfer.aot.build.jobs import LOOP, step_counts
from twinfer.aot.build.project import write_project
from twinfer.aot.build.runner import Job
from twinfer.aot.build.targets import find, names
from twinfer.aot.print.emit import emit
from twinfer.aot.print.interface import quantized
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.op import tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.target import computer

M4 = find("cortex-m4")

#: Those of Arm's that run Linux -> what their kernels may use.
COMPUTERS = {"aarch64": ("neon",), "aarch64-dotprod": ("neon_dotprod",), "aarch64-i8mm": ("neon_dotprod", "neon_i8mm")}

OTHERS = ("riscv32", "riscv32imc", "riscv32imafc", "riscv32emc", "riscv64", "riscv64gcv", "wasm32")

SIMULATED = ("riscv32-vexriscv", "riscv32-ibex", "riscv32-cv32e40p")


def test_those_that_come_along() -> None:
    cores = {f"cortex-m{core}" for core in ("0", "0plus", "3", "4", "7", "33", "55")}
    assert set(names()) == cores | set(COMPUTERS) | set(OTHERS) | set(SIMULATED)
    for name in cores:
        card = find(name)
        assert card.name == card.target.name == name
        assert card.target.has("words")
        assert card.target.flash_is_dear
        assert f"-mcpu={name}" in card.flags
    assert find("cortex-m0plus").isa == ("armv6-m",)
    for name, features in COMPUTERS.items():  # planned for as computers are, with what their cards say of NEON
        assert find(name).target == computer(name, *features)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a", "board.toml"),
        ("", "describes 0 targets"),
        ('[a]\nbase = "cortex-m4"\n[b]\nbase = "cortex-m4"', "describes 2 targets"),
        ('[a]\nbase = "cortex-m5"', "no base 'cortex-m5'"),
        ('[a]\nbase = "a"', "it is its own"),
        ("[a]\nbase = 4", "there is no base 4, or it is its own"),
        ("[a]\nram_bytes = 1", "is missing; a base could give it"),
        ('[a]\nbase = "cortex-m4"\nisa = [4]', "isa should be a list of words"),
        ('[a]\nbase = "cortex-m4"\nclock_mhz = 0', "clock_mhz should be a number above 0"),
        ('[a]\nbase = "cortex-m4"\nclock_mhz = inf', "clock_mhz should be a number above 0"),
        ('[a]\nbase = "cortex-m4"\nenergy_pj_per_cycle = "x"', "energy_pj_per_cycle should be a number above 0"),
        ('[a]\nbase = "cortex-m4"\nflash_wait_states = 1.5', "flash_wait_states should be a number"),
        ('[a]\nbase = "cortex-m4"\nflash_wait_states = 5', "flash_wait_states need flash_fetch_bytes"),
        ("a = 1", "no base 'a'"),
        ('[a]\nbase = "cortex-m4"\nramm = 1', "unknown 'ramm'"),
        ('[a]\nmachine = "mps2-an386"', "'flags' is missing"),
        ('[a]\nbase = "cortex-m4"\nram_bytes = "64K"', "ram_bytes should be a number"),
        ('[a]\nbase = "cortex-m4"\nram_bytes = -1', "ram_bytes should be a number"),
        ('[a]\nbase = "cortex-m4"\nram_bytes = true', "ram_bytes should be a number"),
        ('[a]\nbase = "cortex-m4"\nmachine = 3', "machine should be a name"),
        ('[a]\nbase = "cortex-m4"\nflags = "-O3"', "flags should be a list"),
        ('["$(shell touch x)"]\nbase = "cortex-m4"', r"name '\$\(shell touch x\)' should be"),
        ('["a*/ int b; /*"]\nbase = "cortex-m4"', "name 'a"),
        ('["a\\nb"]\nbase = "cortex-m4"', "name 'a"),
        ('[a]\nbase = "cortex-m4"\nmachine = "an386; touch x"', "a: machine 'an386; touch x' should be"),
        ('[a]\nbase = "cortex-m4"\nmachine = "an386,firmware=x"', "a: machine 'an386,firmware=x' should be"),
        ('[a]\nbase = "cortex-m4"\nmachine = "-S"', "a: machine '-S' should be"),
        ('[a]\nbase = "cortex-m4"\nflags = ["-mthumb", "-D$(shell touch x)"]', r"a: flags '-D\$\(shell touch x\)'"),
        ('[a]\nbase = "cortex-m4"\nflags = ["-mthumb\\nall:"]', "a: flags '-mthumb"),
        ('[a]\nbase = "cortex-m4"\nflags = ["-wrapper", "-x"]', "a: flags '-wrapper' should be"),
        ('[a]\nbase = "cortex-m4"\nflags = ["--specs=./own.specs"]', "a: flags '--specs=./own.specs' should be"),
        ('[a]\nbase = "cortex-m4"\nemulator_flags = ["-monitor", "stdio"]', "a: emulator_flags '-monitor' should be"),
        ('[a]\nbase = "cortex-m4"\nflags = ["-fplugin=own.so"]', "a: flags '-fplugin=own.so' should be"),
        ('[a]\nbase = "cortex-m4"\nflags = ["-fpass-plugin=own.so"]', "a: flags '-fpass-plugin=own.so' should be"),
        ('[a]\nbase = "cortex-m4"\nflags = ["-fplugin=./x.so"]', "a: flags '-fplugin=./x.so' should be"),
        ('[a]\nbase = "cortex-m4"\nflags = ["x.c"]', "a: flags 'x.c' should be"),
        ('[a]\nbase = "cortex-m4"\nisa = ["armv7e-m", "*/"]', "a: isa "),
        ('[a]\nbase = "cortex-m4"\ncompiler = "rm"', "a: compiler 'rm' should be the name of a gcc"),
        ('[a]\nbase = "cortex-m4"\ncompiler = "./x-gcc"', "a: compiler './x-gcc' should be"),
        ('[a]\nbase = "cortex-m4"\nbinutils = "/tmp/x-"', "a: binutils '/tmp/x-' should be"),
        ('[a]\nbase = "cortex-m4"\nbinutils = "x"', "a: binutils 'x' should be"),
        ('[a]\nbase = "cortex-m4"\nemulator = "reboot"', "a: emulator 'reboot' should be the name of one of QEMU's"),
        ('[a]\nbase = "cortex-m4"\nboard = "../x"', "a: board '../x' should be the name of a folder"),
        ('[a]\nbase = "cortex-m4"\npackages = "gcc"', "a: packages should be a list"),
    ],
)
def test_bad_cards(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match=message):
        find(path)


@pytest.mark.parametrize("name", ["m4", "M4", "cortex_m4", "CortexM4", "Cortex M4", "CORTEX-M4", "cortex-m4"])
def test_spellings_of_a_core(name: str) -> None:
    assert find(name) is find("cortex-m4")


def test_a_base_gives_what_its_card_does_not_say(tmp_path: Path) -> None:
    """The nearest one wins, over several; a board beside the card is found from everywhere."""
    path = tmp_path / "board.toml"
    path.write_text('[own]\nbase = "cortex-m4"\nram_bytes = 4096\nboard = "./mine"\n')
    card, base = find(path), find("cortex-m4")
    assert (card.ram_bytes, card.stack_bytes, card.board) == (4096, base.stack_bytes, f"{tmp_path}/mine")


@pytest.mark.parametrize(("name", "message"), [("cortex-m5", "cortex-m4"), ("no/such.toml", "No such file")])
def test_no_card(name: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        find(name)


@pytest.mark.parametrize(
    "flags",
    [
        ["-mcpu=cortex-m55+nomve.fp", "-mfloat-abi=hard", "-march=armv8.1-m.main+mve", "--specs=nano.specs"],
        ["-DSTM32F446xx=1", "-O2", "-fno-common", "--param=max-inline-insns-auto=8", "-g3", "-Wno-psabi", "-UNDEBUG"],
        ["-march=rv32imac", "-mabi=ilp32", "--specs=picolibc.specs"],
        ["--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4"],
    ],
)
def test_flags_that_cards_may_have(flags: list[str], tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(f'["My_board-4.2+x"]\nbase = "cortex-m55"\nflags = {flags}\n')
    assert find(path).flags == tuple(flags)


def test_a_card_with_a_folder_of_code_may_say_anything(tmp_path: Path) -> None:
    """Its Python runs anyway. Only what is no text of one line is refused."""
    path = tmp_path / "board.toml"
    own = '[a]\nbase = "cortex-m4"\nboard = "./mine"\ncompiler = "/opt/x/armclang"\nemulator = "run me"\n'
    path.write_text(own + 'flags = ["@x", "-fplugin=./x.so"]\nemulator_flags = ["-bios", "none"]\n')
    card = find(path)
    assert (card.compiler, card.emulator, card.flags) == ("/opt/x/armclang", "run me", ("@x", "-fplugin=./x.so"))
    assert card.emulator_flags == ("-bios", "none")
    path.write_text(own + 'flags = ["a\\nb"]\n')
    with pytest.raises(InvalidArgumentError, match="should be text in one line"):
        find(path)


def test_what_is_printed_of_a_card_stays_text(tmp_path: Path) -> None:
    """The card does not come from a file. No text of it runs, ends a comment, or begins a line."""
    need_tools("make", "gcc")
    hostile = '$(shell touch ran)`touch ran`*/ #error \n#error @name@ "${x}; \\'
    card = replace(find("cortex-m4"), name=hostile, machine=hostile, flags=(f"-DX={hostile}",))
    card = replace(card, compiler=hostile, binutils=hostile)
    write_project(make_plan(tiny.dense().graph, card.target), "m", tmp_path / "made", card=card, stack_bytes=0)
    said = [_said(tmp_path, "make", "-n", "-C", "made", "test")]
    said.append(_said(tmp_path, "gcc", "-fsyntax-only", "-Imade", "made/m.c", "made/m_data.c", "made/m_test.c"))
    if shutil.which("cmake"):
        said.append(_said(tmp_path, "cmake", "-S", "made", "-B", "built"))
    assert "error" not in "".join(said[1:]).lower()
    assert hostile.replace("\n", " ") in said[0]
    assert sorted(p.name for p in tmp_path.rglob("ran*")) == []
    assert ": vectors and program" in (tmp_path / "made" / "board" / "link.ld").read_text().splitlines()[1]


def _said(folder: Path, *command: str) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_card_of_a_known_name_is_the_users_own(tmp_path: Path) -> None:
    """What its file says of the name wins, and it may build on others that twinfer brings."""
    path = tmp_path / "card.toml"
    path.write_text('[cortex-m4]\nbase = "cortex-m3"\nram_bytes = 4096\n')
    own, m3 = find(path), find("cortex-m3")
    assert (own.name, own.ram_bytes, own.flags, own.isa) == ("cortex-m4", 4096, m3.flags, m3.isa)
    path.write_text('[mine]\nbase = "cortex-m4"\nstack_bytes = 512\n')
    assert find(path) == replace(find("cortex-m4"), name="mine", stack_bytes=512)


# -- at the limits: models that just fit, numbers of 32 bits -----------------------------------------------------------


def test_what_just_fits_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """RAM holds the arena, which takes a multiple of 16 bytes, and the stack, to the byte."""

    def reached(*_: Any) -> Any:
        raise ToolError("as far as the compiler")

    monkeypatch.setattr(toolchain, "need_tool", reached)
    project = emit(tiny.dense(), "dense")
    assert project.plan.arena_bytes == 14
    needed = 16 + M4.stack_bytes
    for ram, said in ((needed, "as far as"), (needed - 1, "needs 16 B of arena")):
        with pytest.raises(ToolError, match=said):
            firmware.build(project, replace(M4, ram_bytes=ram))


@pytest.mark.parametrize("vectors", [..., None, 0, 0x1000_0000])
@pytest.mark.parametrize("name", [name for name in names() if find(name).board == "arm"])
def test_the_linker_has_what_the_board_has(name: str, vectors: Any) -> None:
    """Program and vector table fill the flash if they are in one piece; some boards have the table elsewhere, at the
    very beginning of addresses, too."""
    card = find(name) if vectors is ... else replace(find(name), vectors=vectors)
    text = firmware.linker_scripts(card)["link.ld"]
    assert "@" not in text.replace(card.name, "")
    rows = re.findall(r"^\s*(\w+) \(\w+\) : ORIGIN = (\w+), LENGTH = (\w+)", text, re.MULTILINE)
    regions = {region: (int(origin, 16), int(length, 16)) for region, origin, length in rows}
    vectors, flash, ram = (regions[region] for region in ("VECTORS", "FLASH", "RAM"))
    assert ram == (card.ram_origin, card.ram_bytes)
    if card.vectors is None:
        assert vectors[0] == card.flash_origin
        assert flash[0] == vectors[0] + vectors[1]
        assert sum(flash) == card.flash_origin + card.flash_bytes
    else:
        assert (vectors[0], flash) == (card.vectors, (card.flash_origin, card.flash_bytes))


@pytest.mark.parametrize(("value", "good"), [(0, True), ((1 << 32) - 1, True), (1 << 32, False), (-1, False)])
def test_numbers_of_32_bits(value: int, good: bool, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f'[own]\nbase = "cortex-m4"\nram_bytes = {value}\n')
    if good:
        assert find(path).ram_bytes == value
    else:
        with pytest.raises(InvalidArgumentError, match="ram_bytes should be a number"):
            find(path)


def test_counts_are_beyond_an_empty_call_which_is_one_instruction() -> None:
    """The first intervals are an empty run, an empty step and the loop; painting does not count."""
    project = SimpleNamespace(layers=("a", "b"))
    machine: Any = SimpleNamespace(projects=[project])
    jobs = [Job([]), Job([], paint=True), Job([], by_step=True)]
    for scale in (1, 2):
        gauges = [5 * scale, 7 * scale, (5 + LOOP - 1) * scale]
        intervals = [*gauges, 105 * scale, 57 * scale, 7 * scale]
        assert step_counts(machine, jobs, intervals) == [(101,), (), (51, 1)]
    with pytest.raises(ToolError, match="for a loop of 2,000,002"):
        step_counts(machine, [], [5, 7, LOOP + 5])


@pytest.mark.parametrize(
    ("kind", "scale", "zero", "good"),
    [
        ("INT8", 0.5, -128, True),
        ("UINT8", 0.5, 255, True),
        ("INT16", 0.5, 0, True),
        ("INT32", 0.5, 0, False),
        ("INT8", 0.5, 128, False),
        ("UINT8", 0.5, -1, False),
        ("FLOAT32", None, 0, False),
    ],
)
def test_which_values_the_header_converts(kind: str, scale: float | None, zero: int, good: bool) -> None:
    assert quantized(tensor((1, 4), kind, scale, zero)) is good
