"""Work grows with the size of a graph, not with its square. Calls are counted, not time."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from needs import ROOT

from twinfer.converter.convert import convert
from twinfer.runtime.options import Options
from twinfer.runtime.run.interpreter import Interpreter

_FILE = ROOT / "bench/lab/bench_convert.py"
_SPEC = importlib.util.spec_from_file_location("bench_convert", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
nets = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(nets)

#: Four times the nodes take four times the calls, and a little more for sorting. Placing by pairs took 5.6 times.
MOST = 5


def calls(work: Callable[[], object]) -> int:
    """The number of functions called, including C's."""
    count = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def allocate(graph: Any, *, preserve_all: bool = False) -> Callable[[], object]:
    return Interpreter.from_graph(graph, Options(preserve_all=preserve_all)).allocate_tensors


PLANS: dict[str, Callable[[int], Callable[[], object]]] = {
    "a chain of which all is kept": lambda n: allocate(nets.net("clips", n), preserve_all=True),
    "outputs that all live to the end": lambda n: allocate(nets.wide(n)),
    "a chain": lambda n: allocate(nets.net("residual", n)),
}


@pytest.mark.parametrize("kind", PLANS)
def test_planning_is_linear(kind: str) -> None:
    PLANS[kind](8)()  # work that is done once
    assert calls(PLANS[kind](800)) < MOST * calls(PLANS[kind](200))


@pytest.mark.parametrize("kind", ["clips", "affine", "nchw"])
def test_converting_is_linear(kind: str) -> None:
    convert(nets.net(kind, 10))
    few, many = (nets.net(kind, size) for size in (200, 800))
    assert calls(lambda: convert(many)) < MOST * calls(lambda: convert(few))
