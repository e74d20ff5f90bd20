"""Whole outputs of commands, kept in golden/*.txt: a change of any word, figure, key or emitted file is seen.

A file is a session in a terminal: lines that begin with ``$`` or ``>>>`` are run one after the other in a folder of
their own, and what they print stands below them. ``twinfer`` runs in this process; ``show FILE`` prints what was
written, a page as its text; ``sums FOLDER`` gives a check sum of each file; ``>>>`` is Python. Nothing here says that
an output is right, which other tests do: it says that none changes without being seen. Write a new line, then ``pytest
tests/command_line/test_golden.py --refresh-golden``, and read the difference in review.

golden_models.txt has a check sum for each command that only looks at a model, over models of the corpus.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shlex
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import random_graphs
import row_nets
import stored_models
import sum_nets
import tiny
import unsigned_nets
from golden_files import compare
from needs import SHARED, deep_but
from onnx import TensorProto, helper, numpy_helper
from page_text import json_lines, page_text
from sweep.tasks import chosen, corpus

import twinfer
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import version
from twinfer.command_line.main import main
from twinfer.runtime.graph import Graph, Quant

pytestmark = pytest.mark.usefixtures("board_tools")

GOLDEN = Path(__file__).parent / "golden"

SESSIONS = sorted(path.stem for path in GOLDEN.glob("*.txt"))

#: How the line begins that says what a session depends on.
_MADE = "# made with"


def _stored() -> Graph:
    values = stored_models.thinned(4).astype(np.int8)
    w = stored_models.sparse(values, "INT8", stored_models.FORMS[4], Quant.per_tensor(0.01))
    return stored_models.dense_graph(w)


#: Files that the sessions use, by name. Built-in models need no file.
MODELS: dict[str, Callable[[], Graph]] = {
    **{name: lambda plan=plan: plan().graph for name, plan in {**tiny.MODELS, **tiny.BY_ROWS}.items()},  # type: ignore[misc]
    "classifier": tiny.classifier,
    "byte_rows": lambda: row_nets.network(7, "INT8"),
    "word_rows": lambda: row_nets.network(8, "INT16"),
    "sums": lambda: sum_nets.network(3, "INT8"),
    "unsigned": unsigned_nets.detector,
    "stored": _stored,
    "mixed": lambda: random_graphs.random_graph(5, ["conv", "pad", "depthwise", "mean", "dense"]),
    "moves": lambda: random_graphs.random_graph(6, ["conv", "transpose", "split", "pack", "concat", "softmax"]),
}


def _images() -> onnx.ModelProto:
    """A small ONNX classifier of images in NCHW: two convolutions, a pool, a dense layer."""
    rng = np.random.default_rng(9)

    def constant(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array((rng.standard_normal(shape) / 2).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "w0", "b0"], ["c0"], name="first", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], name="second", kernel_shape=[3, 3], group=4, strides=[2, 2]),
        helper.make_node("HardSwish", ["c1"], ["r1"]),
        helper.make_node("GlobalAveragePool", ["r1"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w2", "b2"], ["scores"], name="dense", transB=1),
        helper.make_node("Softmax", ["scores"], ["class"]),
    ]
    weights = [constant(*row) for row in (("w0", 4, 1, 3, 3), ("b0", 4), ("w1", 4, 1, 3, 3), ("w2", 3, 4), ("b2", 3))]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in ("class", "scores")]
    graph = helper.make_graph(nodes, "images", [image], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("models"), np.random.default_rng(1)
    for name, make in MODELS.items():
        make().save(folder / f"{name}.tflite")
    onnx.save(_images(), folder / "images.onnx")
    labels = rng.integers(0, 3, 40)
    np.savez(folder / "images.npz", image=rng.random((40, 1, 8, 8), np.float32) - 0.25)
    np.savez(folder / "labelled.npz", image=rng.random((40, 1, 8, 8), np.float32) - 0.25, labels=labels)
    np.savez(folder / "mixed.npz", x=rng.standard_normal((12, 1, 4, 3, 2)).astype(np.float32))
    return folder


@pytest.mark.parametrize("session", deep_but(SESSIONS, *(set(SESSIONS) - {"bench", "explain", "report"})))
def test_outputs_are_as_kept(
    session: str, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for file in models.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    for name in ("TWINFER_MAX_BYTES", "TWINFER_MAX_ROUNDS", "TWINFER_OPERATORS"):
        monkeypatch.delenv(name, raising=False)
    kept = GOLDEN / f"{session}.txt"
    lines = kept.read_text(encoding="utf-8").splitlines()
    _same_tools(lines)
    text = "".join(_played(lines, tmp_path))
    if request.config.getoption("refresh_golden"):
        kept.write_text(text, encoding="utf-8")
    assert text == "\n".join(lines) + "\n", f"golden/{session}.txt; if it is meant: --refresh-golden"


def _looks() -> Iterator[str]:
    for i, model in enumerate(chosen(corpus(), 60)):
        m4, m55 = ("--target", "cortex-m4"), ("--target", "cortex-m55")
        lines = (("inspect",), ("inspect", "--json", *m4), ("inspect", "--memory", *(m4, m55)[i % 2]), ("ops", *m55))
        told = (_usual(_said(["twinfer", words[0], model.name, *words[1:]]), SHARED) for words in lines)
        yield f"{Path(model.name).stem}: {' '.join(f'{zlib.crc32(each.encode()):08x}' for each in told)}"


@pytest.mark.usefixtures("corpus")
def test_looks_at_models_are_as_kept(request: pytest.FixtureRequest) -> None:
    compare(GOLDEN.parent / "golden_models.txt", _looks(), request)


def _made_on() -> str:
    return f"{_MADE} {find('cortex-m4').toolchain.version.splitlines()[0]}"


def _same_tools(lines: Sequence[str]) -> None:
    """Skips a session that counts what another compiler has made; in CI it must be the same."""
    kept = [line for line in lines if line.startswith(_MADE)]
    if kept and kept != [_made_on()] and not os.environ.get("CI"):
        pytest.skip(f"the session was {kept[0][2:]}, here it is {_made_on()[2:]}")


def _played(lines: Sequence[str], folder: Path) -> Iterator[str]:
    """The session's text anew: its remarks, and each command with what it says now."""
    names = {"np": np, "json": json, "os": os, "Path": Path, "twinfer": twinfer}
    for line in lines:
        if line.startswith(_MADE):
            yield f"{_made_on()}\n"
        elif line.startswith("# "):
            yield f"{line}\n"
        elif line.startswith(("$ ", ">>> ")):
            said = _said(shlex.split(line[2:])) if line[0] == "$" else _evaluated(line[4:], names)
            said = "".join(f"{each.rstrip()}\n" for each in _usual(said, folder).splitlines())
            # So that no line of output is taken for a command or a remark.
            yield f"{line}\n" + re.sub(r"^(\$|#|>>>)(?= )", r" \1", said, flags=re.MULTILINE)


