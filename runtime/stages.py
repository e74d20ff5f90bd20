"""Stages: named functions, one after the other, that make a plan of a graph or convert one; and who watches them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Stage(NamedTuple):
    """``apply(value, job)`` makes the next value of the one before; ``about`` says in a sentence what it does."""

    name: str
    about: str
    apply: Callable[[Any, Any], Any]


#: What is called behind every stage with its name, its sentence, the value before it and the one behind it. Nobody
#: watches unless TWINFER_DEBUG or TWINFER_VIZ is set (twinfer/debug.py) or ``inspect --trace`` asks.
WATCHERS: list[Callable[[str, str, Any, Any], None]] = []


def tell(name: str, about: str, before: Any, after: Any) -> None:
    """Show what one stage has done to all who watch."""
    for watch in WATCHERS:
        watch(name, about, before, after)
