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


#: What a class may have that is not copied to its twin, and what it gets when it is asked for.
_OWN = frozenset({"__dict__", "__weakref__"})
_ASKED = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")

#: One class may wait for another, its base.
_LOCK = RLock()


class _Waiting:
    """A class that is to become a dataclass. It must have no ``__slots__``, and no ``__eq__`` of its own.

    A twin is made a dataclass, and what this gives it is taken over: at every moment the class has all methods, old or
    new, whatever other threads do with it.
    """

    def __init__(self, cls: Any, frozen: bool, eq: bool) -> None:
        self.cls, self._frozen, self._eq, self._complete = cls, frozen, eq, False
        methods = ("__init__", "__repr__", "__eq__", "__hash__") if eq else ("__init__", "__repr__")
        self._methods = [name for name in methods if name not in vars(cls)]
        for name in self._methods:
            setattr(cls, name, self._method(name))
        if frozen:
            cls.__setattr__, cls.__delattr__ = self._refusing("__setattr__"), self._refusing("__delattr__")
        for name in _ASKED:
            setattr(cls, name, _Asked(self, name))

    def _method(self, name: str) -> Callable[..., Any]:
        """What stands for a method until the class is complete."""

        def method(value: object, *args: Any, **named: Any) -> Any:
            self.complete()
            return getattr(self.cls, name)(value, *args, **named)

        return method

    def _refusing(self, name: str) -> Callable[..., None]:
        """A method that sets or deletes what a subclass has of its own, and nothing else."""

        def method(value: object, attribute: str, *args: Any) -> None:
            from dataclasses import FrozenInstanceError

            if type(value) is self.cls or attribute in self.cls.__dataclass_fields__:
                about = f"{type(value).__name__}.{attribute}"
                raise FrozenInstanceError(f"cannot change {about}: make another one with dataclasses.replace")
            getattr(super(self.cls, value), name)(attribute, *args)

        return method

    def complete(self) -> None:
        """Make the class a dataclass, unless it is one."""
        with _LOCK:
            if not self._complete:
                self._complete = True
                self._take_over(self._twin())

    def _twin(self) -> type:
        from dataclasses import dataclass

        hidden = {*_OWN, *_ASKED, *self._methods, *(("__setattr__", "__delattr__") if self._frozen else ())}
        own = {name: value for name, value in vars(self.cls).items() if name not in hidden}
        return dataclass(frozen=self._frozen, eq=self._eq)(type(self.cls.__name__, self.cls.__bases__, own))

    def _take_over(self, twin: type) -> None:
        from dataclasses import Field

        given = vars(twin)
        for name in (*self._methods, *_ASKED, "__replace__"):  # the last as of Python 3.13
            if name in given:
                setattr(self.cls, name, given[name])
        for name in [name for name, value in vars(self.cls).items() if isinstance(value, Field)]:
            if name in given:
                setattr(self.cls, name, given[name])
            else:
                delattr(self.cls, name)


class _Asked:
    """Stands for what a class has when it is complete."""

    def __init__(self, waiting: _Waiting, name: str) -> None:
        self._waiting, self._name = waiting, name

    def __get__(self, instance: object, owner: type) -> Any:
        self._waiting.complete()
        return vars(self._waiting.cls)[self._name]
