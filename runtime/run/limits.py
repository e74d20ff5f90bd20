"""What keeps a run from taking a computer's memory or time unasked: limits that a user can raise, and Ctrl-C.

Python heeds Ctrl-C between two calls into C, and a whole model is one call. One that may take long is made step by
step, and a long step in a thread of its own (``Long``), for which the caller waits.
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twinfer.runtime.errors import InvalidArgumentError, ModelError

if TYPE_CHECKING:
    from _thread import LockType as Lock

    from twinfer.runtime.graph import Tensor
    from twinfer.runtime.plan.plan import Plan
    from twinfer.runtime.program import Step

#: Environment variable -> the most that a run may take where it is not set: bytes of arena, state and inputs; rounds of
#: all loops of a run.
DEFAULTS = {"TWINFER_MAX_BYTES": 1 << 30, "TWINFER_MAX_ROUNDS": 1_000_000}

#: The work of a call that may be long: a tenth of a second of plain C, a millisecond of the fastest kernels; and the
#: time of a first run, in seconds, after which later ones are short.
LONG, SHORT = 100_000_000, 0.1

#: What an element that is read or written counts in multiply-accumulates of int8; and one of float32.
_PER_ELEMENT, _PER_FLOAT = 10, 2

#: How often whoever waits looks whether the program ends, in seconds.
_LOOK = 0.2


def limit(name: str) -> int:
    """A limit; InvalidArgumentError if its environment variable is no number."""
    text = os.environ.get(name, "").strip()
    if not text:
        return DEFAULTS[name]
    if not text.isdecimal():
        raise InvalidArgumentError(f"{name}={text}: it must be a whole number")
    return int(text)


def check_bytes(plan: Plan) -> None:
    """ModelError if a run would take more memory than it may."""
    most, needed = limit("TWINFER_MAX_BYTES"), plan.buffer_bytes + sum(t.nbytes for t in plan.arena_inputs)
    if needed > most:
        largest = max((*plan.offsets, *plan.arena_inputs), key=lambda tensor: tensor.nbytes)
        raise ModelError(
            f"{plan.graph.name!r} needs {needed} bytes of memory, {largest} alone {largest.nbytes}; the limit is "
            f"{most}: set TWINFER_MAX_BYTES={needed} (or --max-bytes) to allow it"
        )


def work_of(step: Step) -> int:
    """How long a step takes, about, in multiply-accumulates of int8."""
    touched = [tensor for tensor in (*step.node.inputs, *step.node.outputs) if tensor is not None]
    factor = _PER_FLOAT if any(tensor.type == "FLOAT32" for tensor in step.node.outputs) else 1
    return step.call.macs * factor + _PER_ELEMENT * sum(tensor.size for tensor in touched)


def rounds_error(plan: Plan, condition: Tensor, most: int) -> ModelError:
    """That the loops of a run do not end."""
    return ModelError(
        f"{plan.graph.name!r}: its loops (WHILE) have gone round {most} times in one run and {condition} still holds; "
        "that is the limit: set TWINFER_MAX_ROUNDS (or --max-rounds) to a higher one if it ends at all"
    )


class Long:
    """Long calls into C over one memory, one at a time, each in a thread of its own.

    What Ctrl-C raises in the caller comes at once. The call then goes on by itself until it ends; the next one waits
    for it. In other threads than the main one KeyboardInterrupt is raised while the main thread handles one.
    """

    def __init__(self) -> None:
        self._done: Lock | None = None

    def wait(self) -> None:
        """Wait for a call that Ctrl-C has left alone."""
        if self._done is not None and self._done.locked():
            _wait(self._done)
        self._done = None

    def call(self, owner: object, function: Callable[[], object]) -> None:
        """Make a call; ``owner`` has all memory that it works on.

        KeyboardInterrupt, or what a handler of signals raises, before it has ended.
        """
        from ctypes import py_object, pythonapi

        self.wait()
        done = allocate_lock()
        done.acquire()
        kept = py_object((owner, function))
        pythonapi.Py_IncRef(kept)  # or Python, when it ends, would take it from the thread

        def work() -> None:
            self._done = done
            try:
                function()
            finally:
                done.release()
                pythonapi.Py_DecRef(kept)

        start_new_thread(work, ())
        _wait(done)
        self._done = None  # the lock is this caller's now, and nobody else's


def _wait(lock: Lock) -> None:
    """Wait until a lock is free, and take it; the main thread heeds signals meanwhile, others its KeyboardInterrupt.

    It looks up now and then: a signal that comes right before it begins to wait does not wake it.
    """
    beside = threading.current_thread() is not threading.main_thread()
    while not lock.acquire(timeout=_LOOK):
        if beside and _ends():
            raise KeyboardInterrupt


def _ends() -> bool:
    """Whether the program ends by Ctrl-C: its main thread handles that, or is gone."""
    main = threading.main_thread()
    handled: Any = sys._current_exceptions().get(main.ident or 0)  # a tuple of three before Python 3.12
    return not main.is_alive() or isinstance(handled[1] if isinstance(handled, tuple) else handled, KeyboardInterrupt)
