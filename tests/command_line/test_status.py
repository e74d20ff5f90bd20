"""Exit status: 1 where results differ, before 2 where something did not run, whatever the order; what is told of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinfer.bench.explain import explain as explaining
from twinfer.bench.explain.explain import Explanation
from twinfer.bench.explain.ladder import Figures, Ladder
from twinfer.bench.explain.ledger import Ledger, Line, Start
from twinfer.bench.explain.techniques import chosen
from twinfer.bench.measure import compare as comparing
from twinfer.bench.measure import embedded
from twinfer.bench.models import verify
from twinfer.bench.models.verify import Difference, Proof
from twinfer.bench.report import document as reporting
from twinfer.command_line.bench import exit_status
from twinfer.command_line.main import main
from twinfer.command_line.targets import machine
from twinfer.converter.build import Builder
from twinfer.runtime.errors import ToolError, UnsupportedOperatorError

NAMES = ("one", "bad", "three")


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three models, in the folder at hand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(embedded, "need_tools", lambda card: None)
    for name in NAMES:
        b = Builder(name)
        b.graph([b.op("RELU", [b.input("x", "FLOAT32", (1, 3))])]).save(f"{name}.tflite")
    return [f"{name}.tflite" for name in NAMES]


# -- verify ------------------------------------------------------------------------------------------------------------

FAR = Difference(0, (0, 1), 1.0, 2.0, 1.0, within=False)
NEAR = Difference(0, (0, 1), 1.0, 1.000001, 1e-6, within=True)
RIGHT = "right right right"

#: What is said of a proof, by what became of it.
TOLD = {
    "right": "proven on one sample", "near": "proven on one sample", "peer": "proven on one sample",
    "differs": "compiled differs first in", "unbuilt": "not proven: it did not run compiled on mine",
    "zero": "not proven: ",
}  # fmt: skip


@pytest.mark.parametrize(
    ("host", "board", "status"),
    [
        (RIGHT, RIGHT, 0),
        ("near peer right", RIGHT, 0),
        ("right differs right", RIGHT, 1),
        (RIGHT, "right right differs", 1),
        ("right refused right", "right refused right", 2),
        ("differs refused right", RIGHT, 1),
        ("refused right differs", RIGHT, 1),
        (RIGHT, "right unbuilt right", 2),
        ("unbuilt differs right", "refused right right", 1),
        ("zero right right", RIGHT, 1),
    ],
)
def test_verify(
    host: str, board: str, status: int, models: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Every model is proven on both, whatever becomes of others; each is told of."""
    kinds, proven = {"host": host.split(), "board": board.split()}, list[tuple[str, str]]()

    def prove(side: str, source: Any) -> Proof:
        proven.append((source.name, side))
        kind, output = kinds[side][NAMES.index(source.name)], source.graph.outputs[0]
        if kind == "refused":
            raise UnsupportedOperatorError("no kernel for Mystery")
        line = verify.Line(output, source.graph.nodes[0], {"compiled": {"differs": FAR, "near": NEAR}.get(kind)})
        notes = {"unbuilt": {"compiled on mine": "too large for it"}, "peer": {"tflm": "refuses"}}.get(kind, {})
        proof = Proof(source.name, source.graph, [line], 1, notes=notes)
        proof.by_zero.update({output: 2} if kind == "zero" else {})
        return proof

    monkeypatch.setattr(verify, "verify", lambda source, *_: prove("host", source))
    monkeypatch.setattr(embedded, "verify_on", lambda source, *_: prove("board", source))
    assert main(["verify", *models, "--target", "host,cortex-m4", "--against", "none"]) == status
    said = capsys.readouterr()
    assert proven == [*itertools.product(NAMES, ("host", "board"))]
    assert said.err.count("no kernel for Mystery") == f"{host} {board}".count("refused")
    for i, name in enumerate(NAMES):
        for kind in (kinds["host"][i], kinds["board"][i]):
            assert kind == "refused" or f"{name}: {TOLD[kind]}" in said.out


