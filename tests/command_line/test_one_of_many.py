"""Commands over several targets, models or programs of which just one differs, fails or is refused."""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.text import Text

from twinfer.aot.build.targets import find
from twinfer.bench.explain import explain as explaining
from twinfer.bench.explain.explain import Explanation
from twinfer.bench.explain.ladder import Figures, Ladder
from twinfer.bench.explain.ledger import Ledger, Line, Start
from twinfer.bench.explain.techniques import chosen
from twinfer.bench.measure import compare as comparing
from twinfer.bench.measure import embedded
from twinfer.bench.models import verify
from twinfer.bench.models.verify import Difference, Proof
from twinfer.bench.page import page as pages
from twinfer.bench.report import document as reporting
from twinfer.command_line.bench import BOARDS_ALONE, HOST_ALONE
from twinfer.command_line.main import COMMANDS, main, parser
from twinfer.command_line.storage import note_unused_storage, storages
from twinfer.command_line.targets import cards, peers, settings
from twinfer.converter.build import Builder
from twinfer.converter.stream import convert
from twinfer.converter.stream.convert import Proof as StreamProof
from twinfer.runtime.errors import InvalidArgumentError, ToolError, UnsupportedOperatorError
from twinfer.runtime.options import Options
from twinfer.runtime.plan import make as making
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.run import isa
from twinfer.runtime.target import GENERIC

ORDERS = list(itertools.product([True, False], repeat=3))


@pytest.fixture
def models(tmp_path: Path) -> list[str]:
    """Three models that run; the second is called bad."""
    paths = []
    for name in ("one", "bad", "three"):
        b = Builder(name)
        b.graph([b.op("RELU", [b.input("x", "FLOAT32", (1, 3))])]).save(tmp_path / f"{name}.tflite")
        paths.append(str(tmp_path / f"{name}.tflite"))
    return paths


# -- explain, report ---------------------------------------------------------------------------------------------------


def ledger(target: str, same: bool) -> Ledger:
    line = Line(0, "RELU", "y", 30, 10, {"dispatch_c": 12, "parameters": 8}, (0,))
    return Ledger("one", target, "instructions", (line,), Start("ms", {}, {}, 100), same)


def ladder(target: str, *same: bool) -> Ladder:
    figures = [Figures(100.0 - 10 * i, 50, 20, each) for i, each in enumerate(same)]
    return Ladder("one", target, "instructions", ("folding",), tuple(figures[:2]), tuple(figures[2:]))


