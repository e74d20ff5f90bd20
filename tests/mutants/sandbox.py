"""A copy of the project in which one mutant at a time is planted and tests are run."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mutants.kernels import OVERRIDE, build
from mutants.table import Mutant, MutantError

#: Where programs for boards that tests build are kept between runs.
CACHE = Path("build", "cache")

#: pytest's exit codes: all tests passed, and codes that say nothing about a mutant. All others, and crashes, notice it.
PASSED, INTERNAL, USAGE, EMPTY = 0, 3, 4, 5

OPTIONS = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "mutants.unshrunk", "-m", "not slow")


@dataclass(frozen=True)
class Run:
    """The result of one run of pytest: exit code (None: out of time), seconds, and the end of its output."""

    code: int | None
    seconds: float
    said: str


class Sandbox:
    """A copy of the tree ``root`` in ``folder``, without files that git ignores, but with the built kernels."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self._running: subprocess.Popen[str] | None = None
        self._stopped = False
        for path in files(root):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / path, folder / path, follow_symlinks=False)
        self.digest = digest(folder)
        (root / CACHE).mkdir(parents=True, exist_ok=True)
        (folder / CACHE).parent.mkdir(exist_ok=True)
        (folder / CACHE).symlink_to(root / CACHE)
        shared = os.environ.get("TWINFER_SHARED") or root.parent / "shared"
        tests = Path(__file__).parents[1]
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (folder, tests, tests / "tools"))),
            "TWINFER_SHARED": str(shared),
        }

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """Plants the mutant in the copy. MutantError if it does not apply or, in a header, does not compile."""
        path, front = self.folder / mutant.file, self.folder / "kernels_c" / "__init__.py"
        kept = {file: file.read_bytes() for file in ((path, front) if path.suffix == ".h" else (path,))}
        try:
            path.write_text(mutant.applied(path.read_text("utf-8")), "utf-8")
            if path.suffix == ".h":
                build(self.folder / "kernels_c", mutant.file.removeprefix("kernels_c/"))
                front.write_text(front.read_text("utf-8") + OVERRIDE, "utf-8")
            forget_compiled(kept)
            yield
        finally:
            for file, content in kept.items():
                file.write_bytes(content)
            forget_compiled(kept)

    def pytest(self, arguments: str, limit: float) -> Run:
        """Runs these tests for at most ``limit`` seconds; MutantError if there are none."""
        if self._stopped:
            raise MutantError("stopped")
        start = time.monotonic()
        command = [sys.executable, "-m", "pytest", *OPTIONS, *shlex.split(arguments)]
        self._running = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code: int | None = None
        try:
            said = self._running.communicate(timeout=limit)[0]
            code = self._running.returncode
        except subprocess.TimeoutExpired:
            said = self._end()
        if self._stopped or code in (INTERNAL, USAGE, EMPTY):
            raise MutantError(f"pytest {arguments}: ended with {code}\n{said[-2000:]}")
        return Run(code, time.monotonic() - start, said[-2000:])

    def _end(self) -> str:
        """Kills the running tests and all that they have started; returns their output."""
        running = self._running
        if running is None or running.poll() is not None:
            return ""
        os.killpg(running.pid, signal.SIGKILL)
        return running.communicate()[0]

    def stop(self) -> None:
        """Ends a run from another thread, for good."""
        self._stopped = True
        if self._running is not None and self._running.poll() is None:
            os.killpg(self._running.pid, signal.SIGKILL)


def files(root: Path) -> list[str]:
    """The files to copy: all that git does not ignore, and the built kernels."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    built = [str(path.relative_to(root)) for path in (root / "kernels_c").glob("_ffi*.so")]
    return [path for path in (*listed, *built) if path and os.path.lexists(root / path)]


def digest(folder: Path) -> str:
    """A hash of the tree without the mutants."""
    content = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
        if "mutants" not in path.parts[len(folder.parts) :]:
            content.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return content.hexdigest()[:16]


def forget_compiled(paths: dict[Path, bytes]) -> None:
    """Removes the bytecode. Python decides by second and size whether it is stale, and a mutant may have the same."""
    for path in paths:
        if path.suffix == ".py":
            Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
