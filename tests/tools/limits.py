"""Limits on what hostile input may take."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cpu_below(seconds: float) -> Iterator[None]:
    """Fails if the block takes more CPU time of this process; a busy machine does not count.

    Nor do the objects of earlier tests: they are frozen. One full collection over them can take 0.7 s.
    """
    gc.freeze()
    start = time.process_time()
    try:
        yield
        assert time.process_time() - start < seconds
    finally:
        gc.unfreeze()
