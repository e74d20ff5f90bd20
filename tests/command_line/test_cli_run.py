"""``twinfer run``: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cli import two_inputs

from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph
from twinfer.runtime.read.tflite import read_file


@pytest.fixture
def model(tmp_path: Path) -> str:
    two_inputs().save(tmp_path / "two.tflite")
    return str(tmp_path / "two.tflite")


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_run(model: str, engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = np.array([[1, -2, 3]], np.float32), np.array([[0, 1, 1]], np.float32)
    np.save(tmp_path / "l.npy", left)
    np.save(tmp_path / "r.npy", right)
    files = ["--input", f"right={tmp_path}/r.npy", "--input", f"{tmp_path}/l.npy"]
    outputs = ["--output", str(tmp_path / "sum.npy"), "--output", str(tmp_path / "all.npz")]
    assert main(["run", model, *files, *outputs, "--engine", engine]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "sum.npy"), left + right)
    with np.load(tmp_path / "all.npz") as stored:
        names = stored.files
        np.testing.assert_array_equal(stored[names[1]], np.maximum(left + right, 0))
    assert "1×3" in capsys.readouterr().out
    assert main(["run", model, *files, "--output", f"{names[1]}={tmp_path}/relu.npy"]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "relu.npy"), np.maximum(left + right, 0))
    left_over = {p.name for p in tmp_path.iterdir()} - {
        "two.tflite",
        "l.npy",
        "r.npy",
        "sum.npy",
        "relu.npy",
        "all.npz",
    }
    assert not left_over


def test_run_on_a_larger_input_and_npz(model: str, tmp_path: Path) -> None:
    many = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(tmp_path / "in.npz", right=many, left=-many)
    assert main(["run", model, "--input", f"{tmp_path}/in.npz", "--output", f"{tmp_path}/y.npy"]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), many * 0)


def test_run_is_the_same_for_a_seed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for seed in ("1", "1", "2"):
        assert main(["run", model, "--seed", seed]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] != told[2]


@pytest.mark.parametrize("how", ["--engine interpreted", "--engine compiled", "--target cortex-m4"])
def test_run_says_where_optimize_changes_nothing(
    how: str, model: str, capsys: pytest.CaptureFixture[str], board_tools: None
) -> None:
    """A microcontroller's code is built for it, kernels that are shared, too."""
    assert main(["run", model, "--optimize", "size", *how.split()]) == 0
    said = "twinfer: --optimize size changes nothing: it is for compiled code (--engine compiled)\n"
    assert capsys.readouterr().err == (said if "interpreted" in how else "")


def test_run_refuses_what_does_not_fit(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3), np.float32))
    np.save(tmp_path / "int.npy", np.zeros((1, 3), np.int8))
    np.save(tmp_path / "flat.npy", np.zeros(3, np.float32))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no array")
    x = str(tmp_path / "x.npy")
    wrong = {
        "needs float32": ["--input", str(tmp_path / "int.npy")],
        "it holds [3], tensor 'left'": ["--input", str(tmp_path / "flat.npy")],
        "cannot be read": ["--input", str(tmp_path / "text.npy")],
        "pickle": ["--input", str(tmp_path / "objects.npy")],
        "absent.npy": ["--input", str(tmp_path / "absent.npy")],
        "no tensor 'middle'": ["--input", f"middle={x}"],
        "not so many": ["--input", x, "--input", x, "--input", x],
        "cannot be written": ["--output", str(tmp_path / "no" / "folder" / "y.npy")],
    }
    for message, arguments in wrong.items():
        assert main(["run", model, *arguments]) == 2
        assert message in capsys.readouterr().err


