"""How a model is quantised: rules in order, each for tensors of some names or nodes of some operators.

A recipe file is TOML or JSON::

    [[rule]]
    operator = "FULLY_CONNECTED"        # and, or instead:  name = "block_2/.*"
    precision = "int4"
    granularity = "channel"

    [[rule]]
    name = "logits.*"
    precision = "float"
    prune = 0.5                         # share of the weights that become zero
    prune_block = "1x4"
    cluster = 4                         # bits: at most 16 different weights

INT8 weights have one scale per channel. TFLM before September 2024 refuses one scale per channel in FULLY_CONNECTED
(before May 2024 it computes nonsense): set ``granularity = "tensor"`` for it. INT4 weights of FULLY_CONNECTED have one
scale, as TFLM needs, unless a rule says "channel".
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

from twinfer.converter.compress.blocks import block
from twinfer.converter.quantize.methods import method
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.read import schema
from twinfer.runtime.read.files import reading

#: int4: weights of 4 bits where the operator has them, everything else as int8. dynamic: int8 weights, float values,
#: which TFLite's hybrid operators quantise at run time.
PRECISIONS = ("int8", "int16x8", "int4", "dynamic", "float")
GRANULARITIES = ("channel", "tensor")

#: The "operator" of a graph's inputs in a recipe.
INPUT = "INPUT"


#: Clustering to this many bits leaves at most 2**bits different weights.
CLUSTER_BITS = range(2, 8)


def _check(given: Choice | Rule) -> None:
    """InvalidArgumentError for values that no choice can have."""
    _one_of("precision", given.precision, PRECISIONS)
    _one_of("granularity", given.granularity, GRANULARITIES)
    if given.method is not None:
        method(given.method)
    if given.prune is not None and not 0 <= given.prune < 1:
        raise InvalidArgumentError(f"prune {given.prune}: the share of weights that become zero is from 0 to below 1")
    if given.cluster not in (None, 0, *CLUSTER_BITS):
        raise InvalidArgumentError(
            f"cluster {given.cluster}: weights are clustered to values of {CLUSTER_BITS[0]} to {CLUSTER_BITS[-1]} bits "
            "(0: they are not)"
        )
    if given.prune_block is not None:
        block(given.prune_block)


def _one_of(what: str, value: str | None, known: Iterable[str], *, show: bool = True) -> None:
    if value is not None and value not in known:
        there_are = f"; there are: {', '.join(known)}" if show else ""
        raise InvalidArgumentError(f"{value!r} is no {what}{there_are}")


@dataclass(frozen=True)
class Choice:
    """How a node and its outputs are quantised. ``granularity`` of the weights: None is the operator's default.

    ``prune``: share of its weights that become zero, ``prune_block``: in what shape (``compress.blocks``);
    ``cluster``: its integer weights take at most 2**cluster values (0: no limit).
    """

    precision: str = "int8"
    granularity: str | None = None
    method: str = "minmax"
    prune: float = 0.0
    prune_block: str = "1x1"
    cluster: int = 0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def type(self) -> str:
        """Of values between layers."""
        return {"int16x8": "INT16", "dynamic": "FLOAT32", "float": "FLOAT32"}.get(self.precision, "INT8")


@dataclass(frozen=True)
class Rule:
    """Matches a node if its operator is ``operator`` and the regular expression ``name`` fits the whole name of one of
    its outputs (None: any); sets what is not None. A graph's input counts as a node of operator INPUT."""

    name: str | None = None
    operator: str | None = None
    precision: str | None = None
    granularity: str | None = None
    method: str | None = None
    prune: float | None = None
    prune_block: str | None = None
    cluster: int | None = None

    def __post_init__(self) -> None:
        _check(self)
        _one_of("operator", self.operator, (INPUT, *schema.ENUMS["BuiltinOperator"].names), show=False)
        if self.name is None and self.operator is None:
            raise InvalidArgumentError("it matches nothing: give name (a regular expression), operator, or both")
        try:
            re.compile(self.name or "")
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidArgumentError(f"name {self.name!r} is no regular expression: {error}") from None

    def matches(self, operator: str, names: Iterable[str]) -> bool:
        return self.operator in (None, operator) and any(
            self.name is None or re.fullmatch(self.name, name) for name in names
        )

    def apply(self, choice: Choice) -> Choice:
        given = {field.name: getattr(self, field.name) for field in fields(Choice)}
        return replace(choice, **{key: value for key, value in given.items() if value is not None})


