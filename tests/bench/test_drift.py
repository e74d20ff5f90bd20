"""Figures beside those of before: which drift, which are left out, and what a saved file must hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twinfer.bench.drift import saved as saving
from twinfer.bench.drift.drift import Drifts, Limits, drifts
from twinfer.bench.drift.runs import runs_of
from twinfer.bench.drift.saved import Saved, save, saved
from twinfer.runtime.errors import InvalidArgumentError

Row = dict[str, Any]

HERE = {"cpu": "A/B C", "cores": 2, "isa": "v3", "compiler": "gcc 12", "arm_compiler": "arm 12"}
THERE = {**HERE, "cpu": "another"}


def layer(index: int, op: str = "CONV_2D", output: str = "y", **figures: float) -> Row:
    return {"index": index, "op": op, "output": output, "shape": [1], **figures}


def on_board(**changes: Any) -> Row:
    about = {"model": "net", "engine": "compiled", "target": "cortex-m4", "optimize": "balanced", "weights": "file"}
    about |= {"decode": "layer", "memory": "layers", "instructions": 1000, "code_bytes": 500, "weight_bytes": 200}
    return {**about, "ram_bytes": 64, "stack_bytes": 100, "same_bits": True, **changes}


def on_host(**changes: Any) -> Row:
    about = {"model": "net", "engine": "compiled", "target": "host", "arena_bytes": 64, "constant_bytes": 200}
    return {**about, "min_us": 100.0, "median_us": 101.0, "spread_us": 1.0, "ratio": 2.0, **changes}


def outcome(
    now: list[Row], before: list[Row], limits: Limits | None = None, machine: Row = HERE, then: Row = HERE
) -> Drifts:
    old = Saved(Path("before.json"), then, runs_of(before))
    return drifts(runs_of(now), machine, [old], limits or Limits())


def drifted(result: Drifts) -> list[tuple[str, float, float, bool]]:
    return [(drift.figure, drift.before, drift.after, drift.worse) for drift in result.every]


def test_a_layer_is_named_and_found_behind_one_that_is_new() -> None:
    """Layers have the same name if an operator is applied twice to one tensor; then their order counts."""
    old = [layer(0, output="a", instructions=5, code_bytes=1), layer(1, output="a", instructions=10, code_bytes=1)]
    new = [
        layer(0, "RELU", instructions=1, code_bytes=1),
        layer(1, output="a", instructions=5, code_bytes=1),
        layer(2, output="a", instructions=11, code_bytes=1),
    ]
    result = outcome([on_board(layers=new)], [on_board(layers=old)])
    (drift,) = result.every
    assert (str(drift.layer), drift.figure, drift.before, drift.after) == ("2 CONV_2D a", "instructions", 10, 11)
    (remark,) = result.remarks
    assert remark.endswith("layers: left out of its layers, only there now or only before: 1")
    assert outcome([on_board(layers=old)], [on_board(layers=new)]).remarks == [remark], "a layer that is gone"


def test_what_is_compared_has_the_same_options() -> None:
    for change in ({"optimize": "size"}, {"memory": "auto"}, {"target": "cortex-m0"}, {"engine": "interpreted"}):
        result = outcome([on_board(**change)], [on_board(instructions=1)])
        assert (result.compared, result.every) == (0, [])
        assert len(result.remarks) == 1
        assert result.remarks[0].endswith("left out, nothing was saved of it")


def test_times_of_another_machine_are_left_out_and_counts_are_not() -> None:
    now, before = [on_host(min_us=900.0), on_board(instructions=2000)], [on_host(), on_board()]
    result = outcome(now, before, then=THERE)
    assert drifted(result) == [("instructions", 1000, 2000, True)]
    assert result.remarks == ["net on host: compiled: left out, it was measured on another machine (another)"]
    for key, value in (("cores", 4), ("isa", "v4")):
        assert not drifted(outcome(now[:1], before, then={**HERE, key: value}))
    assert drifted(outcome(now[:1], before, then={**HERE, "python": "3.99"}))


@pytest.mark.parametrize(
    ("limits", "after", "is_drift"),
    [(None, 1010, False), (None, 989, True), (Limits(0, 0), 1001, True), (Limits(5, 5), 1050, False),
     (Limits(5, 5), 1051, True)],
)  # fmt: skip
def test_limit_of_counts(limits: Limits | None, after: int, is_drift: bool) -> None:
    assert bool(outcome([on_board(instructions=after)], [on_board()], limits).every) is is_drift


# -- files -------------------------------------------------------------------------------------------------------------


def document(*rows: Row, machine: Row = HERE) -> Row:
    return {"schema": 1, "machine": machine, "rows": list(rows)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_figures_are_kept_by_machine_name_and_model(folder: Path) -> None:
    paths = save(document(on_board(), on_host(), on_board(model="a b%/c")), "base")
    assert [str(path) for path in paths] == [
        ".twinfer/bench/A-B-C-2-v3/base/net.json",
        ".twinfer/bench/A-B-C-2-v3/base/a b%25%2Fc.json",
    ]
    (net, other) = saved("base", ["net", "a b%/c", "not saved"], HERE)
    assert [run.key[:2] for run in net.runs] == [("net", "cortex-m4"), ("net", "host")]
    assert [run.key[0] for run in other.runs] == ["a b%/c"]
    assert net.machine == HERE


def test_a_file_holds_all(folder: Path) -> None:
    for place in ("all.json", f"{folder}{os.sep}all"):
        assert save(document(on_board(), on_host(model="other")), place) == [Path(place)]
        (one,) = saved(place, ["whatever"], HERE)
        assert [run.key[0] for run in one.runs] == ["net", "other"]
    assert not (folder / ".twinfer").exists()


def test_another_machines_figures_are_found_if_there_are_no_own(folder: Path) -> None:
    """The newest of them."""
    (old,), (new,) = (save(document(on_board(), machine={**HERE, "cores": n}), "base") for n in (7, 5))
    os.utime(old, (1, 1))
    assert [each.machine["cores"] for each in saved("base", ["net"], HERE)] == [5]
    os.utime(new, (0, 0))
    assert [each.machine["cores"] for each in saved("base", ["net"], HERE)] == [7]
    save(document(on_board()), "base")
    assert [each.machine["cores"] for each in saved("base", ["net"], HERE)] == [2]


def test_nothing_is_kept_under_that_name(folder: Path) -> None:
    save(document(on_board()), "base")
    for name, model in (("other", "net"), ("base", "other")):
        with pytest.raises(InvalidArgumentError, match=f"twinfer bench {model} --save {name}"):
            saved(name, [model], HERE)


@pytest.mark.parametrize("name", ["", ".", "..", "-x", "a b", "*", ".hidden"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is no name: use letters"):
        saving.is_file(name)


def damaged(change: Callable[[Row], Any]) -> str:
    value = document(on_board(layers=[layer(0, instructions=5, code_bytes=1)]), on_host())
    change(value)
    return json.dumps(value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", "1", '{"schema": 1}', '{"schema": 1, "machine": {}, "rows": 3}', "[" * 100_000),
        damaged(lambda value: value.update(machine=7)),
        damaged(lambda value: value["rows"].append("row")),
        damaged(lambda value: value["rows"][0].pop("instructions")),
        damaged(lambda value: value["rows"][0].update(instructions="many")),
        damaged(lambda value: value["rows"][0].update(instructions=float("nan"))),
        damaged(lambda value: value["rows"][0].update(instructions=-1)),
        damaged(lambda value: value["rows"][0].update(model=["net"])),
        damaged(lambda value: value["rows"][0]["layers"][0].pop("op")),
        damaged(lambda value: value["rows"][1].update(spread_us=None)),
    ],
)
def test_damaged_files(text: str, folder: Path) -> None:
    Path("a.json").write_text(text)
    with pytest.raises(InvalidArgumentError, match=r"a\.json: cannot be read as figures of twinfer bench"):
        saved("a.json", ["net"], HERE)
