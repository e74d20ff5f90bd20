"""Runs compilers and other programs, and keeps their products in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from twinfer.runtime.errors import ToolError
from twinfer.runtime.read.files import cache_folder

#: Path in a folder -> content.
Files = Mapping[str, str] | Mapping[str, str | bytes]

#: The longest that one run of a compiler may take, in seconds.
PATIENCE = 1800


def built(sources: Files, command: tuple[str, ...], product: str, made_with: str) -> Path:
    """The file ``product`` that ``command`` makes in a folder of ``sources``, from the cache if there.

    The cache finds it by sources, command, and ``made_with``: whatever else it depends on, as the compiler's version.
    ToolError with the command's message if it fails.
    """
    folder = cache_folder()
    kept = folder / f"{_key(sources, command, made_with)}{Path(product).suffix}"
    if kept.exists():
        return kept
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as work:
            write_files(Path(work), sources)
            run_tool(list(command), Path(work))
            os.replace(Path(work) / product, kept)
    except OSError as error:
        raise ToolError(f"cannot build in the cache folder {folder}: {error}; set XDG_CACHE_HOME to another") from error
    return kept


def _key(sources: Files, command: tuple[str, ...], made_with: str) -> str:
    digest = hashlib.sha256(repr((command, made_with)).encode())
    for path, content in sorted(sources.items()):
        data = content.encode() if isinstance(content, str) else content
        digest.update(f"{path} {len(data)} ".encode() + data)
    return digest.hexdigest()[:40]


def find_compiler(command: str | None = None) -> tuple[str, ...]:
    """The C compiler's command line as words; ToolError if it is not installed."""
    wanted = command or os.environ.get("CC")
    for candidate in [wanted] if wanted else ["gcc", "clang", "cc"]:
        words = shlex.split(candidate)
        if words and shutil.which(words[0]):
            return tuple(words)
    raise ToolError(f"no C compiler found ({wanted or 'gcc, clang, cc'}): install gcc or clang, or set CC to one")


@cache
def compiler_version(compiler: tuple[str, ...]) -> str:
    """What the compiler prints for --version: products of another version must not be taken."""
    return run_tool([*compiler, "--version"])


@cache
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


def run_tool(command: list[str], folder: Path | None = None, patience: float = PATIENCE) -> str:
    """Run a program and return what it printed; ToolError with its messages if it fails, is missing or hangs."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{shlex.join(command)}: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise ToolError(f"{shlex.join(command)} failed with status {done.returncode}:\n{said[:4000]}")
    return done.stdout
