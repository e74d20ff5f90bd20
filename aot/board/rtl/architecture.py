"""Open RISC-V cores as registers and logic (RTL), which Verilator translates: cycles and instructions, counted.

A core's Verilog comes from PyPI; ``<core>.sv`` fits its buses to those of ``machine.cpp``, which has the memories. A
simulated clock takes about a microsecond. Programs are those of RISC-V's folder, but for files and console.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from twinfer.aot.board.riscv.architecture import ARCHITECTURE as RISCV
from twinfer.aot.build.firmware import Firmware
from twinfer.aot.build.jobs import INPUTS, OUTPUTS, job_file, results
from twinfer.aot.build.runner import Job, Result, Runner
from twinfer.aot.build.targets import Card
from twinfer.runtime.errors import ToolError
from twinfer.runtime.tools import built, compiler_version, need_tool, run_tool

HERE = Path(__file__).resolve().parent

#: Instructions of the loop that gauges a count: -DTW_SHORT_LOOP.
LOOP = 2001

#: The cores' makers warn of nothing that their own tools do not: of Verilator's remarks none is shown. Elements of one
#: array may be assigned in different ways (BLKANDNBLK).
_WORDS = (
    *("--cc", "--exe", "--build", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "-Wno-fatal"),
    *("-Wno-lint", "-Wno-style", "-Wno-UNOPTFLAT", "-Wno-BLKANDNBLK", "-Wno-COMBDLY", "-MAKEFLAGS", "OPT_FAST=-O3"),
    *("--top-module", "core", "--prefix", "Vcore", "-o", "machine", "machine.cpp"),
)

_PRIM, _GENERIC = (f"vendor/lowrisc_ip/ip/{name}/rtl" for name in ("prim", "prim_generic"))
_WRAPPED, _UTILS = "dv/uvm/core_ibex/common/prim", "vendor/lowrisc_ip/dv/sv/dv_utils"
_PACKAGES = ("util", "ram_1p", "secded", "mubi", "cipher", "count")


@dataclass(frozen=True)
class Core:
    """Where a core's Verilog is: a package of PyPI's, a folder in it, files in that, as patterns.

    ``words`` tell Verilator what to read of these, in order, and how. ``about`` says in words what it is.
    """

    about: str
    folder: str
    files: tuple[str, ...]
    words: tuple[str, ...]


CORES = {
    "vexriscv": Core(
        "VexRiscv (IMAC: five stages, caches of 4 KB, static prediction)",
        "verilog",
        ("VexRiscv_IMAC.v",),
        ("VexRiscv_IMAC.v",),
    ),
    "ibex": Core(
        "Ibex (maxperf: three stages, products in one cycle, no cache)",
        "system_verilog",
        ("rtl/*.sv", f"{_PRIM}/*.sv*", f"{_GENERIC}/*.sv", f"{_WRAPPED}/*.sv", f"{_UTILS}/*.svh"),
        (
            *("-DSYNTHESIS", f"-I{_PRIM}", f"-I{_GENERIC}", f"-I{_WRAPPED}", f"-I{_UTILS}", "-y", "rtl"),
            *("rtl/ibex_pkg.sv", f"{_WRAPPED}/prim_pkg.sv", *(f"{_PRIM}/prim_{name}_pkg.sv" for name in _PACKAGES)),
        ),
    ),
    "cv32e40p": Core(
        "CV32E40P (four stages, products in one cycle, no cache)",
        "system_verilog",
        (
            "rtl/cv32e40p_[!f]*.sv",
            "rtl/cv32e40p_f[!p]*.sv",
            "rtl/include/*.sv",
            "bhv/cv32e40p_sim_clock_gate.sv",
        ),  # no floats
        (
            *("-Irtl/include", "-y", "rtl", "rtl/cv32e40p_register_file_ff.sv", "bhv/cv32e40p_sim_clock_gate.sv"),
            *(f"rtl/include/cv32e40p_{name}pkg.sv" for name in ("apu_core_", "fpu_", "")),
        ),
    ),
}


@dataclass(frozen=True)
class Verilated(Runner):
    """A card's core between its memories."""

    card: Card

    @property
    def place(self) -> str:  # type: ignore[override]
        waits = self.card.flash_wait_states or 0
        slow = f", flash in {1 + waits} cycles for {self.card.flash_fetch_bytes} bytes" if waits else ""
        return f"Verilator's {CORES[self.card.machine].about}; memory answers in 1 cycle{slow}"

    @property
    def command(self) -> tuple[str, ...]:
        return "python3", "-m", __package__, self.card.name

    def need(self) -> None:
        for tool in ("verilator", "g++", "make"):
            need_tool(tool, tool)
        self._verilog()

    @property
    def _package(self) -> str:
        return f"pythondata-cpu-{self.card.machine}"

    def _verilog(self) -> Path:
        """The folder of the core's Verilog; ToolError without its package."""
        spec = find_spec(self._package.replace("-", "_"))
        if spec is None or not spec.submodule_search_locations:
            raise ToolError(f"the core of {self.card.name} is in {self._package}: pip install 'twinfer[rtl]'")
        return Path(spec.submodule_search_locations[0]) / CORES[self.card.machine].folder

    def machine(self) -> Path:
        """The simulated core as a program, from the cache if there; ToolError if it cannot be made."""
        self.need()
        core, root, own = CORES[self.card.machine], self._verilog(), f"{self.card.machine}.sv"
        found = [path for pattern in core.files for path in sorted(root.glob(pattern))]
        sources = {path.relative_to(root).as_posix(): path.read_bytes() for path in found}
        sources |= {name: (HERE / name).read_bytes() for name in ("machine.cpp", own)}
        try:
            made_with = (version(self._package), run_tool(["verilator", "--version"]), compiler_version(("g++",)))
        except PackageNotFoundError as error:
            raise ToolError(f"{self._package} is damaged: pip install --force-reinstall {self._package}") from error
        command = ("verilator", *_WORDS, *core.words, own)
        return built(sources, command, "obj_dir/machine", "\n".join(made_with))

    def words(self, program: Path) -> list[str]:
        """The command line that runs a program."""
        card = self.card
        waits = card.flash_wait_states or 0, card.flash_fetch_bytes or 4
        before = card.flash_origin % 4096  # where a linker puts the file's headers
        numbers = card.flash_origin - before, card.flash_bytes + before, card.ram_origin, card.ram_bytes, *waits
        return [str(self.machine()), str(program), *map(hex, numbers)]

    def run(self, firmware: Firmware, jobs: Sequence[Job], *, count: bool, patience: float) -> list[Result]:
        mark = hex(firmware.card.toolchain.address(firmware.elf, "tw_mark"))
        with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
            folder = Path(work)
            (folder / INPUTS).write_bytes(job_file(firmware, jobs))
            run_tool([*self.words(firmware.elf), mark], folder, _SLOWER * patience)
            lines = [line.split() for line in (folder / "marks.txt").read_text().splitlines()] if count else []
            cycles, instructions = ([int(line[i]) for line in lines] or None for i in (0, 1))
            return results(firmware, jobs, (folder / OUTPUTS).read_bytes(), instructions, cycles, loop=LOOP)


#: How much longer than an emulator a simulated core may take.
_SLOWER = 20

ARCHITECTURE = replace(
    RISCV,
    program=("start.c", "bare.c", "mapped.c", "port.c"),
    selftest=("start.c", "bare.c", "mapped.c", "stdio.c"),
    link=("-DTW_SHORT_LOOP",),
    runner=Verilated,
)