def _evaluated(line: str, names: dict[str, Any]) -> str:
    """What Python shows of a line, with warnings, or the error that it raises."""
    with warnings.catch_warnings(record=True) as warned, redirect_stdout(io.StringIO()) as out:
        warnings.simplefilter("always")
        try:
            *before, last = ast.parse(line).body
            exec(compile(ast.Module(before, []), "session", "exec"), names)
            whole = ast.Expression(last.value) if isinstance(last, ast.Expr) else ast.Module([last], [])
            value = eval(compile(whole, "session", "eval" if isinstance(last, ast.Expr) else "exec"), names)
            said = "" if value is None else f"{value!r}\n"
        except Exception as error:
            said = f"{type(error).__name__}: {error}\n"
    return out.getvalue() + "".join(f"{each.category.__name__}: {each.message}\n" for each in warned) + said


def _said(words: Sequence[str]) -> str:
    """What a command prints, errors after the rest, and its exit status if that is not 0."""
    command, *rest = words
    match command:
        case "twinfer":
            out, errors = io.StringIO(), io.StringIO()
            with redirect_stdout(out), redirect_stderr(errors):
                try:
                    status = main(rest)
                except SystemExit as end:
                    status = int(end.code or 0)
            return out.getvalue() + errors.getvalue() + (f"[exit status {status}]\n" if status else "")
        case "show":
            return "".join(_shown(Path(name)) for name in rest)
        case "sums":
            files = sorted(path for path in Path(rest[0]).rglob("*") if path.is_file() and not path.is_symlink())
            own = [path for path in files if "kernels" not in path.parts and path.name != "LICENSE"]
            return "".join(f"{zlib.crc32(_steady(path)):08x} {path.relative_to(rest[0])}\n" for path in own)
    raise AssertionError(f"no such command: {command}")


def _steady(path: Path) -> bytes:
    return _usual(path.read_text(encoding="latin-1"), Path.cwd()).encode()


def _usual(text: str, folder: Path) -> str:
    """The text without what is of this machine, this version or this moment."""
    text = text.replace(str(folder), "FOLDER").replace(str(SHARED), "SHARED").replace(version(), "VERSION")
    text = re.sub(r"^usage: .*\n(  .*\n)+", "", text, flags=re.MULTILINE)  # it differs between versions of Python
    here = "cpu|cores|isa|system|python|litert|onnxruntime|tflm"
    text = re.sub(rf'^( *"({here})": )[^{{\n]*?(,?)$', r"\1HERE\3", text, flags=re.MULTILINE)
    text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?", "DATE", text)
    return re.sub(r"\d+(\.\d+)? s\b", "TIME s", text)


def _shown(path: Path) -> str:
    match path.suffix:
        case ".html":
            return page_text(path.read_text(encoding="utf-8"))
        case ".json":
            return "".join(f"{line}\n" for line in json_lines(json.loads(path.read_text(encoding="utf-8"))))
        case ".npz" | ".npy":
            arrays = np.load(path)
            named = {"": arrays} if path.suffix == ".npy" else dict(arrays)
            return "".join(f"{name} {a.dtype} {a.shape} {a.reshape(-1)[:8].tolist()}\n" for name, a in named.items())
        case ".tflite" | ".svg":
            return f"{path.stat().st_size} bytes, {zlib.crc32(path.read_bytes()):08x}\n"
    return path.read_text(encoding="utf-8")
