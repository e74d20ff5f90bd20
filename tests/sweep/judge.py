"""Runs the commands of a task, each in a process of its own with limits, and says what became of it."""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import connection, forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from sweep.tasks import Command, Task

#: What became of a command: done; refused in words, with nothing written; failed in any other way.
Kind = Literal["done", "refused", "failed"]

#: Seconds and bytes of address space that a command may take.
SECONDS, BYTES = 300.0, 12 << 30

LATE = "it took too long"

#: For one thread at a time: starting a process asks after every other one, and only who asks first hears its status.
_PROCESSES = threading.Lock()

#: The exit status of a command that ended with a traceback.
_RAISED = 70

#: Exit status 1 of these says that something is missing, not that results differ.
_MISSING = ("ops",)

#: How a line on standard error begins that is no complaint.
_ASIDE = re.compile(r"twinfer: (warning: |note: )")


@dataclass(frozen=True)
class Outcome:
    """What became of a command over a model; ``why`` are its own words or what is wrong, in one line."""

    model: str
    label: str
    line: str
    kind: Kind
    why: str
    seconds: float


def judge(task: Task, seconds: float = SECONDS) -> list[Outcome]:
    """What became of each command of a task; those whose condition is not met are left out.

    A task ends where a command takes too long: others over the model would, too.
    """
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
        for command in task.commands:
            before = [each for each in outcomes if each.label == command.needs]
            if not command.needs or (before and before[-1].kind == "done"):
                outcomes.append(_judged(task.model, command, Path(folder), seconds))
                if outcomes[-1].why.startswith(LATE):
                    break
    return outcomes


@cache
def _server() -> Any:
    """A fork server that has imported twinfer. Python 3.11 does not tell it where modules are, the environment does."""
    context, before = multiprocessing.get_context("forkserver"), dict(os.environ)
    context.set_forkserver_preload(["sweep.warm"])
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return context


def _judged(model: str, command: Command, folder: Path, seconds: float) -> Outcome:
    """Fork servers hold twinfer's modules ready, so that a process takes milliseconds to start."""
    there, start = _files(folder), monotonic()
    process = _server().Process(target=_run, args=(command, str(folder)))
    with _PROCESSES:
        process.start()
    connection.wait([process.sentinel], seconds)
    with _PROCESSES:
        late = process.is_alive()
        _end(process)
    status = 128 + abs(process.exitcode or 0) if (process.exitcode or 0) < 0 else process.exitcode or 0
    told = [_text(folder / name) for name in ("stdout", "stderr")]
    kind, why = verdict(command, status, told[1], late=late)
    if kind != "failed" and (left := _half_written(command, kind, folder, there)):
        kind, why = "failed", left
    return Outcome(model, command.label, command.line, kind, why, round(monotonic() - start, 2))


def verdict(command: Command, status: int, complaints: str, *, late: bool = False) -> tuple[Kind, str]:
    """The kind that follows from an exit status and standard error, and why."""
    lines = [line for line in complaints.splitlines() if line.strip() and not _ASIDE.match(line)]
    last = lines[-1].strip() if lines else ""
    if late:
        return "failed", f"{LATE}: {last}"
    if "Traceback (most recent call last)" in complaints or status == _RAISED:
        return "failed", f"traceback: {last}"
    if status == 0:
        return "done", ""
    if command.program == "make":
        return "failed", f"exit status {status}: {' '.join(lines[-3:])}"
    said = [line for line in lines if line.startswith("twinfer: ")]
    if status == 2 and said and len(lines) == 1:
        return "refused", last
    if status == 1 and command.words[0] in _MISSING:
        return "refused", last or "something is missing, as the table says"
    return "failed", f"exit status {status}: {last}"


def _half_written(command: Command, kind: Kind, folder: Path, there: frozenset[str]) -> str:
    """What is wrong with the files that a command wrote, "" if nothing is."""
    new = {name for name in _files(folder) - there if name.split("/")[0] not in ("stdout", "stderr")}
    if kind == "refused":
        return f"it was refused and wrote {', '.join(sorted(new)[:3])}" if new else ""
    if missing := [name for name in command.makes if name not in new]:
        return f"it is done without {', '.join(missing)}"
    for name in command.makes:
        path = folder / name
        match path.suffix:
            case ".json":
                try:
                    json.loads(path.read_text("utf-8"), parse_constant=_no_number)
                except ValueError as error:
                    return f"{name} is no JSON: {error}"
            case ".html":
                if not path.read_text("utf-8").rstrip().endswith("</html>"):
                    return f"{name} does not end as a page does"
            case ".npz":
                if not zipfile.is_zipfile(path):
                    return f"{name} is no archive"
    return ""


def _no_number(word: str) -> None:
    """NaN and Infinity, which Python reads and browsers do not."""
    raise ValueError(f"{word} is no number there")


def _files(folder: Path) -> frozenset[str]:
    return frozenset(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.exists() else ""


def _end(process: BaseProcess) -> None:
    """Ends a process and all that it started: it leads a group of its own."""
    if process.pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()  # it may not lead its group yet
    process.join()


def _run(command: Command, folder: str) -> None:
    """In the new process: the command, with its output in files of the folder."""
    os.setsid()
    os.chdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(2)
    if command.bare:
        os.environ["PATH"] = ""
    status = _other(command) if command.program != "twinfer" else _own(command.words)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _own(words: Sequence[str]) -> int:
    from twinfer.command_line.main import main

    try:
        return main(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return _RAISED


def _other(command: Command) -> int:
    if shutil.which(command.program) is None:
        os.write(2, f"twinfer: {command.program} is not installed\n".encode())
        return 2
    return subprocess.run([command.program, *command.words], check=False).returncode
