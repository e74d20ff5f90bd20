"""The standard library's ``dataclass``, whose work waits until a class is used.

It compiles up to six methods of every class, 0.4 ms in all: with a hundred classes that was a third of what the first
Interpreter of a process took. Most classes are never used in a process, and values that are unpickled need no methods.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, eq: bool = True) -> Callable[[type], type]:
        """Makes a class a dataclass as soon as something asks for a method or the fields of one."""
        return lambda cls: _Waiting(cls, frozen, eq).cls


#: What a class may have that is not copied to its twin.
_OWN = frozenset({"__dict__", "__weakref__", "__dataclass_fields__"})

#: One class may wait for another, its base.
_LOCK = RLock()


def _refuse_to_set(value: object, name: str, *_: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot change {type(value).__name__}.{name}: make another one with dataclasses.replace")


class _Waiting:
    """A class that is to become a dataclass; stands where that keeps its fields.

    A twin is made a dataclass, and what this gives it is taken over: at every moment the class has all methods, old or
    new, whatever other threads do with it.
    """

    def __init__(self, cls: Any, frozen: bool, eq: bool) -> None:
        self.cls, self._frozen, self._eq = cls, frozen, eq
        methods = ("__init__", "__repr__", "__eq__", "__hash__") if eq else ("__init__", "__repr__")
        self._methods = [name for name in methods if name not in vars(cls)]
        for name in self._methods:
            setattr(cls, name, self._method(name))
        if frozen:
            cls.__setattr__ = cls.__delattr__ = _refuse_to_set
        cls.__dataclass_fields__ = self

    def __get__(self, instance: object, owner: type) -> Any:
        self._complete()
        return vars(self.cls)["__dataclass_fields__"]

    def _method(self, name: str) -> Callable[..., Any]:
        """What stands for a method until the class is complete."""

        def method(value: object, *args: Any, **named: Any) -> Any:
            self._complete()
            return getattr(self.cls, name)(value, *args, **named)

        return method

    def _complete(self) -> None:
        with _LOCK:
            if vars(self.cls)["__dataclass_fields__"] is self:
                self._take_over(self._twin())

    def _twin(self) -> type:
        from dataclasses import dataclass

        hidden = {*_OWN, *self._methods, *(("__setattr__", "__delattr__") if self._frozen else ())}
        own = {name: value for name, value in vars(self.cls).items() if name not in hidden}
        return dataclass(frozen=self._frozen, eq=self._eq)(type(self.cls.__name__, self.cls.__bases__, own))

    def _take_over(self, twin: type) -> None:
        from dataclasses import Field

        given = vars(twin)
        for name in (*self._methods, "__match_args__", "__dataclass_params__"):
            setattr(self.cls, name, given[name])
        for name in [name for name, value in vars(self.cls).items() if isinstance(value, Field)]:
            if name in given:
                setattr(self.cls, name, given[name])
            else:
                delattr(self.cls, name)
        self.cls.__dataclass_fields__ = given["__dataclass_fields__"]
