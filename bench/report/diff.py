"""What changed between two reports: totals, and layers side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

Document = Mapping[str, Any]
Row = dict[str, Any]

#: Rises when a key of the JSON goes or changes its meaning. New keys do not count.
SCHEMA = 1

KIND = "twinfer diff"

#: Figures of the whole model, and their labels. Times and instructions are compared on one target alone.
TOTALS = {
    "compiled": "compiled",
    "interpreted": "interpreted",
    "macs": "MACs",
    "arena_bytes": "arena, bytes",
    "state_bytes": "state, bytes",
    "ram_bytes": "RAM, bytes",
    "flash_bytes": "flash, bytes",
    "code_bytes": "code, bytes",
    "weight_bytes": "weights, bytes",
    "constant_bytes": "constants, bytes",
}

#: What a report is of, and what may differ.
ABOUT = ("model", "sha256", "target", "unit", "twinfer", "options")

#: Columns of a step that are named if they change.
NOTED = ("op", "shape", "type", "kernel", "macs", "code_bytes", "weight_bytes")


def difference(a: Document, b: Document) -> Document:
    """What changed from report ``a`` to report ``b``.

    ``totals`` and ``layers`` have the figures of both as ``a`` and ``b``, None where there is none. A layer joins the
    lines of both ledgers that have steps in common; ``steps`` are their positions, ``operators`` their numbers in the
    files, ``changed`` says what else differs.
    """
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "a": {key: a[key] for key in ABOUT},
        "b": {key: b[key] for key in ABOUT},
        "comparable": comparable(a, b),
        "totals": list(_totals(a, b)),
        "layers": list(_layers(a, b)),
    }


def comparable(a: Document, b: Document) -> bool:
    """Whether times and instructions of both can be compared: of one target and, for times, of one computer."""
    return bool(a["target"] == b["target"] and (a["unit"] == "instructions" or a["machine"] == b["machine"]))


def _totals(a: Document, b: Document) -> Iterator[Row]:
    for key, label in TOTALS.items():
        both = a["totals"][key], b["totals"][key]
        timed = key in ("compiled", "interpreted")
        if any(both) and (comparable(a, b) or not timed):
            yield {"figure": key, "label": f"{label}, {a['unit']}" if timed else label, "a": both[0], "b": both[1]}


def _layers(a: Document, b: Document) -> Iterator[Row]:
    """The layers of both, in the order of ``a``; those that only ``b`` has come last."""
    pairs = list(_pairs(a["nodes"], b["nodes"]))
    lines = [(line, 0) for line in a["layers"]] + [(line, 1) for line in b["layers"]]
    groups = _joined(pairs, lines)
    for group in groups:
        sides = [[lines[i][0] for i in group if lines[i][1] == side] for side in (0, 1)]
        steps = [[at for line in side for at in line["steps"]] for side in sides]
        yield {
            "op": _words(sides[0] or sides[1], "op"),
            "name": _words(sides[0] or sides[1], "name"),
            "a_steps": steps[0],
            "b_steps": steps[1],
            "a_operators": _operators(a, steps[0]),
            "b_operators": _operators(b, steps[1]),
            "a": sum(line["compiled"] for line in sides[0]) if sides[0] else None,
            "b": sum(line["compiled"] for line in sides[1]) if sides[1] else None,
            "changed": list(_changed(steps, pairs)),
        }


def _operators(document: Document, steps: Sequence[int]) -> list[int]:
    """The numbers of layers' operators in the model's file."""
    return [node["index"] for node in document["nodes"] if node["position"] in steps]


def _words(lines: Sequence[Row], key: str) -> str:
    return ", ".join(dict.fromkeys(line[key] for line in lines))


def _pairs(a: Sequence[Row], b: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Steps that are the same layer in both: of one name or, if few names are, of one kind and shape."""
    common = {node["name"] for node in a} & {node["name"] for node in b}
    by_name = 2 * len(common) >= min(len(a), len(b))

    def key(node: Row) -> tuple[Any, ...]:
        return (node["name"],) if by_name else (node["op"], *node["shape"])

    matcher = SequenceMatcher(None, [key(node) for node in a], [key(node) for node in b], autojunk=False)
    for i, j, length in matcher.get_matching_blocks():
        yield from zip(a[i : i + length], b[j : j + length], strict=True)


def _joined(pairs: Iterable[tuple[Row, Row]], lines: Sequence[tuple[Row, int]]) -> list[list[int]]:
    """Numbers of lines, those in one group that have steps in common; groups in order."""
    home = list(range(len(lines)))
    of = {(side, step): i for i, (line, side) in enumerate(lines) for step in line["steps"]}

    def root(i: int) -> int:
        while home[i] != i:
            i = home[i]
        return i

    around = [i for i, (line, _) in enumerate(lines) if not line["steps"]]
    places = [((0, before["position"]), (1, after["position"])) for before, after in pairs]
    both = [(of[i], of[j]) for i, j in places if i in of and j in of]
    for left, right in [*both, *pairwise(around)]:
        first, last = sorted((root(left), root(right)))
        home[last] = first
    groups: dict[int, list[int]] = {}
    for i in range(len(lines)):
        groups.setdefault(root(i), []).append(i)
    return list(groups.values())


def _changed(steps: Sequence[Sequence[int]], pairs: Iterable[tuple[Row, Row]]) -> Iterator[str]:
    """What else differs between the steps of a group, in words."""
    if bool(steps[0]) != bool(steps[1]):
        yield "new" if steps[1] else "gone"
        return
    here = (pair for pair in pairs if pair[0]["position"] in steps[0] and pair[1]["position"] in steps[1])
    for before, after in here:
        different = (key for key in NOTED if before[key] != after[key])
        yield from (f"{key.replace('_', ' ')} {_short(before[key])} → {_short(after[key])}" for key in different)
    if len(steps[0]) != len(steps[1]):
        yield f"{len(steps[0])} steps → {len(steps[1])}"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "×".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
