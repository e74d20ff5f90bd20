"""FILE#KEY: one signature of a model, for every command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from flows import Sub

from twinfer.bench.models.source import load
from twinfer.command_line.main import main
from twinfer.runtime.graph import Signature, walk
from twinfer.runtime.write.tflite import write


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """x + 1 as the main subgraph; the signature "half" takes half of its input as long as that is over 1."""
    first, half, test, body = Sub("first"), Sub("half"), Sub("test"), Sub("body")
    x, y, a, b = first.input(), half.input(), test.input(), body.input()
    w = half.loop(2, 3, [y])[0]
    signatures = (
        Signature("more", {"x": x}, {"r": (r := first.add(x, floats(1)))}),
        Signature("half", {"y": y}, {"w": w}, 1),
    )
    subgraphs = (half.graph([w]), test.graph([test.less(floats(1), a)]), body.graph([body.mul(b, floats(0.5))]))
    path = tmp_path / "two.tflite"
    path.write_bytes(write(first.graph([r], *subgraphs, signatures=signatures)))
    return str(path)


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
@pytest.mark.parametrize(("key", "result"), [("", 9.0), ("#more", 9.0), ("#half", 1.0)])
def test_the_signature_runs(file: str, key: str, result: float, engine: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", floats(8))
    out = tmp_path / "y.npy"
    arguments = ["--input", str(tmp_path / "x.npy"), "--output", str(out), "--engine", engine]
    assert main(["run", f"{file}{key}", *arguments]) == 0
    assert np.load(out) == result


def test_what_is_emitted_is_called_after_it(file: str, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    assert main(["compile", f"{file}#half", "-o", str(folder)]) == 0
    assert (folder / "two_half.h").exists()
    if shutil.which("make") and shutil.which("cc"):
        assert subprocess.run(["make", "-C", folder, "test"], capture_output=True, check=False).returncode == 0


def test_the_signature_is_alone(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of others comes along; what it calls does, under new numbers."""
    assert main(["ops", f"{file}#more"]) == 0
    listed = capsys.readouterr().out
    assert "ADD" in listed
    assert not any(op in listed for op in ("WHILE", "MUL", "LESS"))
    half = load(f"{file}#half").graph
    assert [signature.key for signature in half.signatures] == ["half"]
    assert [[node.op for node in each.nodes] for each in walk(half)] == [["WHILE"], ["LESS"], ["MUL"]]
    assert (half.nodes[0].options["cond_subgraph_index"], half.nodes[0].options["body_subgraph_index"]) == (1, 2)
    assert main(["convert", f"{file}#half", "-o", str(tmp_path / "half.tflite")]) == 0
    converted = load(str(tmp_path / "half.tflite")).graph
    assert (len(converted.subgraphs), [s.key for s in converted.signatures]) == (2, ["half"])


def test_other_runtimes_agree(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", f"{file}#half", file, "--against", "none"]) == 0
    assert "two_half" in capsys.readouterr().out


def test_a_signature_that_is_not_there(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", f"{file}#third"]) == 2
    assert "signature 'third' is not in this model; it has: more, half" in capsys.readouterr().err


def test_the_file_is_not_written_over(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(file).read_bytes()
    for line in (["run", f"{file}#half", "--output", file], ["bench", f"{file}#half", "--json", file]):
        assert main(line) == 2
        assert "which is read" in capsys.readouterr().err
    assert main(["compile", f"{file}#half", "-o", str(Path(file).parent)]) == 2
    assert Path(file).read_bytes() == before


def test_a_file_of_such_a_name(file: str) -> None:
    other = Path(file).with_name("a#half.tflite")
    shutil.copy(file, other)
    assert load(str(other)).name == "a#half"
    assert load(f"{other}#half").name == "a#half_half"
