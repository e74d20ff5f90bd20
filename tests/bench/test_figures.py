"""README.md and docs/: figures are those of the JSON files, commands and make targets exist, examples run."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import deep_but

import twinfer
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.lab.datasets import digits
from twinfer.bench.lab.figures import FIGURES, ROOT, blocks, document, pages, updated
from twinfer.bench.lab.measure import streams
from twinfer.bench.lab.networks import network
from twinfer.bench.measure.embedded import Measurement, every, measure_on
from twinfer.bench.models.builtin import builtin
from twinfer.bench.models.source import load
from twinfer.command_line import main as cli
from twinfer.converter.build import Builder
from twinfer.converter.quantize.recipe import read_recipe
from twinfer.runtime.graph import Graph
from twinfer.runtime.target import GENERIC
from twinfer.runtime.write.tflite import write

PAGES = pages()
ALL = "\n".join(PAGES.values())
README = PAGES[ROOT / "README.md"]


#: The columns of a row on a microcontroller that are the same everywhere with the same compiler.
COUNTED = ("instructions", "code_bytes", "weight_bytes", "ram_bytes", "arena_bytes", "lower_bound_bytes", "stack_bytes")


@pytest.mark.parametrize("start", FIGURES)
def test_the_figures_are_those_of_the_json_files(start: str) -> None:
    text = dict(blocks())[start]
    assert text.startswith(start)
    assert text in ALL, "make figures, or python -m twinfer.bench.lab.figures"


def test_nothing_else_is_written() -> None:
    assert updated(PAGES) == PAGES


def tables_in(text: str) -> Iterator[str]:
    """Every table of figures: those of Markdown, and what commands print in blocks of code."""
    yield from (
        block for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE) if re.search(r"\| -?\d+[.,]\d", block)
    )
    for language, code in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from (part.strip() for part in code.split("\n\n") if not language)


def test_every_table_has_a_json_file() -> None:
    # twinfer boards --markdown writes the first, which has a test of its own; the numbers of the other are rules'
    others = {ROOT / "docs/boards.md", ROOT / "docs/misra.md"}
    tables = [table for path, page in PAGES.items() if path not in others for table in tables_in(page)]
    assert len(tables) == sum(not text.endswith(".") for _, text in blocks())
    written = [text for _, text in blocks()]
    for table in tables:
        assert any(text in table for text in written), table[:60]


def same_compiler(kept: Any, core: str) -> None:
    """Skips the test, or fails in CI, where another compiler made the figures."""
    compiler = find(core).toolchain.version.splitlines()[0]
    if kept["machine"]["arm_compiler"] != compiler:
        message = f"the figures are of {kept['machine']['arm_compiler']}, here is {compiler}"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)


@pytest.mark.usefixtures("board_tools")
def test_counts_of_a_stream_come_again() -> None:
    kept = document("streams")
    same_compiler(kept, "cortex-m4")
    (before,) = [row for row in kept["rows"] if row["model"] == "tcn_int8"]
    again = streams(load("tcn_int8"), find("cortex-m4"))
    assert again == before, "make figures"
    assert again["same_bits"]


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize(("model", "core"), [("kws_int8", "cortex-m4"), ("ad01_int8", "cortex-m55")])
def test_counts_come_again(model: str, core: str) -> None:
    """Counts on a microcontroller are the same anywhere, to the last instruction."""
    kept = document("embedded")
    same_compiler(kept, core)
    speed = Measurement(every(["speed"], modes=["compiled"]))
    (row, *_) = measure_on(load(model), find(core), speed)
    of_model = [r for r in kept["rows"] if (r["model"], r["target"]) == (model, core)]
    (before,) = [r for r in of_model if (r["engine"], r.get("optimize")) == ("compiled", "speed")]
    assert {k: row[k] for k in COUNTED} == {k: before[k] for k in COUNTED}, "make figures"


# -- commands ----------------------------------------------------------------------------------------------------------


def commands_in(text: str) -> Iterator[str]:
    """Every ``twinfer …`` in code, without comments and prompts."""
    for code in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in re.findall(r"^(?:\$ )?(twinfer .*)$", code, re.MULTILINE):
            yield line.partition("  #")[0].strip()
    yield from (span for span in re.findall(r"`(twinfer [^`]+)`", text))


def parsers() -> dict[str, argparse.ArgumentParser]:
    (subparsers,) = (a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction))
    return subparsers.choices


@pytest.mark.parametrize("command", sorted(set(commands_in(ALL))))
def test_commands_and_their_options_exist(command: str) -> None:
    known = parsers()
    _, name, *_ = command.split()
    assert name in known
    options = {option for action in known[name]._actions for option in action.option_strings}
    asked = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", command))
    assert asked <= options, f"twinfer {name} has no {asked - options}"


def test_make_targets_exist() -> None:
    own, emitted = ROOT / "Makefile", ROOT / "aot/build/templates/Makefile"  # a page may speak of a folder of C
    makefile = own.read_text(encoding="utf-8") + emitted.read_text(encoding="utf-8")
    asked = set(re.findall(r"(?:`|\$ )make ([a-z][a-z-]*)", ALL))
    assert {"bench-host", "bench-embedded", "bench-coded", "accuracy", "compression", "search", "figures"} <= asked
    assert asked <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


# -- examples ----------------------------------------------------------------------------------------------------------


def code_in(page: Path, language: str) -> list[str]:
    """The blocks of code in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)