@pytest.mark.parametrize("same", ORDERS)
def test_explain_tells_of_every_target(
    same: Sequence[bool], models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The status is 1 if any target differs; every one is shown, in the table as in the JSON."""
    names = ["cortex-m0", "cortex-m4", "cortex-m55"]
    bits = dict(zip(names, same, strict=True))

    def explain(source: Any, card: Any, *rest: Any) -> Iterator[Explanation]:
        yield Explanation(ledger(card.name, bits[card.name]), None)

    monkeypatch.setattr(explaining, "explain", explain)
    monkeypatch.setattr(embedded, "need_tools", lambda card: None)
    out = tmp_path / "told.json"
    status = main(["explain", models[0], "--target", ",".join(names), "--json", str(out)])
    shown = capsys.readouterr().out
    assert status == (0 if all(same) else 1)
    told = json.loads(out.read_text())["ledgers"]
    assert [(each["target"], each["same_bits"]) for each in told] == list(bits.items())
    assert [shown.count(f"one on {name}") for name in names] == [1, 1, 1]
    assert shown.count("OTHER BITS") == same.count(False)
    assert shown.count("with the same bits") == same.count(True)


@pytest.mark.parametrize("done", range(7))
def test_explain_that_is_broken_off(
    done: int, models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After so many ledgers and ladders of three targets: what is whole is written, what is not is named in order."""
    names, parts = ["cortex-m0", "cortex-m4", "cortex-m55"], iter(range(6))

    def explain(source: Any, card: Any, *rest: Any) -> Iterator[Explanation]:
        for k in range(2):
            if next(parts) == done:
                raise KeyboardInterrupt
            yield Explanation(ledger(card.name, True), ladder(card.name, True, True, True) if k else None)

    monkeypatch.setattr(explaining, "explain", explain)
    monkeypatch.setattr(embedded, "need_tools", lambda card: None)
    out = tmp_path / "told.json"
    how = ("--ladder", "--techniques", "folding", "--json", str(out))
    status = main(["explain", models[0], "--target", ",".join(names), *how])
    err = capsys.readouterr().err
    missing = [f"the ladder on {names[done // 2]}"] if done % 2 else []
    missing += [f"{models[0]} on {name}" for name in names[(done + 1) // 2 :]]
    assert status == (130 if done < 6 else 0)
    assert err == ("" if done == 6 else f"twinfer: interrupted; missing: {', '.join(missing)}" + (
        "" if done else "; nothing is finished, so nothing is written") + "\n")  # fmt: skip
    assert out.exists() == (done > 0)
    if done:
        told = json.loads(out.read_text())
        assert told.get("interrupted", False) == (done < 6)
        assert [(each["target"], "ladder" in each) for each in told["ledgers"]] == [
            (name, done >= 2 * i + 2) for i, name in enumerate(names[: (done + 1) // 2])]  # fmt: skip


@pytest.mark.parametrize("same", ORDERS)
@pytest.mark.parametrize("of_ledger", [True, False])
def test_a_ladder_differs_if_any_rung_does(same: Sequence[bool], of_ledger: bool) -> None:
    both = Explanation(ledger("cortex-m4", of_ledger), ladder("cortex-m4", *same))
    assert both.same_bits == (of_ledger and all(same))
    assert Explanation(ledger("cortex-m4", of_ledger), None).same_bits == of_ledger
    assert [rung["added"]["same_bits"] for rung in both.document["ladder"]["rungs"]] == [same[1]]
    assert [rung["removed"]["same_bits"] for rung in both.document["ladder"]["rungs"]] == [same[2]]


@pytest.mark.parametrize("same", [True, False])
def test_status_of_a_report(
    same: bool, models: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reporting, "report_of", lambda *_: {"same_bits": same})
    assert main(["report", models[0], "--json", "-"]) == (0 if same else 1)
    assert json.loads(capsys.readouterr().out) == {"same_bits": same}


# -- verify ------------------------------------------------------------------------------------------------------------

FAR = Difference(0, (0, 1), 1.0, 2.0, 1.0, within=False)


@pytest.mark.parametrize("what", ["right", "differs", "is refused", "cannot be built"])
@pytest.mark.parametrize("where", ["host", "boards", "both"])
def test_verify_of_three_models(
    what: str, where: str, models: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second of three goes wrong, on one side or both: the others are proven, and the status tells."""
    proven = []

    def prove(side: str, source: Any) -> Proof:
        proven.append((source.name, side))
        wrong = source.name == "bad" and where in (side, "both")
        if wrong and what == "is refused":
            raise UnsupportedOperatorError("no kernel for Mystery")
        difference = FAR if wrong and what == "differs" else None
        line = verify.Line(source.graph.outputs[0], source.graph.nodes[0], {"compiled": difference})
        notes = {"compiled on mine": "too large for it"} if wrong and what == "cannot be built" else {}
        return Proof(source.name, source.graph, [line], 1, notes=notes)

    monkeypatch.setattr(verify, "verify", lambda source, *_: prove("host", source))
    monkeypatch.setattr(embedded, "verify_on", lambda source, *_: prove("boards", source))
    monkeypatch.setattr(embedded, "need_tools", lambda card: None)
    status = main(["verify", *models, "--target", "host,cortex-m4", "--against", "none"])
    said = capsys.readouterr()
    assert status == {"right": 0, "differs": 1, "is refused": 2, "cannot be built": 2}[what]
    assert proven == [(name, side) for name in ("one", "bad", "three") for side in ("host", "boards")]
    assert ("no kernel for Mystery" in said.err) == (what == "is refused")
    assert ("too large for it" in said.out) == (what == "cannot be built")
    assert said.out.count("three") >= 2


@pytest.mark.parametrize(
    ("what", "status"),
    [
        (("differs", "is refused", "right"), 1),
        (("is refused", "right", "differs"), 1),
        (("cannot be built", "differs", "right"), 1),
        (("right", "is refused", "cannot be built"), 2),
        (("cannot be built", "right", "right"), 2),
        (("right", "right", "is refused"), 2),
        (("divides by zero", "right", "right"), 1),
        (("right", "right", "right"), 0),
    ],
)
def test_verify_where_several_go_wrong(
    what: Sequence[str], status: int, models: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """What differs counts most, then what did not run; each is told of its own model."""
    kinds = dict(zip(("one", "bad", "three"), what, strict=True))

    def prove(source: Any, *_: Any) -> Proof:
        kind, output = kinds[source.name], source.graph.outputs[0]
        if kind == "is refused":
            raise UnsupportedOperatorError("no kernel for Mystery")
        line = verify.Line(output, source.graph.nodes[0], {"compiled": FAR if kind == "differs" else None})
        notes = {"compiled on mine": "too large for it"} if kind == "cannot be built" else {}
        proof = Proof(source.name, source.graph, [line], 1, notes=notes)
        proof.by_zero.update({output: 2} if kind == "divides by zero" else {})
        return proof

    monkeypatch.setattr(verify, "verify", prove)
    assert main(["verify", *models, "--against", "none"]) == status
    said = capsys.readouterr()
    for name, kind in kinds.items():
        told = {"differs": f"{name}: compiled differs first in", "right": f"{name}: proven on one sample",
                "cannot be built": f"{name}: not proven: it did not run compiled on mine",
                "divides by zero": f"{name}: not proven: "}.get(kind, "")  # fmt: skip
        assert told in said.out
        assert (f"{name}: proven" in said.out) == (kind == "right")
    assert said.err.count("no kernel for Mystery") == what.count("is refused")


# -- bench -------------------------------------------------------------------------------------------------------------


def host_row(model: str, engine: str, same: bool) -> dict[str, Any]:
    return {
        "model": model, "engine": engine, "target": "host", "min_us": 2.0, "median_us": 3.0, "spread_us": 0.5,
        "ratio": 1.0, "floor_us": 0.5, "rounds": 5, "batch": 1, "same_bits": same, "max_difference": 0.0 if same else 4,
        "operators": 1, "macs": 1000, "arena_bytes": 24, "lower_bound_bytes": 24, "constant_bytes": 0,
        "compile_s": 0.1, "compile_cached": False,
    }  # fmt: skip


@pytest.mark.parametrize("engine", ["interpreted", "compiled", "tflm"])
@pytest.mark.parametrize("which", [0, 1, 2, None])
def test_bench_of_three_models(
    which: int | None, engine: str, models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """One engine differs on one model: all rows are there, and ours alone make the status 1."""
    names = ["one", "bad", "three"]

    def compare(source: Any, *_: Any) -> list[dict[str, Any]]:
        differs = names.index(source.name) == which
        return [host_row(source.name, e, not (differs and e == engine)) for e in ("interpreted", "compiled", "tflm")]

    monkeypatch.setattr(comparing, "compare", compare)
    out = tmp_path / "rows.json"
    status = main(["bench", *models, "--against", "none", "--json", str(out)])
    shown = capsys.readouterr().out
    assert status == (1 if which is not None and engine != "tflm" else 0)
    rows = json.loads(out.read_text())["rows"]
    assert [(r["model"], r["engine"]) for r in rows] == list(
        itertools.product(names, ("interpreted", "compiled", "tflm"))
    )
    assert shown.count("differ by 4") == (which is not None)
    assert shown.count("same bits") == 9 - (which is not None)


@pytest.mark.parametrize("failing", [("host",), ("cortex-m4",), ()])
def test_bench_goes_on_behind_a_target_that_fails(
    failing: tuple[str, ...], models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Rows before the failure stay, other models are measured, the status is 2."""

    def rows(target: str, source: Any) -> list[dict[str, Any]]:
        if source.name == "bad" and target in failing:
            raise ToolError(f"nothing runs on {target}")
        return [host_row(source.name, engine, True) for engine in ("interpreted", "compiled")]

    monkeypatch.setattr(comparing, "compare", lambda source, *_: rows("host", source))
    monkeypatch.setattr(embedded, "measure_on", lambda source, card, *_: rows(card.name, source))
    monkeypatch.setattr(embedded, "need_tools", lambda card: None)
    out = tmp_path / "rows.json"
    status = main(["bench", *models, "--against", "none", "--target", "host,cortex-m4", "--json", str(out)])
    assert status == (2 if failing else 0)
    left = {(): 4, ("host",): 0, ("cortex-m4",): 2}[failing]
    told = [row["model"] for row in json.loads(out.read_text())["rows"]]
    assert told == ["one"] * 4 + ["bad"] * left + ["three"] * 4
    assert capsys.readouterr().err.count("nothing runs on") == len(failing)


@pytest.mark.parametrize(
    ("kinds", "status"),
    [
        (("right", "right", "right"), 0),
        (("right", "fails", "right"), 2),
        (("differs", "fails", "right"), 1),
        (("fails", "right", "differs"), 1),
        (("error", "right", "right"), 2),
        (("error", "differs", "fails"), 1),
        (("fails", "fails", "fails"), 2),
    ],
)
def test_bench_where_several_go_wrong(
    kinds: Sequence[str], status: int, models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """What differs counts more than what did not run; nothing is written if nothing ran."""
    of = dict(zip(("one", "bad", "three"), kinds, strict=True))

    def compare(source: Any, *_: Any) -> list[dict[str, Any]]:
        if of[source.name] == "fails":
            raise ToolError("nothing runs")
        rows = [host_row(source.name, engine, of[source.name] != "differs") for engine in ("interpreted", "compiled")]
        return [rows[0], {**rows[1], "error": "it ended", "min_us": None}] if of[source.name] == "error" else rows

    monkeypatch.setattr(comparing, "compare", compare)
    out = tmp_path / "rows.json"
    assert main(["bench", *models, "--against", "none", "--json", str(out)]) == status
    assert capsys.readouterr().err.count("nothing runs") == kinds.count("fails")
    assert out.exists() == (set(kinds) != {"fails"})


def test_a_matrix_has_a_column_for_every_program(
    models: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both modes and both plans of every core, each with its own sign."""
    names = [f"{mode} {plan} on {core}" for core in ("cortex-m4", "cortex-m0")
             for mode in ("interpreted", "compiled") for plan in ("layers", "rows")]  # fmt: skip
    near = Difference(0, (0, 1), 1.0, 1.0, 0.0, within=True)

    def prove(source: Any, *_: Any) -> Proof:
        differences = {name: FAR if i == 6 else near if i == 3 else None for i, name in enumerate(names) if i != 1}
        return Proof(
            source.name, source.graph, [verify.Line(source.graph.outputs[0], None, differences)], 1, others=names
        )

    monkeypatch.setattr(embedded, "verify_on", prove)
    monkeypatch.setattr(embedded, "need_tools", lambda card: None)
    assert main(["verify", models[0], "--target", "cortex-m4,cortex-m0"]) == 1
    shown = capsys.readouterr().out
    (line,) = (line for line in shown.splitlines() if "·" in line and "not computed" not in line)
    assert line.split()[-8:] == ["=", "·", "=", "≈", "=", "=", "≠", "="]
    heads = "".join(shown.splitlines()[1:5])
    assert (heads.count("m4"), heads.count("m0")) == (4, 4)
    assert "compiled layers on cortex-m0 differs first" in shown


# -- stream ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("different", [0, 1, 7])
def test_a_stream_that_differs_is_not_written(
    different: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(convert, "prove", lambda *_: StreamProof(9, different))
    out = tmp_path / "out.tflite"
    assert main(["stream", "tcn_int8", "-o", str(out)]) == (1 if different else 0)
    assert out.exists() == (not different)
    shown = capsys.readouterr().out
    assert (f"{different} of 9 windows differ: nothing was written" in shown) == bool(different)
    assert ("the same bits as the window model in 9 windows" in shown) == (not different)


def test_what_stream_shows_is_what_plans_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MACs, arena, state and constants of both models, recounted from their graphs."""
    b, rng = Builder("net"), np.random.default_rng(0)
    x = b.input("x", "FLOAT32", (1, 40, 1, 8))
    w, bias = (b.constant(rng.standard_normal(s).astype(np.float32)) for s in ((6, 3, 1, 8), (6,)))
    y = b.op("CONV_2D", [x, w, bias], padding="VALID", stride_h=2, stride_w=1, fused_activation_function="NONE")
    graph = b.graph([b.op("REVERSE_V2", [y, np.array([1], np.int32)])])
    graph.save(tmp_path / "net.tflite")
    assert main(["stream", str(tmp_path / "net.tflite"), "-o", str(tmp_path / "s.tflite")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    macs = {"window": 19 * 6 * 3 * 8, "step": 1 * 6 * 3 * 8}
    (window,) = (line[1:] for line in lines if line[:1] == ["window"])
    (step,) = (line[1:] for line in lines if line[:1] == ["step"])
    (ratio,) = (line[1:] for line in lines if line[:1] == ["ratio"])
    assert (window[0], step[0], ratio[0]) == (f"{macs['window']:,}", f"{macs['step']:,}", "19.0")
    assert (window[2], step[2]) == ("0", f"{make_plan(convert.stream(graph).graph).state_bytes:,}")
    kept = 1 * 8 * 4 + 18 * 6 * 4  # a row of the input, 18 of the layer
    assert kept <= int(step[2].replace(",", "")) < kept + 128
    assert int(window[1].replace(",", "")) >= (40 * 8 + 19 * 6) * 4
    assert any("REVERSE_V2" in line for line in lines)


# -- options of several words ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "decode", "want"),
    [
        ("plain", "layer", ["plain layer"]),
        ("plain", "start", ["plain layer"]),
        ("plain", "layer,start", ["plain layer"]),
        ("plain", "start,layer", ["plain layer"]),
        ("file", "layer,start", ["file layer", "file start"]),
        ("lut,plain", "start,layer", ["lut start", "lut layer", "plain layer"]),
        ("plain,lut,plain", " layer , start ", ["plain layer", "lut layer", "lut start"]),
        ("auto,huffman,bitmap", "start", ["auto start", "huffman start", "bitmap start"]),
    ],
)
def test_each_way_to_store_weights_is_measured_once(weights: str, decode: str, want: list[str]) -> None:
    assert [" ".join(pair) for pair in storages(weights, decode)] == want


@pytest.mark.parametrize(("weights", "decode"), [("lut,nothing", "layer"), ("lut", "layer,never"), ("", "layer")])
def test_one_wrong_word_among_several(weights: str, decode: str) -> None:
    with pytest.raises(InvalidArgumentError):
        storages(weights, decode)


def test_targets_and_goals_once_each_in_their_order() -> None:
    m4, m0 = find("cortex-m4"), find("cortex-m0")
    assert cards("cortex-m4, host,M0,host,cortex-m4") == [m4, None, m0]
    assert cards("") == cards("host,host") == [None]
    assert settings("size, speed,size,balanced") == ("size", "speed", "balanced")
    for wrong in ("cortex-m4,cortex-m99", "generic,host", "cortex-m4,native"):
        with pytest.raises(InvalidArgumentError):
            cards(wrong)
    with pytest.raises(InvalidArgumentError):
        settings("size,sped")


#: What --help promises, where a command's own test sets the option.
DEFAULTS: dict[str, dict[str, Any]] = {
    "bench": {"seconds": 1.0, "runs": None, "seed": 0, "against": None, "optimize": "balanced", "weights": "file",
              "decode": "layer", "engine": "both", "memory": "auto", "target": "host", "layers": False,
              "cycles": False, "save": None, "compare": None, "max_drift": None, "json": None, "html": None},
    "explain": {"seconds": 5.0, "seed": 0, "target": "host", "optimize": "balanced", "weights": "file",
                "decode": "layer", "memory": "auto", "ladder": False, "techniques": None, "json": None, "html": None},
    "report": {"seconds": 5.0, "seed": 0, "target": "host", "optimize": "balanced", "weights": "file",
               "decode": "layer", "memory": "auto", "ladder": True, "output": None, "json": None},
    "diff": {"seconds": 5.0, "seed": 0, "target": "host", "b": None, "b_options": "", "output": None, "json": None},
    "verify": {"seed": 0, "samples": 1, "against": None, "target": "host", "optimize": "balanced", "weights": "file",
               "decode": "layer", "guard": False, "io": "float"},
    "compile": {"target": "host", "name": None, "mode": "compiled", "optimize": "balanced", "weights": "file",
                "decode": "layer", "guard": False, "tuned": False, "memory": "auto", "ram": 0, "io": "float"},
    "inspect": {"target": "host", "memory": None, "input_rows": False, "input_in_place": False,
                "json": False, "io": "float"},
    "tune": {"seconds": 5.0, "json": None},
    "stream": {"axis": None, "hop": None},
    "ops": {"target": None, "json": False, "markdown": False},
    "run": {"input": [], "output": [], "real_outputs": False, "seed": 0, "engine": "interpreted", "target": "host",
            "optimize": "balanced", "memory": "auto", "ram": 0, "input_rows": False, "io": "float", "guard": False},
    "search": {"output": None, "all": False, "json": None, "html": None, "cost": "flash", "target": "generic",
               "methods": None, "precisions": None, "recipe": [], "inference_type": None, "equalize": False,
               "trials": 64, "seed": 0, "shape": [], "channels_last": False, "resume": None, "jobs": None, "dask": None,
               "metric": "auto", "calibration": None},
}  # fmt: skip

#: The least that a command must be given.
LEAST = {"stream": ["m", "-o", "x"], "compile": ["m", "-o", "x"], "bench": [], "ops": []}
LEAST["search"] = ["m", "--data", "d", "--max-loss", "1%"]


@pytest.mark.parametrize("command", DEFAULTS)
def test_defaults_of_options(command: str) -> None:
    given = vars(parser().parse_args([command, *LEAST.get(command, ["m"])]))
    assert {name: given.get(name, "absent") for name in DEFAULTS[command]} == DEFAULTS[command]


def test_what_help_promises_is_the_default() -> None:
    """Every option says what it is for; a default that it names is the one that is taken."""
    (action,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    named = 0
    for name, command in action.choices.items():
        (own,) = (each for each in COMMANDS if each.name == name)
        shown = " ".join(command.format_help().split())
        for said in (own.about[1:], *own.examples):
            assert said in shown, (name, said)
        for option in command._actions:
            assert option.help or option.choices, (name, option.dest)
            said = re.search(r"\(default: ([a-z0-9.]+)\)", str(option.help))
            if said and option.dest not in ("max_bytes", "max_rounds", "max_drift") and option.default is not None:
                named += 1
                usual = {"True": "yes", "False": "no"}.get(str(option.default), option.default)
                assert str(usual) in (said[1], f"{said[1]}.0"), (name, option.dest)
    assert named >= 25


@pytest.mark.parametrize(
    "line",
    ["bench digits_int8 --html OUT", "explain digits_int8 --html OUT", "report digits_int8 -o OUT",
     "diff digits_int8 kws_int8 -o OUT", "convert digits_float32 -o /dev/null --quantize int8 --report OUT"],
)  # fmt: skip
def test_without_the_library_of_charts_nothing_is_measured(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is asked for before the work, and by those alone who want a page."""

    def work(*_: Any, **__: Any) -> Any:
        raise ToolError("as far as the work")

    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    for place in ("twinfer.bench.models.source.load", "twinfer.converter.convert.convert_file"):
        monkeypatch.setattr(place, work)
    page, data = str(tmp_path / "x.html"), str(tmp_path / "x.json")
    assert main(line.replace("OUT", page).split()) == 2
    assert "pip install 'twinfer[report]'" in capsys.readouterr().err
    without = line.replace("OUT", data) if "--report" in line else re.sub("(-o|--html) OUT", f"--json {data}", line)
    assert main(without.split()) == 2
    assert "as far as the work" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", ["", "host", "cortex-m0", "cortex-m4"])
def test_every_target_that_is_explained(
    wrong: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has a ladder of its own techniques, its tables in order, and counts for the exit status."""
    asked = []

    def explain(source: Any, card: Any, options: Any, wanted: Any, told: Any) -> Any:
        name = "host" if card is None else card.name
        asked.append((name, wanted.techniques))
        yield SimpleNamespace(ledger=name, ladder=None, same_bits=True, document={})
        yield SimpleNamespace(ledger=name, ladder=f"on {name}", same_bits=name != wrong, document={"of": name})

    monkeypatch.setattr("twinfer.bench.explain.explain.explain", explain)
    monkeypatch.setattr("twinfer.bench.measure.embedded.need_tools", lambda card: None)
    monkeypatch.setattr("twinfer.bench.explain.ledger.ledger_tables", lambda ledger: [Text(f"ledger {ledger}")])
    monkeypatch.setattr("twinfer.bench.explain.ladder.ladder_tables", lambda ladder: [Text(f"ladder {ladder}")])
    targets = ["cortex-m0", "host", "cortex-m4"]
    given = ["explain", "digits_int8", "--target", ",".join(targets)]
    assert main([*given, "--ladder"]) == (1 if wrong else 0)
    want = [line for name in targets for line in (f"ledger {name}", f"ladder on {name}")]
    assert capsys.readouterr().out.split("\n") == [*want, ""]
    cores = {name: isa.this_computer() if name == "host" else find(name).target for name in targets}
    assert asked == [(name, chosen(None, cores[name])) for name in targets]
    assert main([*given, "--ladder", "--techniques", "folding", "--json", "-"]) == (1 if wrong else 0)
    assert [each["of"] for each in json.loads(capsys.readouterr().out)["ledgers"]] == targets
    assert asked[3:] == [(name, chosen("folding", cores[name])) for name in targets]


def test_bench_knows_which_options_are_unusual() -> None:
    """What it says that has no effect is what differs from the defaults."""
    given = vars(parser().parse_args(["bench"]))
    assert {name: given[name] for name in (*HOST_ALONE, *BOARDS_ALONE)} == {**HOST_ALONE, **BOARDS_ALONE}


def test_what_compile_says_of_several(models: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each, of its own layers, constants, arena and bound."""
    b, rng = Builder("dense"), np.random.default_rng(0)
    y = b.op("FULLY_CONNECTED", [b.input("x", "FLOAT32", (1, 300)), rng.standard_normal((5, 300)).astype("f4"), None])
    b.graph([b.op("RELU", [b.op("ABS", [y])])]).save(tmp_path / "dense.tflite")
    folder = tmp_path / "made"
    for paths in ([models[0], str(tmp_path / "dense.tflite")], [str(tmp_path / "dense.tflite")]):
        assert main(["compile", *paths, "-o", str(folder), "--target", "generic"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == len(paths)
        for line, path in zip(lines, paths, strict=True):
            plan = make_plan(read_file(path), GENERIC)
            name = f"/{Path(path).stem}" if len(paths) > 1 else ""
            header = (folder / f"{Path(path).stem}.h").read_text()
            (constants,) = re.findall(r"_CONSTANT_BYTES (\d+)", header)
            arena = f"arena {plan.arena_bytes:,} bytes (lower bound {plan.lower_bound_bytes:,})"
            sizes = f"{len(plan.steps)} layers, {int(constants):,} constant bytes, {arena}"
            assert line == f"{folder}{name}: {sizes}; try: make -C {folder} test"
    assert int(constants) >= 5 * 300 * 4


@pytest.mark.parametrize("order", [1, -1])
def test_one_of_two_models_has_weights_to_code(order: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng, paths = np.random.default_rng(0), []
    for name, values in (("few", 2), ("many", 250)):
        b = Builder(name)
        w = b.constant((rng.integers(0, values, (64, 64)) - values // 2).astype(np.int8), 0.01)
        x = b.input("x", "INT8", (1, 64), 0.5, 0)
        b.graph([b.op("FULLY_CONNECTED", [x, w, None], shape=(1, 64), scale=0.5, zero=0)]).save(
            tmp_path / f"{name}.tflite"
        )
        paths.append(str(tmp_path / f"{name}.tflite"))
    assert main(["compile", *paths[::order], "-o", str(tmp_path / "c"), "--weights", "lut", "--target", "generic"]) == 0
    assert capsys.readouterr().err.count("--weights lut changes nothing") == 1


def test_names_of_what_compile_writes(
    models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the files, as C takes names; what models share after the folder, also if that is the current one. What has
    no effect is told of every model."""
    odd = Path(models[0]).rename(tmp_path / "My model-2.tflite")
    here = tmp_path / "Both of Them"
    here.mkdir()
    monkeypatch.chdir(here)
    assert main(["compile", str(odd), "-o", "one"]) == 0
    assert "int my_model_2_run(" in Path("one/my_model_2.h").read_text()
    shutil.rmtree("one")
    capsys.readouterr()
    assert main(["compile", str(odd), models[2], "-o", ".", "--weights", "lut"]) == 0
    names = {path.name for path in Path().iterdir()}
    assert {"both_of_them.h", "both_of_them_static.c", "my_model_2.h", "three.h"} <= names
    assert "#define BOTH_OF_THEM_ARENA_BYTES" in Path("both_of_them.h").read_text()
    said = capsys.readouterr()
    assert said.err.count("--weights lut changes nothing") == 2
    assert said.out.count("\n") == 2
    assert main(["compile", str(odd), models[2], "-o", "named", "--name", "mine"]) == 0
    assert Path("named/mine.h").exists()


def test_ways_to_store_that_change_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line is told once, if nothing is coded on any of the targets; the usual way never is."""
    pairs: list[Any] = [(how, when) for how in ("file", "lut", "auto", "plain") for when in ("layer", "start")]
    ways = [Options(weights=how, decode=when) for how, when in pairs]
    coded = {("one", "lut"), ("two", "lut"), ("one", "auto")}
    asked = []

    def plan(graph: Any, target: Any, how: Options) -> Any:
        asked.append((target, how.weights, how.decode))
        return SimpleNamespace(options=how, decoding_bytes=5 if (target, how.weights) in coded else 0)

    monkeypatch.setattr(making, "make_plan", plan)

    def told(targets: list[Any], options: list[Options]) -> list[str]:
        note_unused_storage(SimpleNamespace(name="net", graph=None), targets, options)  # type: ignore[arg-type]
        return [line.removeprefix("twinfer: net: ").split(":")[0] for line in capsys.readouterr().err.splitlines()]

    usual = replace(ways[0], optimize="size")
    assert told(["one", "two"], [*ways, *ways, usual]) == ["--decode start changes nothing"]
    assert sorted(asked) == sorted((target, *pair) for target in ("one", "two") for pair in pairs[1:])
    assert told(["two", "one"], ways) == ["--decode start changes nothing"], "whichever target is the first"
    assert told(["two"], ways[2:6]) == ["--weights auto changes nothing"]
    coded.clear()
    assert told(["one", "two"], ways[1:5]) == [
        f"{how} changes nothing" for how in ("--decode start", "--weights lut", "--weights auto")]  # fmt: skip
    assert told([], ways) == []


def test_which_peers_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are installed, or those that are named: each of which must be."""
    monkeypatch.setattr("twinfer.bench.peers.engines.installed", lambda peer: peer in ("tflm", "litert-ref"))
    usual = ["litert", "tflm", "litert-ref"]
    assert peers(None, usual) == ["tflm", "litert-ref"]
    assert peers("none", usual) == peers("", usual) == peers(" none , ", usual) == []
    assert peers(" litert-ref, tflm", usual) == ["litert-ref", "tflm"]
    with pytest.raises(ToolError, match=r"litert is not installed: pip install .*, or leave it out of --against"):
        peers("tflm,litert", usual)
    for name in ("generic", "Native", "NATIVE"):
        with pytest.raises(InvalidArgumentError, match=f"{name.lower()} is only planned for"):
            cards(name)
    assert cards("HOST,Host") == [None]
