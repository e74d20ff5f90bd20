"""``twinfer run``: arrays in, arrays out; and FILE#KEY, one signature of a model, for every command."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from flows import Sub

from twinfer.bench.models.source import load
from twinfer.command_line.arrays import read_inputs
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Signature, walk
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.write.tflite import write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """two.tflite: float left [1, 3] + right [1, 3], and its RELU."""
    monkeypatch.chdir(tmp_path)
    b = Builder("two")
    left, right = b.input("left", "FLOAT32", (1, 3)), b.input("right", "FLOAT32", (1, 3))
    total = b.op("ADD", [left, right])
    b.graph([total, b.op("RELU", [total])], signature="serve").save("two.tflite")


def test_a_larger_input_and_npz() -> None:
    many = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez("in.npz", right=many, left=-many)
    assert main(["run", "two.tflite", "--input", "in.npz", "--output", "y.npy"]) == 0
    np.testing.assert_array_equal(np.load("y.npy"), many * 0)


def test_it_is_the_same_for_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for seed in ("1", "1", "2"):
        assert main(["run", "two.tflite", "--seed", seed]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] != told[2]


@pytest.mark.parametrize("how", ["--engine interpreted", "--engine compiled"])
def test_where_optimize_changes_nothing(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "two.tflite", "--optimize", "size", *how.split()]) == 0
    said = "twinfer: --optimize size changes nothing: it is for compiled code (--engine compiled)\n"
    assert capsys.readouterr().err == (said if "interpreted" in how else "")


@pytest.mark.parametrize("dtype", ["int16", "uint8", "complex64"])
def test_another_type_of_the_same_shape(dtype: str) -> None:
    graph = tiny.dense().graph
    np.save("good=1.npy", np.ones((1, 6), np.int8))
    assert read_inputs(graph, ["good=1.npy"], 0)[0].tolist() == [[1] * 6]
    np.save("bad.npy", np.ones((1, 6), dtype))
    with pytest.raises(InvalidArgumentError, match=f"it holds {dtype}"):
        read_inputs(graph, ["bad.npy"], 0)


#: Integer type -> its limits.
INTEGERS = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-32768, 32767)}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kinds", [("INT8", "INT16"), ("UINT8", "INT8")])
def test_floats_are_quantised(kinds: tuple[str, str], packed: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Each input by its own scale and zero point; outputs are integers or, if asked, what they stand for."""
    b = Builder("pair")
    zeros = [0 if kind == "INT16" else 7 for kind in kinds]
    pair = [b.input(n, k, (1, 40), 0.25 * (i + 1), zeros[i]) for i, (n, k) in enumerate(zip("pq", kinds, strict=True))]
    b.graph([b.op("RESHAPE", [t, np.int32([40])], new_shape=(40,)) for t in pair]).save("pair.tflite")
    values = {n: np.random.default_rng(i).normal(0, 40, (1, 40)) for i, n in enumerate("pq")}
    values["p"][0, :3] = -np.inf, np.inf, 0.125
    values["q"] = values["q"].astype(np.float32)
    np.savez("x.npz", **values)
    for name, value in values.items():
        np.save(f"{name}.npy", value)
    given = ["--input", "x.npz"] if packed else ["--input", "q=q.npy", "--input", "p=p.npy"]
    for asked in ([], ["--real-outputs"]):
        assert main(["run", "pair.tflite", *given, "--output", "y.npz", *asked]) == 0
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 2
        assert all(sum(f"{dtype} are quantised as '{n}'" in line for line in told) == 1
                   for n, dtype in (("p", "float64"), ("q", "float32")))  # fmt: skip
        got = list(np.load("y.npz").values())
        for i, (value, kind) in enumerate(zip(values.values(), kinds, strict=True)):
            exact = value.astype(float) / (0.25 * (i + 1))
            q = np.clip(np.sign(exact) * np.floor(np.abs(exact) + 0.5) + zeros[i], *INTEGERS[kind]).reshape(40)
            assert got[i].dtype == ("float32" if asked else kind.lower())
            np.testing.assert_array_equal(got[i], (q - zeros[i]) * 0.25 * (i + 1) if asked else q)


@pytest.fixture
def many() -> dict[str, Any]:
    """many.tflite, three inputs of three types and what its three outputs are of values in x.npy, y.npy and z.npy."""
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
    ("inputs", "engine"),
    [
        ("x.npy y.npy z.npy", "interpreted"),
        ("all.npz", "compiled"),
        ("z=z.npy x.npy y.npy", "interpreted"),
        ("y=y.npy x.npy z.npy", "interpreted"),
        ("z=z.npy y=y.npy x=x.npy", "compiled"),
    ],
)
def test_inputs_and_outputs_by_name_and_in_order(inputs: str, engine: str, many: dict[str, Any]) -> None:
    """Those with a name go there, the others take what is left, in the model's order; outputs likewise."""
    graph, before = read_file("many.tflite"), set(Path().iterdir())
    first, second, third = (t.name for t in graph.outputs)
    files = [f"{third}=third.npy", "first.npy", f"{second}=second.npy", "whole.npz"]
    words = [word for name in inputs.split() for word in ("--input", name)]
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
    assert {path.name for path in {*Path().iterdir()} - before} == {"first.npy", "second.npy", "third.npy", "whole.npz"}


