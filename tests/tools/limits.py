"""Limits on what hostile input may take, and processes that say when they have begun what takes long."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: The beginning of a program that says when a layer is computed that takes a minute and more, or when a compiler waits.
SAYS_BEGUN = """
import os, sys
from twinfer.runtime.run import limits

real = limits.Long.call

def call(*given):
    os.write(2, b"begun\\n")
    real(*given)

limits.Long.call = call
"""


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
