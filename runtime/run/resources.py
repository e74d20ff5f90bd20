"""Variables that the subgraphs of one interpreter share, as in LiteRT: one value, wherever a signature reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Array
from twinfer.runtime.run.session import Session

if TYPE_CHECKING:
    from twinfer.runtime.plan.flow import Key


class Resources:
    """The values of all variables that have a name; every engine has a copy, and the latest is that of ``_latest``.

    A subgraph that CALL_ONCE runs counts once for all engines, in the first run of one that has it: ``_begun`` are
    those that have run, ``_firsts`` the values that they give in an engine that has not run yet.
    """

    def __init__(self) -> None:
        self._values: dict[Key, Array] = {}
        self._begun: set[int] = set()
        self._firsts: WeakKeyDictionary[Session, dict[Key, tuple[int, Array]]] = WeakKeyDictionary()
        self._latest: Session | None = None

    def join(self, engine: Session, main: int, others: Mapping[int, Session]) -> None:
        """A new engine, of subgraph ``main``, brings first values for its variables that have none yet.

        ``others`` are the engines of other subgraphs; ModelError for a variable of two types or shapes in them.
        """
        self._leave()
        for other in others.values():
            _check(engine, other)
        swap, firsts = {0: main, main: 0}, {}  # subgraphs have other numbers where one of them is the main one
        for key, resource in engine.plan.resources.items():
            value = engine.view(resource.tensor).copy()
            known = self._values.get(key)
            if known is None or (known.dtype, known.shape) != (value.dtype, value.shape):
                self._values[key] = value
            if resource.init is not None:
                firsts[key] = (swap.get(resource.init, resource.init), value)
        self._firsts[engine] = firsts

    def enter(self, engine: Session) -> None:
        """Before a run: the engine gets the values that the last run of any engine has left."""
        if engine is self._latest:
            return
        self._leave()
        firsts = self._firsts.pop(engine, {})
        self._values.update({key: value for key, (init, value) in firsts.items() if init not in self._begun})
        self._begun.update(init for init, _ in firsts.values())
        for key, resource in engine.plan.resources.items():
            engine.view(resource.tensor)[...] = self._values[key]
        self._latest = engine

    def _leave(self) -> None:
        if self._latest is not None:
            for key, resource in self._latest.plan.resources.items():
                self._values[key] = self._latest.view(resource.tensor).copy()
        self._latest = None

    def reset(self, engines: Mapping[int, Session]) -> None:
        """All variables get their first values again; ``engines`` by the number of their subgraph."""
        self._latest = None
        self._values, self._begun = {}, set()
        for main, engine in engines.items():
            engine.reset_variables()
            self.join(engine, main, {})


def _check(engine: Session, other: Session) -> None:
    """ModelError unless the variables that both have are the same."""
    for key, resource in engine.plan.resources.items():
        known = other.plan.resources.get(key)
        if known is not None and (known.tensor.type, known.tensor.shape) != (
            resource.tensor.type,
            resource.tensor.shape,
        ):
            name = resource.tensor.name
            raise ModelError(f"variable {name!r} is {known.tensor} in one signature, {resource.tensor} in another")
