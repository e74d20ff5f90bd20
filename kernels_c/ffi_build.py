"""Finds every kernel in the headers beside this file and binds them all through cffi; no list to edit.

A header declares its params struct and bodies with ``TW_KERNEL(name)``. On x86-64 with gcc the kernels are compiled
once per instruction-set level (baseline, AVX2, AVX512-VNNI) from the same source; ``tw_level()`` says which ones the
CPU can run. All levels give the same bits (tests/test_levels.py).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from cffi import FFI

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
GENERATED = ROOT / "build" / "kernels"
FLAGS = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-trapping-math", "-Wall", "-Wextra", "-Wconversion"]

#: Level names, in rising order, and the gcc target that each is compiled for.
LEVELS = {
    "base": None,
    "v3": "avx,avx2,fma,bmi,bmi2",
    "v4": "avx,avx2,fma,bmi,bmi2,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vnni",
}

STRUCT = re.compile(r"typedef\s+(?:struct\s*\{[^{}]*\}|\w+)\s+\w+_params\s*;")
KERNEL = re.compile(r"^TW_KERNEL\((\w+)\)", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
MACRO = re.compile(r"^#define\s+(TW_MAX_\w+)\s+(\d+)\s*$", re.MULTILINE)

COMMON = """
typedef void tw_fn(const void *params, const void *const *in, void *const *out, void *scratch);
typedef struct { tw_fn *fn; const void *params; const void *const *in; void *const *out; void *scratch; } tw_call;
void tw_run(const tw_call *calls, int count);
void tw_profile(const tw_call *calls, int count, int64_t *ns);
int tw_level(void);
tw_fn *tw_kernel(int level, int index);
"""


def headers() -> list[Path]:
    """Kernel headers in name order, without the helpers that declare no kernel."""
    return [path for path in sorted(FOLDER.rglob("*.h")) if KERNEL.search(path.read_text())]


def kernels(path: Path) -> list[str]:
    """Names of the kernels that header ``path`` defines."""
    return KERNEL.findall(path.read_text())


def structs(path: Path) -> list[str]:
    """The params structs of header ``path``, as C declarations with array sizes resolved."""
    text = COMMENT.sub("", path.read_text())
    sizes = dict(MACRO.findall("".join(p.read_text() for p in sorted(FOLDER.rglob("*.h")))))
    return [re.sub(r"\bTW_MAX_\w+", lambda m: sizes.get(m[0], m[0]), found) for found in STRUCT.findall(text)]


def kernel_index() -> list[str]:
    """Every kernel, in the order of the tables in the extension."""
    return [name for path in headers() for name in kernels(path)]


def level_source(level: str) -> str:
    """One C file that instantiates every kernel for one instruction-set level."""
    target = LEVELS[level]
    lines = [f"/* Made by kernels_c/ffi_build.py: every kernel for level {level}. */"]
    if target:
        lines += ["#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)"]
        lines += [f'#pragma GCC target("{target}")']
    lines += [f'#include "{path.relative_to(FOLDER)}"' for path in headers()]
    lines += [f"TW_SHARED({name}, {name}_{level})" for name in kernel_index()]
    rows = ", ".join(f"{name}_{level}" for name in kernel_index())
    lines += [f"extern tw_fn *const tw_table_{level}[];", f"tw_fn *const tw_table_{level}[] = {{{rows}}};"]
    if target:
        lines += ["#else", "typedef int tw_level_not_built;", "#endif"]
    return "\n".join(lines) + "\n"


MAIN = """
#include <time.h>
#include "core/tw.h"
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TW_LEVELS 1
#endif
extern tw_fn *const tw_table_base[];
#ifdef TW_LEVELS
extern tw_fn *const tw_table_v3[];
extern tw_fn *const tw_table_v4[];
#endif

/* The highest level this CPU runs: 0 base, 1 v3, 2 v4. */
static int tw_level(void) {
#ifdef TW_LEVELS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return 1;
#endif
    return 0;
}

static tw_fn *tw_kernel(int level, int index) {
#ifdef TW_LEVELS
    if (level == 2) return tw_table_v4[index];
    if (level == 1) return tw_table_v3[index];
#endif
    (void)level;
    return tw_table_base[index];
}

static void tw_run(const tw_call *calls, int count) {
    for (int i = 0; i < count; ++i) calls[i].fn(calls[i].params, calls[i].in, calls[i].out, calls[i].scratch);
}

static int64_t tw_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* One run in which ns[i] falls to the time that call i takes, one reading of the clock included, if that is less. */
static void tw_profile(const tw_call *calls, int count, int64_t *ns) {
    for (int i = 0; i < count; ++i) {
        const int64_t start = tw_now();
        tw_run(calls + i, 1);
        const int64_t took = tw_now() - start;
        if (took < ns[i]) ns[i] = took;
    }
}
"""


def write_sources() -> list[str]:
    """Write the level files (only what changed, so that builds are incremental); their paths relative to the root."""
    GENERATED.mkdir(parents=True, exist_ok=True)
    paths = []
    for level in LEVELS:
        path = GENERATED / f"kernels_{level}.c"
        text = level_source(level)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        paths.append(os.path.relpath(path, ROOT))
    return paths


def make() -> FFI:
    ffi = FFI()
    ffi.cdef(COMMON + "\n".join(struct for path in headers() for struct in structs(path)))
    includes = "".join(f'#include "{path.relative_to(FOLDER)}"\n' for path in headers())
    names = ", ".join(f'"{name}"' for name in kernel_index())
    ffi.cdef("extern const char *const tw_names[];\nextern const int tw_count;")
    tables = f"const char *const tw_names[] = {{{names}}};\nconst int tw_count = {len(kernel_index())};\n"
    ffi.set_source(
        "twinfer.kernels_c._ffi",
        MAIN + includes + tables,
        sources=write_sources(),
        depends=[os.path.relpath(path, ROOT) for path in sorted(FOLDER.rglob("*.h"))],
        include_dirs=["kernels_c"],
        extra_compile_args=FLAGS,
        libraries=["m"],
        py_limited_api=True,
    )
    return ffi


ffibuilder = make()
