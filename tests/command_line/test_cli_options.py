"""Options of the command line: names of targets, messages about options without effect, and about unreadable files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from twinfer.aot.build.architecture import BOARDS
from twinfer.aot.build.targets import find, names, spelled
from twinfer.command_line import targets
from twinfer.command_line.bench import unused_options
from twinfer.command_line.main import main, parser
from twinfer.converter.source import ELSEWHERE
from twinfer.kernels_c import LEVELS, lib
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.run import isa
from twinfer.runtime.target import GENERIC, HOST


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


# -- options that change nothing ---------------------------------------------------------------------------------------


def test_instruction_set_levels(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TWINFER_ISA", "foo")
    said = f"TWINFER_ISA=foo is no instruction-set level; there are: {', '.join(LEVELS)}"
    assert said in failed(capsys, "run", "digits_int8")
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
    assert len(lines) == len(said)
    assert all(line.partition(" changes nothing")[0].startswith(word) for line, word in zip(lines, said, strict=True))
    where = "microcontrollers" if target == "host" else "this computer"
    assert all(f"it is for {where}" in line for line in lines)


# -- files that cannot be read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "inspect LONG.tflite", "convert LONG.onnx -o x.tflite", "run digits_int8 --output LONG.npy",
        "compile digits_int8 -o LONG", "convert digits_float32 -o x.tflite --dump LONG",
        "search digits_float32 --data x.npz --max-loss 0 --resume LONG",
        "convert digits_float32 -o x.tflite --quantize int8 --calibration FILE",
        "convert digits_float32 -o x.tflite --quantize int8 --calibration x.npz --recipe FILE",
        "search digits_float32 --data FILE --max-loss 0", "run digits_int8 --input FILE",
        "compile digits_int8 -o x --target FILE",
    ],
)  # fmt: skip
def test_files_that_cannot_be_read(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In plain words, and nothing is written: their names are too long, they are missing, they are folders."""
    monkeypatch.chdir(tmp_path)
    Path("folder.toml").mkdir()
    long = "x" * 5000
    assert long in failed(capsys, *line.replace("LONG", long).replace("FILE", f"{long}.toml").split())
    for file, why in (("no.toml", "No such file or directory"), ("folder.toml", "Is a directory")):
        if "FILE" in line:
            assert failed(capsys, *line.replace("FILE", file).split()) == f"twinfer: {file}: cannot be read: {why}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["folder.toml"]


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


def test_code_beside_a_card_is_told_of_once_and_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A card that names a folder has Python that runs here; one without says nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(BOARDS / "arm", tmp_path / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "board.toml"
    path.write_text('[own]\nbase = "cortex-m4"\nboard = "./mine"\n')

    def told() -> bool:
        assert main(["inspect", "digits_int8", "--target", str(path)]) == 0
        return "own: the Python in" in capsys.readouterr().err

    assert [told(), told()] == [True, False]
    with (tmp_path / "mine" / "architecture.py").open("a") as file:
        file.write("#: changed\n")
    assert [told(), told()] == [True, False]
    path.write_text('[own]\nbase = "cortex-m4"\n')
    assert not told()