def with_code(language: str) -> Any:
    """Parametrises a test with every page that has such code."""
    having = [page for page in PAGES if code_in(page, language)]
    often = having if language != "sh" else [ROOT / "README.md"]  # commands take minutes
    return pytest.mark.parametrize("page", deep_but(having, *often), ids=[page.stem for page in having])


def leaky() -> Graph:
    """The model of docs/custom-operators.md."""
    builder = Builder("level")
    signal, leak = builder.input("signal", "FLOAT32", (16, 3)), np.array([0.5, 0.9, 0.99], np.float32)
    return builder.graph([builder.op("CUSTOM:LeakyIntegrator", [signal, leak], shape=(16, 3))])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_operators: None) -> Path:
    """Puts the files that the examples start from into the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = digits()
    Path("model.onnx").write_bytes(network(data, "mlp", 0))
    for name in ("model", "old", "new"):
        Path(f"{name}.tflite").write_bytes(write(builtin()["digits_int8"]()))
    Path("level.tflite").write_bytes(write(leaky()))
    (problem,) = code_in(ROOT / "docs" / "ram.md", "csv")
    Path("problem.csv").write_text(problem)
    shutil.copytree(ROOT / "docs" / "examples", "my_operators")
    np.savez("samples.npz", x=data.x[:200], labels=data.y[:200])
    return tmp_path


def values_of(code: str) -> dict[str, Any]:
    """What the reader of an example has: inputs, samples and, for PyTorch, a module."""
    with np.load("samples.npz") as arrays:
        samples = {"x": arrays["x"]}
    values: dict[str, Any] = {"x": np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 1), np.int8)}
    values |= {"X": np.random.default_rng(2).uniform(0, 1, (5, 8, 8, 1)), "labels": np.arange(5)}
    if "from_torch" not in code:
        return {**values, "samples": samples}
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return {**values, "samples": samples["x"], "module": module, "example": torch.zeros(1, 1, 8, 8)}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@with_code("python")
def test_python_examples(page: Path, folder: Path) -> None:
    code = "\n".join(code_in(page, "python"))
    values = values_of(code)
    exec(code, values)
    twin = values.get("compiled")
    if twin is not None:
        twin.set_tensor(twin.get_input_details()[0]["index"], values["x"])
        twin.invoke()
        np.testing.assert_array_equal(twin.get_tensor(twin.get_output_details()[0]["index"]), values["y"])
        assert values["y"].shape == (1, 10)
    if "levels" in values:
        one, other = values["levels"]
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one[-1], (1 - values["leak"] ** 48) / (1 - values["leak"]), rtol=1e-5)
    for name in re.findall(r'save\("(.*?)"\)', code):
        graph = twinfer.read_file(name)
        assert graph.inputs[0].type == ("FLOAT32" if name in ("tiny.tflite", "level.tflite") else "INT8")


#: Further options of the examples' commands, so that they take seconds.
SHORTER = {
    "search": ["--trials", "3", "--jobs", "1"],
    "bench": ["--runs", "1"],
    "explain": ["--seconds", "0.2"],
    "report": ["--seconds", "0.2", "--no-ladder"],
}


def run_line(line: str) -> None:
    """Runs a command of ours, or make in a folder that one has written; it must succeed."""
    _, name, *arguments = shlex.split(line)
    if line.startswith("make"):
        subprocess.run(shlex.split(line), check=True, capture_output=True)
    else:
        assert cli.main([name, *arguments, *SHORTER.get(name, [])]) == 0, line
    for flag in {"-o", "--output", "--json"} & set(arguments):
        assert Path(arguments[arguments.index(flag) + 1]).exists(), line


@with_code("sh")
def test_shell_examples(page: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    if "cortex" in "".join(code_in(page, "sh")):
        request.getfixturevalue("board_tools")
    lines = [line.partition("  #")[0] for code in code_in(page, "sh") for line in code.splitlines()]
    ours = [line for line in lines if not line.startswith("./do ")]
    assert all(line.startswith(("twinfer ", "make -C ")) for line in ours)
    for line in ours:
        run_line(line)


def test_the_c_that_is_shown_is_emitted() -> None:
    """Every line of the layers in README.md and ARCHITECTURE.md, but those that leave something out (...)."""
    emitted = emit(twinfer.make_plan(load("kws_int8").graph, GENERIC), "kws_int8").code["kws_int8.c"]
    for page in ("README.md", "ARCHITECTURE.md"):
        (code,) = re.findall(r"^```c\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        assert not [line for line in code.splitlines() if "..." not in line and line not in emitted.splitlines()], page


def test_every_command_has_an_example() -> None:
    lines = [line for page in PAGES for code in code_in(page, "sh") for line in code.splitlines()]
    assert {line.split()[1] for line in lines if line.startswith("twinfer ")} == set(parsers())


@with_code("toml")
def test_toml_examples(page: Path, folder: Path) -> None:
    """Each is a recipe or a board card."""
    for code in code_in(page, "toml"):
        file = Path("my_board.toml")
        file.write_text(code)
        assert read_recipe(file).rules if "[[rule]]" in code else find(str(file)).flags
