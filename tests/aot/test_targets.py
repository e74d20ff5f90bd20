"""The table of targets, and cards that users add."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import tiny

from twinfer.aot.build.project import write_project
from twinfer.aot.build.targets import find, names
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.target import computer

#: Those of Arm's that run Linux -> what their kernels may use.
COMPUTERS = {
    "aarch64": (),
    "aarch64-dotprod": ("neon_dotprod",),
    "aarch64-i8mm": ("neon_dotprod", "neon_i8mm"),
}


def test_those_that_come_along() -> None:
    cores = {f"cortex-m{core}" for core in ("0", "0plus", "3", "4", "7", "33", "55")}
    assert set(names()) == cores | set(COMPUTERS)
    for name in cores:
        card = find(name)
        assert card.name == card.target.name == name
        assert card.target.has("words")
        assert card.target.flash_is_dear
        assert f"-mcpu={name}" in card.flags
    assert find("cortex-m0plus").isa == ("armv6-m",)


def test_computers_that_come_along() -> None:
    """They are planned for as computers are, with what their cards say of NEON."""
    for name, features in COMPUTERS.items():
        assert find(name).target == computer(name, *features)


def test_own_card(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text('[nucleo]\nbase = "cortex-m7"\nram_bytes = 0x20000\n')
    card, base = find(path), find("cortex-m7")
    assert (card.name, card.ram_bytes, card.flash_bytes, card.flags) == (
        "nucleo",
        0x20000,
        base.flash_bytes,
        base.flags,
    )
    assert find(str(path)) == card


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a", "board.toml"),
        ("", "describes 0 targets"),
        ('[a]\nbase = "cortex-m4"\n[b]\nbase = "cortex-m4"', "describes 2 targets"),
        ('[a]\nbase = "cortex-m5"', "no base 'cortex-m5'"),
        ('[a]\nbase = "a"', "it is its own"),
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
        ('[a]\nbase = "cortex-m4"\nflags = ["--specs=own.specs"]', "a: flags '--specs=own.specs' should be"),
        ('[a]\nbase = "cortex-m4"\nflags = ["-fplugin=own.so"]', "a: flags '-fplugin=own.so' should be"),
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
    for text, message in (
        ("", "describes 0 targets, it should be one"),
        ('[a]\nbase = "cortex-m4"\n[b]\nbase = "a"\n', "describes 2 targets, it should be one"),
        ('[a]\nbase = "a"\n', "there is no base 'a', or it is its own"),
        ('[a]\nbase = 4\n', "there is no base 4, or it is its own"),
        ("a = 4\n", "there is no base 'a', or it is its own"),
        ('[a]\nbase = "cortex-m4"\nflags = "-O2"\n', "flags should be a list of words, not '-O2'"),
        ('[a]\nbase = "cortex-m4"\nisa = [4]\n', "isa should be a list of words"),
        ('[a]\nram_bytes = 1\n', "is missing; a base could give it"),
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(InvalidArgumentError, match=message):
            find(path)


@pytest.mark.parametrize(("name", "message"), [("cortex-m5", "cortex-m4"), ("no/such.toml", "No such file")])
def test_no_card(name: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        find(name)


@pytest.mark.parametrize(
    "flags",
    [
        ["-mcpu=cortex-m55+nomve.fp", "-mfloat-abi=hard", "-march=armv8.1-m.main+mve", "--specs=nano.specs"],
        ["-DSTM32F446xx=1", "-O2", "-fno-common", "--param=max-inline-insns-auto=8", "-g3", "-Wno-psabi", "-UNDEBUG"],
    ],
)
def test_flags_that_cards_may_have(flags: list[str], tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(f'["My_board-4.2+x"]\nbase = "cortex-m55"\nflags = {flags}\n')
    assert find(path).flags == tuple(flags)


def test_what_is_printed_of_a_card_stays_text(tmp_path: Path) -> None:
    """The card does not come from a file. No text of it runs, ends a comment, or begins a line."""
    if not shutil.which("make") or not shutil.which("gcc"):
        pytest.skip("make and gcc are needed")
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
