"""The plan in the metadata: written, read back, judged however it is damaged, and left out where tensors change."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flows import Random
from hostile import chain
from hypothesis import given, settings
from hypothesis import strategies as st

import twinfer
from twinfer.bench.models.builtin import builtin
from twinfer.bench.models.source import load
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.converter.compress.prune import prune
from twinfer.converter.offline.stored import StoredPlan, stored_plan, with_plan
from twinfer.converter.passes import run
from twinfer.converter.passes.dead_code import dead_code
from twinfer.converter.quantize.recipe import Choice, Recipe
from twinfer.converter.stream.convert import stream
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Signature, walk
from twinfer.runtime.metadata import OFFLINE_PLAN
from twinfer.runtime.read.tflite import read, read_file
from twinfer.runtime.write.tflite import write


def net() -> Graph:
    """A float convolution, its RELU beside a POOL of it, and the sum: four tensors of 256 bytes and constants."""
    b = Builder("net")
    x = b.input("x", "FLOAT32", (1, 4, 4, 4))
    y = b.op("CONV_2D", [x, np.ones((4, 1, 1, 4), np.float32)], padding="SAME", stride_h=1, stride_w=1)
    y = b.op("ADD", [b.op("TANH", [y]), b.op("LOGISTIC", [y])], fused_activation_function="NONE")
    return b.graph([b.op("RESHAPE", [y, np.array([1, 64], np.int32)], shape=(1, 64), new_shape=(1, 64))])


def words(*values: int) -> bytes:
    return np.array(values, "<i4").tobytes()


def with_content(graph: Graph, content: bytes) -> Graph:
    return replace(graph, metadata={"other": b"stays", OFFLINE_PLAN: content})


def judged(graph: Graph, content: bytes) -> StoredPlan:
    stored = stored_plan(with_content(graph, content))
    assert stored is not None
    return stored


def row() -> Graph:
    b = Builder("row")
    return b.graph([b.op("RELU", [b.input("x", "FLOAT32", (1, 5))])])


def test_the_words_of_the_format() -> None:
    """Version, subgraphs, tensors; constants have no offset. The metadata that were there stay."""
    graph = with_plan(replace(net(), metadata={"author": b"me"}))
    assert graph.metadata["author"] == b"me"
    stored = np.frombuffer(graph.metadata[OFFLINE_PLAN], "<i4").tolist()
    assert stored[:3] == [1, 1, len(graph.tensors)]
    offsets = dict(zip(graph.tensors, stored[3:], strict=True))
    assert all((at == -1) is (t.data is not None) for t, at in offsets.items())
    assert stored_plan(graph) == StoredPlan(6, 0, 768, "", 768)
    assert stored_plan(net()) is None


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_file_keeps_it(seed: int) -> None:
    """Written and read again, the plan fits the tensors of all subgraphs as before, in the same bytes."""
    graph = with_plan(Random(seed).model())
    again = read(write(graph))
    assert again.metadata[OFFLINE_PLAN] == graph.metadata[OFFLINE_PLAN]
    count = sum(len(each.tensors) for each in walk(graph))
    assert len(graph.metadata[OFFLINE_PLAN]) == 12 + 4 * count
    assert stored_plan(again) == stored_plan(graph)
    assert with_plan(again).metadata == graph.metadata
    assert write(again) == write(graph)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "it has 0 bytes, its header alone takes 12"),
        (words(1, 1), "it has 8 bytes, its header alone takes 12"),
        (words(1, 1, 2, 0), "it has 16 bytes, 2 tensors take 20"),
        (words(1, 1, 2, 0, 64)[:-1], "it has 19 bytes, 2 tensors take 20"),
        (words(1, 1, 1, 0), "it is for 1 tensors, the model has 2: TFLM refuses the model"),
        (words(1, 1, 3, 0, 64, 0), "it is for 3 tensors, the model has 2: TFLM refuses the model"),
        (words(1, 1, -1, 0, 64), "it is for 4294967295 tensors, the model has 2: TFLM refuses the model"),
        (words(1, 1, 2, 0, 16), "in bytes 0 to 19 and tensor"),
        (words(1, 1, 2, 0, -2), "lies at byte -2, outside of any arena"),
        (words(1, 1, 2, 0, 24), "lies at byte 24, which is no multiple of 16"),
    ],
)
def test_what_is_wrong(content: bytes, fault: str) -> None:
    stored = judged(row(), content)
    assert fault in stored.fault
    assert str(stored) == f"memory plan for TFLM: not sound: {stored.fault}"
    assert stored.own_bytes == 64


def test_offsets_that_tflm_does_not_read() -> None:
    graph = net()
    stored = judged(graph, words(1, 1, len(graph.tensors), *([8] * len(graph.tensors))))
    assert stored.tensors == sum(t.data is None for t in graph.tensors)


def test_a_model_without_any_plan() -> None:
    stored = judged(chain(40), words(1, 1, 0))
    assert (stored.own_bytes, stored.tensors) == (None, 0)
    assert str(stored).startswith("memory plan for TFLM: not sound: graph 's0': no memory plan for TFLM: calls")
    with pytest.raises(UnsupportedOperatorError):
        with_plan(chain(40))


Offsets = st.one_of(st.integers(-1, 8).map(lambda at: 16 * at), st.integers(-(2**31), 2**31 - 1), st.just(-1))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    content=st.one_of(
        st.binary(max_size=80), st.tuples(st.integers(-2, 3), st.integers(-2, 3), st.lists(Offsets, max_size=60))
    ),
)
def test_nothing_in_it_does_harm(seed: int, content: Any) -> None:
    """Whatever the metadata hold is judged, never raised; the model is planned and runs as without it."""
    graph = Random(seed).model()
    if not isinstance(content, bytes):
        count = sum(len(each.tensors) for each in walk(graph))
        offsets = (content[2] * count)[:count] if content[2] else [-1] * count
        content = words(*content[:2], count, *offsets)
    stored = judged(graph, content)
    assert stored.fault or 0 <= stored.bytes <= 1 << 31
    assert stored.tensors + stored.left <= sum(len(each.tensors) for each in walk(graph))
    assert str(stored).isprintable()


# -- where tensors change ----------------------------------------------------------------------------------------------


def planned_file(folder: Path, graph: Graph) -> Path:
    with_plan(replace(graph, metadata={"author": b"me"})).save(folder / "planned.tflite")
    return folder / "planned.tflite"


def left_out(graph: Graph) -> bool:
    return OFFLINE_PLAN not in graph.metadata and graph.metadata["author"] == b"me"


@pytest.mark.parametrize(
    "how", [{}, {"passes": []}, {"shapes": {"x": (1, 4, 4, 4)}}, {"constants": {"x": np.ones((1, 4, 4, 4))}}]
)
def test_a_conversion_leaves_it_out(how: dict[str, Any], tmp_path: Path) -> None:
    """Also where no pass runs: a plan is stored only on request."""
    file = planned_file(tmp_path, net())
    assert left_out(twinfer.convert(file, **how))
    assert left_out(twinfer.convert(read_file(file), **how))


def dead(graph: Graph) -> Graph:
    """The graph with an operator that nobody reads, and so with another plan."""
    b = Builder("dead")
    x = b.input("x", "FLOAT32", (1, 5))
    b.op("TANH", [x])
    return replace(with_plan(b.graph([b.op("RELU", [x])])), metadata=graph.metadata)


CHANGES: dict[str, Callable[[Graph], Graph]] = {
    "a pass": lambda graph: run(dead(graph), [dead_code]),
    "pruning": lambda graph: prune(graph, Recipe(default=Choice("int8", None, "minmax", prune=0.5))),
    "a signature alone": lambda graph: load(f"{_saved(graph)}#serve").graph,
}


def _saved(graph: Graph) -> Path:
    ends = ({t.name: t for t in tensors} for tensors in (graph.inputs, graph.outputs))
    path = Path("signed.tflite")
    replace(graph, signatures=(Signature("serve", *ends),)).save(path)
    return path


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_a_graph_leaves_it_out(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert left_out(CHANGES[name](with_plan(replace(net(), metadata={"author": b"me"}))))


def test_a_stream_leaves_it_out() -> None:
    graph = with_plan(replace(builtin()["tcn_int8"](), metadata={"author": b"me"}))
    assert left_out(stream(graph).graph)


# -- the command line --------------------------------------------------------------------------------------------------


def told(capsys: pytest.CaptureFixture[str], line: Sequence[str]) -> list[str]:
    assert main(list(line)) == 0
    return [" ".join(text.split()) for text in capsys.readouterr().out.splitlines()]


def test_store_plan_and_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net().save(tmp_path / "in.tflite")
    out = str(tmp_path / "out.tflite")
    line = "memory plan for TFLM: 6 tensors in 768 bytes, sound"
    assert main(["convert", str(tmp_path / "in.tflite"), "-o", out, "--store-plan"]) == 0
    assert line in "".join(capsys.readouterr())
    lines = told(capsys, ["inspect", out])
    at = lines.index(f"{line}; twinfer's takes 768 bytes")
    assert lines[at - 1] == "metadata 'OfflineMemoryAllocation': 44 bytes"
    stored = json.loads("\n".join(told(capsys, ["inspect", out, "--json"])))["stored_plan"]
    assert stored == {"tensors": 6, "left": 0, "bytes": 768, "fault": "", "own_bytes": 768}
    plain = json.loads("\n".join(told(capsys, ["inspect", str(tmp_path / "in.tflite"), "--json"])))
    assert plain["stored_plan"] is None
