"""The workers that run trials: this process, an executor, or a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.reduction import ForkingPickler
from typing import Any

from twinfer.converter.search.space import Setting
from twinfer.converter.search.trial import Bench, Job, receive, work
from twinfer.runtime.errors import InvalidArgumentError, ToolError

#: Seconds to wait for a Dask scheduler.
DASK_TIMEOUT_S = 10

#: (name of a ``Bench`` method, settings) -> its results, in the order in which they are done.
Run = Callable[[str, Sequence[Setting]], Iterator[tuple[Setting, Any]]]


@contextmanager
def workers(job: Job, executor: Executor | None = None, jobs: int | None = None, dask: Any = None) -> Iterator[Run]:
    """Workers for a job: ``executor``, which stays open; ``dask``, a scheduler's address or a ``distributed.Client``;
    else ``jobs`` processes (None: one per CPU; 1: this very process).

    Processes and Dask get the job, with all samples, once; an executor gets it with every trial. InvalidArgumentError
    for a cost that cannot be sent, ToolError if workers die or Dask is missing.
    """
    if jobs is None:
        jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if jobs < 1:
        raise InvalidArgumentError(f"{jobs} processes can do no work: at least one is needed")
    if executor is not None and dask is not None:
        raise InvalidArgumentError("give an executor or a Dask cluster, not both")
    alone = executor is None and dask is None and jobs == 1
    if not alone:
        try:
            ForkingPickler.dumps(job.cost)  # as executors do
        except Exception as error:  # whatever an object's own code raises
            what = "it must be a function of a module, or jobs=1"
            raise InvalidArgumentError(f"workers cannot be sent the cost: {what} ({error})") from None
    if dask is not None:
        with _client(dask) as client:
            sent = client.scatter(job, broadcast=True, hash=False)
            yield _sender(client.get_executor(pure=False), sent)
    elif executor is not None:
        yield _sender(executor, job)
    elif alone:
        yield here(Bench(job))
    else:
        pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), receive, (job,))
        try:
            yield _sender(pool, None)
        finally:
            pool.shutdown(cancel_futures=True)


def here(bench: Bench) -> Run:
    """This process as the only worker."""
    return lambda what, settings: ((setting, getattr(bench, what)(setting)) for setting in settings)


def _sender(executor: Executor, job: Any) -> Run:
    """``job``: the job, what stands for it in a Dask cluster, or None where workers have received it."""

    def run(what: str, settings: Sequence[Setting]) -> Iterator[tuple[Setting, Any]]:
        sent: dict[Future[Any], Setting] = {}
        try:
            with _undisturbed():
                sent |= {executor.submit(work, job, what, setting): setting for setting in settings}
            for future in as_completed(sent):
                yield sent[future], future.result()
        except BrokenExecutor as error:
            why = "out of memory, or a script that starts a search outside of `if __name__ == '__main__':`?"
            raise ToolError(f"a worker process ended before its trial did ({why}): {error}") from None
        finally:
            for future in sent:
                future.cancel()

    return run


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits, and processes that start meanwhile ignore it. A terminal sends it to all, but only one may end the
    search."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _client(dask: Any) -> Iterator[Any]:
    """The client itself, or a client for an address, which is closed at the end."""
    if not isinstance(dask, str):
        yield dask
        return
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError:
        raise ToolError("a Dask cluster needs the package distributed: pip install 'twinfer[dask]'") from None
    try:
        client = distributed.Client(dask, timeout=DASK_TIMEOUT_S)
    except (OSError, ValueError) as error:
        raise ToolError(f"no Dask scheduler at {dask}: {error}") from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise ToolError(f"the Dask scheduler at {dask} has no workers: start some with `dask worker {dask}`")
        yield client
