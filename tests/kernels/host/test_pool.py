"""The pool of threads under sanitizers: callers take turns, and every part is computed once and for its caller."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from twinfer.kernels_c import FOLDER

SOURCE = Path(__file__).with_name("pool.c")


def ran(sanitizer: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    program = folder / "pool"
    command = ["gcc", "-std=gnu11", "-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=undefined", *flags]
    subprocess.run([*command, f"-I{FOLDER}", str(SOURCE), "-o", str(program), "-lpthread", "-lm"], check=True)
    # ThreadSanitizer knows only the usual places of memory
    return subprocess.run(
        ["setarch", platform.machine(), "-R", str(program)], capture_output=True, text=True, timeout=1200, check=False
    )


@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("setarch")), reason="needs gcc and setarch")
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_callers_take_turns(sanitizer: str, tmp_path: Path) -> None:
    done = ran(sanitizer, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 wrong bytes\n", "")


@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("setarch")), reason="needs gcc and setarch")
def test_the_sanitizer_finds_a_race(tmp_path: Path) -> None:
    done = ran("thread", tmp_path, "-DPLANTED")
    assert done.returncode != 0
    assert "data race" in done.stderr
