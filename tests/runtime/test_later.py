"""``later.dataclass`` against the standard library's: the same behaviour, whoever asks first, and from any thread."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import Barrier
from typing import Any, ClassVar

import pytest

from twinfer.runtime import later


def classes(dataclass: Any) -> dict[str, type]:
    """The same classes, made by one or the other."""

    @dataclass(frozen=True)
    class Base:
        """Has fields of all kinds."""

        a: int
        b: tuple[int, ...] = ()
        c: dict[str, int] = dataclasses.field(default_factory=dict, compare=False)
        d: str = dataclasses.field(default="d", repr=False)
        E: ClassVar[int] = 5

        @cached_property
        def double(self) -> int:
            return 2 * self.a

    @dataclass(frozen=True)
    class Derived(Base):
        """Inherits them, and checks."""

        f: int = 1

        def __post_init__(self) -> None:
            if self.f < 0:
                raise ValueError("f is below 0")

        def __repr__(self) -> str:
            return f"<{self.a} {self.f}>"

    @dataclass(frozen=True, eq=False)
    class Same:
        """Is only equal to itself."""

        a: int

    @dataclass()
    class Open:
        """Can be changed."""

        a: int = 3

    return {each.__name__: each for each in (Base, Derived, Same, Open)}


def outcome(ask: Callable[[dict[str, type]], object], by: Any) -> object:
    """What asking gives, or the type of what it raises."""
    try:
        return ask(classes(by))
    except Exception as error:
        return type(error)


def changed(value: Any, name: str) -> Any:
    setattr(value, name, 7)
    return getattr(value, name)


ASK: dict[str, Callable[[dict[str, Any]], object]] = {
    "init": lambda c: vars(c["Base"](1, c={"x": 1})),
    "wrong init": lambda c: c["Base"](),
    "init of a derived class": lambda c: vars(c["Derived"](1, (2,), f=4)),
    "post init": lambda c: c["Derived"](1, f=-1),
    "repr": lambda c: repr(c["Base"](1)).rpartition(".")[2],
    "own repr": lambda c: repr(c["Derived"](1)),
    "equal": lambda c: c["Base"](1, c={"x": 1}) == c["Base"](1),
    "unequal": lambda c: c["Base"](1) == c["Base"](2),
    "of another class": lambda c: c["Base"](1) == c["Derived"](1),
    "in a set": lambda c: len({c["Base"](1), c["Base"](1), c["Base"](2)}),
    "hash": lambda c: hash(c["Base"](1, (2,))),
    "identity": lambda c: c["Same"](1) == c["Same"](1),
    "frozen": lambda c: changed(c["Base"](1), "a"),
    "frozen for other names": lambda c: changed(c["Base"](1), "z"),
    "frozen derived": lambda c: changed(c["Derived"](1), "f"),
    "frozen unequal": lambda c: changed(c["Same"](1), "a"),
    "open": lambda c: changed(c["Open"](), "a"),
    "open hash": lambda c: hash(c["Open"]()),
    "replace": lambda c: vars(dataclasses.replace(c["Derived"](1), b=(3,))),
    "fields": lambda c: [field.name for field in dataclasses.fields(c["Derived"])],
    "asdict": lambda c: dataclasses.asdict(c["Derived"](1)),
    "is one": lambda c: dataclasses.is_dataclass(c["Same"]),
    "class attribute": lambda c: (c["Base"](1).d, c["Base"].d, hasattr(c["Base"], "c"), c["Base"].E),
    "cached property": lambda c: (c["Base"](4).double, c["Derived"](5).double),
    "a subclass sets its own": lambda c: changed(type("Sub", (c["Base"],), {})(1), "z"),
    "a subclass sets a field": lambda c: changed(type("Sub", (c["Base"],), {})(1), "a"),
    "a subclass deletes a field": lambda c: delattr(type("Sub", (c["Base"],), {})(1), "a"),
    "pattern arguments": lambda c: c["Derived"].__match_args__,
    "a frozen dataclass of it": lambda c: repr(dataclasses.dataclass(frozen=True)(type("Sub", (c["Base"],), {}))(1)),
    "an open dataclass of it": lambda c: dataclasses.dataclass(type("Sub", (c["Base"],), {}))(1),
    "copied": lambda c: vars(copy.copy(c["Base"](1))) == vars(copy.deepcopy(c["Base"](1))),
    "made without init": lambda c: changed(c["Same"].__new__(c["Same"]), "a"),
}


@pytest.mark.parametrize("asked", ASK)
def test_the_same_as_the_standard_library(asked: str) -> None:
    assert outcome(ASK[asked], later.dataclass) == outcome(ASK[asked], dataclasses.dataclass)


def test_positional_patterns() -> None:
    """Also of a value that was made without its class's methods."""
    open_class = classes(later.dataclass)["Open"]
    value = open_class.__new__(open_class)
    vars(value)["a"] = 8
    match value:
        case open_class(a):  # type: ignore[misc]
            assert a == 8
        case _:
            pytest.fail("the pattern does not match")


@later.dataclass(frozen=True)
class Kept:
    """Is pickled before and after it has been used."""

    a: int
    b: str = "b"


def test_unpickled_before_it_is_used() -> None:
    state = pickle.dumps(Kept(1))
    assert pickle.loads(state) == Kept(1)


def test_threads_that_all_come_first() -> None:
    """At every moment a class has all its methods."""
    for _ in range(50):
        derived, start = classes(later.dataclass)["Derived"], Barrier(8)

        def first(a: int, derived: Any = derived, start: Barrier = start) -> Any:
            start.wait()
            return derived(a, f=a)

        with ThreadPoolExecutor(8) as pool:
            values = list(pool.map(first, range(8)))
        assert [(value.a, value.f) for value in values] == [(i, i) for i in range(8)]
