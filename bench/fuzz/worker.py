"""A process that computes for the fuzzer and may crash: it is asked over a pipe and started anew after its death."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

#: The most seconds that an answer may take.
PATIENCE = 120

#: Answers after which a process ends, because libraries stay loaded and peers leak.
WORN = 400


class Died(Exception):
    """The process ended or hung before it had answered; the text says how."""


class Worker:
    """A process that answers ``answer(*question)``; ``answer`` is a function of a module."""

    def __init__(self, answer: Callable[..., Any], patience: float = PATIENCE) -> None:
        self._answer, self._patience = answer, patience
        self._process: Any = None
        self._pipe: Any = None
        self._answers = 0

    def ask(self, *question: Any) -> Any:
        """The answer; raises Died, or what ``answer`` raised."""
        if self._process is None or self._answers >= WORN:
            self._start()
        self._answers += 1
        try:
            self._pipe.send(question)
            if not self._pipe.poll(self._patience):
                raise Died(f"no answer within {self._patience:g} s")
            good, result = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(5)
            status = self._process.exitcode or 0
            self.close()
            raise Died(signal.Signals(-status).name if status < 0 else f"exit status {status}") from None
        except Died:
            self.close()
            raise
        if not good:
            raise result
        return result

    def _start(self) -> None:
        self.close()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._answer), daemon=True)
        self._process.start()
        theirs.close()
        self._answers = 0

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(pipe: Connection, answer: Callable[..., Any]) -> None:
    """The process: answers until the pipe closes. What C++ writes goes nowhere."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    while True:
        try:
            question = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, answer(*question)))
        except Exception as error:
            pipe.send((False, RuntimeError(f"{type(error).__name__}: {error}")))
