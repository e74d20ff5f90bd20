"""Where results are written: every command to regular files, links, pipes and devices, and to impossible places."""

from __future__ import annotations

import io
import json
import os
import shlex
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest

from twinfer import convert_file
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.converter.search.journal import Journal
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.read import files
from twinfer.runtime.read.files import check_folder, write_text
from twinfer.runtime.read.tflite import read


def dense() -> Graph:
    b = Builder("dense")
    x = b.input("x", "FLOAT32", (1, 4))
    weights = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
    return b.graph([b.op("FULLY_CONNECTED", [x, weights, None])])


#: Every option that names a file, with the command in front of it. The fixture ``there`` writes IN and DATA.
OPTIONS = {
    "convert -o": "convert IN -o",
    "convert --report": "convert IN -o /dev/null --quantize int8 --calibration DATA --report",
    "search -o": "search IN --data DATA --max-loss 0.5 --metric error --methods minmax --trials 1 --jobs 1 -o",
    "search --html": "search IN --data DATA --max-loss 0.5 --metric error --methods minmax --trials 1 --jobs 1 --html",
    "bench --json": "bench IN --against none --runs 3 --json",
    "bench --save": "bench IN --against none --runs 3 --save",
    "run --output": "run IN --output",
}


@pytest.fixture
def there(tmp_path: Path) -> Path:
    dense().save(tmp_path / "in.tflite")
    np.savez(tmp_path / "data.npz", x=np.linspace(-1, 1, 80, dtype=np.float32).reshape(20, 1, 4))
    return tmp_path


def command(option: str, there: Path, place: object) -> list[str]:
    named = {"IN": str(there / "in.tflite"), "DATA": str(there / "data.npz")}
    return [*(named.get(word, word) for word in OPTIONS[option].split()), str(place)]


@pytest.mark.parametrize("option", OPTIONS)
def test_a_pipe_is_written_to(option: str, there: Path) -> None:
    pipe, came = there / "pipe", io.BytesIO()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: came.write(pipe.read_bytes()), daemon=True)
    reader.start()
    assert main(command(option, there, pipe)) == 0
    reader.join(60)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    again = there / "again"
    assert main(command(option, there, again)) == 0
    assert came.getvalue()[:40] == again.read_bytes()[:40] != b""


