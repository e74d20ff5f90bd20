"""What is quantised how: rules in order, each for the tensors of some names or the nodes of some operators.

A recipe file is TOML or JSON::

    [[rule]]
    operator = "FULLY_CONNECTED"        # and, or instead:  name = "block_2/.*"
    precision = "int4"
    granularity = "channel"

    [[rule]]
    name = "logits.*"
    precision = "float"
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from twinfer.converter.methods import method
from twinfer.runtime import schema
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Node, Tensor

#: int4: weights of 4 bits where the operator has them, everything else as int8.
PRECISIONS = ("int8", "int16x8", "int4", "float")
GRANULARITIES = ("channel", "tensor")

#: The "operator" of a graph's inputs in a recipe.
INPUT = "INPUT"


@dataclass(frozen=True)
class Choice:
    """How a node and its outputs are quantised; ``granularity`` (of weights): None is the operator's default."""

    precision: str = "int8"
    granularity: str | None = None
    method: str = "minmax"

    @property
    def type(self) -> str:
        """The type of activations."""
        return {"int16x8": "INT16", "float": "FLOAT32"}.get(self.precision, "INT8")


@dataclass(frozen=True)
class Rule:
    """Matches a node if its operator is ``operator`` and the regular expression ``name`` fits the whole name of one of
    its outputs (None: any); sets what is not None. A graph's input counts as a node of operator INPUT."""

    name: str | None = None
    operator: str | None = None
    precision: str | None = None
    granularity: str | None = None
    method: str | None = None

    def __post_init__(self) -> None:
        _one_of("precision", self.precision, PRECISIONS)
        _one_of("granularity", self.granularity, GRANULARITIES)
        if self.method is not None:
            method(self.method)
        _one_of("operator", self.operator, (INPUT, *schema.ENUMS["BuiltinOperator"].names), show=False)
        if self.name is None and self.operator is None:
            raise InvalidArgumentError("it matches nothing: give name (a regular expression), operator, or both")
        try:
            re.compile(self.name or "")
        except re.error as error:
            raise InvalidArgumentError(f"name {self.name!r} is no regular expression: {error}") from None

    def matches(self, operator: str, names: Iterable[str]) -> bool:
        return self.operator in (None, operator) and any(
            self.name is None or re.fullmatch(self.name, name) for name in names
        )

    def apply(self, choice: Choice) -> Choice:
        given = {key: getattr(self, key) for key in ("precision", "granularity", "method")}
        return replace(choice, **{key: value for key, value in given.items() if value is not None})


@dataclass(frozen=True)
class Recipe:
    """A default, and rules that change it in their order: of two that say the same thing the later one counts."""

    rules: tuple[Rule, ...] = ()
    default: Choice = Choice()

    def __post_init__(self) -> None:
        _one_of("precision", self.default.precision, PRECISIONS)
        _one_of("granularity", self.default.granularity, GRANULARITIES)
        method(self.default.method)

    def of_node(self, node: Node) -> Choice:
        return self._of(node.op, [t.name for t in node.outputs])

    def of_input(self, tensor: Tensor) -> Choice:
        return self._of(INPUT, [tensor.name])

    def _of(self, operator: str, names: list[str]) -> Choice:
        choice = self.default
        for rule in self.rules:
            if rule.matches(operator, names):
                choice = rule.apply(choice)
        return choice


def recipe(tables: Mapping[str, Any], default: Choice = Choice()) -> Recipe:
    """The recipe that a file's contents mean, over ``default``; InvalidArgumentError says which rule is wrong."""
    unknown = set(tables) - {"rule"}
    if unknown or not isinstance(tables.get("rule", []), list):
        raise InvalidArgumentError(f"a recipe is a list of tables called 'rule'; it has {sorted(map(str, tables))}")
    return Recipe(tuple(_rule(i, table) for i, table in enumerate(tables.get("rule", []), 1)), default)


def read_recipe(path: str | os.PathLike[str], default: Choice = Choice()) -> Recipe:
    """The recipe of a .toml or .json file; InvalidArgumentError for one that cannot be read or is wrong."""
    try:
        text = Path(path).read_text()
        tables = json.loads(text) if Path(path).suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{path}: cannot be read as a recipe: {error}") from None
    if not isinstance(tables, dict):
        raise InvalidArgumentError(f"{path}: a recipe is a table with a list 'rule', not a {type(tables).__name__}")
    try:
        return recipe(tables, default)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{path}: {error}") from None


def _rule(i: int, table: Any) -> Rule:
    known = [field.name for field in fields(Rule)]
    if not isinstance(table, dict):
        raise InvalidArgumentError(f"rule {i} is a {type(table).__name__}, not a table")
    for key, value in table.items():
        if key not in known:
            raise InvalidArgumentError(f"rule {i} has no key {key!r}; there are: {', '.join(known)}")
        if not isinstance(value, str):
            raise InvalidArgumentError(f"rule {i}: {key} must be a string, not {value!r}")
    try:
        return Rule(**table)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"rule {i}: {error}") from None


def _one_of(what: str, value: str | None, known: Iterable[str], *, show: bool = True) -> None:
    if value is not None and value not in known:
        there_are = f"; there are: {', '.join(known)}" if show else ""
        raise InvalidArgumentError(f"{value!r} is no {what}{there_are}")


#: int8 by least and greatest value, everywhere.
DEFAULT = Recipe()
