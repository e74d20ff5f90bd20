"""What ``diff`` makes of two reports, over documents written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from twinfer.bench.report.diff import TOTALS, changed_layers, difference

Document = dict[str, Any]


def document(
    names: str, *, lines: Sequence[Sequence[int]] = (), costs: Sequence[int] = (), op: str = "ADD"
) -> Document:
    """A report of layers called by one letter each; the number of each in its file is ten times its position."""
    nodes = [
        {"position": i, "index": 10 * i, "name": name, "op": op, "shape": [i + 1], "type": "INT8", "kernel": "k",
         "macs": 5, "code_bytes": 7, "weight_bytes": 9}
        for i, name in enumerate(names)
    ]  # fmt: skip
    joined = lines or [[i] for i in range(len(names))]
    taken = costs or [100 + line[0] for line in joined]
    layers = [
        {"op": op, "name": "+".join(names[i] for i in line), "steps": list(line), "compiled": cost}
        for line, cost in zip(joined, taken, strict=True)
    ]
    totals = {key: i for i, key in enumerate(TOTALS, 1)}
    about = {"model": "m", "sha256": "0", "target": "t", "unit": "instructions", "twinfer": "1", "options": {}}
    return {**about, "machine": {}, "totals": totals, "nodes": nodes, "layers": layers}


def joined(a: Document, b: Document) -> list[tuple[list[int], list[int]]]:
    return [(row["a_steps"], row["b_steps"]) for row in difference(a, b)["layers"]]


def test_a_small_part_of_a_model_is_found_by_name() -> None:
    """Half of the smaller one's names are enough, whatever else the larger one has."""
    large, part = document("abcdefgh"), document("gh", op="ADD")
    assert ([6], [0]) in joined(large, part)
    assert ([7], [1]) in joined(large, part)
    assert ([0], [6]) in joined(part, large)
    half = document("gx")
    assert ([6], [0]) in joined(large, half), "one of two is half"
    assert ([7], [1]) not in joined(large, half)


def test_few_common_names_are_no_hint() -> None:
    """One of three: layers are found by kind and shape, here by position."""
    assert ([0], [0]) in joined(document("abc"), document("cxy"))


@pytest.mark.parametrize(("before", "after"), [([[0, 1], [2]], [[0], [1, 2]]), ([[0], [1], [2]], [[0, 1, 2]])])
def test_lines_that_share_steps_are_one(before: list[list[int]], after: list[list[int]]) -> None:
    a, b = document("abc", lines=before), document("abc", lines=after)
    (row,) = difference(a, b)["layers"]
    assert (row["a_steps"], row["b_steps"]) == ([0, 1, 2], [0, 1, 2])
    assert (row["a"], row["b"]) == tuple(sum(layer["compiled"] for layer in each["layers"]) for each in (a, b))
    assert row["changed"] == []


@pytest.mark.parametrize("key", ["op", "shape", "type", "kernel", "macs", "code_bytes", "weight_bytes"])
def test_each_column_that_changes_is_told(key: str) -> None:
    a, b = document("abc"), document("abc")
    b["nodes"][1][key] = [1, 2] if key == "shape" else 1234 if isinstance(b["nodes"][1][key], int) else "other"
    told = [row["changed"] for row in difference(a, b)["layers"]]
    was = {
        "shape": "2",
        "op": "ADD",
        "type": "INT8",
        "kernel": "k",
        "macs": "5",
        "code_bytes": "7",
        "weight_bytes": "9",
    }
    now = {"shape": "1×2", "macs": "1,234", "code_bytes": "1,234", "weight_bytes": "1,234"}
    assert told == [[], [f"{key.replace('_', ' ')} {was[key]} → {now.get(key, 'other')}"], []]


def test_layers_by_the_size_of_their_change() -> None:
    a, b = document("abc", costs=[100, 100, 100]), document("abc", costs=[101, 100, 90])
    assert [row["a_steps"] for row in changed_layers(difference(a, b))] == [[2], [0]]
    b["target"] = "other"
    assert changed_layers(difference(a, b)) == [], "figures of two targets are not compared"


def rows_of(a: Document, b: Document) -> list[tuple[list[int], list[int], list[str]]]:
    return [(row["a_operators"], row["b_operators"], row["changed"]) for row in difference(a, b)["layers"]]


def test_layers_that_come_and_go() -> None:
    """One that only ``b`` has comes last, under its own name and kind; one that ``a`` alone has stays in its place."""
    a, b = document("abc"), document("xac", op="MUL")
    b["nodes"][1]["op"] = b["nodes"][2]["op"] = "ADD"
    b["nodes"][1]["shape"], b["nodes"][2]["shape"] = [1], [3]
    assert rows_of(a, b) == [([0], [10], []), ([10], [], ["gone"]), ([20], [20], []), ([], [0], ["new"])]
    new = difference(a, b)["layers"][-1]
    assert (new["op"], new["name"], new["a"], new["b"]) == ("MUL", "x", None, 100)
    assert [row["name"] for row in difference(b, a)["layers"]] == ["x", "a", "c", "b"]


def test_what_is_around_the_layers_is_one_line() -> None:
    """It has no steps in either report, wherever it stands."""
    a, b = (
        document("ab", lines=[[0], [1], []], costs=[5, 6, 70]),
        document("ab", lines=[[], [0], [1]], costs=[90, 5, 6]),
    )
    rows = difference(a, b)["layers"]
    assert [(row["a_steps"], row["a"], row["b"]) for row in rows] == [([0], 5, 5), ([1], 6, 6), ([], 70, 90)]
    assert all(not row["changed"] for row in rows)


@pytest.mark.parametrize("same", list(product([True, False], [True, False], ["instructions", "µs"])))
def test_times_are_compared_on_one_computer_and_target(same: tuple[bool, bool, str]) -> None:
    """Instructions of one target count the same on every computer; bytes are compared in any case."""
    target, machine, unit = same
    a, b = document("a"), document("a", costs=[300])
    b["totals"] = {key: value + 1 for key, value in b["totals"].items()}
    b |= {} if target else {"target": "other"}
    b |= {} if machine else {"machine": {"cpu": "other"}}
    a["unit"] = b["unit"] = unit
    diff = difference(a, b)
    want = target and (machine or unit == "instructions")
    assert diff["comparable"] == want
    shown = [row["label"] for row in diff["totals"]]
    assert shown[: 2 * want] == [f"{side}, {unit}" for side in ("compiled", "interpreted")][: 2 * want]
    assert len(shown) == len(TOTALS) - 2 + 2 * want
    assert all(row["b"] == row["a"] + 1 for row in diff["totals"])
    assert [row["name"] for row in changed_layers(diff)] == ["a"] * want
