"""Emitted C, built and loaded on this machine and run as an engine beside the interpreter's.

A library holds any number of models. The user's cache folder keeps it under the hash of its sources, flags, compiler's
version and CPU.
"""

from __future__ import annotations

import _ctypes
import ctypes
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any
from weakref import finalize

from twinfer.aot.build.library import library_sources
from twinfer.aot.build.toolchain import INCLUDED, INCLUDED_ELSEWHERE
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.emit import Project, emit
from twinfer.aot.print.feed import Feeding
from twinfer.aot.print.slow import slow_memory
from twinfer.aot.print.threads import DECLARED
from twinfer.kernels_c import BUILT, ffi, lib
from twinfer.kernels_c.ffi_build import ARITHMETIC
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.choice import Policy
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Chain
from twinfer.runtime.run import limits
from twinfer.runtime.run.feed import RowFeed
from twinfer.runtime.run.session import Session
from twinfer.runtime.tools import built, compiler_version, cpu, find_compiler


def flags_at(level: str) -> tuple[str, ...]:
    """The compiler's flags for a library at a level of optimisation, such as -O3."""
    return (*ARITHMETIC, level, "-march=native", "-shared", "-fPIC")


FLAGS = flags_at("-O3")


class CompiledSession(Session):
    """The compiled engine: a model's own functions in a library from ``build``."""

    def __init__(self, plan: Plan, name: str, library: ctypes.CDLL) -> None:
        self.library, self._name = library, name
        self._indices = ffi.new("int32_t[]", list(range(len(plan.steps))))
        super().__init__(plan, threads=1)
        if plan.options.threads > 1:
            ctypes.c_void_p.in_dll(library, f"{name}_pool_run").value = _address(ffi.addressof(lib, "tw_pool_run"))
            ctypes.c_void_p.in_dll(library, f"{name}_pool").value = _address(_pool(plan.options.threads))
        self._short, self._steady = self._straight, plan.steady
        self._given = ffi.new(
            "void *[]", [self._memory(self._inputs[t]) if t in self._inputs else ffi.NULL for t in plan.graph.inputs]
        )
        self._whole = ffi.new("tw_call *")
        self._enter(self._whole, f"{name}_whole", ffi.NULL)
        setattr(self._whole, "in", ffi.cast("const void *const *", self._given))

    def _fill_feed(self, slot: Any, chain: Chain) -> None:
        self._enter(slot, f"{self._name}_load", ffi.NULL)
        base, regions = int(ffi.cast("uintptr_t", self._base)), Memory(self.plan).blocks
        blocks = {region: ctypes.c_void_p(base + self.plan.regions[region].offset) for region in regions}
        rows = blocks[self.plan.region_of(chain)]
        first, push, finish = (self.library[f"{self._name}_{what}"] for what in ("begin", "push_row", "finish"))

        def begin() -> None:
            self._long_call.wait()
            first(rows)

        self.feed_rows = RowFeed(
            self.plan,
            begin,
            lambda row: int(push(rows, ctypes.c_void_p(int(ffi.cast("uintptr_t", row))))),
            lambda: self._in_c(lambda: finish(*blocks.values(), None)),
        )

    def _slots(self, i: int) -> int:
        return 1

    def _fill_step(self, slots: Any, i: int) -> None:
        self._enter(slots[0], f"{self._name}_step", ffi.addressof(self._indices, i))

    def _enter(self, slot: Any, symbol: str, params: Any) -> None:
        address = ctypes.cast(self.library[symbol], ctypes.c_void_p).value or 0
        slot.fn, slot.params, slot.scratch = ffi.cast("tw_fn *", address), params, self._base

    def run(self) -> None:
        """One inference in one C call; outputs stay in the arena."""
        if self._short:
            lib.tw_run(self._whole, 1)
        else:
            self._in_c(lambda: lib.tw_run(self._whole, 1))

    @property
    def run_calls(self) -> int:
        return 1

    def fill_run(self, slots: Any, given: Mapping[Tensor, Any]) -> object:
        ffi.memmove(slots, self._whole, ffi.sizeof("tw_call"))
        keep = ffi.new("void *[]", [given.get(tensor, ffi.NULL) for tensor in self.plan.graph.inputs])
        setattr(slots[0], "in", ffi.cast("const void *const *", keep))
        return keep

    def _in_c(self, call: Callable[[], object]) -> None:
        """Make a call that may take long: of a large model, or of one that loops; where the first is short, all are."""
        if self._short:
            call()
        else:
            begun = monotonic()
            self._long_call.call(self, call)
            self._short = self._steady and monotonic() - begun < limits.SHORT


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


