"""Do compilers translate what is emitted rightly? ``python -m twinfer.bench.compilers [--graphs N] [--seed S] …``.

Random graphs, most of operators that move data, are emitted with their self-tests, compiled at every level by every
compiler that is installed, and run: here, by qemu-user for other architectures, by semihosting for a Cortex-M4. The
self-test fills the arena with rubbish before every run, so a call that a compiler has deleted shows, as gcc 11 and 12
do where functions are open to its interprocedural analyses (``TW_NOINLINE`` in ``kernels_c/tw.h``). A graph that gives
wrong bits is saved as a .tflite file. It takes hours for thousands of graphs, and is not part of CI.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from twinfer.aot.emit import Mode, emit
from twinfer.aot.selftest import test_source, vectors
from twinfer.aot.targets import find
from twinfer.converter.build import Builder
from twinfer.converter.write import write
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.plan import make_plan, random_inputs
from twinfer.runtime.target import GENERIC, HOST, Target

Rng = np.random.Generator
LEVELS = ("-O1", "-O2", "-O3", "-Os")
FLAGS = ("-std=c11", "-ffp-contract=off", "-fno-trapping-math", "-w")

#: Graphs that are compiled together: one file with the kernels once.
TOGETHER = 25

#: Seconds that a program may run.
PATIENCE = 120


@dataclass(frozen=True)
class Compiler:
    """A compiler's command, what runs its programs, and the target that graphs are planned for."""

    command: tuple[str, ...]
    runner: tuple[str, ...] = ()
    target: Target = GENERIC

    def __str__(self) -> str:
        return " ".join(self.command)


# -- graphs ------------------------------------------------------------------------------------------------------------


def _input(b: Builder, rng: Rng, rank: int = 4) -> Tensor:
    limit = 24 if rank < 4 else 9
    shape = (1, *(int(n) for n in rng.integers(1, limit, rank - 1)))
    kind = str(rng.choice(["INT8", "INT8", "FLOAT32", "INT16"]))
    return b.input(f"x{len(b.inputs)}", kind, shape, *(() if kind == "FLOAT32" else (0.05, 0)))


def _moved(b: Builder, op: str, x: Tensor, more: Sequence[Any], shape: Sequence[int], **options: Any) -> Tensor:
    """``op`` over ``more``, with the type and quantisation of ``x``."""
    operands = [a if isinstance(a, Tensor) else np.asarray(a, np.int32) for a in more]
    return b.op(op, operands, shape=tuple(map(int, shape)), type=x.type, **_same(x), **options)


def _same(x: Tensor) -> dict[str, Any]:
    return {} if x.quant is None else {"scale": x.scale, "zero": x.zero}


