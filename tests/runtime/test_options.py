"""``Options``: allowed values, messages about others, and which choice changes which part of a plan."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import tiny

import twinfer
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.options import USUAL, Coding, Decoding, Mode, Optimize, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.target import GENERIC

#: Field -> its values, and the message about other values.
FIELDS: dict[str, tuple[tuple[str, ...], str]] = {
    "optimize": (get_args(Optimize), "cannot optimize for 'odd', only for speed, balanced, size"),
    "weights": (get_args(Coding), "cannot store weights as 'odd', only as file, plain, auto, lut, huffman, bitmap"),
    "decode": (get_args(Decoding), "cannot decode weights at 'odd', only at layer, start"),
    "mode": (get_args(Mode), "mode 'odd' does not exist, only compiled, interpreted"),
}


@pytest.mark.parametrize("field", FIELDS)
def test_values_and_messages(field: str) -> None:
    values, message = FIELDS[field]
    for value in values:
        assert getattr(Options(**{field: value}), field) == value  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError) as raised:
        Options(**{field: "odd"})  # type: ignore[arg-type]
    assert str(raised.value) == message


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [None, 1, ["size"], np.array(["size", "speed"]), b"size"])
def test_what_is_no_word(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        Options(**{field: value})


@pytest.mark.parametrize("value", [None, 1, "fusion", ["fusion"], frozenset({"speed"}), frozenset({1})])
def test_what_no_plan_can_do_without(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="only without a frozenset of fusion, in_place, placement"):
        Options(without=value)


def test_a_plan_keeps_its_options() -> None:
    options = Options("size", "lut", "start", "interpreted", guard=True, preserve_all=True)
    plan = make_plan(tiny.dense().graph, GENERIC, options)
    assert plan.options == options
    assert plan.start, "weights are stored as the options say"
    assert make_plan(tiny.dense().graph, GENERIC).options == USUAL == twinfer.Options()


def test_printed_otherwise_it_is_the_same_plan() -> None:
    plan = make_plan(tiny.dense().graph, GENERIC, Options(weights="lut", decode="start"))
    other = plan.printed(mode="interpreted", optimize="size", guard=True)
    assert other.options == Options("size", "lut", "start", "interpreted", guard=True)
    assert (other.steps, other.offsets, other.start) == (plan.steps, plan.offsets, plan.start)
    with pytest.raises(InvalidArgumentError, match="mode 'fast' does not exist"):
        plan.printed(mode="fast")  # type: ignore[typeddict-item]
