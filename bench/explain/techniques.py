"""The techniques that make a program fast and small, each of which a build can have or lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.options import Options
from twinfer.runtime.options import Technique as Planned
from twinfer.runtime.plan.choice import Policy, default_policy, share_all, specialise
from twinfer.runtime.target import FEATURES, Target


@dataclass(frozen=True)
class Technique:
    """``label`` and ``about`` are words for people; it is only possible with those that it ``needs``."""

    label: str
    about: str
    needs: tuple[str, ...] = ()


#: All techniques, in the order in which the ladder adds them to nothing.
TECHNIQUES: Mapping[str, Technique] = {
    "folding": Technique("zero points folded", "the input's zero point is in the biases instead of in every product"),
    "packing": Technique("weights packed", "weights lie in the order in which SIMD reads them", ("folding",)),
    "instructions": Technique("instruction set", "SMLAD, Helium or vectors instead of the same in C", ("packing",)),
    "calls": Technique("direct calls", "one call after the other instead of a loop over a table"),
    "constants": Technique("constant shapes", "a body per layer, its parameters known to the compiler", ("calls",)),
    "fusion": Technique(
        "fusion", "borders are taken into the windows behind them, functions of one value into one table"
    ),
    "in_place": Technique("in place", "outputs lie in the memory of an input; copies that change nothing are none"),
    "placement": Technique("placement", "tensors that do not live at the same time share memory"),
    "rows": Technique("row by row", "layers run row by row as far as that is cheap", ("in_place", "placement")),
    "price": Technique("choice by price", "layers share a kernel where flash is worth more", ("constants",)),
    "coding": Technique("weights stored", "weights are stored in fewer bits where that saves flash"),
}

#: Those that change nothing on a computer, where neither RAM nor flash is short.
SMALL_ALONE = ("rows", "price", "coding")

#: Those that the ladder has only if they are named: ``twinfer compile`` does not do them by itself, and they cost time.
NAMED_ALONE = ("coding",)


def chosen(given: str | None, target: Target) -> tuple[str, ...]:
    """The techniques of a list with commas, in its order; None: all that a compiled program for a target has.

    InvalidArgumentError for one that does not exist, or that stands before one that it needs, and for a list of none.
    """
    usual = [key for key in TECHNIQUES if applies(key, target) and key not in NAMED_ALONE]
    names = usual if given is None else [name.strip().replace("-", "_") for name in given.split(",") if name.strip()]
    if not names:
        raise InvalidArgumentError(f"no technique is named; there are {', '.join(TECHNIQUES)}")
    for i, name in enumerate(names):
        if name not in TECHNIQUES:
            near = get_close_matches(name, TECHNIQUES, 1)
            hint = f" Do you mean {near[0]}?" if near else ""
            raise InvalidArgumentError(f"there is no technique {name!r}, only {', '.join(TECHNIQUES)}.{hint}")
        if absent := [each for each in TECHNIQUES[name].needs if each not in names[:i]]:
            raise InvalidArgumentError(f"{name} needs {absent[0]}, which must stand before it")
    return tuple(dict.fromkeys(names))


def applies(key: str, target: Target) -> bool:
    """Whether a technique can change a program for a target."""
    if key == "instructions":
        return bool(simd(target))
    return target.flash_is_dear or key not in SMALL_ALONE


def simd(target: Target) -> frozenset[str]:
    """The features of a target that are instructions, for which C can stand in."""
    return target.features & {feature.name for feature in FEATURES.values() if feature.instructions}


@dataclass(frozen=True)
class Build:
    """A program with some of the techniques."""

    techniques: frozenset[str]

    def target(self, target: Target) -> Target:
        """The target with the features that its kernels may use."""
        if "packing" in self.techniques:
            return target
        plain = target.features.difference(FEATURES)
        return replace(target, features=plain if "folding" in self.techniques else plain | {"reference"})

    def options(self, options: Options) -> Options:
        """The options with which it is planned and printed."""
        without: list[Planned] = [key for key in ("fusion", "in_place", "placement") if key not in self.techniques]
        return replace(
            options,
            mode="compiled" if "calls" in self.techniques else "interpreted",
            memory=options.memory if "rows" in self.techniques else "layers",
            weights="auto" if "coding" in self.techniques else options.weights,
            without=frozenset(without),
        )

    @property
    def policy(self) -> Policy:
        """Which layers share kernels."""
        if "price" in self.techniques:
            return default_policy
        return specialise if "constants" in self.techniques else share_all


def added(names: Sequence[str]) -> list[Build]:
    """The ladder up: a build without any technique, then one more in each."""
    return [Build(frozenset(names[:i])) for i in range(len(names) + 1)]


def removed(names: Iterable[str]) -> list[Build]:
    """For each technique a build with all others, but for those that need it."""
    every = frozenset(names)
    return [Build(every - _with_dependants(name, every)) for name in names]


def _with_dependants(name: str, every: frozenset[str]) -> set[str]:
    gone = {name}
    while more := {key for key in every - gone if gone.intersection(TECHNIQUES[key].needs)}:
        gone |= more
    return gone
