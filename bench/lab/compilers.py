"""Do compilers translate emitted C rightly? ``python -m twinfer.bench.lab.compilers [--graphs N] [--seed S] …``.

Random graphs of operators that move data, which compilers have translated wrongly, are emitted with their self-tests,
compiled at every level by every gcc that is installed, and run: here, by qemu-user for other architectures, on a board
of QEMU's for a Cortex-M4. The self-test fills the arena with rubbish before every run, which shows calls that a
compiler has deleted: gcc 11 and 12 delete some where functions are open to their interprocedural analyses
(``TW_LAYER`` in ``kernels_c/core/tw.h``). A graph that gives wrong bits is saved as a .tflite file. A thousand
graphs take minutes per compiler, so this is not part of CI.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from twinfer.aot.build import boards
from twinfer.aot.build.runner import runner_of
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.aot.print.selftest import test_source, vectors
from twinfer.bench.fuzz.graphs import random_graph
from twinfer.bench.fuzz.model import Model
from twinfer.kernels_c.ffi_build import ARITHMETIC
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.target import GENERIC, HOST, Target
from twinfer.runtime.tools import write_files
from twinfer.runtime.write.tflite import write

LEVELS = ("-O1", "-O2", "-O3", "-Os")
FLAGS = (*ARITHMETIC, "-w")

#: Graphs per program: they share one copy of the kernels.
TOGETHER = 25

#: The most seconds that a program may run.
PATIENCE = 120


@dataclass(frozen=True, eq=False)
class Compiler:
    """A compiler's command, the command that runs its programs, the target of the graphs, and files that it needs."""

    command: tuple[str, ...]
    runner: tuple[str, ...] = ()
    target: Target = GENERIC
    support: Mapping[str, str] = field(default_factory=dict)

    def line(self, level: str, folder: Path) -> list[str]:
        """The command that compiles ``program.c`` in ``folder`` to ``program``."""
        sources = [str(folder / path) for path in ("program.c", "data.c", *self.support) if path.endswith(".c")]
        scripts = [f"-Wl,-T,{folder / path}" for path in self.support if path.endswith(".ld")]
        return [*self.command, *FLAGS, level, *scripts, *sources, "-o", str(folder / "program"), "-lm"]

    def __str__(self) -> str:
        return " ".join(self.command)


#: The operators of the graphs.
MOVERS = ("GATHER", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "CONCATENATION", "PAD", "TILE", "QUANTIZE", "MAXIMUM")


# -- programs ----------------------------------------------------------------------------------------------------------


def random_model(seed: int) -> Model:
    """The graph of that seed, with its inputs."""
    rng = np.random.default_rng(seed)
    return random_graph(rng, f"random_{seed}", [str(op) for op in rng.permutation(MOVERS)], Counter())


def program(seeds: Sequence[int], target: Target, mode: Mode) -> dict[str, str]:
    """The sources of one program that runs the self-tests of all graphs and prints a line for each."""
    files: dict[str, str] = {}
    lines = []
    for seed in seeds:
        model, name = random_model(seed), f"g{seed}"
        plan = make_plan(model.graph, target, Options(mode=mode))
        project = emit(plan, name)
        files |= project.files
        files[f"{name}_test.c"] = test_source(project, vectors(plan, model.runs[0]))
        parts = [f'#include "{name}{part}.c"' for part in ("", "_check", "_static", "_test")]
        lines += [f"#define main {name}_main", *parts, "#undef main"]
    calls = [f"    (void)g{seed}_main();" for seed in seeds]
    # Separate, as users compile them: a compiler that sees the values does other things.
    files["data.c"] = "".join(f'#include "g{seed}_data.c"\n' for seed in seeds)
    files["program.c"] = "\n".join([*lines, "int main(void) {", *calls, "    return 0;", "}", ""])
    return files


def sound(first: int, count: int) -> list[int]:
    """Seeds from ``first`` on whose graphs can be planned: a few need more loops than a kernel has."""
    seeds: list[int] = []
    for seed in range(first, first + count):
        with suppress(UnsupportedOperatorError):
            make_plan(random_model(seed).graph)
            seeds.append(seed)
    return seeds


def wrong(compiler: Compiler, level: str, files: dict[str, str], folder: Path) -> set[str]:
    """The graphs whose self-test fails; OSError or CalledProcessError if nothing can be run."""
    write_files(folder, {**files, **compiler.support})
    subprocess.run(compiler.line(level, folder), check=True, capture_output=True, text=True)
    run = [*compiler.runner, str(folder / "program")]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=PATIENCE, check=False)
    said = (ended.stdout + ended.stderr).splitlines()
    names = {path.removesuffix("_test.c") for path in files if path.endswith("_test.c")}
    return {name for name in names if f"{name}: ok" not in said}


