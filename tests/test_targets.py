"""The table of targets, and cards that users add."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinfer.aot.targets import find, names
from twinfer.runtime.errors import InvalidArgumentError


def test_those_that_come_along() -> None:
    assert set(names()) == {f"cortex-m{core}" for core in ("0", "0plus", "3", "4", "7", "33", "55")}
    for name in names():
        card = find(name)
        assert card.name == card.target.name == name
        assert not card.target.wide
        assert f"-mcpu={name}" in card.flags
    assert find("cortex-m0plus").isa == ("armv6-m",)


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
    ],
)
def test_bad_cards(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match=message):
        find(path)


@pytest.mark.parametrize(("name", "message"), [("cortex-m5", "cortex-m4"), ("no/such.toml", "No such file")])
def test_no_card(name: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        find(name)
