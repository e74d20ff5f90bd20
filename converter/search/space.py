"""The settings of the quantiser that a search tries, and which of them are neighbours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

from twinfer.converter.quantize.methods import method
from twinfer.converter.quantize.recipe import Choice, Recipe, Rule
from twinfer.runtime.errors import InvalidArgumentError

#: From the cheapest to the most exact, and those that TFLM has layers for.
PRECISIONS = ("int4", "int8", "int16x8", "dynamic", "float")
TFLM = ("int4", "int8", "int16x8", "float")

#: Methods that are tried by default.
METHODS = ("minmax", "mse", "percentile", "entropy", "moving-average", "percentile-99.9", "percentile-99.999")

#: Corrections of weights and biases (``quantize.Options``).
CORRECTIONS = ("bias correction", "adaptive rounding")


@dataclass(frozen=True)
class Setting:
    """One way to quantise a model.

    ``precision`` and ``method`` are the default. ``rules`` are those of the user's recipe, ``recipe`` is its file
    (empty: none). ``layers`` are precisions of single layers by the name of their output; they override both.
    ``corrections`` are some of CORRECTIONS, in their order.
    """

    precision: str
    method: str
    corrections: tuple[str, ...] = ()
    recipe: str = ""
    rules: tuple[Rule, ...] = ()
    layers: tuple[tuple[str, str], ...] = ()

    def as_recipe(self) -> Recipe:
        """One rule for each precision of single layers: a rule for each layer would be asked of every layer."""
        names: dict[str, list[str]] = {}
        for name, precision in self.layers:
            names.setdefault(precision, []).append(re.escape(name))
        single = (Rule("|".join(own), precision=precision) for precision, own in names.items())
        return Recipe((*self.rules, *single), Choice(self.precision, None, self.method or METHODS[0]))

    def corrected(self, *names: str) -> Setting:
        """The setting with each of these corrections switched: added, or removed if it was there."""
        return replace(self, corrections=tuple(c for c in CORRECTIONS if (c in names) != (c in self.corrections)))

    def of(self, name: str) -> str:
        """The precision of a layer, if no rule sets it."""
        return dict(self.layers).get(name, self.precision)

    def at(self, name: str, precision: str) -> Setting:
        """The setting with one layer in that precision. The default precision is only listed if a recipe has rules."""
        others = {**dict(self.layers), name: precision}
        if precision == self.precision and not self.rules:
            del others[name]
        return replace(self, layers=tuple(sorted(others.items())))

    def json(self) -> dict[str, Any]:
        plain = asdict(self)
        del plain["rules"], plain["layers"]
        single = (Rule(re.escape(name), precision=precision) for name, precision in self.layers)
        rules = map(asdict, (*self.rules, *single))
        return {**plain, "rule": [{key: value for key, value in r.items() if value is not None} for r in rules]}

    @property
    def apart(self) -> str:
        """What differs from the default, in words: the recipe, and the number of layers per precision."""
        counts = Counter(precision for _, precision in self.layers)
        return ", ".join(filter(None, [self.recipe, *(f"{counts[p]} in {p}" for p in PRECISIONS if counts[p])]))

    def __str__(self) -> str:
        return ", ".join(filter(None, [self.precision, self.method, *self.corrections, self.apart]))


@dataclass(frozen=True)
class Space:
    """All that may be combined. ``recipes``: rules by the name of their file."""

    methods: Sequence[str] = METHODS
    precisions: Sequence[str] = TFLM
    recipes: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.methods:
            method(name)
        for name in self.precisions:
            if name not in PRECISIONS:
                raise InvalidArgumentError(f"{name!r} is no precision; there are: {', '.join(PRECISIONS)}")
        if not self.methods or not self.bases:
            raise InvalidArgumentError("nothing to search: give at least one method, and one precision beside float")

    @property
    def bases(self) -> list[str]:
        """The precisions that a whole model may have."""
        return [name for name in PRECISIONS if name in self.precisions and name != "float"]

    def grid(self) -> list[Setting]:
        """Every precision, method and recipe, without corrections."""
        recipes = [("", ()), *self.recipes.items()]
        return [Setting(p, m, recipe=name, rules=r) for (name, r), m, p in product(recipes, self.methods, self.bases)]

    def neighbours(self, setting: Setting, layers: Sequence[str]) -> Iterator[Setting]:
        """Settings that differ from this one in one thing. ``layers`` are those that can have a precision of their
        own."""
        yield from (replace(setting, method=name) for name in self.methods if name != setting.method)
        yield from (setting.corrected(name) for name in CORRECTIONS)
        own = dict(setting.layers)
        for name, precision in product(layers, self.precisions):
            if precision != own.get(name, setting.precision):
                yield setting.at(name, precision)
