"""Variables that the subgraphs of one interpreter share, as in LiteRT: one value, wherever a signature reads it."""

from __future__ import annotations

from collections.abc import Iterable

from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.plan.flow import Key
from twinfer.runtime.run.session import Session


class Resources:
    """The values of all variables that have a name; every engine has a copy, and the latest is that of ``_latest``."""

    def __init__(self) -> None:
        self._values: dict[Key, Array] = {}
        self._tensors: dict[Key, Tensor] = {}
        self._begun: set[Key] = set()
        self._latest: Session | None = None

    def join(self, engine: Session) -> None:
        """A new engine brings the first values of its variables, unless these have values already.

        A CALL_ONCE gives a variable its value only once. ModelError for a variable of two types or shapes.
        """
        self._leave()
        for key, resource in engine.plan.resources.items():
            known = self._tensors.setdefault(key, resource.tensor)
            if (known.type, known.shape) != (resource.tensor.type, resource.tensor.shape):
                raise ModelError(f"variable {known.name!r} is {known} in one signature, {resource.tensor} in another")
            if key not in self._values or (resource.begun and key not in self._begun):
                self._values[key] = engine.view(resource.tensor).copy()
            if resource.begun:
                self._begun.add(key)

    def enter(self, engine: Session) -> None:
        """Before a run: the engine gets the values that the last run of any engine has left."""
        if engine is self._latest:
            return
        self._leave()
        for key, resource in engine.plan.resources.items():
            engine.view(resource.tensor)[...] = self._values[key]
        self._latest = engine

    def _leave(self) -> None:
        if self._latest is not None:
            for key, resource in self._latest.plan.resources.items():
                self._values[key] = self._latest.view(resource.tensor).copy()
        self._latest = None

    def reset(self, engines: Iterable[Session]) -> None:
        """All variables get their first values again."""
        self._latest = None
        self._values, self._tensors, self._begun = {}, {}, set()
        for engine in engines:
            engine.reset_variables()
            self.join(engine)
