"""Every option of every subcommand changes what it should in the calls of the library, and nothing else.

The library's front doors are replaced by a function that notes its arguments and then refuses.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinfer.aot.build import compiled, firmware, project, targets
from twinfer.aot.build.sizes import Sizes, Symbol
from twinfer.aot.print.emit import emit
from twinfer.aot.print.layer_functions import kernel_counts
from twinfer.bench.explain import on_host, on_target
from twinfer.bench.fit import fit as fitting
from twinfer.bench.measure import compare, embedded
from twinfer.bench.measure import cycles as estimated
from twinfer.bench.measure.embedded import MODES, every
from twinfer.bench.measure.price import Build, instances
from twinfer.bench.models import verify
from twinfer.bench.models.source import Source, load
from twinfer.bench.models.verify import Samples
from twinfer.bench.report import document
from twinfer.command_line.main import main, parser
from twinfer.command_line.show.matrix import findings
from twinfer.converter import convert
from twinfer.converter.build import Builder
from twinfer.converter.passes import PASSES
from twinfer.converter.search import find
from twinfer.converter.source import files_of
from twinfer.converter.stream import convert as streaming
from twinfer.runtime import registry
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run import interpreter
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import GENERIC, HOST

M4, M0 = targets.find("cortex-m4"), targets.find("cortex-m0")

Facts = dict[str, Any]


def planned(plan: Plan) -> Facts:
    """The options of a plan, and whether its tensors are spread out for guard mode."""
    how = plan.options
    usual = make_plan(load("digits_int8").graph, plan.target, Options(how.optimize, memory="layers"))
    about = {"target": plan.target.name, "optimize": how.optimize, "weights": how.weights, "decode": how.decode}
    about |= {"guard": plan.arena_bytes > usual.arena_bytes, "memory": how.memory}
    names = ("ram", "input_rows", "input_in_place", "weights_as", "page_bytes", "floats", "threads")
    return {**about, **{name: getattr(how, name) for name in names}}


def converted(source: Any, **how: Any) -> Facts:
    how["after"] = how.get("after") is not None
    how["constants"] = {name: value.tolist() for name, value in how["constants"].items()}
    how.pop("progress", None)
    return {"source": files_of(source)[0], **how}


def written(plan: Plan, name: str, folder: str, *, sha256: str, card: Any, layout: str) -> Facts:
    about = {**planned(plan), "guard": plan.options.guard, "mode": plan.options.mode}
    about |= {"name": name, "folder": Path(folder).name, "sha256": sha256, "card": card, "layout": layout}
    return {**about, "aligned": (plan.target.alignment, plan.target.block_alignment)}


def on(source: Any, card: Any, **how: Any) -> Facts:
    """A model on a target, and how."""
    return {"model": source.name, "on": card.name if card else "host", **how}


#: Module and name of a front door, and what is noted of a call.
DOORS: list[tuple[Any, str, Callable[..., Facts]]] = [
    (convert, "conversion", converted),
    (find, "search", lambda source, data, max_loss, progress, **how:
        {"source": source, "data": data, "max_loss": max_loss, **how}),
    (fitting, "fit", lambda source, board, samples, told, **how:
        {"source": files_of(source)[0], "board": (board.name, board.ram_budget, board.flash), "data": samples, **how}),
    (streaming, "stream", lambda graph, axis, hop: {"inputs": len(graph.inputs), "axis": axis, "hop": hop}),
    (project, "write_project", written),
    (compare, "compare", lambda source, how, told: on(source, None, **vars(how))),
    (embedded, "measure_on", lambda source, card, how, told: on(source, card, **vars(how))),
    (on_host, "ledger_on_host", lambda source, options, seed, seconds, told:
        on(source, None, **vars(options), seed=seed, seconds=seconds)),
    (on_target, "ledger_on", lambda source, card, options, seed, told:
        on(source, card, **vars(options), seed=seed, seconds=5.0)),
    (document, "report_of", lambda source, card, options, wanted, told:
        on(source, card, **vars(options), ladder=bool(wanted.techniques), seed=wanted.seed, seconds=wanted.seconds)),
    (verify, "verify", lambda source, peers, options, samples, told:
        {**on(source, None, **vars(options), samples=samples), "peers": list(peers), "on": ["host"]}),
    (embedded, "verify_on", lambda source, cards, options, samples, told:
        {**on(source, None, **vars(options), samples=samples), "on": [card.name for card in cards]}),
    (compiled, "compile_plans", lambda plans: {"engine": "compiled", "on": "host", **planned(plans["model"])}),
    (interpreter.Interpreter, "set_tensor", lambda self, index, value:
        {"engine": "interpreted", "on": "host", **planned(self.plan)}),
    (firmware, "build", lambda project, card: {"engine": project.mode, "on": card.name, **planned(project.plan)}),
]  # fmt: skip

Ask = Callable[[str], list[Facts]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    """Runs a command line and returns what it asks of the library, call by call."""
    calls: list[Facts] = []

    def door(note: Callable[..., Facts]) -> Callable[..., Any]:
        def refuse(*arguments: Any, **how: Any) -> Any:
            calls.append(note(*arguments, **how))
            raise ToolError("noted")

        return refuse

    for place, name, note in DOORS:
        monkeypatch.setattr(place, name, door(note))
    monkeypatch.setattr(embedded, "need_tools", lambda card: None)
    monkeypatch.setattr(estimated, "need_model", lambda card: None)
    absent = ("litert", "onnxruntime", "openvino")
    monkeypatch.setattr("twinfer.bench.peers.engines.installed", lambda peer: peer not in absent)
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").touch()
    Path("rules.toml").touch()

    def asked(line: str) -> list[Facts]:
        calls.clear()
        assert main(line.split()) == 2
        return list(calls)

    return asked


CONVERT: Facts = {"source": "net.onnx", "quantize": None, "calibration": None}
CONVERT |= {"method": "minmax", "recipe": None, "bias_correction": False, "adaptive_rounding": False, "equalize": False}
CONVERT |= {"refine": False}
CONVERT |= {"prune": None, "prune_block": None, "prune_scope": None, "cluster": None, "compensate": False}
CONVERT |= {"channels_last": False, "store_plan": False, "loops": True, "inference_type": None, "shapes": {}}
CONVERT |= {"constants": {}, "passes": None, "after": False}
CONVERT |= {"max_loss": None, "min_snr": None, "cost": None, "target": None}

OPTIMIZE: Facts = {"source": "net.onnx", "channels_last": False, "loops": True, "shapes": {}, "constants": {}}
OPTIMIZE |= {"passes": None, "after": False}

FIT: Facts = {"source": "net.onnx", "board": ("pico", None, 2 << 20), "data": "d.npz", "name": "net", "shapes": {}}
FIT |= {"max_ms": None, "max_loss": None, "min_snr": None, "new_rows": None}

SEARCH: Facts = {"source": "net.onnx", "data": "d.npz", "max_loss": 0.01, "calibration": None, "calibrate": None}
SEARCH |= {"metric": "auto", "cost": "flash", "target": GENERIC, "recipes": [], "inference_type": None}
SEARCH |= {"equalize": False, "trials": 64, "seed": 0, "jobs": None, "dask": None, "journal": None, "shapes": {}}
SEARCH |= {"channels_last": False}

FILE: Facts = {"optimize": "balanced", "weights": "file", "decode": "layer", "guard": False}
FILE |= {"memory": "auto", "ram": 0, "input_rows": False, "input_in_place": False}
FILE |= {"weights_as": "linked", "page_bytes": 4096, "floats": "exact", "threads": 1}

COMPILE: Facts = {"target": "host", **FILE, "name": "digits_int8", "folder": "out", "mode": "compiled", "card": None}
COMPILE |= {"aligned": (16, 16)}
COMPILE |= {"sha256": load("digits_int8").sha256, "layout": "plain"}

RUN: Facts = {"engine": "interpreted", "on": "host", "target": "native", **FILE}
RUN_THERE: Facts = {**RUN, "on": "cortex-m4", "target": "cortex-m4"}

EXPLAIN: Facts = {"model": "digits_int8", "on": "host", **vars(Options()), "seed": 0, "seconds": 5.0}

REPORT: Facts = {**EXPLAIN, "ladder": True}
PROGRAMS: dict[str, Facts] = {
    "--target cortex-m4": {"on": "cortex-m4"},
    "--optimize size": {"optimize": "size"},
    "--weights lut": {"weights": "lut"},
    "--weights lut --decode start": {"weights": "lut", "decode": "start"},
    "--memory rows": {"memory": "rows"},
    "--ram 90000": {"ram": 90_000},
    "--float fused": {"floats": "fused"},
    "--seed 5": {"seed": 5},
    "--seconds 2.5": {"seconds": 2.5},
}

BENCH: Facts = {"model": "digits_int8", "on": "host", "against": ["tflm"], "layers": False, "seconds": 1.0}
BENCH |= {"rounds": None, "seed": 0, "floats": "exact", "threads": 1}
BENCH_THERE: Facts = {"model": "digits_int8", "on": "cortex-m4", "layers": False, "seed": 0, "options": every()}
BENCH_THERE |= {"cycles": False}

VERIFY: Facts = {"model": "digits_int8", "on": ["host"], "peers": ["tflm", "litert-ref"], "samples": Samples()}
VERIFY |= vars(Options())
VERIFY_THERE: Facts = {**VERIFY, "on": ["cortex-m4"]}
del VERIFY_THERE["peers"]

SHAPES = {"x": (1, 28, 28), "a=b": (4,)}

#: A command line -> what it asks for, and options -> what they change in it.
MATRIX: dict[str, tuple[Facts, dict[str, Facts]]] = {
    "convert net.onnx -o out.tflite": (
        CONVERT,
        {
            "--quantize int16x8": {"quantize": "int16x8"},
            "--quantize auto --max-loss 1%": {"quantize": "auto", "max_loss": 0.01},
            "--quantize auto --min-snr 30": {"quantize": "auto", "min_snr": 30.0},
            "--quantize auto --cost arena": {"quantize": "auto", "cost": "arena"},
            "--quantize auto --target host": {"quantize": "auto", "target": HOST},
            "--calibration d.npz": {"calibration": "d.npz"},
            "--method percentile-99": {"method": "percentile-99"},
            "--recipe rules.toml": {"recipe": "rules.toml"},
            "--inference-type float32": {"inference_type": "FLOAT32"},
            "--bias-correction": {"bias_correction": True},
            "--adaptive-rounding": {"adaptive_rounding": True},
            "--equalize": {"equalize": True},
            "--refine": {"refine": True},
            "--prune 0.5": {"prune": 0.5},
            "--prune-block 1x4": {"prune_block": "1x4"},
            "--prune-scope layer": {"prune_scope": "layer"},
            "--cluster 3": {"cluster": 3},
            "--compensate": {"compensate": True},
            "--channels-last": {"channels_last": True},
            "--store-plan": {"store_plan": True},
            "--no-loops": {"loops": False},
            "--shape x=1,28,28 --shape a=b=4": {"shapes": SHAPES},
            "--constant k=3 --constant a=b=0.5,1": {"constants": {"k": [3], "a=b": [0.5, 1]}},
            "--passes none": {"passes": []},
            "--passes fuse_padding,constant_folding": {"passes": [PASSES["fuse_padding"], PASSES["constant_folding"]]},
            "--dump folder": {"after": True},
            "--quantize int8 --report": {"quantize": "int8"},
        },
    ),
    "optimize net.onnx -o out.tflite": (
        OPTIMIZE,
        {
            "--channels-last": {"channels_last": True},
            "--no-loops": {"loops": False},
            "--shape x=1,28,28 --shape a=b=4": {"shapes": SHAPES},
            "--constant k=3": {"constants": {"k": [3]}},
            "--passes none": {"passes": []},
        },
    ),
    "fit net.onnx --board pico --data d.npz": (
        FIT,
        {
            "--ram 64K": {"board": ("pico", 1 << 16, 2 << 20)},
            "--flash 0.5M": {"board": ("pico", None, 1 << 19)},
            "--max-ms 20": {"max_ms": 20.0},
            "--max-loss 0.5%": {"max_loss": 0.005},
            "--min-snr 30": {"min_snr": 30.0},
            "--stream": {"new_rows": 0},
            "--stream 4": {"new_rows": 4},
            "--shape x=1,28,28 --shape a=b=4": {"shapes": SHAPES},
        },
    ),
    "search net.onnx --data d.npz --max-loss 0.01": (
        SEARCH,
        {
            "--data other.npz": {"data": "other.npz"},
            "--max-loss 0.25": {"max_loss": 0.25},
            "--calibration c.npz": {"calibration": "c.npz"},
            "--calibrate 9": {"calibrate": 9},
            "--metric error": {"metric": "error"},
            "--cost arena": {"cost": "arena"},
            "--target cortex-m4": {"target": M4.target},
            "--target host": {"target": HOST},
            "--cost instructions --target cortex-m4": {"cost": embedded.Instructions("cortex-m4"), "target": M4.target},
            "--methods mse,minmax": {"methods": ["mse", "minmax"]},
            "--precisions int8,float": {"precisions": ["int8", "float"]},
            "--recipe rules.toml --recipe other.toml": {"recipes": ["rules.toml", "other.toml"]},
            "--inference-type int16": {"inference_type": "INT16"},
            "--equalize": {"equalize": True},
            "--trials 7": {"trials": 7},
            "--seed 3": {"seed": 3},
            "--shape x=1,28,28 --shape a=b=4": {"shapes": SHAPES},
            "--channels-last": {"channels_last": True},
            "--resume j.jsonl": {"journal": "j.jsonl"},
            "--jobs 2": {"jobs": 2},
            "--dask tcp://h:1": {"dask": "tcp://h:1"},
            "--output o.tflite": {},
            "--all": {},
            "--json -": {},
            "--html s.html": {},
        },
    ),
    "compile digits_int8 -o out": (
        COMPILE,
        {
            "--output other": {"folder": "other"},
            "--target cortex-m4": {"target": "cortex-m4", "card": M4, "aligned": (16, 4)},
            "--target generic": {"target": "generic", "aligned": (16, 4)},
            "--align 32": {"aligned": (32, 32)},
            "--align 8": {},
            "--name net": {"name": "net"},
            "--mode interpreted": {"mode": "interpreted"},
            "--layout zephyr": {"layout": "zephyr"},
            "--optimize size": {"optimize": "size"},
            "--weights huffman": {"weights": "huffman"},
            "--weights lut --decode start": {"weights": "lut", "decode": "start"},
            "--guard": {"guard": True},
            "--memory rows": {"memory": "rows"},
            "--ram 90000": {"ram": 90_000},
            "--input-rows": {"input_rows": True},
            "--input-in-place": {"input_in_place": True},
            "--float fused": {"floats": "fused"},
            "--threads 2": {"threads": 2},
            "--weights-as blob": {"weights_as": "blob"},
            "--weights-as paged --page-bytes 512": {"weights_as": "paged", "page_bytes": 512},
        },
    ),
    "stream tcn_int8 -o out.tflite": (
        {"inputs": 1, "axis": None, "hop": None},
        {"--axis 2": {"axis": 2}, "--hop 4": {"hop": 4}},
    ),
    "run digits_int8": (
        RUN,
        {
            "--engine compiled": {"engine": "compiled"},
            "--engine compiled --optimize size": {"engine": "compiled", "optimize": "size"},
            "--guard": {"guard": True},
            "--memory rows": {"memory": "rows"},
            "--ram 90000": {"ram": 90_000},
            "--input-rows": {"input_rows": True},
            "--input-in-place": {"input_in_place": True},
            "--float fused": {"floats": "fused"},
            "--engine compiled --guard": {"engine": "compiled", "guard": True},
            "--target cortex-m0": {"on": "cortex-m0", "target": "cortex-m0"},
        },
    ),
    "run digits_int8 --target cortex-m4": (
        RUN_THERE,
        {
            "--engine compiled": {"engine": "compiled"},
            "--optimize speed": {"optimize": "speed"},
            "--guard": {"guard": True},
        },
    ),
    "bench digits_int8": (
        BENCH,
        {
            "--layers": {"layers": True},
            "--against none": {"against": []},
            "--against litert-ref,tflm": {"against": ["litert-ref", "tflm"]},
            "--seconds 2.5": {"seconds": 2.5},
            "--runs 4": {"rounds": 4},
            "--float fused": {"floats": "fused"},
            "--threads 2": {"threads": 2},
            "--seed 5": {"seed": 5},
            "--json -": {},
            "--html p.html": {},
            "--save": {},
        },
    ),
    "bench digits_int8 --target cortex-m4": (
        BENCH_THERE,
        {
            "--target cortex-m0": {"on": "cortex-m0"},
            "--layers": {"layers": True, "options": every(memory="layers")},
            "--cycles": {"cycles": True},
            "--memory rows": {"options": every(memory="rows")},
            "--float fused": {"options": every(floats="fused")},
            "--seed 5": {"seed": 5},
            "--optimize size,speed,size": {"options": every(["size", "speed"])},
            "--engine compiled": {"options": every(modes=["compiled"])},
            "--engine interpreted": {"options": every(modes=["interpreted"])},
            "--weights lut,plain": {"options": every(storages=[("lut", "layer"), ("plain", "layer")])},
            "--decode start": {"options": every(storages=[("file", "start")])},
            "--weights plain,lut --decode start,layer": {
                "options": every(storages=[("plain", "layer"), ("lut", "start"), ("lut", "layer")])
            },
        },
    ),
    "explain digits_int8": (EXPLAIN, PROGRAMS),
    "report digits_int8 --json -": (REPORT, {**PROGRAMS, "--no-ladder": {"ladder": False}, "--output r.html": {}}),
    "diff digits_int8 digits_float32": ({**REPORT, "ladder": False}, PROGRAMS),
    "verify digits_int8": (
        VERIFY,
        {
            "--seed 5": {"samples": Samples(seed=5)},
            "--samples 3": {"samples": Samples(3)},
            "--against tflm": {"peers": ["tflm"]},
            "--against none": {"peers": []},
            "--optimize size": {"optimize": "size"},
            "--weights auto": {"weights": "auto"},
            "--float fused": {"floats": "fused"},
            "--threads 2": {"threads": 2},
            "--weights lut --decode start": {"weights": "lut", "decode": "start"},
            "--guard": {"guard": True},
        },
    ),
    "verify digits_int8 --target cortex-m4": (
        VERIFY_THERE,
        {
            "--target cortex-m4,cortex-m0": {"on": ["cortex-m4", "cortex-m0"]},
            "--seed 5": {"samples": Samples(seed=5)},
            "--samples 3": {"samples": Samples(3)},
            "--optimize size": {"optimize": "size"},
            "--weights lut": {"weights": "lut"},
            "--decode start": {"decode": "start"},
            "--float fused": {"floats": "fused"},
            "--guard": {"guard": True},
        },
    ),
}

#: Options whose effect is not a call; they have tests of their own.
ELSEWHERE = {
    "tflm": {"--ops"},
    "bench": {"--compare", "--max-drift"},
    "compile": {"--io", "--tuned"},
    "convert": {"--output", "--no-check", "--samples", "--max-error"},
    "run": {"--input", "--output", "--seed", "--io", "--real-outputs"},
    "verify": {"--io"},
    "explain": {"--ladder", "--techniques", "--input-rows", "--input-in-place", "--io", "--json", "--html"},
    "report": {"--input-rows", "--input-in-place", "--io"},
    "diff": {"--with", "--input-rows", "--input-in-place", "--io", "--json", "--output"},
    "inspect": {
        "--json",
        "--target",
        "--memory",
        "--input-rows",
        "--input-in-place",
        "--weights-as",
        "--page-bytes",
        "--io",
        "--trace",
        "--shape",
        "--constant",
    },
    "boards": {"--board", "--io", "--json", "--markdown", "--shape", "--constant"},
    "fit": {"--output", "--json", "--html"},
    "ops": {"--json", "--markdown", "--target", "--shape", "--constant"},
    "optimize": {"--output"},
    "demo": {"--output"},
    "solve": {"--capacity", "--exact", "--output"},
    "stream": {"--output"},
    "tune": {"--seconds", "--json"},
    "weights": {"--like", "--output", "--name", "--io"},
}


@pytest.mark.parametrize("line", MATRIX)
def test_what_is_asked_for(line: str, ask: Ask) -> None:
    """Without options all defaults; with an option its own change and nothing else."""
    usual, options = MATRIX[line]
    assert ask(line) == [usual]
    for option, changed in options.items():
        assert ask(f"{line} {option}") == [{**usual, **changed}], option


def test_bench_of_a_computer_and_a_microcontroller(ask: Ask) -> None:
    """Options that are for one of them are taken, and noted for none."""
    assert ask("bench digits_int8 --target host,cortex-m4 --cycles --seconds 2.5 --optimize size") == [
        {**BENCH, "seconds": 2.5}
    ]
    assert ask("bench digits_int8 --target cortex-m4,host --cycles --seconds 2.5 --engine compiled") == [
        {**BENCH_THERE, "cycles": True, "options": every(modes=["compiled"])}
    ]


@pytest.mark.parametrize(
    "line",
    [
        "convert net.onnx -o old.tflite --quantize int8 --report old.html",
        "search net.onnx --data d.npz --max-loss 0.01 -o old.tflite --json old.json --html old.html",
        "optimize net.onnx -o old.tflite",
        "stream tcn_int8 -o old.tflite",
        "bench digits_int8 --target cortex-m4,host --json old.json --html old.html --save",
        "explain digits_int8 --target cortex-m4,host --json old.json --html old.html",
        "report digits_int8 --json old.json -o old.html",
        "diff digits_int8 digits_float32 --json old.json -o old.html",
        "run digits_int8 --output old.npy",
        "compile digits_int8 -o made",
    ],
)
def test_a_command_that_fails_leaves_all_as_it_was(line: str, ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    """Results of before stay, and no new ones are there; nothing is printed but why."""
    for word in line.split():
        if word.startswith("old"):
            Path(word).write_text("old")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    assert len(ask(line)) == 1
    assert {path: path.read_bytes() for path in Path().iterdir()} == before
    said = capsys.readouterr()
    assert said.out == ""
    assert "noted" in said.err


def commands() -> Mapping[str, argparse.ArgumentParser]:
    (action,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    return action.choices


@pytest.mark.parametrize("name", commands())
def test_every_command_takes_operators_and_limits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators are registered before anything else is done, under limits that hold for what the command starts."""
    seen: list[Any] = []
    limits = ("TWINFER_MAX_BYTES", "TWINFER_MAX_ROUNDS")

    def register(folder: str) -> None:
        seen.append((folder, *map(os.environ.get, limits)))
        if folder == "last":
            raise ToolError("noted")

    monkeypatch.setattr(registry, "register", register)
    monkeypatch.setenv("TWINFER_MAX_BYTES", "77")
    monkeypatch.delenv("TWINFER_MAX_ROUNDS", raising=False)
    usual = f"{name} nothing" + {"weights": " --like nothing -o nothing", "demo": " -o nothing"}.get(name, "")
    line = next((line for line in MATRIX if line.split()[0] == name), usual)
    for given in ([], ["--max-bytes", "5"], ["--operators", "first", "--max-rounds", "6"]):
        assert main([*line.split(), *given, "--operators", "last"]) == 2
        assert tuple(map(os.environ.get, limits)) == ("77", None)
    assert seen == [("last", "77", None), ("last", "5", None), ("first", "77", "6"), ("last", "77", "6")]


