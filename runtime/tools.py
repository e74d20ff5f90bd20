"""Runs compilers and other programs, and keeps their products in the user's cache folder."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from twinfer.runtime import cache
from twinfer.runtime.errors import ToolError

#: Path in a folder -> content.
Files = Mapping[str, str] | Mapping[str, str | bytes]

#: The longest that one run of a compiler may take, in seconds.
PATIENCE = 1800


def built(sources: Files, command: tuple[str, ...], product: str, made_with: str) -> Path:
    """The file ``product`` that ``command`` makes in a folder of ``sources``, from the cache if there.

    The cache finds it by sources, command, and ``made_with``: whatever else it depends on, as the compiler's version.
    The file ends in the cache's seal, which loaders of programs and libraries pass over; ``unsealed`` takes it off.
    ToolError with the command's message if it fails.
    """
    kept = cache.folder() / f"{_key(sources, command, made_with)}{Path(product).suffix}"
    if cache.load(kept) is not None:
        return kept

    def make(work: Path) -> Path:
        write_files(work, sources)
        run_tool(list(command), work)
        return work / product

    cache.store(kept, make)
    return kept


def _key(sources: Files, command: tuple[str, ...], made_with: str) -> str:
    digest = hashlib.sha256(repr((command, made_with)).encode())
    for path, content in sorted(sources.items()):
        data = content.encode() if isinstance(content, str) else content
        digest.update(f"{path} {len(data)} ".encode() + data)
    return digest.hexdigest()[:40]


def find_compiler(command: str | None = None) -> tuple[str, ...]:
    """The C compiler's command line as words; ToolError if it is not installed.

    Without a ``command`` and the environment's CC the first of gcc, clang, cc, and the one in the package ziglang.
    """
    wanted = command or os.environ.get("CC")
    for candidate in [wanted] if wanted else ["gcc", "clang", "cc"]:
        words = shlex.split(candidate)
        if words and shutil.which(words[0]):
            return tuple(words)
    if not wanted and find_spec("ziglang"):
        return sys.executable, "-m", "ziglang", "cc"
    how = "install gcc or clang, set CC to one, or pip install 'twinfer[compiler]'"
    raise ToolError(f"no C compiler found ({wanted or 'gcc, clang, cc, ziglang'}): {how}")


@functools.cache
def compiler_version(compiler: tuple[str, ...]) -> str:
    """What the compiler prints for --version: products of another version must not be taken.

    It runs in a folder of its own: zig's leaves an empty a.o behind.
    """
    with TemporaryDirectory() as folder:
        return run_tool([*compiler, "--version"], Path(folder))


@functools.cache
def cpu() -> str:
    """The CPU's name and features: -march=native depends on them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        lines = [platform.processor()]
    told = [line for line in lines if line.split("\t")[0] in ("model name", "flags", "Features")]
    return "\n".join([platform.machine(), *told])


def need_tool(tool: str, package: str) -> str:
    """``tool`` if it is installed, else ToolError with the Debian package that has it."""
    if shutil.which(tool) is None:
        raise ToolError(f"{tool} is not installed: apt-get install {package}")
    return tool


def write_files(folder: Path, files: Files) -> None:
    """Write ``files`` below ``folder``."""
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)


def _end(process: subprocess.Popen[str]) -> None:
    """End a program, and where systems have groups of processes all that it has started."""
    with suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def run_tool(command: list[str], folder: Path | None = None, patience: float = PATIENCE) -> str:
    """Run a program and return what it printed; ToolError with its messages if it fails, is missing or hangs.

    Whatever breaks it off (Ctrl-C, too) also ends the programs that it has started, as gcc starts others.
    """
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            encoding="utf-8",
            errors="replace",  # programs quote what they were given, in whatever encoding
            start_new_session=True,
        )
        with process:
            try:
                out, err = process.communicate(timeout=patience)
            except BaseException:
                _end(process)
                raise
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{shlex.join(command)}: {error}") from error
    if process.returncode:
        said = (err or out).strip()
        raise ToolError(f"{shlex.join(command)} failed with status {process.returncode}:\n{said[:4000]}")
    return out
