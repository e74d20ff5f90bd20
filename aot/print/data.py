"""The constants of a plan as C arrays: weights, biases, multipliers, tables.

Their values and the model's SHA-256 stand in ``<name>_data.c`` and nowhere else. Which arrays there are does not depend
on the values (``runtime/constant.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from zlib import crc32

import numpy as np

from twinfer.aot.print.blob import Blob
from twinfer.aot.print.literals import block_comment, c_type, comment, elements, grouped, wrapped
from twinfer.aot.print.place import section_of
from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.graph import Array
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import Step, calls_of


@dataclass(frozen=True)
class Definition:
    """A constant array in C: its symbol, the constant, and the macro that says where it lies."""

    symbol: str
    constant: Constant
    section: str

    @property
    def array(self) -> Array:
        return self.constant.array

    @property
    def declaration(self) -> str:
        item = {"c8": "f4", "c16": "f8"}.get(self.array.dtype.str[1:], self.array.dtype.str)
        parts = self.array.nbytes // np.dtype(item).itemsize
        return f"const {c_type(self.array.dtype)} {self.symbol}[{parts}]"

    @property
    def about(self) -> str:
        """The text of its comment: name, layout, type and shape."""
        layout = f", {comment(self.constant.layout, 300)}" if self.constant.layout else ""
        shape = f"{self.array.dtype.name}{list(self.array.shape)}"
        return f"{comment(self.constant.name, 300)}{layout}: {shape}, {grouped(self.array.nbytes)} bytes"


class Constants:
    """The constant arrays of a plan in C, in the order of first use. A constant without elements has no array.

    ``blob`` has those that are no part of the program, ``linked`` are the others.
    """

    def __init__(self, plan: Plan, name: str) -> None:
        self.name, uses = name, _first_uses(plan)
        names = dict(zip(uses, _names(name, uses.values()), strict=True))
        self.all = tuple(
            Definition(names[c], c, section_of(name, c, uses[c][0])) for c in plan.constants if c.array.size
        )
        self._symbols = {definition.constant: definition.symbol for definition in self.all}
        how = plan.options.weights_as
        apart = [c.constant for c in self.all if how == "blob" or c.constant.role is Role.PAGE]
        self.blob = None if how == "linked" else Blob(plan, apart)
        self.paged = how == "paged"
        self.linked = tuple(each for each in self.all if self.blob is None or each.constant not in self.blob.offsets)

    def address(self, constant: Constant, offset: int = 0) -> str | None:
        """The address of a byte of a constant in a layer; None for one without elements."""
        symbol = self._symbols.get(constant)
        if symbol is None:
            return None
        if self.blob and constant in self.blob.offsets:
            return f"{Region.WEIGHTS.value} + {self.blob.offsets[constant] + offset}"
        return f"(const unsigned char *){symbol} + {offset}" if offset else symbol

    def place(self, constant: Constant) -> int:
        """The byte of the blob at which a constant begins."""
        return self.blob.offsets[constant] if self.blob else 0

    @property
    def nbytes(self) -> int:
        own = sum(definition.array.nbytes for definition in self.linked)
        return own + (self.blob.nbytes if self.blob else 0)


def _names(name: str, uses: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A symbol for every constant, after the number of the layer that reads it first, and its role there."""
    taken: dict[tuple[str, str], int] = {}
    for use in uses:
        taken[use] = taken.get(use, 0) + 1
        yield "_".join([name, *filter(None, use), *([str(taken[use])] if taken[use] > 1 else [])])


def _first_uses(plan: Plan) -> dict[Constant, tuple[str, str]]:
    """For every constant what reads it first, and its role there: the layer's number, or an output and ""."""
    uses: dict[Constant, tuple[str, str]] = {}
    for i, step in numbered(plan):
        for value in step.read:
            if isinstance(value, Constant):
                uses.setdefault(value, (str(i), value.role.value))
    for step, chain in plan.chains.items():
        for value in (value for call in calls_of(chain.before) for value in call.read):
            if isinstance(value, Constant):
                uses.setdefault(value, (str(plan.steps.index(step)), value.role.value))
    for i, output in enumerate(plan.outputs):
        if isinstance(output, Constant):
            uses.setdefault(output, (f"output_{i}", ""))
    return uses


def numbered(plan: Plan) -> Iterator[tuple[int, Step]]:
    """All steps, each with the number of its layer; what runs once comes first.

    A step that decodes weights has the number of their layer, others have the numbers behind all layers.
    """
    number = {step.node: i for i, step in enumerate(plan.steps)}
    others = count(len(plan.steps))
    yield from ((number[step.node] if step.node in number else next(others), step) for step in plan.start)
    yield from enumerate(plan.steps)


def crc_of(constants: Constants) -> int:
    """The CRC-32 of linked constants, in their order."""
    crc = 0
    for each in constants.linked:
        crc = crc32(np.ascontiguousarray(each.array).tobytes(), crc)
    return crc


def data_header(constants: Constants, name: str, banner: str, alignment: int) -> str:
    """``<name>_data.h``: declarations of the constants.

    They say the alignment: clang for x86-64 takes every large array for one of 16 bytes that is declared without.
    """
    guard = f"{name.upper()}_DATA_H"
    lines = [
        banner,
        f"#ifndef {guard}",
        f"#define {guard}",
        f'#include "{name}_place.h"',
        "",
        "#include <stdalign.h>",
        "#include <stdint.h>",
        "",
    ]
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    if constants.blob:
        kind = f"{name.upper()}_SECTION_WEIGHTS const unsigned char {name}_weights[{constants.blob.nbytes}]"
        lines += ["/* What may take the place of the file of weights. */"]
        lines += [f"alignas({constants.blob.alignment}) extern {kind};"]
    if constants.linked or not constants.blob:
        lines += ["/* For which code these are, and their CRC-32: they are compared by check. */"]
        lines += [f"extern {name.upper()}_SECTION_TABLES const uint32_t {name}_structure, {name}_crc;"]
    for c in constants.linked:
        lines += [f"alignas({max(alignment, c.array.itemsize)}) extern {c.section} {c.declaration};"]
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "#endif", ""]
    return "\n".join(lines)


def data_source(constants: Constants, name: str, banner: str, sha256: str, alignment: int, structure: int) -> str:
    """``<name>_data.c``: the constants themselves, each aligned to ``alignment`` bytes, or all as one array."""
    lines = [banner, f'#include "{name}_data.h"', f'#include "{name}.h"', ""]
    lines.append(f'const char {name}_model_sha256[65] = "{sha256}";')
    if constants.blob:
        abouts = {c.constant: c.about for c in constants.all}
        parts = [f"  {at}: {abouts[constant]}" for constant, at in constants.blob.offsets.items()]
        content = [str(byte) for byte in constants.blob.content(structure)]
        about = f"The content of {name}_weights.bin: all constants, the first byte of each and what it is."
        lines += ["", block_comment([about, *parts])]
        lines += [f"alignas({constants.blob.alignment}) const unsigned char {name}_weights[{len(content)}] = {{"]
        lines += [wrapped(content), "};"]
        if not constants.linked:
            return "\n".join([*lines, ""])
    values = f"{name}_structure = {structure:#010x}u, {name}_crc = {crc_of(constants):#010x}u"
    lines.append(f"{name.upper()}_SECTION_TABLES const uint32_t {values};")
    for c in constants.linked:
        lines += ["", block_comment([c.about])]
        lines += [f"alignas({max(alignment, c.array.itemsize)}) {c.declaration} = {{", wrapped(elements(c.array)), "};"]
    return "\n".join(lines) + "\n"
