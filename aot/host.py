"""Emitted C built for this machine, loaded, and run as an engine beside the interpreter's.

A library holds any number of models. It is cached in the user's cache folder under the hash of everything that it was
made from: sources, flags, the compiler's version and the CPU.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from twinfer.aot.data import Constant
from twinfer.aot.emit import Mode, Project, emit
from twinfer.aot.layers import Policy
from twinfer.kernels_c import ffi, lib
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan import Plan
from twinfer.runtime.session import Session

FLAGS = ("-std=c11", "-O3", "-march=native", "-ffp-contract=off", "-fno-trapping-math", "-shared", "-fPIC")

#: Longest that one run of the compiler may take, in seconds.
PATIENCE = 1800


class CompiledSession(Session):
    """The compiled engine: a model's own functions out of a library that ``build`` made."""

    def __init__(self, plan: Plan, name: str, library: ctypes.CDLL) -> None:
        self._library, self._name = library, name
        self._indices = ffi.new("int32_t[]", list(range(len(plan.steps))))
        super().__init__(plan)
        self._given = ffi.new("void *[]", [self._input(tensor) for tensor in plan.graph.inputs])
        self._whole = ffi.new("tw_call *")
        self._enter(self._whole, f"{name}_whole", ffi.NULL)
        setattr(self._whole, "in", ffi.cast("const void *const *", self._given))

    def _fill_step(self, slot: Any, i: int) -> None:
        self._enter(slot, f"{self._name}_step", ffi.addressof(self._indices, i))

    def _enter(self, slot: Any, symbol: str, params: Any) -> None:
        address = ctypes.cast(getattr(self._library, symbol), ctypes.c_void_p).value or 0
        slot.fn, slot.params, slot.scratch = ffi.cast("tw_fn *", address), params, self._base

    def _input(self, tensor: Tensor) -> Any:
        return self._pointer(self._inputs[tensor]) if tensor in self._inputs else ffi.NULL

    def run(self) -> None:
        """One inference in one C call; outputs stay in the arena."""
        lib.tw_run(self._whole, 1)


def compile_plans(
    plans: Mapping[str, Plan],
    *,
    compiler: str | None = None,
    flags: Iterable[str] = FLAGS,
    mode: Mode = "compiled",
    policy: Policy | None = None,
) -> dict[str, CompiledSession]:
    """Emit and build the plans into one library with one run of the compiler; one engine each, by name.

    ``compiler`` is a command; None takes the environment's CC, else the first of gcc, clang and cc. ToolError if there
    is none or it fails.
    """
    projects = [emit(plan, name, mode=mode, policy=policy) for name, plan in plans.items()]
    library = ctypes.CDLL(str(build(projects, find_compiler(compiler), tuple(flags))))
    return {name: CompiledSession(plan, name, library) for name, plan in plans.items()}


def find_compiler(command: str | None = None) -> tuple[str, ...]:
    """The C compiler's command line as words; ToolError if it is not installed."""
    wanted = command or os.environ.get("CC")
    for candidate in [wanted] if wanted else ["gcc", "clang", "cc"]:
        words = shlex.split(candidate)
        if words and shutil.which(words[0]):
            return tuple(words)
    raise ToolError(f"no C compiler found ({wanted or 'gcc, clang, cc'}): install gcc or clang, or set CC to one")


def build(projects: Iterable[Project], compiler: tuple[str, ...], flags: tuple[str, ...]) -> Path:
    """The shared library of the projects, from the cache if it is there; ToolError with the compiler's message."""
    sources = library_sources(tuple(projects))
    key = _key(sources, compiler, flags)
    folder = cache_folder()
    library = folder / f"{key}.so"
    if library.exists():
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as work:
            write_files(Path(work), sources)
            command = [*compiler, *flags, "library.c", "library_data.c", "-o", "library.so", "-lm"]
            run_tool(command, Path(work))
            os.replace(Path(work) / "library.so", library)
    except OSError as error:
        raise ToolError(f"cannot build in the cache folder {folder}: {error}; set XDG_CACHE_HOME to another") from error
    return library


def library_sources(projects: Sequence[Project]) -> dict[str, str | bytes]:
    """The projects' code, a file that includes it and adds entries for the engine, and the constants as they are.

    Constants are taken from a binary file: as C text they would be most of the compile time (2.7 s a megabyte).
    """
    files: dict[str, str | bytes] = {}
    code, data, blob = [], ["typedef int never_empty;"], bytearray()
    for project in projects:
        files.update({path: text for path, text in project.code.items() if not path.endswith("_static.c")})
        code += [f'#include "{project.name}.c"', _entries(project)]
        for constant in project.constants.all:
            data.append(_placed(constant, project.alignment, len(blob)))
            blob += constant.array.tobytes()
    return {
        **files,
        "library.c": "\n".join(code),
        "library_data.c": "\n".join(data) + "\n",
        "constants.bin": bytes(blob),
    }


def _placed(constant: Constant, alignment: int, at: int) -> str:
    """A constant's definition: its bytes in constants.bin."""
    symbol, size, alignment = constant.symbol, constant.array.nbytes, max(alignment, constant.array.itemsize)
    return (
        f'__asm__(".pushsection .rodata\\n.balign {alignment}\\n.globl {symbol}\\n.hidden {symbol}\\n"\n'
        f'        "{symbol}: .incbin \\"constants.bin\\", {at}, {size}\\n.popsection");'
    )


def _entries(project: Project) -> str:
    """Two functions of the kernels' own signature: the whole model, and the step whose number params points to."""
    name = project.name
    signature = "(const void *params, const void *const *in, void *const *out, void *scratch)"
    return f"""{project.wrappers}
void {name}_whole{signature};
void {name}_whole{signature} {{
    (void)params;
    (void){name}_run(scratch, in, out);
}}

void {name}_step{signature};
void {name}_step{signature} {{
    static void (*const layers[])(unsigned char *) = {{{", ".join((*project.layers, "NULL"))}}};
    (void)in;
    (void)out;
    layers[*(const int32_t *)params]((unsigned char *)scratch);
}}
"""


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/twinfer``, or ``~/.cache/twinfer``."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "twinfer"


def _key(sources: Mapping[str, str | bytes], compiler: tuple[str, ...], flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256(repr((compiler, flags, compiler_version(compiler), _cpu())).encode())
    for path, content in sorted(sources.items()):
        data = content.encode() if isinstance(content, str) else content
        digest.update(f"{path} {len(data)} ".encode() + data)
    return digest.hexdigest()[:40]


@cache
def compiler_version(compiler: tuple[str, ...]) -> str:
    """What the compiler says of itself; another one must not find this one's libraries."""
    return run_tool([*compiler, "--version"])


@cache
def _cpu() -> str:
    """The CPU's name and features, on which -march=native depends."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        lines = [platform.processor()]
    told = [line for line in lines if line.split("\t")[0] in ("model name", "flags", "Features")]
    return "\n".join([platform.machine(), *told])


def write_files(folder: Path, files: Mapping[str, str] | Mapping[str, str | bytes]) -> None:
    """Write ``files`` below ``folder``."""
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)


def run_tool(command: list[str], folder: Path | None = None, patience: float = PATIENCE) -> str:
    """Run a program and return what it printed; ToolError with its messages if it fails, is missing or hangs."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=patience, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{shlex.join(command)}: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise ToolError(f"{shlex.join(command)} failed with status {done.returncode}:\n{said[:4000]}")
    return done.stdout
