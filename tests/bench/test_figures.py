"""README.md: its figures are those of the JSON files, its commands and make targets exist, its examples run."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import twinfer
from twinfer.aot.build.targets import find, names
from twinfer.bench.lab.datasets import FOLDS, digits
from twinfer.bench.lab.kept import network
from twinfer.bench.lab.networks import NETWORKS
from twinfer.bench.measure import figures
from twinfer.bench.measure.embedded import Measurement, every, measure_on
from twinfer.bench.measure.figures import FIGURES, ROOT, blocks, document, updated
from twinfer.bench.models.builtin import builtin
from twinfer.bench.models.source import load
from twinfer.command_line import main as cli
from twinfer.runtime.errors import ToolError
from twinfer.runtime.write.tflite import write

README = (ROOT / "README.md").read_text(encoding="utf-8")

#: The cores that TFLM was measured on.
CORES = tuple(f"cortex-m{number}" for number in (0, 3, 4, 7, 33, 55))

#: What a row on a microcontroller says that repeats everywhere, with the same compiler.
COUNTED = ("instructions", "code_bytes", "weight_bytes", "ram_bytes", "arena_bytes", "lower_bound_bytes", "stack_bytes")


@pytest.mark.parametrize("start", FIGURES)
def test_the_figures_are_those_of_the_json_files(start: str) -> None:
    text = dict(blocks())[start]
    assert text.startswith(start)
    assert text in README, "make figures, or python -m twinfer.bench.measure.figures"


def test_nothing_else_is_written() -> None:
    assert updated(README) == README


def test_a_changed_figure_is_seen_and_mended() -> None:
    for start, text in blocks():
        block = README[README.index(text) : README.index(text) + len(text)]
        digit = re.search(r"\d", block.removeprefix(start))
        assert digit is not None, "a block without a figure"
        changed = README.replace(block, start + block.removeprefix(start).replace(digit[0], "x"), 1)
        assert changed != README
        assert updated(changed) == README
    with pytest.raises(ToolError, match="accuracy, %"):
        updated(README.replace("| accuracy, % |", "| precision |"))


def tables_in(text: str) -> Iterator[str]:
    """Every table of figures: those of Markdown, and what commands print in blocks of code."""
    yield from (block for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE) if re.search(r"\d,\d{3}", block))
    for language, code in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from (part.strip() for part in code.split("\n\n") if not language)


def test_every_table_has_a_json_file() -> None:
    tables = list(tables_in(README))
    assert len(tables) == sum(not text.endswith(".") for _, text in blocks())
    written = [text for _, text in blocks()]
    for table in tables:
        assert any(text in table for text in written), table[:60]


def test_every_network_and_every_fold_is_measured() -> None:
    networks = {(name, model) for name, models in NETWORKS.items() for model in models}
    for kind in ("accuracy", "compression"):
        rows = document(kind)["rows"]
        assert {(row["set"], row["model"]) for row in rows} == networks, f"make {kind}"
        assert all(len(row["folds"]) == FOLDS for row in rows), f"make {kind}"
    assert {row["target"] for row in document("embedded")["rows"]} == set(CORES), "make bench-embedded"


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize(("model", "core"), [("kws_int8", "cortex-m4"), ("ad01_int8", "cortex-m55")])
def test_counts_come_again(model: str, core: str) -> None:
    """What is counted on a microcontroller is the same anywhere, to the last instruction."""
    compiler = find(core).toolchain.version.splitlines()[0]
    kept = document("embedded")
    if kept["machine"]["arm_compiler"] != compiler:
        message = f"the figures are of {kept['machine']['arm_compiler']}, here is {compiler}"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    speed = Measurement(every(["speed"], modes=["compiled"]))
    (row, *_) = measure_on(load(model), find(core), speed)
    of_model = [r for r in kept["rows"] if (r["model"], r["target"]) == (model, core)]
    (before,) = [r for r in of_model if (r["engine"], r.get("optimize")) == ("compiled", "speed")]
    assert {k: row[k] for k in COUNTED} == {k: before[k] for k in COUNTED}, "make figures"


# -- commands ----------------------------------------------------------------------------------------------------------


def commands_in(text: str) -> Iterator[str]:
    """Every ``twinfer …`` in code, without comments and prompts."""
    for line in re.findall(r"^(?:\$ )?(twinfer .*)$", text, re.MULTILINE):
        yield line.partition("  #")[0].strip()
    yield from (span for span in re.findall(r"`(twinfer [^`]+)`", text))


def parsers() -> dict[str, argparse.ArgumentParser]:
    (subparsers,) = (a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction))
    return subparsers.choices


@pytest.mark.parametrize("command", sorted(set(commands_in(README))))
def test_commands_and_their_options_exist(command: str) -> None:
    known = parsers()
    _, name, *_ = command.split()
    assert name in known
    options = {option for action in known[name]._actions for option in action.option_strings}
    asked = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", command))
    assert asked <= options, f"twinfer {name} has no {asked - options}"


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    asked = set(re.findall(r"(?:`|\$ )make ([a-z][a-z-]*)", README))
    assert {"bench-embedded", "accuracy", "compression", "search"} <= asked
    assert asked <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def test_commands_that_take_a_target_are_named() -> None:
    """And the targets are: microcontrollers, this computer, any machine."""
    with_target = {name for name, parser in parsers().items() if "--target" in parser._option_string_actions}
    (named,) = re.findall(r"^((?:[^\n]+\n)*?[^\n]*take `--target`(?:[^\n]+\n)+)", README, re.MULTILINE)
    assert set(re.findall(r"`([a-z]+)`", named)) - {"generic", "host"} == with_target
    assert all(name.removeprefix("cortex-") in named for name in names() if name.startswith("cortex-m"))
    assert {"generic", "host"} <= set(re.findall(r"`([a-z]+)`", named))


# -- examples ----------------------------------------------------------------------------------------------------------


def code_in(language: str) -> list[str]:
    blocks_of_code = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return [code for name, code in blocks_of_code if name == language]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the examples begin with, in the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = digits()
    Path("model.onnx").write_bytes(network(data, "mlp", 0))
    np.savez("samples.npz", x=data.x[:200], labels=data.y[:200])
    return tmp_path


def test_python_examples(folder: Path) -> None:
    interpreted, compiled, *_ = code_in("python")
    Path("model.tflite").write_bytes(write(builtin()["digits_int8"]()))
    values: dict[str, Any] = {"x": np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 1), np.int8)}
    exec(interpreted, values)
    exec(compiled, values)
    twin = values["compiled"]
    twin.allocate_tensors()
    twin.set_tensor(twin.get_input_details()[0]["index"], values["x"])
    twin.invoke()
    np.testing.assert_array_equal(twin.get_tensor(twin.get_output_details()[0]["index"]), values["y"])
    assert values["y"].shape == (1, 10)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_example_of_convert(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    samples = np.random.default_rng(1).normal(size=(50, 8)).astype(np.float32)
    values = {"twinfer": twinfer, "module": module, "example": torch.zeros(1, 8), "samples": samples}
    exec(code_in("python")[2], values)
    graph = twinfer.read_file("model.tflite")
    assert graph.inputs[0].type == "INT8"


#: What a command of the examples is given beside, so that it takes seconds.
SHORTER = {"search": ["--trials", "3", "--jobs", "1"]}


def test_shell_examples(folder: Path) -> None:
    ran = []
    for line in commands_in("\n".join(code_in("sh"))):
        _, name, *arguments = shlex.split(line)
        assert cli.main([name, *arguments, *SHORTER.get(name, [])]) == 0, line
        ran.append(name)
        if "-o" in arguments:
            assert Path(arguments[arguments.index("-o") + 1]).exists(), line
    assert ran == ["convert", "search", "convert", "compile"]
    assert onnx.load("model.onnx").graph.input[0].name == "x"


def test_the_readme_says_what_is_needed() -> None:
    """The packages of pyproject.toml, by name."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [re.split(r"[<>=]", name)[0] for name in project["dependencies"]]
    (sentence,) = re.findall(r"\(The tool itself is[^)]*\)", README)
    assert all(name in sentence for name in needed)
    assert figures.FOLDER.is_dir()