@cache
def _pool(threads: int) -> Any:
    """The threads of all compiled engines that want so many, which wait for work until the process ends."""
    return lib.tw_pool_new(threads - 1)


def compile_plans(
    plans: Mapping[str, Plan],
    *,
    compiler: str | None = None,
    flags: Iterable[str] = FLAGS,
    policy: Policy | None = None,
    exported: bool = False,
) -> dict[str, CompiledSession]:
    """Emit the plans and build them into one library with one run of the compiler; returns an engine per plan, by name.

    With ``exported`` an engine's ``library`` says where its shared kernels are. ``compiler`` is a command; None takes
    the environment's CC, else the first of gcc, clang and cc. ToolError if none is installed or it fails.
    """
    if not BUILT:
        raise ToolError("compiled models are run by twinfer's C kernels, which are not built here: use Interpreter")
    projects = [emit(plan, name, policy=policy) for name, plan in plans.items()]
    library = loaded(build(projects, find_compiler(compiler), tuple(flags), exported))
    return {name: CompiledSession(plan, name, library) for name, plan in plans.items()}


def loaded(path: Path) -> ctypes.CDLL:
    """A library, which is closed when nothing refers to it any more; ToolError if it cannot be loaded.

    Ask it for functions by ``library[name]``: one that is an attribute refers to it and is referred to by it.
    """
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        why = "set XDG_CACHE_HOME to a folder from which programs may run, if it is that"
        raise ToolError(f"the compiled library cannot be loaded: {error}; {why}") from None
    close = getattr(_ctypes, "FreeLibrary" if sys.platform == "win32" else "dlclose")
    finalize(library, close, library._handle).atexit = False
    return library


def build(
    projects: Iterable[Project], compiler: tuple[str, ...], flags: tuple[str, ...], exported: bool = False
) -> Path:
    """The shared library of the projects, from the cache if there; ToolError with the compiler's message."""
    command = (*compiler, *flags, "library.c", "library_data.c", "-o", "library.so", "-lm")
    included = INCLUDED_ELSEWHERE.get(sys.platform, INCLUDED)
    sources = library_sources(tuple(projects), exported_kernels if exported else entries, included)
    return built(sources, command, "library.so", compiler_version(compiler) + cpu())


def entries(project: Project) -> str:
    """Two functions with the kernels' signature: the whole model, and the step whose number params points to."""
    name, memory, plan = project.name, Memory(project.plan), project.plan
    signature = "(const void *params, const void *const *in, void *const *out, void *scratch)"
    return f"""{slow_memory(name) if project.constants.paged else ""}{project.wrappers}
{_parallel(name) if plan.options.threads > 1 else ""}
{_load(Feeding(plan, name), signature) if plan.fed else ""}
void {name}_whole{signature};
void {name}_whole{signature} {{
    unsigned char *const base = (unsigned char *)scratch;
    (void)params;
    (void){name}_run({memory.side_by_side("base", f"{name}_weights", (*memory.blocks, *memory.weights))}, in, out);
}}

void {name}_step{signature};
void {name}_step{signature} {{
    static void (*const layers[])({memory.parameters}) = {{{", ".join((*project.layers, "NULL"))}}};
    unsigned char *const base = (unsigned char *)scratch;
    (void)in;
    (void)out;
    layers[*(const int32_t *)params]({memory.side_by_side("base", f"{name}_weights")});
}}
"""


def _parallel(name: str) -> str:
    """The function that runs parts of layers, by a pool of whoever has loaded the library."""
    return f"""void (*{name}_pool_run)(void *pool, int32_t parts, void (*work)(void *, int32_t), void *context);
void *{name}_pool;
{DECLARED.replace("NAME", name).removesuffix(";")} {{
    {name}_pool_run({name}_pool, parts, work, context);
}}
"""


def exported_kernels(project: Project) -> str:
    """``entries``, and for each kernel that layers share a pointer to its code: ``<name>_at_<kernel>``."""
    name = project.name
    symbols = [(f"{name}_at_{kernel}", f"{name}_{kernel}") for kernel in project.instances]
    pointers = [f"extern tw_fn *const {at};\ntw_fn *const {at} = {kernel};" for at, kernel in symbols]
    return "\n".join([entries(project), *pointers, ""])


def _load(feeding: Feeding, signature: str) -> str:
    """A function that gives all rows of the input."""
    address = Memory(feeding.plan).side_by_side("(unsigned char *)scratch", "", [feeding.region])
    return f"""void {feeding.name}_load{signature};
void {feeding.name}_load{signature} {{
    unsigned char *const {feeding.base} = {address};
    (void)params;
    (void)out;
    {feeding.everything("in[0]")};
}}
"""
