"""Board cards at their limits: models that just fit, and numbers that just fit 32 bits."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny

from twinfer.aot.build import firmware, toolchain
from twinfer.aot.build.jobs import LOOP, step_counts
from twinfer.aot.build.runner import Job
from twinfer.aot.build.targets import find, names
from twinfer.aot.print.emit import emit
from twinfer.aot.print.quantization import quantized
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.op import tensor

M4 = find("cortex-m4")


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
            firmware.build(project, dataclasses.replace(M4, ram_bytes=ram))


@pytest.mark.parametrize("vectors", [..., None, 0, 0x1000_0000])
@pytest.mark.parametrize("name", [name for name in names() if find(name).architecture.bare])
def test_the_linker_has_what_the_board_has(name: str, vectors: Any) -> None:
    """Program and vector table fill the flash if they are in one piece; some boards have the table elsewhere, at the
    very beginning of addresses, too."""
    card = find(name) if vectors is ... else dataclasses.replace(find(name), vectors=vectors)
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
