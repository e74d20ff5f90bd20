"""What emitted folders claim holds in a user's own build: the stack that make stack tells, and who may call when."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest
import tiny
from needs import deep_but, need_tools
from row_nets import network
from test_project import QUICK, make

from twinfer.aot.build.project import write_all, write_project
from twinfer.aot.build.stack import stack_bound
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.target import GENERIC

#: make stack, by a Python that sees no package.
STACK = ("stack", "PYTHON=python3 -I")


def told(folder: Path, *words: str) -> dict[str, int]:
    """Bytes by function, as make stack prints them."""
    done = make(folder, *STACK, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: int(size) for name, size in re.findall(r"^(\w+): (\d+) bytes$", done.stdout, re.MULTILINE)}


BUILDS = ("-O2", "-Og", "-Os -flto", "-O3 -DTW_NO_ASM", "-O0")
CORES = ("cortex-m0", "cortex-m4", "cortex-m55")


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize(("core", "builds"), deep_but([(c, BUILDS) for c in CORES], ("cortex-m4", BUILDS[1:4])))
def test_make_stack_tells_what_the_header_would(core: str, builds: tuple[str, ...], tmp_path: Path) -> None:
    """One algorithm: the folder's sources one by one, or all in one, as for the header. Also of the parts of a run."""
    card, options = find(core), Options(memory="rows", input_rows=True)
    plan = make_plan(builtin()["digits_int8"](), card.target, options)
    write_project(plan, "m", tmp_path, card=card, stack_bytes=0)
    for build in builds:
        found = told(tmp_path, f"CFLAGS={build}")
        assert found.keys() == {"m_run", "m_begin", "m_push_row", "m_finish"}
        bound = stack_bound(emit(plan, "m"), card, build.split()).bytes
        assert bound is not None
        assert 0 <= bound - max(found.values()) <= 32, build  # gcc inlines otherwise where all is one file


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_make_stack_on_this_computer(compiler: str, tmp_path: Path) -> None:
    """Of a portable model, by any compiler: what a run writes below its caller is within the bound, and near it."""
    need_tools(compiler)
    write_project(make_plan(builtin()["digits_int8"](), GENERIC, Options(optimize="size")), "m", tmp_path)
    bound = told(tmp_path, f"CC={compiler}", "CFLAGS=-O2")["m_run"]
    (tmp_path / "main.c").write_text("""#include "m.h"
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
_Alignas(64) static unsigned char stack[1 << 16], arena[M_ARENA_BYTES];
static ucontext_t here, there;
static void run(void) { m_run(arena, NULL, NULL); }
int main(void) {
    size_t i = 0;
    memset(stack, 0x5A, sizeof stack);
    getcontext(&there);
    there.uc_stack.ss_sp = stack, there.uc_stack.ss_size = sizeof stack, there.uc_link = &here;
    makecontext(&there, run, 0);
    swapcontext(&here, &there);
    while (stack[i] == 0x5A) ++i;
    printf("%zu\\n", sizeof stack - i);
    return 0;
}
""")
    assert make(tmp_path, f"CC={compiler}", "CFLAGS=-O2", "build/libm.a").returncode == 0
    bind_now = [compiler, "-Wl,-z,now", "main.c", "build/libm.a", "-lm", "-o", "main"]  # what binds takes stack, too
    subprocess.run(bind_now, cwd=tmp_path, check=True)
    used = int(subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout)
    assert bound - 128 <= used <= bound + 64  # ours: the functions above m_run


def test_a_folder_of_several_tells_all(tmp_path: Path) -> None:
    """Every model has its stack; one whose frames nobody tells has none, and the exit status says so."""
    plans = {name: make_plan(tiny.MODELS[name]().graph, GENERIC, Options(mode="interpreted")) for name in tiny.MODELS}
    write_all([(name, plan, "") for name, plan in plans.items()], "all_of_them", tmp_path)
    assert {f"{name}_run" for name in plans} <= told(tmp_path, QUICK).keys()
    program = f"build/stack/{next(iter(plans))}"
    alone = ["python3", "-I", "stack.py", program, f"{next(iter(plans))}_run", "nothing"]
    done = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no bound: " in done.stdout
    assert "nothing: not in the image" in done.stdout
    done = subprocess.run([*alone[:3], "m.c", "x"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "stack.py: " in done.stderr, done.stdout) == (2, True, "")


def test_parts_of_a_run_in_a_folder_of_several(tmp_path: Path) -> None:
    """Whatever bytes the arena begins with: rows and ends without a begin, or in a bad arena, are refused."""
    options = [Options(memory="rows", input_rows=True, mode=mode) for mode in get_args(Mode)]
    for mode in options:
        plans = [(name, make_plan(network(3), GENERIC, mode), "") for name in "ab"]
        write_all(plans, "g", tmp_path / "c")
        calls = "".join(_refused(name) for name, _, _ in plans)
        (tmp_path / "c/main.c").write_text(f"""#include "g.h"
#include <stdio.h>
#include <string.h>
_Alignas(G_ARENA_ALIGN) static unsigned char arenas[2][G_ARENA_BYTES], row[1 << 16];
int main(void) {{
    unsigned char *const arena = arenas[1];
    memset(arenas, 0x5A, sizeof arenas);
{calls}    return 0;
}}
""")
        done = make(tmp_path / "c", QUICK, "all")
        assert done.returncode == 0, done.stdout + done.stderr
        subprocess.run(["cc", "main.c", "build/libg.a", "-lm", "-o", "main"], cwd=tmp_path / "c", check=True)
        said = subprocess.run([tmp_path / "c/main"], capture_output=True, text=True, check=True).stdout
        # The second model has not begun: the marks of the first, in the same arena, are not its own.
        assert said.splitlines() == ["-4 4 1 2 -1 -1 -2 1 2 0 3"] * 2
        (tmp_path / "c/main.c").unlink()
        (tmp_path / "c/main").unlink()


def _refused(name: str) -> str:
    """The C that prints what each wrong call of a model gives, then a begin and a finish too early."""
    calls = [
        "push_row(arena, row)", "finish(arena, NULL)", "begin(NULL)", "begin(arena + 4)", "push_row(NULL, row)",
        "push_row(arena, NULL)", "push_row(arena + 4, row)", "finish(NULL, NULL)", "finish(arena + 4, NULL)",
        "begin(arena)", "finish(arena, NULL)",
    ]  # fmt: skip
    return "".join(
        f'    printf("%d{end}", (int){name}_{call});\n'
        for call, end in zip(calls, [" "] * (len(calls) - 1) + ["\\n"], strict=True)
    )