@pytest.mark.parametrize("option", OPTIONS)
def test_devices_and_links_stay_a_full_one_is_told(
    option: str, there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (there / "full").symlink_to("/dev/full")
    assert main(command(option, there, there / "full")) == 2
    assert f"{there}/full: cannot be written: No space left on device\n" in capsys.readouterr().err
    assert main(command(option, there, "/dev/null")) == 0
    assert [stat.S_ISCHR(os.stat(f"/dev/{name}").st_mode) for name in ("full", "null")] == [True, True]
    (there / "link").symlink_to("target")
    (there / "target").write_text("old")
    before = set(there.iterdir())
    assert main(command(option, there, there / "link")) == 0
    assert [(there / name).readlink() for name in ("full", "link")] == [Path("/dev/full"), Path("target")]
    assert (there / "target").read_bytes() != b"old"
    assert set(there.iterdir()) == before


@pytest.mark.parametrize("option", OPTIONS)
def test_what_is_refused(option: str, there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (there / "folder").mkdir()
    (there / "dangling").symlink_to("nowhere")
    (there / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(there / "socket"))
    before = set(there.iterdir())
    refused = {
        "folder": "it is a folder",
        "dangling": "it is a link to nowhere, which is not there",
        "socket": "it is a socket",
        "loop": "Too many levels of symbolic links",
        "in.tflite/x": "Not a directory",
        "no/x": "there is no folder ",
        "x" * 300: "File name too long",
    }
    for name, why in refused.items():
        assert main(command(option, there, there / name)) == 2, name
        error = capsys.readouterr().err
        assert f"{there / name}: cannot be written: {why}" in error
        assert error.count("\n") == 1
    assert set(there.iterdir()) == before


def test_nothing_is_half_written(tmp_path: Path) -> None:
    """A failure leaves no half file, and nothing in a stream."""
    (tmp_path / "old").write_text("old")
    heard = threading.Event()

    def fails(file: io.BufferedIOBase) -> None:
        file.write(b"half")
        raise RuntimeError("no more")

    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=lambda: ((tmp_path / "pipe").read_bytes(), heard.set()), daemon=True).start()
    for name in ("old", "new", "pipe"):
        with pytest.raises(RuntimeError, match="no more"):
            files.write_whole(tmp_path / name, fails)  # type: ignore[arg-type]
    assert (tmp_path / "old").read_text() == "old"
    assert not heard.is_set()
    assert {path.name for path in tmp_path.iterdir()} == {"old", "pipe"}
    write_text(tmp_path / "pipe", "")  # lets the reader go
    assert heard.wait(60)


@pytest.mark.parametrize("shell", [">> out", "| cat > out"])
def test_standard_output_by_its_name(shell: str, there: Path) -> None:
    """Printed text stands around the result, wherever the shell sends it."""
    (there / "out").write_text("before\n")
    line = f"{sys.executable} -m twinfer bench in.tflite --against none --runs 3 --json /dev/stdout {shell}"
    subprocess.run(["bash", "-c", line], cwd=there, check=True, timeout=1200)
    text = (there / "out").read_text()
    assert text.startswith("before\n{" if ">> out" in shell else "{")
    told, end = json.JSONDecoder().raw_decode(text[text.index("{") :])
    assert [row["engine"] for row in told["rows"]] == ["interpreted", "compiled"]
    assert "Time of one inference" in text[end:]


# -- inputs ------------------------------------------------------------------------------------------------------------


#: Every command that reads files and writes some, where OUT is each of the files in capitals in turn.
BOTH = [
    "convert IN -o OUT", "convert IN#half -o OUT", "convert IN#half -o /dev/null --cluster 3 --report OUT",
    "convert IN -o out.tflite --quantize int8 --calibration DATA --recipe RULES --report OUT",
    "search IN --data DATA --max-loss 1% --json OUT", "search IN#half --data DATA --max-loss 1% -o OUT",
    "search IN --data DATA --max-loss 1% --recipe RULES --html OUT", "search IN --data DATA --max-loss 1% --resume OUT",
    "search IN --data DATA --max-loss 1% --target BOARD --json OUT",
    "stream IN -o OUT", "stream IN#half -o OUT", "tune IN --json OUT", "tune IN#half --json OUT",
    "bench IN --json OUT", "bench IN#half --html OUT", "bench digits_int8 IN#half --save OUT",
    "bench IN --target host,BOARD --json OUT", "bench IN --target ' BOARD, host' --json OUT",
    "bench IN --compare OLD --json OUT", "bench IN --compare OLD --html OUT",
    "run IN#half --output OUT", "run IN --output y=OUT", "run IN --target BOARD --output OUT",
    "run IN --input x=DATA --output OUT", "explain IN#half --json OUT", "explain IN --html OUT",
    "explain IN --target host,BOARD --json OUT", "explain IN --target 'host, BOARD' --html OUT",
    "report IN#half -o OUT", "report IN --target BOARD --json OUT", "report IN --json OUT",
    "diff IN OLD -o OUT", "diff OLD IN --json OUT", "diff IN#half OLD -o OUT", "diff OLD IN#half --json OUT",
    "diff IN OLD --target BOARD -o OUT", "diff IN --with='--target BOARD' --json OUT",
]  # fmt: skip


@pytest.mark.parametrize("line", BOTH)
def test_nothing_that_is_read_is_written_over(line: str, there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By any command, before any work: not the model without its signature's name, one of several, one of a list."""
    (there / "sub").mkdir()
    (there / "soft").symlink_to("in.tflite")
    (there / "hard").hardlink_to(there / "in.tflite")
    files = {"IN": "in.tflite", "DATA": "data.npz", "BOARD": "my.toml", "OLD": "old.json", "RULES": "r.toml"}
    (there / "my.toml").write_text('[mine]\nbase = "cortex-m4"\n')
    (there / "old.json").write_text("{}")
    (there / "r.toml").write_text("[[rule]]\noperator = 'FULLY_CONNECTED'\nprecision = 'int8'\n")
    before = {path: path.read_bytes() for path in there.iterdir() if path.is_file()}
    for file in [file for word, file in files.items() if word in line]:
        place = {"in.tflite": ("in.tflite", "soft", "hard", "sub/../in.tflite")[len(line) % 4]}.get(file, file)
        text = line.replace("OUT", str(there / place))
        for each, there_is in files.items():
            text = text.replace(each, str(there / there_is))
        assert main(shlex.split(text)) == 2
        said = capsys.readouterr().err
        assert f"cannot be written: it is {there / file}, which is read" in said or "a .tflite file is written" in said
    assert {path: path.read_bytes() for path in there.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("node", [False, True], ids=["initializer", "Constant"])
def test_what_an_onnx_file_keeps_beside_it_is_not_overwritten(
    node: bool, there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = onnx.numpy_helper.from_array(np.ones((4, 300), np.float32), "w")
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [1, n]) for name, n in (("x", 4), ("y", 300)))
    made = [onnx.helper.make_node("Constant", [], ["w"], value=weights)] if node else []
    nodes = [*made, onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [] if node else [weights])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, there / "m.onnx", save_as_external_data=True, location="w.tflite", convert_attribute=node)
    before = {path: path.read_bytes() for path in there.iterdir()}
    model, beside = str(there / "m.onnx"), str(there / "w.tflite")
    quantised = ["--quantize", "int8", "--calibration", str(there / "data.npz"), "--report"]
    for arguments in (
        ["convert", model, "-o", beside],
        ["convert", model, "-o", "/dev/null", *quantised, beside],
        ["search", model, "--data", str(there / "data.npz"), "--max-loss", "0.5", "--json", beside],
    ):
        assert main(arguments) == 2
        assert f"cannot be written: it is {beside}, which is read" in capsys.readouterr().err
    with pytest.raises(InvalidArgumentError, match="which is read"):
        convert_file(model, beside)
    with pytest.raises(InvalidArgumentError, match="which is read"):
        convert_file(there / "in.tflite", there / "in.tflite")
    (there / "d").mkdir()
    (there / "d" / "02-dead_code.txt").symlink_to(model)
    assert main(["convert", model, "-o", "/dev/null", "--passes", "reshapes,dead_code", "--dump", f"{there}/d"]) == 2
    assert "which is read" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["convert -o", "search -o"])