@dataclass(frozen=True)
class Recipe:
    """A default, and rules that change it in order: if two rules set the same thing, the later one counts."""

    rules: tuple[Rule, ...] = ()
    default: Choice = Choice()

    @property
    def prunes(self) -> bool:
        """Whether it may ask for pruning somewhere."""
        return bool(self.default.prune or any(rule.prune for rule in self.rules))

    @property
    def clusters(self) -> bool:
        """Whether it may ask for clustering somewhere."""
        return bool(self.default.cluster or any(rule.cluster for rule in self.rules))

    def sets_precision(self, node: Node) -> bool:
        """Whether one of the rules gives the node a precision."""
        names = [t.name for t in node.outputs]
        return any(rule.precision and rule.matches(node.op, names) for rule in self.rules)

    def of_node(self, node: Node) -> Choice:
        return self._of(node.op, [t.name for t in node.outputs])

    @property
    def types(self) -> set[str]:
        """The integer types that activations may have by it."""
        choices = (self.default, *(rule.apply(self.default) for rule in self.rules))
        return {choice.type for choice in choices} - {"FLOAT32"}

    def of_input(self, tensor: Tensor) -> Choice:
        return self._of(INPUT, [tensor.name])

    def _of(self, operator: str, names: list[str]) -> Choice:
        choice = self.default
        for rule in self.rules:
            if rule.matches(operator, names):
                choice = rule.apply(choice)
        return choice


def recipe(tables: Mapping[str, Any], default: Choice = Choice()) -> Recipe:
    """The recipe in a file's contents, over ``default``. InvalidArgumentError names the rule that is wrong."""
    unknown = set(tables) - {"rule"}
    if unknown or not isinstance(tables.get("rule", []), list):
        raise InvalidArgumentError(f"a recipe is a list of tables called 'rule'; it has {sorted(map(str, tables))}")
    return Recipe(tuple(_rule(i, table) for i, table in enumerate(tables.get("rule", []), 1)), default)


def read_recipe(path: str | os.PathLike[str], default: Choice = Choice()) -> Recipe:
    """The recipe of a .toml or .json file; InvalidArgumentError for one that cannot be read or is wrong."""
    with reading(path, "a recipe"):
        text = Path(path).read_text(encoding="utf-8")
        tables = json.loads(text) if Path(path).suffix == ".json" else tomllib.loads(text)
    if not isinstance(tables, dict):
        raise InvalidArgumentError(f"{path}: a recipe is a table with a list 'rule', not a {type(tables).__name__}")
    try:
        return recipe(tables, default)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{path}: {error}") from None


#: Key -> its type, where that is not a string.
_KINDS: Mapping[str, tuple[Any, str]] = {"prune": (int | float, "a number"), "cluster": (int, "a whole number")}


def _rule(i: int, table: Any) -> Rule:
    known = [field.name for field in fields(Rule)]
    if not isinstance(table, dict):
        raise InvalidArgumentError(f"rule {i} is a {type(table).__name__}, not a table")
    for key, value in table.items():
        if key not in known:
            raise InvalidArgumentError(f"rule {i} has no key {key!r}; there are: {', '.join(known)}")
        kind, what = _KINDS.get(key, (str, "a string"))
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InvalidArgumentError(f"rule {i}: {key} must be {what}, not {value!r}")
    try:
        return Rule(**table)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"rule {i}: {error}") from None


#: int8 by least and greatest value, everywhere.
DEFAULT = Recipe()