def test_every_option_is_tried() -> None:
    for name, command in commands().items():
        known = {action.option_strings[-1] for action in command._actions if action.option_strings}
        known -= {"--help", "--operators", "--max-bytes", "--max-rounds"}
        lines = [" ".join([line, *how]) for line, (_, how) in MATRIX.items() if line.split()[0] == name]
        words = {word for line in lines for word in line.split()}
        assert known == (words & known) | ELSEWHERE.get(name, set()), name


def test_seeds_of_run(tmp_path: Path) -> None:
    """Inputs that are not given come from the seed, by default 0."""
    graph = make_plan(load("digits_int8").graph).graph
    for option, seed in (([], 0), (["--seed", "3"], 3)):
        np.save(tmp_path / "x.npy", random_inputs(graph, seed)[0])
        for given, name in ((option, "random.npy"), (["--input", str(tmp_path / "x.npy")], "given.npy")):
            assert main(["run", "digits_int8", *given, "--output", str(tmp_path / name)]) == 0
        np.testing.assert_array_equal(np.load(tmp_path / "random.npy"), np.load(tmp_path / "given.npy"))


@pytest.mark.parametrize(
    "line",
    ["bench x --runs 0", "bench x --seconds nan", "bench x --seconds inf", "bench x --seconds 0",
     "verify x --samples 0", "verify x --guard y --seed", "verify x --optimize all", "verify x --weights zip",
     "compile x", "compile x -o y --mode fast", "compile x -o y --decode noon", "convert x", "inspect",
     "bench x --engine all", "run x --seed a", "run x --seed=-1", "convert x -o y --quantize int2",
     "search x --data d", "search x --max-loss 1"],
)  # fmt: skip
def test_usage(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(line.split())
    assert exit.value.code == 2
    assert f"usage: twinfer {line.split()[0]}" in capsys.readouterr().err


# -- what the bench makes of them --------------------------------------------------------------------------------------


def small() -> Source:
    b = Builder("small")
    return Source("small", b.graph([b.op("RELU", [b.input("x", "FLOAT32", (1, 3))])]))


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes the seeds of random inputs."""
    asked: list[int] = []

    def noted(graph: Any, seed: int = 0) -> Any:
        asked.append(seed)
        return random_inputs(graph, seed)

    for module in (compare, embedded, verify):
        monkeypatch.setattr(module, "random_inputs", noted)
    return asked


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Notes the projects that are built for boards, and stops there."""
    projects: list[Any] = []

    def refuse(project: Any, card: Any) -> Any:
        projects.append(project)
        raise ToolError("not built")

    monkeypatch.setattr(embedded, "build", refuse)
    return projects


def test_every_sample_is_another(seeds: list[int], built: list[Any]) -> None:
    verify.verify(small(), samples=Samples(3, 5))
    assert seeds == [5, 6, 7]
    embedded.verify_on(small(), [M4], samples=Samples(2, 8))
    assert seeds[3:] == [8, 9]
    compare.compare(small(), compare.Comparison(rounds=1, seed=4))
    embedded.measure_on(small(), M4, embedded.Measurement(seed=2))
    assert seeds[5:] == [4, 2]


def test_every_sample_is_run(built: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The outputs that boards are held against are computed for every sample."""
    samples = list[list[Any]]()
    host_outputs = embedded.host_outputs

    def noted(graph: Any, sample: Any) -> Any:
        samples.append([value.tobytes() for value in sample])
        return host_outputs(graph, sample)

    monkeypatch.setattr(embedded, "host_outputs", noted)
    embedded.verify_on(small(), [M4], samples=Samples(2, 8))
    assert samples == [[value.tobytes() for value in random_inputs(small().graph, seed)] for seed in (8, 9)]


def test_what_is_built_to_be_measured(built: list[Any]) -> None:
    """Compiled code for every setting and storage; interpreted code once per storage, as by default: its kernels
    are shared."""
    storages: list[Any] = [("plain", "layer"), ("lut", "start")]
    rows = embedded.measure_on(small(), M4, embedded.Measurement(every(["size", "speed"], storages)))
    wanted = [("interpreted", "balanced", *how) for how in storages]
    wanted += [("compiled", optimize, *how) for optimize in ("size", "speed") for how in storages]
    assert [(row["engine"], row["optimize"], row["weights"], row["decode"]) for row in rows] == wanted
    options = [project.plan.options for project in built]
    assert [(o.mode, o.optimize, o.weights, o.decode) for o in options] == wanted
    assert all(row["error"] == "not built" and row["instructions"] is None for row in rows)


def test_what_is_built_to_be_verified(built: list[Any]) -> None:
    proof = embedded.verify_on(small(), [M4, M0], Options("size", "lut", "start", guard=True))
    assert [(p.plan.target.name, p.mode) for p in built] == [
        (card.name, mode) for card in (M4, M0) for mode in ("interpreted", "compiled")
    ]
    asked = {Options("size", "lut", "start", mode, guard=True, memory="layers") for mode in MODES}
    assert {p.plan.options for p in built} == asked
    assert all("GUARD_STATUS" in p.code["small.h"] for p in built), "watched"
    assert proof.unrun == list(proof.notes) == list(proof.others)
    said = " ".join(text.plain for text in findings([proof]))
    assert f"small: not proven: it did not run {', '.join(proof.others)}" in said
    assert "small: proven" not in said


def test_compiling_takes_every_option(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Options] = []

    def refuse(plans: Mapping[str, Plan]) -> Any:
        asked.append(plans["model"].options)
        raise ToolError("not built")

    monkeypatch.setattr(compiled, "compile_plans", refuse)
    with pytest.raises(ToolError):
        compiled.compile(small().graph, optimize="size", weights="lut", decode="start")
    with pytest.raises(ToolError):
        verify.verify(small(), options=Options("size", "lut", "start"))
    assert asked == [Options("size", "lut", "start", memory=memory) for memory in ("auto", "layers")]
    with pytest.raises(InvalidArgumentError, match="'cortex-m4'"):
        compiled.compile(small().graph, "cortex-m4")


def test_price_of_a_layer_and_of_an_instance() -> None:
    """The price of a layer is its code and params; that of an instance includes alignment."""
    symbols = [Symbol("small_0_relu", "code", 100, 4, 0), Symbol("small_0_params", "params", 24, 0, 0)]
    symbols += [Symbol("small_0_in1", "weights", 512, 0, 0), Symbol("small_1_relu", "code", 60, 0, 1)]
    project = emit(make_plan(small().graph, GENERIC), "small")
    (kernel,) = kernel_counts(project.plan)
    sizes = Sizes((*symbols, Symbol(f"small_{kernel}", "code", 200, 2)), 64)
    assert [Build((7, 9), sizes).price(i) for i in range(2)] == [(7, 128), (9, 60)]
    assert instances(project, sizes) == {kernel: 202}
