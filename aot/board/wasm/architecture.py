"""WebAssembly: clang and wasi-libc build modules; wasmtime runs them, and counts operations by its fuel.

Every operation of WebAssembly takes one unit of fuel but those that only mark structure (block, loop, end, drop and
nop). So the count is the same on every machine.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, cast

import numpy as np

from twinfer.aot.board.wasm.module import read_sections
from twinfer.aot.board.wasm.package import package
from twinfer.aot.build.architecture import Architecture
from twinfer.aot.build.depth import Image
from twinfer.aot.build.firmware import Firmware
from twinfer.aot.build.jobs import INPUTS, OUTPUTS, TICKS, job_file, results
from twinfer.aot.build.runner import Job, Result, Runner
from twinfer.aot.build.targets import Card
from twinfer.aot.build.toolchain import SECTIONS, Toolchain
from twinfer.runtime.cache import unsealed
from twinfer.runtime.errors import ToolError
from twinfer.runtime.tools import Files, built, compiler_version, need_tool, run_tool

_INCLUDED = """__asm__(
    ".section .rodata.{symbol},\\"\\",@\\n.globl {symbol}\\n.hidden {symbol}\\n"
    ".type {symbol},@object\\n.balign {alignment}\\n"
    "{symbol}:\\n.incbin \\"constants.bin\\", {at}, {size}\\n.size {symbol}, {size}\\n.text\\n");"""


@cache
def _targets(compiler: str) -> str:
    """The machines that a clang builds for."""
    return run_tool([compiler, "-print-targets"])


#: ziglang's compiler, and what it does not take: its linker puts the stack first anyway.
_ZIG = (sys.executable, "-m", "ziglang", "cc", "-Wno-unused-command-line-argument")
_NOT_OF_ZIG = ("-Wl,--no-merge-data-segments", "-Wl,--stack-first")


@dataclass(frozen=True)
class Clang(Toolchain):
    """clang and wasm-ld with wasi-libc; where they are missing, the compiler of the package ziglang."""

    compiler: str
    packages: tuple[str, ...]
    archiver: str = "llvm-ar"
    included: ClassVar = _INCLUDED
    script_alone: ClassVar = ""

    def need(self) -> None:
        packages = f"{' '.join(self.packages)} (or pip install 'twinfer[compiler]')"
        if self._is_zig:
            return
        for tool in (self.compiler, "wasm-ld"):
            need_tool(tool, packages)
        if "wasm32" not in _targets(self.compiler):
            raise ToolError(f"{self.compiler} builds no WebAssembly, Apple's does not: install LLVM's: {packages}")

    @property
    def _is_zig(self) -> bool:
        """Whether clang or its linker is missing, and ziglang is there."""
        there = all(map(shutil.which, (self.compiler, "wasm-ld"))) and "wasm32" in _targets(self.compiler)
        return not there and find_spec("ziglang") is not None

    @property
    def version(self) -> str:
        return compiler_version(_ZIG if self._is_zig else (self.compiler,))

    def link(self, sources: Files, words: Sequence[str], product: str = "program.wasm") -> Path:
        self.need()
        command = (self.compiler, *words)
        if self._is_zig:
            alone = {"-nostartfiles": "-mexec-model=reactor"}  # it links crt1 all the same, which calls main
            command = *_ZIG, *(alone.get(word, word) for word in words if word not in _NOT_OF_ZIG)
        return built(sources, (*command, *SECTIONS, "-o", product, "-lm"), product, self.version)

    def linking(self, script: str) -> tuple[str, ...]:
        return ("-Wl,--gc-sections",)

    def linking_alone(self, functions: Sequence[str]) -> tuple[str, ...]:
        own = ("-nostartfiles", "-Wl,--no-entry", "-Wl,--gc-sections", "-Wl,--no-merge-data-segments")
        return *own, *(f"-Wl,--export={name}" for name in functions)

    def image(self, program: Path, tag: int = 0) -> Image:
        return Image(tuple(read_sections(unsealed(program))), 4, "little")


@dataclass(frozen=True)
class Wasmtime(Runner):
    """Runs modules by wasmtime for Python."""

    place: str = "wasmtime"

    @property
    def command(self) -> tuple[str, ...]:
        return "wasmtime", "run", "--dir=."

    def need(self) -> None:
        if find_spec("wasmtime") is None:
            raise ToolError("WebAssembly is run by wasmtime: pip install 'twinfer[wasm]'")

    def run(self, firmware: Firmware, jobs: Sequence[Job], *, count: bool, patience: float) -> list[Result]:
        self.need()
        from wasmtime import (
            Config,
            Engine,
            Func,
            FuncType,
            Linker,
            Module,
            Store,
            Trap,
            ValType,
            WasiConfig,
            WasmtimeError,
        )

        config = Config()
        config.consume_fuel = True
        engine = Engine(config)
        with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
            (Path(work) / INPUTS).write_bytes(job_file(firmware, jobs, clock=count))
            store = Store(engine)
            store.set_fuel(full := 1 << 60)
            wasi = WasiConfig()
            wasi.preopen_dir(work, ".")
            wasi.inherit_stderr()
            store.set_wasi(wasi)
            linker = Linker(engine)
            linker.define_wasi()
            spent = FuncType([], [ValType.i64()])
            linker.define_func("twinfer", "clock", spent, lambda: full - store.get_fuel())
            try:
                instance = linker.instantiate(store, Module(engine, unsealed(firmware.elf)))
                cast(Func, instance.exports(store)["_start"])(store)
            except (Trap, WasmtimeError) as error:
                raise ToolError(f"{firmware.elf} failed in wasmtime: {error}") from error
            marks = np.fromfile(Path(work) / TICKS, np.uint64).tolist() if count else None
            return results(firmware, jobs, (Path(work) / OUTPUTS).read_bytes(), marks)


def runner(card: Card) -> Wasmtime:
    return Wasmtime()


_FOLDER = Path(__file__).resolve().parent

ARCHITECTURE = Architecture(
    folder=_FOLDER,
    program=("hosted.c", "port.c", "gauge.s"),
    selftest=(),
    runner=runner,
    package=package,
    package_use=(_FOLDER / "use.md").read_text(encoding="utf-8"),
    toolchain=lambda card: Clang(card.compiler, card.packages),
)