def test_a_matrix_has_a_column_for_every_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both modes and both plans of every core, each with its own sign."""
    names = [f"{mode} {plan} on {core}" for core in ("cortex-m4", "cortex-m0")
             for mode in ("interpreted", "compiled") for plan in ("layers", "rows")]  # fmt: skip

    def prove(source: Any, *_: Any) -> Proof:
        differences = {name: FAR if i == 6 else NEAR if i == 3 else None for i, name in enumerate(names) if i != 1}
        lines = [verify.Line(source.graph.outputs[0], None, differences)]
        return Proof(source.name, source.graph, lines, 1, others=names)

    monkeypatch.setattr(embedded, "verify_on", prove)
    assert main(["verify", "one.tflite", "--target", "cortex-m4,cortex-m0"]) == 1
    shown = capsys.readouterr().out
    (line,) = (line for line in shown.splitlines() if "·" in line and "not computed" not in line)
    assert line.split()[-8:] == ["=", "·", "=", "≈", "=", "=", "≠", "="]
    heads = "".join(shown.splitlines()[1:5])
    assert (heads.count("m4"), heads.count("m0")) == (4, 4)
    assert "compiled layers on cortex-m0 differs first" in shown


# -- bench -------------------------------------------------------------------------------------------------------------


def host_row(model: str, engine: str, same: bool) -> dict[str, Any]:
    return {
        "model": model, "engine": engine, "target": "host", "min_us": 2.0, "median_us": 3.0, "spread_us": 0.5,
        "ratio": 1.0, "floor_us": 0.5, "rounds": 5, "batch": 1, "same_bits": same, "max_difference": 0.0 if same else 4,
        "operators": 1, "macs": 1000, "arena_bytes": 24, "lower_bound_bytes": 24, "constant_bytes": 0,
        "compile_s": 0.1, "compile_cached": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("host", "board", "status"),
    [
        (RIGHT, RIGHT, 0),
        ("right differs right", RIGHT, 1),
        ("right peer right", RIGHT, 0),
        ("right fails right", RIGHT, 2),
        (RIGHT, "right fails right", 2),
        ("differs fails right", RIGHT, 1),
        ("fails right right", "right right differs", 1),
        ("error right right", RIGHT, 2),
        ("error differs fails", RIGHT, 1),
        ("fails fails fails", RIGHT, 2),
    ],
)
def test_bench(
    host: str, board: str, status: int, models: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Rows before a failure stay, other models are measured; nothing is written if nothing ran."""
    kinds = {name: each for name, *each in zip(NAMES, host.split(), board.split(), strict=True)}
    engines = ("interpreted", "compiled", "tflm")

    def rows(source: Any, side: int) -> list[dict[str, Any]]:
        kind = kinds[source.name][side]
        if kind == "fails":
            raise ToolError("nothing runs there")
        wrong = {"differs": "compiled", "peer": "tflm"}.get(kind)
        made = [host_row(source.name, engine, engine != wrong) for engine in engines]
        return [made[0], {**made[1], "error": "it ended", "min_us": None}, made[2]] if kind == "error" else made

    monkeypatch.setattr(comparing, "compare", lambda source, *_: rows(source, 0))
    monkeypatch.setattr(embedded, "measure_on", lambda source, *_: rows(source, 1))
    how = ("--against", "none", "--target", "host,cortex-m4", "--json", "rows.json")
    assert main(["bench", *models, *how]) == status
    said = capsys.readouterr()
    parts = {name: 2 if "fails" not in sides else sides.index("fails") for name, sides in kinds.items()}
    told = json.loads(Path("rows.json").read_text())["rows"] if any(parts.values()) else []
    assert [(row["model"], row["engine"]) for row in told] == [
        (name, engine) for name in NAMES for _ in range(parts[name]) for engine in engines]  # fmt: skip
    assert Path("rows.json").exists() == any(parts.values())
    assert (
        said.err.count("nothing runs there") == f"{host} {board}".count("fails") if host != "fails fails fails" else 3
    )
    assert said.out.count("differ by 4") == sum(f"{host} {board}".count(kind) for kind in ("differs", "peer"))


def row(engine: str, same: bool | None, agrees: bool | None = None, error: str = "") -> dict[str, Any]:
    return {"engine": engine, "same_bits": same, "agrees": agrees, **({"error": error} if error else {})}


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([], 0),
        ([row("interpreted", True), row("compiled", True)], 0),
        ([row("interpreted", False), row("compiled", True)], 1),
        ([row("compiled", False, agrees=True)], 0),
        ([row("compiled", False, agrees=False)], 1),
        ([row("compiled", None, error="too large")], 2),
        ([row("compiled", None, error="too large"), row("interpreted", False)], 1),
        ([row("compiled", True), row("tflm", False), row("litert", None, error="refuses")], 0),
    ],
)
def test_rows_are_judged_by_our_own_engines(rows: list[dict[str, Any]], status: int) -> None:
    assert exit_status(rows) == status


def test_floats_agree_within_the_tolerance_and_integers_to_the_bit() -> None:
    one = np.array([1.0, -4.0], np.float32)
    assert embedded.agree(one + np.float32([3.9e-5, 0]), one)
    assert not embedded.agree(one + np.float32([4.1e-5, 0]), one), "1e-5 of the largest magnitude"
    assert not embedded.agree(np.array([1, 3], np.int32), np.array([1, 2], np.int32))