def test_other_suffixes_are_refused(option: str, there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("x.onnx", "x.h", "x.json"):
        assert main(command(option, there, there / name)) == 2
        assert f"a .tflite file is written: call it {there}/x.tflite" in capsys.readouterr().err
    assert main(command(option, there, "-")) == 2
    assert "-: models are not written to standard output" in capsys.readouterr().err
    assert main(command(option, there, there / "x.TFLITE")) == 0
    assert read((there / "x.TFLITE").read_bytes()).inputs[0].shape == (1, 4)
    with pytest.raises(InvalidArgumentError, match=r"call it x\.tflite"):
        dense().save("x.onnx")


# -- folders -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["file/x", "file", "loop", "loop/x", "dangling", "x" * 300, "/proc/x", "/"])
def test_folders_that_cannot_be(place: str, there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (there / "file").touch()
    (there / "loop").symlink_to("loop")
    (there / "dangling").symlink_to("nowhere")
    before = set(there.iterdir())
    for arguments in (["compile", "digits_int8", "-o"], ["convert", "digits_float32", "-o", "/dev/null", "--dump"]):
        if place != "/" or arguments[0] == "compile":
            assert main([*arguments, str(there / place)]) == 2
            error = capsys.readouterr().err
            assert str(there / place) in error
            assert error.count("\n") == 1
    assert set(there.iterdir()) == before


def test_a_large_folder_is_not_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c/d"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "mine").touch()
    seen: list[str] = []
    walk, relpath = os.walk, os.path.relpath
    monkeypatch.setattr(os, "walk", lambda top: (seen.append(str(row[0])) or row for row in walk(top)))
    assert main(["compile", "digits_int8", "-o", str(tmp_path)]) == 2
    assert [relpath(path, tmp_path) for path in seen] == [".", "a"]


def test_inputs_in_the_folder_of_a_project(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files in build/ go when the project is replaced."""
    assert main(["compile", str(there / "in.tflite"), "-o", str(there / "c")]) == 0
    (there / "c" / "build").mkdir()
    model = (there / "in.tflite").rename(there / "c" / "build" / "in.tflite")
    assert main(["compile", str(model), "-o", str(there / "c")]) == 2
    assert f"{model}, which is read, lies in it" in capsys.readouterr().err
    assert model.exists()
    with pytest.raises(InvalidArgumentError, match="is not a folder"):
        check_folder(model)


@pytest.mark.parametrize("name", ["/dev/null", "/dev/zero", "dangling"])
def test_a_journal_is_a_regular_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(InvalidArgumentError, match="cannot be used as a journal: it is no regular file"):
        Journal(tmp_path / name, "m", "d", {})