def named(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph, whose outputs have these names."""
    new = {t: replace(t, name=name) for t, name in zip(graph.outputs, names, strict=True)}
    nodes = tuple(replace(node, outputs=tuple(new.get(t, t) for t in node.outputs)) for node in graph.nodes)
    tensors = tuple(new.get(t, t) for t in graph.tensors)
    return replace(graph, nodes=nodes, tensors=tensors, outputs=tuple(new.values()))


def test_outputs_of_odd_names_in_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Names that numpy's own function has for itself; two of one name are refused, and nothing is written."""
    b = Builder("odd")
    x = b.input("x", "FLOAT32", (1, 4))
    names = ("file", "allow_pickle", "a/b", "kwds")
    made = b.graph([b.op(op, [x]) for op in ("ABS", "NEG", "RELU", "SQUARE")])
    named(made, names).save("odd.tflite")
    given = np.float32([[-1, 2, -3, 4]])
    np.save("x.npy", given)
    words = ["--input", "x.npy", "--output", "all.npz"]
    assert main(["run", "odd.tflite", *words]) == 0
    first = Path("all.npz").read_bytes()
    with np.load("all.npz") as got:
        wanted = (np.abs(given), -given, np.maximum(given, 0), given**2)
        assert got.files == list(names)
        assert all(np.array_equal(got[name], want) for name, want in zip(names, wanted, strict=True))
    named(made, ("a", "y", "b", "y")).save("twins.tflite")
    assert main(["run", "twins.tflite", *words]) == 2
    assert "two outputs are called 'y': write each to a .npy file of its own" in capsys.readouterr().err
    assert Path("all.npz").read_bytes() == first


def test_a_float_input_with_a_scale_takes_numbers_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Only quantised integers are made of other floats; real values of other outputs stay as they are."""
    b = Builder("f")
    x, y = b.input("x", "FLOAT32", (1, 4), 0.5, 1), b.input("y", "BOOL", (1, 4))
    b.graph([b.op("ABS", [x]), b.op("LOGICAL_NOT", [y])]).save("f.tflite")
    for kind, name in ((np.complex64, "x"), (np.float32, "y"), (np.int8, "y")):
        np.save("x.npy", np.ones((1, 4), kind))
        assert main(["run", "f.tflite", "--input", f"{name}=x.npy"]) == 2
        said = f"it holds {np.dtype(kind)}, tensor '{name}' {'FLOAT32' if name == 'x' else 'BOOL'}"
        assert said in capsys.readouterr().err
    for kind in (np.float32, np.float64, np.float16, np.int8):
        np.save("x.npy", np.array([[-1, 2, -3, 4]], kind))
        assert main(["run", "f.tflite", "--input", "x.npy", "--output", "y.npy", "--real-outputs"]) == 0
        np.testing.assert_array_equal(np.load("y.npy"), np.float32([[1, 2, 3, 4]]))


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


# -- FILE#KEY ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def signatures() -> str:
    """x + 1 as the main subgraph; the signature "half" takes half of its input as long as that is over 1."""
    first, half, test, body = Sub("first"), Sub("half"), Sub("test"), Sub("body")
    x, y, a, b = first.input(), half.input(), test.input(), body.input()
    w = half.loop(2, 3, [y])[0]
    r = first.add(x, np.float32([1]))
    keys = (Signature("more", {"x": x}, {"r": r}), Signature("half", {"y": y}, {"w": w}, 1))
    rest = (half.graph([w]), test.graph([test.less(np.float32([1]), a)]), body.graph([body.mul(b, np.float32([0.5]))]))
    Path("keys.tflite").write_bytes(write(first.graph([r], *rest, signatures=keys)))
    return "keys.tflite"


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
@pytest.mark.parametrize(("key", "result"), [("", 9.0), ("#more", 9.0), ("#half", 1.0)])
def test_the_signature_runs(signatures: str, key: str, result: float, engine: str) -> None:
    np.save("x.npy", np.float32([8]))
    assert main(["run", f"{signatures}{key}", "--input", "x.npy", "--output", "y.npy", "--engine", engine]) == 0
    assert np.load("y.npy") == result


def test_the_signature_is_alone(signatures: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of others comes along; what it calls does, under new numbers. What is emitted is called after it."""
    assert main(["ops", f"{signatures}#more"]) == 0
    listed = capsys.readouterr().out
    assert "ADD" in listed
    assert not any(op in listed for op in ("WHILE", "MUL", "LESS"))
    half = load(f"{signatures}#half").graph
    assert [signature.key for signature in half.signatures] == ["half"]
    assert [[node.op for node in each.nodes] for each in walk(half)] == [["WHILE"], ["LESS"], ["MUL"]]
    assert (half.nodes[0].options["cond_subgraph_index"], half.nodes[0].options["body_subgraph_index"]) == (1, 2)
    assert main(["convert", f"{signatures}#half", "-o", "half.tflite"]) == 0
    converted = load("half.tflite").graph
    assert (len(converted.subgraphs), [s.key for s in converted.signatures]) == (2, ["half"])
    assert main(["compile", f"{signatures}#half", "-o", "c"]) == 0
    assert Path("c/keys_half.h").exists()
    assert main(["verify", f"{signatures}#half", signatures, "--against", "none"]) == 0
    assert main(["inspect", f"{signatures}#third"]) == 2
    assert "signature 'third' is not in this model; it has: more, half" in capsys.readouterr().err


def test_a_file_of_such_a_name(signatures: str) -> None:
    shutil.copy(signatures, "a#half.tflite")
    assert load("a#half.tflite").name == "a#half"
    assert load("a#half.tflite#half").name == "a#half_half"