# -- explain, report ---------------------------------------------------------------------------------------------------

CORES = ("cortex-m0", "host", "cortex-m4")


def ledger(target: str, same: bool = True) -> Ledger:
    line = Line(0, "RELU", "y", 30, 10, {"dispatch_c": 12, "parameters": 8}, (0,))
    return Ledger("one", target, "instructions", (line,), Start("ms", {}, {}, 100), same)


def ladder(target: str, *same: bool) -> Ladder:
    figures = [Figures(100.0 - 10 * i, 50, 20, each) for i, each in enumerate(same)]
    return Ladder("one", target, "instructions", ("folding",), tuple(figures[:2]), tuple(figures[2:]))


@pytest.mark.parametrize("wrong", [(), ("cortex-m0",), ("host", "cortex-m4")])
def test_explain_tells_of_every_target(
    wrong: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each by the techniques that it has, in the table and in the JSON; the status is 1 if any has other bits."""
    asked = []

    def explain(source: Any, card: Any, options: Any, wanted: Any, told: Any) -> Iterator[Explanation]:
        name = "host" if card is None else card.name
        asked.append((name, wanted.techniques))
        yield Explanation(ledger(name), None)
        yield Explanation(ledger(name, name not in wrong), ladder(name, True, True, True))

    monkeypatch.setattr(explaining, "explain", explain)
    how = ("--target", ",".join(CORES), "--json", "told.json", "--ladder")
    assert main(["explain", "one.tflite", *how]) == bool(wrong)
    shown = capsys.readouterr().out
    told = json.loads(Path("told.json").read_text())["ledgers"]
    assert [(each["target"], each["same_bits"]) for each in told] == [(name, name not in wrong) for name in CORES]
    assert [shown.index(f"one on {name}") for name in CORES] == sorted(shown.index(f"one on {name}") for name in CORES)
    machines = {name: machine("native" if name == "host" else name)[0] for name in CORES}
    assert asked == [(name, chosen(None, target)) for name, target in machines.items()]
    assert main(["explain", "one.tflite", *how, "--techniques", "folding"]) == bool(wrong)
    assert asked[3:] == [(name, chosen("folding", target)) for name, target in machines.items()]


@pytest.mark.parametrize("done", range(7))
def test_explain_that_is_broken_off(
    done: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After so many ledgers and ladders of three targets: what is whole is written, what is not is named in order."""
    names, parts = ["cortex-m0", "cortex-m4", "cortex-m55"], iter(range(6))

    def explain(source: Any, card: Any, *rest: Any) -> Iterator[Explanation]:
        for k in range(2):
            if next(parts) == done:
                raise KeyboardInterrupt
            yield Explanation(ledger(card.name), ladder(card.name, True, True, True) if k else None)

    monkeypatch.setattr(explaining, "explain", explain)
    how = ("--ladder", "--techniques", "folding", "--json", "told.json")
    assert main(["explain", "one.tflite", "--target", ",".join(names), *how]) == (130 if done < 6 else 0)
    missing = [f"the ladder on {names[done // 2]}"] if done % 2 else []
    missing += [f"one.tflite on {name}" for name in names[(done + 1) // 2 :]]
    end = "" if done else "; nothing is finished, so nothing is written"
    said = f"twinfer: interrupted; missing: {', '.join(missing)}{end}\n" if done < 6 else ""
    assert capsys.readouterr().err == said
    assert Path("told.json").exists() == (done > 0)
    if done:
        told = json.loads(Path("told.json").read_text())
        assert told.get("interrupted", False) == (done < 6)
        assert [(each["target"], "ladder" in each) for each in told["ledgers"]] == [
            (name, done >= 2 * i + 2) for i, name in enumerate(names[: (done + 1) // 2])]  # fmt: skip


@pytest.mark.parametrize("same", [(True, True, True), (False, True, True), (True, False, True), (True, True, False)])
@pytest.mark.parametrize("of_ledger", [True, False])
def test_a_ladder_differs_if_any_rung_does(same: Sequence[bool], of_ledger: bool) -> None:
    both = Explanation(ledger("cortex-m4", of_ledger), ladder("cortex-m4", *same))
    assert both.same_bits == (of_ledger and all(same))
    (rung,) = both.document["ladder"]["rungs"]
    assert (rung["added"]["same_bits"], rung["removed"]["same_bits"]) == same[1:]


@pytest.mark.parametrize("same", [True, False])
def test_a_report(same: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(reporting, "report_of", lambda *_: {"same_bits": same})
    assert main(["report", "one.tflite", "--json", "-"]) == (0 if same else 1)
    assert json.loads(capsys.readouterr().out) == {"same_bits": same}
