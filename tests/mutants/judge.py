"""Judges mutants: plants each in a copy of the project and asks the tests, several at once."""

from __future__ import annotations

import queue
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mutants.journal import Journal
from mutants.sandbox import PASSED, Sandbox
from mutants.table import Mutant, MutantError

#: A run counts as hung after this many times its time without a mutant, plus this many seconds.
TIMES, SECONDS = 5, 60

#: The longest that tests may take without a mutant, in seconds.
PATIENCE = 1800

KILLED, HUNG, SURVIVED, EQUIVALENT = "killed", "hung", "survived", "equivalent"

Verdict = dict[str, Any]


class Judge:
    """Judges mutants of the tree ``root`` in ``jobs`` copies at once, and notes verdicts in the journal."""

    def __init__(self, root: Path, journal: Journal, jobs: int) -> None:
        self._root, self._journal, self._jobs = root, journal, jobs
        self._free: queue.Queue[Sandbox] = queue.Queue()
        self._locks, self._guard = dict[str, threading.Lock](), threading.Lock()

    def judge(self, mutants: Sequence[Mutant], told: Callable[[Mutant, Verdict], None]) -> None:
        """Judges every mutant that the journal does not know, and calls ``told`` with every verdict.

        Raises MutantError, after judging all others, for a mutant that cannot be planted, and for tests that fail
        without one. Only the journal is left at the end, however this ends.
        """
        faults: dict[str, None] = {}
        keys = {(m, tests): m.key(tests, self._root) for m in mutants for tests in (*m.tests, *m.wide)}
        with self._copies() as copies, ThreadPoolExecutor(self._jobs) as pool:
            waiting: dict[Future[Verdict], Mutant] = {pool.submit(self._of, mutant, keys): mutant for mutant in mutants}
            try:
                for done in as_completed(waiting):
                    try:
                        told(waiting[done], done.result())
                    except MutantError as error:
                        faults[str(error)] = None
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for copy in copies:
                    copy.stop()
                raise
        if faults:
            raise MutantError("\n".join(faults))

    @contextmanager
    def _copies(self) -> Iterator[list[Sandbox]]:
        with tempfile.TemporaryDirectory(prefix="twinfer-mutants-", ignore_cleanup_errors=True) as folder:
            copies = [Sandbox(self._root, Path(folder) / str(i)) for i in range(self._jobs)]
            for copy in copies:
                self._free.put(copy)
            yield copies

    def _of(self, mutant: Mutant, keys: Mapping[tuple[Mutant, str], str]) -> Verdict:
        """The verdict of the first tests that notice the mutant; otherwise it survived."""
        if mutant.equivalent:
            return {"verdict": EQUIVALENT}
        for tests in (*mutant.tests, *mutant.wide):
            verdict = self._journal.get(keys[mutant, tests])
            if verdict is None:
                verdict = self._asked(mutant, tests)
                self._journal.add(keys[mutant, tests], verdict)
            if verdict["verdict"] != SURVIVED:
                return {**verdict, "by": tests}
        return {"verdict": SURVIVED}

    def _asked(self, mutant: Mutant, tests: str) -> Verdict:
        copy = self._free.get()
        try:
            limit = TIMES * self._without(tests, copy) + SECONDS
            with copy.planted(mutant):
                run = copy.pytest(tests, limit)
        finally:
            self._free.put(copy)
        word = HUNG if run.code is None else SURVIVED if run.code == PASSED else KILLED
        return {"verdict": word, "seconds": round(run.seconds, 1), "said": _last(run.said)}

    def _without(self, tests: str, copy: Sandbox) -> float:
        """Seconds that the tests take without a mutant; MutantError if they do not pass."""
        with self._guard:
            lock = self._locks.setdefault(tests, threading.Lock())
        with lock:
            key = f"{tests} of {copy.digest}"
            known = self._journal.get(key)
            if known is None:
                run = copy.pytest(tests, PATIENCE)
                if run.code != PASSED:
                    raise MutantError(f"pytest {tests}: fails without a mutant\n{run.said}")
                known = {"seconds": run.seconds}
                self._journal.add(key, known)
            return float(known["seconds"])


def _last(said: str) -> str:
    """The test that failed, as pytest names it at the end."""
    lines = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[-1][:200] if lines else ""