#: Integer type -> its limits.
INTEGERS = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-32768, 32767)}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kinds", [("INT8", "INT16"), ("UINT8", "INT8")])
def test_run_quantises_floats(
    kinds: tuple[str, str], packed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each input by its own scale and zero point; outputs are integers or, if asked, what they stand for."""
    b = Builder("two")
    zeros = [0 if kind == "INT16" else 7 for kind in kinds]
    pair = [b.input(n, k, (1, 40), 0.25 * (i + 1), zeros[i]) for i, (n, k) in enumerate(zip("pq", kinds, strict=True))]
    graph = b.graph([b.op("RESHAPE", [t, np.int32([40])], new_shape=(40,)) for t in pair])
    graph.save(tmp_path / "two.tflite")
    values = {n: np.random.default_rng(i).normal(0, 40, (1, 40)) for i, n in enumerate("pq")}
    values["p"][0, :3] = -np.inf, np.inf, 0.125
    values["q"] = values["q"].astype(np.float32)
    np.savez(tmp_path / "x.npz", **values)
    given = [str(tmp_path / "x.npz")]
    if not packed:
        for name, value in values.items():
            np.save(tmp_path / f"{name}.npy", value)
        given = [f"q={tmp_path / 'q.npy'}", f"p={tmp_path / 'p.npy'}"]
    arguments = ["run", str(tmp_path / "two.tflite"), *(part for file in given for part in ("--input", file))]
    for asked in ([], ["--real-outputs"]):
        assert main([*arguments, "--output", str(tmp_path / "y.npz"), *asked]) == 0
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 2
        assert all(sum(f"{dtype} are quantised as '{n}'" in line for line in told) == 1
                   for n, dtype in (("p", "float64"), ("q", "float32")))  # fmt: skip
        got = list(np.load(tmp_path / "y.npz").values())
        for i, (value, kind) in enumerate(zip(values.values(), kinds, strict=True)):
            exact = value.astype(float) / (0.25 * (i + 1))
            q = np.clip(np.sign(exact) * np.floor(np.abs(exact) + 0.5) + zeros[i], *INTEGERS[kind]).reshape(40)
            assert got[i].dtype == ("float32" if asked else kind.lower())
            np.testing.assert_array_equal(got[i], (q - zeros[i]) * 0.25 * (i + 1) if asked else q)


def test_run_quantises_numbers_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = np.zeros((1, 8, 8, 1))
    wrong = {
        "the value at [0, 0, 0, 0] is nan": good + np.nan,
        "it holds uint8": good.astype(np.uint8),
        "it holds complex128": good.astype(complex),
        "it holds bool": good.astype(bool),
        "it holds <U3": good.astype("<U3"),
        "it holds [8, 8]": good[0, :, :, 0],
    }
    for message, value in wrong.items():
        np.save(tmp_path / "x.npy", value)
        assert main(["run", "digits_int8", "--input", str(tmp_path / "x.npy")]) == 2
        assert message in capsys.readouterr().err
    np.save(tmp_path / "x.npy", good)
    assert main(["run", "digits_int8", "--input", str(tmp_path / "x.npy")]) == 0
    assert "quantised" in capsys.readouterr().err


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """many.tflite, three inputs of three types and what its three outputs are of values in a.npy, b.npy and c.npy."""
    monkeypatch.chdir(tmp_path)
    b = Builder("many")
    x, y = b.input("x", "FLOAT32", (1, 4)), b.input("y", "INT8", (1, 3), 0.5, -2)
    z = b.input("z", "INT32", (2,))
    none = {"fused_activation_function": "NONE"}
    b.graph([b.op("ABS", [x]), b.op("RELU", [y]), b.op("ADD", [z, z], **none)]).save("many.tflite")
    rng = np.random.default_rng(0)
    given = {"x": rng.standard_normal((1, 4)).astype(np.float32), "y": np.int8([[-5, 0, 7]]), "z": np.int32([3, -4])}
    for name, value in given.items():
        np.save(f"{name}.npy", value)
    np.savez("all.npz", **given)
    return {"given": given, "wanted": [np.abs(given["x"]), np.int8([[-2, 0, 7]]), 2 * given["z"]]}


@pytest.mark.parametrize(
    "inputs",
    [
        ["x.npy", "y.npy", "z.npy"],
        ["all.npz"],
        ["z=z.npy", "x.npy", "y.npy"],
        ["y=y.npy", "x.npy", "z.npy"],
        ["z=z.npy", "y=y.npy", "x=x.npy"],
    ],
)
@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_inputs_and_outputs_by_name_and_in_order(inputs: list[str], engine: str, many: dict[str, Any]) -> None:
    """Those with a name go there, the others take what is left, in the model's order; outputs likewise."""
    graph = read_file("many.tflite")
    first, second, third = (t.name for t in graph.outputs)
    files = [f"{third}=third.npy", "first.npy", f"{second}=second.npy", "whole.npz"]
    words = [word for name in inputs for word in ("--input", name)]
    words += [word for name in files for word in ("--output", name)]
    assert main(["run", "many.tflite", *words, "--engine", engine]) == 0
    whole = np.load("whole.npz")
    for name, file, want in zip((first, second, third), ("first", "second", "third"), many["wanted"], strict=True):
        for got in (np.load(f"{file}.npy"), whole[name]):
            np.testing.assert_array_equal(got, want)
            assert got.dtype == want.dtype
    assert main(["run", "many.tflite", *words, "--engine", engine, "--real-outputs"]) == 0
    real = [many["wanted"][0], np.float32([[0, 1, 4.5]]), many["wanted"][2]]
    for file, want in zip(("first", "second", "third"), real, strict=True):
        np.testing.assert_array_equal(np.load(f"{file}.npy"), want)


def renamed(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph, whose outputs have these names."""
    new = {t: replace(t, name=name) for t, name in zip(graph.outputs, names, strict=True)}
    nodes = tuple(replace(node, outputs=tuple(new.get(t, t) for t in node.outputs)) for node in graph.nodes)
    tensors = tuple(new.get(t, t) for t in graph.tensors)
    return replace(graph, nodes=nodes, tensors=tensors, outputs=tuple(new.values()))


def test_outputs_of_odd_names_in_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that numpy's own function has for itself; two of one name are refused, and nothing is written."""
    b = Builder("odd")
    x = b.input("x", "FLOAT32", (1, 4))
    names = ("file", "allow_pickle", "a/b", "kwds")
    made = b.graph([b.op(op, [x]) for op in ("ABS", "NEG", "RELU", "SQUARE")])
    graph = renamed(made, names)
    graph.save(tmp_path / "odd.tflite")
    given = np.float32([[-1, 2, -3, 4]])
    np.save(tmp_path / "x.npy", given)
    words = ["--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "all.npz")]
    assert main(["run", str(tmp_path / "odd.tflite"), *words]) == 0
    first = (tmp_path / "all.npz").read_bytes()
    with np.load(tmp_path / "all.npz") as got:
        wanted = (np.abs(given), -given, np.maximum(given, 0), given**2)
        assert got.files == list(names)
        assert all(np.array_equal(got[name], want) for name, want in zip(names, wanted, strict=True))
    assert main(["run", str(tmp_path / "odd.tflite"), *words]) == 0
    assert (tmp_path / "all.npz").read_bytes() == first
    renamed(made, ("a", "y", "b", "y")).save(tmp_path / "twins.tflite")
    assert main(["run", str(tmp_path / "twins.tflite"), *words]) == 2
    assert "two outputs are called 'y': write each to a .npy file of its own" in capsys.readouterr().err
    assert (tmp_path / "all.npz").read_bytes() == first


def test_a_float_input_with_a_scale_takes_its_own_type_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only quantised integers are made of other floats; real values of other outputs stay as they are."""
    b = Builder("f")
    x, y = b.input("x", "FLOAT32", (1, 4), 0.5, 1), b.input("y", "BOOL", (1, 4))
    b.graph([b.op("ABS", [x]), b.op("LOGICAL_NOT", [y])]).save(tmp_path / "f.tflite")
    for kind, name in ((np.float64, "x"), (np.float16, "x"), (np.int8, "x"), (np.float32, "y")):
        np.save(tmp_path / "x.npy", np.ones((1, 4), kind))
        assert main(["run", str(tmp_path / "f.tflite"), "--input", f"{name}={tmp_path}/x.npy"]) == 2
        said = f"it holds {np.dtype(kind)}, tensor '{name}' {'FLOAT32' if name == 'x' else 'BOOL'}"
        assert said in capsys.readouterr().err
    np.save(tmp_path / "x.npy", np.float32([[-1, 2, -3, 4]]))
    words = ["--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "y.npy"), "--real-outputs"]
    assert main(["run", str(tmp_path / "f.tflite"), *words]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.float32([[1, 2, 3, 4]]))


def test_files_whose_names_have_an_equals_sign(many: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is there is meant as a whole, whatever it looks like; such a one is not written over."""
    np.save("z=x.npy", many["given"]["x"])
    words = ["--input", "z=x.npy", "--input", "z=z.npy", "--input", "y.npy"]
    assert main(["run", "many.tflite", *words, "--output", "o.npz"]) == 0
    for got, want in zip(np.load("o.npz").values(), many["wanted"], strict=True):
        np.testing.assert_array_equal(got, want)
    for place in ("z=x.npy", "./z=x.npy", "o=z.npy"):
        assert main(["run", "many.tflite", *words, "--output", place]) == 2
        assert "which is read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--input", "x.npy", "--input", "y.npy", "--input", "z.npy", "--input", "x.npy"], "there are not so many"),
        (["--input", "x=x.npy", "--input", "x=x.npy"], "no tensor 'x' is left; the model has: 'x', 'y', 'z'"),
        (["--input", "w=x.npy"], "no tensor 'w' is left"),
        (["--output", "w=o.npy"], "no tensor 'w' is left"),
    ],
)
def test_what_does_not_fit_is_named(
    words: list[str], message: str, many: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "many.tflite", *words]) == 2
    assert message in capsys.readouterr().err
    assert not Path("o.npy").exists()