def _gather(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    axis = int(rng.integers(1, len(x.shape)))
    picked = rng.integers(0, x.shape[axis], int(rng.integers(1, 9)))
    shape = [*x.shape[:axis], len(picked), *x.shape[axis + 1 :]]
    return _moved(b, "GATHER", x, [x, picked], shape, axis=axis, batch_dims=0)


def _transpose(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    order = rng.permutation(len(x.shape))
    return _moved(b, "TRANSPOSE", x, [x, order], [x.shape[i] for i in order])


def _slice(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    begin = [int(rng.integers(0, n)) for n in x.shape]
    size = [int(rng.integers(1, n - at + 1)) for n, at in zip(x.shape, begin, strict=True)]
    return _moved(b, "SLICE", x, [x, begin, size], size)


def _strided_slice(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    begin = [int(rng.integers(0, n)) for n in x.shape]
    step = [int(rng.integers(1, 4)) for _ in x.shape]
    shape = [-(-(n - at) // by) for n, at, by in zip(x.shape, begin, step, strict=True)]
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    return _moved(b, "STRIDED_SLICE", x, [x, begin, x.shape, step], shape, **masks)


def _concatenation(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    axis = int(rng.integers(1, len(x.shape)))
    parts = [x, *(b.op("RELU", [x], **_same(x)) for _ in range(int(rng.integers(1, 3))))]
    shape = [*x.shape[:axis], len(parts) * x.shape[axis], *x.shape[axis + 1 :]]
    return _moved(b, "CONCATENATION", x, parts, shape, axis=axis, fused_activation_function="NONE")


def _pad(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    pads = rng.integers(0, 3, (len(x.shape), 2))
    return _moved(b, "PAD", x, [x, pads], [n + int(sum(p)) for n, p in zip(x.shape, pads, strict=True)])


def _tile(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    times = rng.integers(1, 3, len(x.shape))
    return _moved(b, "TILE", x, [x, times], [n * int(t) for n, t in zip(x.shape, times, strict=True)])


def _quantize(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    if x.quant is None:
        return b.op("QUANTIZE", [x], type="INT8", scale=0.1, zero=int(rng.integers(-9, 9)))
    return b.op("DEQUANTIZE", [x], type="FLOAT32")


def _maximum(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    return b.op("MAXIMUM", [x, b.op("RELU", [x], **_same(x))], **_same(x))


LAYERS: tuple[Callable[[Builder, Tensor, Rng], Tensor], ...] = (
    _gather, _gather, _transpose, _slice, _strided_slice, _concatenation, _pad, _tile, _quantize, _maximum,
)  # fmt: skip

#: Elements of a tensor beyond which no layer is put on top.
LARGE = 2_000


def graph(seed: int) -> Graph:
    """One to four layers on a random input; the last value is the output."""
    rng = np.random.default_rng(seed)
    b = Builder(f"random_{seed}")
    x = _input(b, rng, int(rng.integers(2, 5)))
    for _ in range(int(rng.integers(1, 5))):
        if x.size <= LARGE:
            x = LAYERS[int(rng.integers(len(LAYERS)))](b, x, rng)
    return b.graph([x])


# -- programs ----------------------------------------------------------------------------------------------------------


def program(seeds: Sequence[int], target: Target, mode: Mode) -> dict[str, str]:
    """The sources of one program that runs the self-tests of all graphs and prints a line for each."""
    files: dict[str, str] = {}
    lines = []
    for seed in seeds:
        plan, name = make_plan(graph(seed), target), f"g{seed}"
        project = emit(plan, name, mode=mode)
        files |= project.files
        files[f"{name}_test.c"] = test_source(project, vectors(plan, random_inputs(plan.graph, seed)))
        parts = [f'#include "{name}{part}.c"' for part in ("", "_data", "_static", "_test")]
        lines += [f"#define main {name}_main", *parts, "#undef main"]
    calls = [f"    (void)g{seed}_main();" for seed in seeds]
    files["program.c"] = "\n".join([*lines, "int main(void) {", *calls, "    return 0;", "}", ""])
    return files


def wrong(compiler: Compiler, level: str, files: dict[str, str], folder: Path) -> set[str]:
    """The graphs whose self-test does not say that it is ok; OSError or CalledProcessError if nothing can be run."""
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    command = [*compiler.command, *FLAGS, level, str(folder / "program.c"), "-o", str(folder / "program"), "-lm"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    run = [*compiler.runner, str(folder / "program")]
    said = subprocess.run(run, capture_output=True, text=True, timeout=PATIENCE, check=False).stdout.splitlines()
    names = {path.removesuffix("_test.c") for path in files if path.endswith("_test.c")}
    return {name for name in names if f"{name}: ok" not in said}


# -- compilers ---------------------------------------------------------------------------------------------------------

_M4 = ("-mcpu=cortex-m4", "-mthumb", "--specs=rdimon.specs")
_CROSS = {"aarch64-linux-gnu": "aarch64", "arm-linux-gnueabihf": "arm", "riscv64-linux-gnu": "riscv64"}
VERSIONS = ("11", "12", "13", "14")


def installed(root: str = "") -> Iterator[Compiler]:
    """The gcc of every version and architecture in this system, or in the one below ``root``, entered by chroot."""
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
    if there("arm-none-eabi-gcc"):
        command = (*enter, "arm-none-eabi-gcc", *_M4)
        yield Compiler(command, ("qemu-arm", "-cpu", "cortex-m4"), find("cortex-m4").target)


@dataclass(frozen=True)
class Score:
    """Of one compiler at one level: how many graphs it was given, which gave wrong bits, and why none could run."""

    compiler: Compiler
    level: str
    graphs: int = 0
    wrong: frozenset[str] = frozenset()
    failure: str = ""


def judge(compiler: Compiler, level: str, programs: Sequence[dict[str, str]], work: Path | None) -> Score:
    """Compile and run all programs in folders below ``work`` (None: where temporary files are)."""
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
    """Graphs of wrong bits by compiler and level."""
    shown = Table("compiler", *LEVELS, "graphs", title="Graphs whose self-test fails")
    for compiler in dict.fromkeys(score.compiler for score in scores):
        row = {score.level: score for score in scores if score.compiler is compiler}
        cells = [row[level].failure[-60:] or str(len(row[level].wrong)) for level in LEVELS if level in row]
        shown.add_row(str(compiler), *cells, str(max(score.graphs for score in row.values())))
    return shown


def save(names: Sequence[str], folder: Path) -> None:
    """The graphs as .tflite files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.tflite").write_bytes(write(graph(int(name.removeprefix("g")))))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m twinfer.bench.compilers", description=__doc__)
    parser.add_argument("--graphs", type=int, default=100, metavar="N", help="for each compiler, others for each")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the first graph")
    parser.add_argument("--mode", choices=get_args(Mode), default="compiled")
    parser.add_argument("--root", action="append", default=[], metavar="DIR", help="another system, entered by chroot")
    parser.add_argument("--only", default="", metavar="TEXT", help="compilers whose command holds this")
    parser.add_argument("--work", type=Path, default=None, metavar="DIR", help="a folder that all systems share")
    parser.add_argument("-o", dest="output", type=Path, default=Path("wrong"), metavar="DIR", help="for wrong graphs")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a graph gave wrong bits or a compiler could not be run, else 0."""
    options = _options(arguments)
    compilers = [c for root in ("", *options.root) for c in installed(root) if options.only in str(c)]
    console, scores = Console(), list[Score]()
    for i in track(range(len(compilers)), "compile and run", console=Console(stderr=True)):
        seeds = range(options.seed + i * options.graphs, options.seed + (i + 1) * options.graphs)
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