# -- compilers ---------------------------------------------------------------------------------------------------------

_CROSS = {"aarch64-linux-gnu": "aarch64", "arm-linux-gnueabihf": "arm", "riscv64-linux-gnu": "riscv64"}
VERSIONS = ("11", "12", "13", "14")

#: The microcontroller whose compiler is also tried.
BOARD = "cortex-m4"


def installed(root: str = "") -> Iterator[Compiler]:
    """The gcc of every version and architecture in this system, or in the system in the folder ``root``, by chroot."""
    enter = ("chroot", root) if root else ()

    def there(name: str) -> bool:
        return Path(f"{root}/usr/bin/{name}").exists()

    for version in VERSIONS:
        if there(f"gcc-{version}"):
            yield Compiler((*enter, f"gcc-{version}", "-march=native"), target=HOST)
            yield Compiler((*enter, f"gcc-{version}"))
        for triplet, runner in _CROSS.items():
            if there(f"{triplet}-gcc-{version}"):
                yield Compiler((*enter, f"{triplet}-gcc-{version}", "-static"), (f"qemu-{runner}",))
    card = find(BOARD)
    if there(card.compiler):
        command = (*enter, card.compiler, *card.flags, "-nostartfiles")
        yield Compiler(command, runner_of(card).command, card.target, boards.sources(card))


@dataclass(frozen=True)
class Score:
    """The result of one compiler at one level: the number of graphs, those with wrong bits, and why none could run."""

    compiler: Compiler
    level: str
    graphs: int = 0
    wrong: frozenset[str] = frozenset()
    failure: str = ""


def judge(compiler: Compiler, level: str, programs: Sequence[dict[str, str]], work: Path | None) -> Score:
    """Compiles and runs all programs in folders below ``work`` (None: where temporary files go)."""
    names, failed = set[str](), set[str]()
    for files in programs:
        with tempfile.TemporaryDirectory(dir=work) as folder:
            try:
                failed |= wrong(compiler, level, files, Path(folder))
            except (OSError, subprocess.SubprocessError) as error:
                return Score(compiler, level, failure=str(getattr(error, "stderr", "") or error))
        names |= {path for path in files if path.endswith("_test.c")}
    return Score(compiler, level, len(names), frozenset(failed))


def table(scores: Sequence[Score]) -> Table:
    """Graphs with wrong bits, by compiler and level."""
    shown = Table("compiler", *LEVELS, "graphs", title="Graphs whose self-test fails")
    for compiler in dict.fromkeys(score.compiler for score in scores):
        row = {score.level: score for score in scores if score.compiler is compiler}
        cells = [row[level].failure[-60:] or str(len(row[level].wrong)) for level in LEVELS if level in row]
        shown.add_row(str(compiler), *cells, str(max(score.graphs for score in row.values())))
    return shown


def save(names: Sequence[str], folder: Path) -> None:
    """Saves the graphs as .tflite files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.tflite").write_bytes(write(random_model(int(name.removeprefix("g"))).graph))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m twinfer.bench.lab.compilers", description=__doc__)
    parser.add_argument("--graphs", type=int, default=100, metavar="N", help="number per compiler; each gets others")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the first graph")
    parser.add_argument("--mode", choices=get_args(Mode), default="compiled")
    parser.add_argument("--root", action="append", default=[], metavar="DIR", help="folder of a system, for chroot")
    parser.add_argument("--only", default="", metavar="TEXT", help="only compilers with this in their command")
    parser.add_argument("--flags", default="", metavar="FLAGS", help="more flags for every compiler: --flags=-flto")
    parser.add_argument("--work", type=Path, default=None, metavar="DIR", help="a folder that all systems share")
    parser.add_argument("-o", dest="output", type=Path, default=Path("build/wrong"), metavar="DIR")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a graph gave wrong bits or a compiler could not be run, else 0."""
    options = _options(arguments)
    asked = [c for root in ("", *options.root) for c in installed(root) if options.only in str(c)]
    compilers = [replace(c, command=(*c.command, *options.flags.split())) for c in asked]
    console, scores = Console(), list[Score]()
    for i in track(range(len(compilers)), "compile and run", console=Console(stderr=True)):
        seeds = sound(options.seed + i * options.graphs, options.graphs)
        groups = [seeds[at : at + TOGETHER] for at in range(0, len(seeds), TOGETHER)]
        programs = [program(group, compilers[i].target, options.mode) for group in groups]
        scores += [judge(compilers[i], level, programs, options.work) for level in LEVELS]
    console.print(table(scores))
    failed = sorted(set().union(*(score.wrong for score in scores)))
    if failed:
        save(failed, options.output)
    return int(bool(failed) or any(score.failure for score in scores))


if __name__ == "__main__":
    sys.exit(main())
