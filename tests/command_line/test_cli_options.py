"""Options of the command line: names of targets, messages about options without effect, and about unreadable files."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinfer.aot.build.targets import find, names, spelled
from twinfer.command_line import targets
from twinfer.command_line.bench import unused_options
from twinfer.command_line.main import main, parser
from twinfer.converter.source import ELSEWHERE
from twinfer.kernels_c import LEVELS, lib
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.run import isa
from twinfer.runtime.target import GENERIC, HOST

LONG = "x" * 5000


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command with status 2 prints."""
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    return said.err


# -- targets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("cortex-")])
def test_spellings_of_targets(name: str) -> None:
    short = name.removeprefix("cortex-")
    for text in (name, short, short.upper(), f"cortex_{short}", f"Cortex-{short.upper()}", f"cortex{short}"):
        assert find(text).name == name
        assert targets.machine(text) == (find(name).target, find(name))
    assert find("M0+").name == "cortex-m0plus"
    assert targets.cards(f"{short},{name},HOST,host,{name.upper()}") == [find(name), None]


def test_other_names_stay() -> None:
    for name in ("generic", "host", "esp32", "cortex-m5", "x.toml"):
        assert spelled(name) == name
    assert targets.machine("Generic") == (GENERIC, None)
    assert targets.machine("host") == (HOST, None)
    assert targets.machine("Native") == (isa.this_computer(), None)
    assert targets.card("host") is None


def test_only_native_asks_this_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(isa.VARIABLE, "none such")
    assert targets.machine("cortex-m4")[1] == find("cortex-m4")
    with pytest.raises(InvalidArgumentError, match="no instruction-set level"):
        targets.machine("native")


@pytest.mark.parametrize(
    "command",
    [
        "compile digits_int8 -o x --target",
        "inspect digits_int8 --target",
        "search digits_int8 --data x --max-loss 0 --target",
    ],
)
def test_unknown_targets_where_any_can_be_planned_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = failed(capsys, *command.split(), "esp32")
    assert f"no target 'esp32': name one of generic, host, native, {', '.join(names())}, or a .toml file" in error
    assert "Do you mean" not in error
    assert "Do you mean cortex-m55?" in failed(capsys, *command.split(), "Kortex_m55")
    assert "Do you mean generic?" in failed(capsys, *command.split(), "generics")


@pytest.mark.parametrize("command", ["run", "bench", "verify"])
def test_unknown_targets_where_programs_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = failed(capsys, command, "digits_int8", "--target", "esp32")
    assert f"no target 'esp32': name one of host, {', '.join(names())}, or a .toml file" in error
    for name in ("generic", "native"):
        error = failed(capsys, command, "digits_int8", "--target", name)
        assert f"{name} is only planned for: compile, inspect, ops and search take it" in error


# -- options that change nothing ---------------------------------------------------------------------------------------


def test_instruction_set_levels(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TWINFER_ISA", "foo")
    assert f"TWINFER_ISA=foo is no instruction-set level; there are: {', '.join(LEVELS)}" in failed(
        capsys, "run", "digits_int8"
    )
    for i, name in enumerate(LEVELS):
        monkeypatch.setenv("TWINFER_ISA", name)
        assert isa.level() == min(i, lib.tw_level())
        assert isa.this_computer().has("avx512_vnni") == (LEVELS[isa.level()] == "v4")
        assert isa.this_computer().features >= HOST.features
    for unset in ("", None):
        monkeypatch.setenv("TWINFER_ISA", "") if unset == "" else monkeypatch.delenv("TWINFER_ISA")
        assert isa.level() == lib.tw_level()


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("host", "--weights lut", ["--weights lut"]),
        ("host", "--weights plain,lut --decode start --optimize size", ["--optimize", "--weights", "--decode"]),
        ("host", "--engine compiled", ["--engine compiled"]),
        ("host", "--seconds 2 --against none", []),
        ("m4", "--seconds 2 --against none", ["--against none", "--seconds 2.0"]),
        ("m4", "--runs 3", ["--runs 3"]),
        ("m4", "--weights lut --decode start --optimize size --engine compiled", []),
        ("m4,host", "--weights lut --seconds 2", []),
    ],
)
def test_options_of_bench_for_other_targets(target: str, options: str, said: list[str]) -> None:
    arguments = parser().parse_args(["bench", "--target", target, *options.split()])
    lines = list(unused_options(arguments, targets.cards(target)))
    assert [line.partition(" changes nothing")[0].startswith(word) for line, word in zip(lines, said, strict=True)] == [
        True
    ] * len(said)
    where = "microcontrollers" if target == "host" else "this computer"
    assert all(f"it is for {where}" in line for line in lines)


# -- files that cannot be read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        f"inspect {LONG}.tflite",
        f"run digits_int8 --input {LONG}.npy",
        f"run digits_int8 --output {LONG}.npy",
        f"compile digits_int8 -o {LONG}",
        f"compile digits_int8 -o x --target {LONG}.toml",
        f"convert {LONG}.onnx -o x.tflite",
        f"convert digits_float32 -o x.tflite --dump {LONG}",
        f"convert digits_float32 -o x.tflite --quantize int8 --calibration x.npz --recipe {LONG}.toml",
        f"search digits_float32 --data {LONG}.npz --max-loss 0",
        f"search digits_float32 --data x.npz --max-loss 0 --resume {LONG}",
    ],
)
def test_long_names(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert LONG in failed(capsys, *command.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        "convert digits_float32 -o x.tflite --quantize int8 --calibration MISSING",
        "convert digits_float32 -o x.tflite --quantize int8 --calibration x.npz --recipe MISSING",
        "search digits_float32 --data MISSING --max-loss 0",
        "run digits_int8 --input MISSING",
        "compile digits_int8 -o x --target MISSING",
    ],
)
def test_missing_files_in_plain_words(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder.toml").mkdir()
    for file, why in (("no.toml", "No such file or directory"), ("folder.toml", "Is a directory")):
        name = tmp_path / file
        words = [str(name) if word == "MISSING" else word for word in command.split()]
        assert failed(capsys, *words) == f"twinfer: {name}: cannot be read: {why}\n"


@pytest.mark.parametrize("command", ["convert {} -o x.tflite", "inspect {}"])
def test_models_in_forms_that_are_not_read(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ways = {
        ".pt": "twinfer.from_torch(module, example_inputs)",
        ".pth": "torch.export.save as .pt2",
        ".jit": "TorchScript",
        ".h5": "twinfer.from_keras",
        ".pb": "tf.lite.TFLiteConverter.from_saved_model",
    }
    for suffix in ELSEWHERE:
        (tmp_path / f"net{suffix}").touch()
        error = failed(capsys, *command.format(tmp_path / f"net{suffix}").split())
        assert error.startswith(f"twinfer: {tmp_path}/net{suffix}: {suffix} is ")
        assert ways.get(suffix, "") in error
    (tmp_path / "saved" / "variables").mkdir(parents=True)
    (tmp_path / "saved" / "saved_model.pb").touch()
    error = failed(capsys, *command.format(tmp_path / "saved").split())
    assert "saved: a SavedModel is TensorFlow's: make a .tflite file of it by tf.lite.TFLiteConverter" in error
    assert "python -m tf2onnx.convert" in error
    assert "it is not a file" in failed(capsys, *command.format(tmp_path / "saved" / "variables").split())
