"""The table of real boards, boards of the user's, and what fits them."""

from __future__ import annotations

from pathlib import Path

import pytest

import twinfer
from twinfer.aot.build import targets
from twinfer.aot.build.catalogue import Board, Need, board, boards, find_card
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.target import GENERIC

BOARD = """
[mine]
base = "cortex-m4"
clock_mhz = 100
flash_bytes = 65536
ram = [{ name = "fast", origin = 0x10000000, bytes = 8192 }, { name = "big", origin = 0x20000000, bytes = 32768 }]
"""


def own(folder: Path, text: str) -> Board:
    path = folder / "my.toml"
    path.write_text(text)
    return board(path)


def test_every_board_that_comes_along_says_what_it_is_and_where_that_was_checked() -> None:
    assert len(boards()) >= 40
    assert twinfer.boards() == boards()
    makers = [each.maker for each in boards()]
    assert makers == sorted(makers, key=str.lower)
    for each in boards():
        assert all((each.maker, each.chip, each.source, each.flash_about)), each.name
        assert each.name == each.name.lower()
        assert all(memory.about for memory in each.ram), each.name
        assert 1 <= each.clock_mhz <= 1000
        assert each.ram_bytes >= 2048
        assert each.flash >= 16384
        assert bool(each.fits(Need(arena=16, constants=16)))


def test_a_board_is_built_for_as_its_core_with_its_sizes() -> None:
    nucleo = twinfer.board("NUCLEO_F446RE")
    assert nucleo.target == targets.find("cortex-m4").target
    target, card = find_card("nucleo-f446re")
    assert card is not None
    assert (card.name, card.ram_bytes, card.flash_bytes, card.clock_mhz) == ("nucleo-f446re", 0x20000, 0x80000, 180)
    assert target.features == nucleo.target.features
    assert card.flags == targets.find("cortex-m4").flags
    assert find_card("esp32-devkitc") == (GENERIC, None)  # planned for, not built for
    _, esp = find_card("esp32-c3-devkitm")
    assert esp is not None
    assert (esp.flags, esp.clock_mhz) == (targets.find("riscv32imc").flags, 160)
    for each in boards():
        assert each.card is None or 4 * each.card.stack_bytes <= max(memory.nbytes for memory in each.ram)


def test_what_is_short(tmp_path: Path) -> None:
    mine = own(tmp_path, BOARD)
    small = mine.fits(Need(arena=8000, constants=60000, code=5000, state=100, stack=1024))
    assert dict(small.places) == {"arena": "fast", "stack": "big", "state": "fast"}
    assert small
    assert dict(mine.fits(Need(arena=32768, constants=0, state=8192)).places) == {"arena": "big", "state": "fast"}
    large = mine.fits(Need(arena=40000, constants=60000, code=6000, stack=1024))
    assert not large
    assert (large.ram_short, large.flash_short) == (40000 - 32768, 60000 + 6000 - 65536)
    assert "arena" not in large.places
    assert mine.fits(Need(arena=32768, constants=0, state=8192, stack=16)).ram_short == 16
    budget = mine.limited(ram=9000, flash=50000).fits(Need(arena=8000, constants=60000, stack=1024))
    assert (budget.ram_short, budget.flash_short) == (24, 10000)


def test_a_card_is_a_board(tmp_path: Path) -> None:
    text = '[a]\nbase = "cortex-m4"\nram_bytes = 4096\nflash_bytes = 8192\nclock_mhz = 10\n'
    mine = own(tmp_path, text + '[[a.banks]]\nname = "b"\norigin = 16\nbytes = 32\n'.replace("16", "0x30000000"))
    assert [(memory.name, memory.nbytes) for memory in mine.ram] == [("ram", 4096), ("b", 32)]
    assert (mine.flash, mine.clock_mhz) == (8192, 10)
    assert mine.card is not None
    assert mine.target.banks  # as the card says
    path = tmp_path / "board.toml"
    path.write_text(BOARD)
    assert find_card(str(path))[1] == board(path).card


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[mine]", "[mine]\nspeed = 1", "unknown 'speed'; known are base, chip, "),
        ("clock_mhz = 100", "", "'clock_mhz' is missing"),
        ("clock_mhz = 100", "clock_mhz = -1", "clock_mhz should be a number above 0"),
        ('"cortex-m4"', '"cortex-m5"', "no base 'cortex-m5'; name one of generic, aarch64"),
        ('"cortex-m4"', "4", "base should be a name, not 4"),
        ("65536", '"64K"', "flash_bytes should be a number, not '64K'"),
        ("65536", "65536\nflash_wait_states = 2", "flash_wait_states need flash_fetch_bytes"),
        ("65536", '65536\nmaker = "a\\nb"', "maker should be text in one line"),
        ("32768", "32767", "bytes of bank 'big' should be a multiple of 16"),
        ("0x20000000", "0x10001000", "bank 'big' and fast have bytes in common"),
        ('"fast"', '"Fast"', "its name should be a-z, 0-9 and _"),
        ("bytes = 8192", 'bytes = 8192, size = "8K"', "a bank has no 'size'"),
        ("[mine]", "[mine2]\nram = 1\n[mine]", "describes 2 boards, it should be one"),
        ("[mine]", '["-x"]', "name '-x' should be letters"),
    ],
)
def test_wrong_fields(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"my\.toml") as error:
        own(tmp_path, BOARD.replace(old, new))
    assert message in str(error.value)


def test_unknown_boards() -> None:
    with pytest.raises(InvalidArgumentError, match=r"no board 'nucleo-f446rx'.*mean nucleo-f446re\?"):
        board("nucleo-f446rx")
    with pytest.raises(InvalidArgumentError, match=r"no target 'nucleo'.*a board"):
        find_card("nucleo", also=["host"])
