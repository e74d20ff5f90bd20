"""Plans for TFLM: lives by its count, places that keep values, and the check that finds every pair that does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from flows import Random, Sub
from hostile import chain
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import LAYERS, random_graph
from tflm_replay import Clobbered, Replay

from twinfer.converter.offline.check import fault
from twinfer.converter.offline.place import bytes_in_tflm, lives_in_tflm, needs_place, places_in_tflm
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Node, Tensor, walk

#: An operator of a user's own: only its maker knows what it does in place.
OWN = "CUSTOM:own"


Graphs = st.one_of(
    st.builds(random_graph, st.integers(0, 10**6), st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=8)),
    st.integers(0, 10**6).map(lambda seed: Random(seed).model()),
)


@settings(max_examples=60, deadline=None)
@given(graph=Graphs)
def test_every_value_is_there_when_it_is_read(graph: Graph) -> None:
    """The plan of any graph is sound for the check, and for a run that knows neither lives nor check."""
    places = places_in_tflm(graph)
    assert set(places) == {t for each in walk(graph) for t in each.tensors if needs_place(t)}
    assert fault(graph, places) == ""
    Replay(graph, places)


@settings(max_examples=150, deadline=None)
@given(graph=Graphs, data=st.data())
def test_what_loses_a_value_is_found(graph: Graph, data: st.DataObject) -> None:
    """A plan with a tensor elsewhere: wherever a run reads what another value lies on, the check has said so."""
    places = places_in_tflm(graph)
    top = bytes_in_tflm(places)
    tensor = data.draw(st.sampled_from(list(places)))
    places[tensor] = data.draw(st.integers(0, top // 16)) * 16
    try:
        Replay(graph, places)
    except Clobbered:
        assert fault(graph, places).endswith("are in use at once")


def line(*sizes: int, op: str = "RELU") -> Graph:
    tensors = tuple(Tensor(f"x{i}", "INT8", (size,)) for i, size in enumerate(sizes))
    nodes = tuple(Node(op, (x,), (y,), index=i) for i, (x, y) in enumerate(pairwise(tensors)))
    return Graph("line", tensors, nodes, tensors[:1], tensors[-1:])


def named(graph: Graph, places: Mapping[Tensor, int]) -> dict[str, int]:
    return {t.name: places[t] for each in walk(graph) for t in each.tensors if t in places}


def at(graph: Graph, *offsets: int) -> dict[Tensor, int]:
    return dict(zip(graph.tensors, offsets, strict=True))


def test_lives_through_subgraphs() -> None:
    """Every call is a moment of its own; a tensor of a subgraph that is called twice lives between the calls, too."""
    side, main = Sub("side"), Sub("main")
    x = side.input((4,))
    called = side.graph([side.add(x, x)])
    test, value = main.input(type="BOOL"), main.input((4,))
    (first,) = main.branch(test, 1, 1, [value], [value])
    (second,) = main.branch(test, 1, 1, [first], [value])
    graph = main.graph([second], called)
    lives = lives_in_tflm(graph)
    assert [lives[t] for t in main.tensors] == [(0, 14), (0, 7), (1, 14), (8, 15)]
    assert [lives[t] for t in side.tensors] == [(2, 13), (3, 14)]


def test_calls_have_a_limit() -> None:
    """A model whose subgraphs call each other without end in sight has no plan."""
    places_in_tflm(chain(20))
    with pytest.raises(UnsupportedOperatorError, match=r"nested more than 32 deep.*call subgraphs less often"):
        places_in_tflm(chain(40))
    graphs = []
    for i in range(1, 31):
        sub = Sub(f"s{i}")
        test = sub.input(type="BOOL")
        values = [sub.branch(test, i, i, [test], [test])[0] for _ in range(2)]
        graphs.append(sub.graph(values[1:]))
    last = Sub("last")
    bottom = last.graph([last.input(type="BOOL")])
    with pytest.raises(UnsupportedOperatorError, match="more than 65536 operators"):
        places_in_tflm(replace(graphs[0], subgraphs=(*graphs[1:], bottom)))


def test_nothing_in_place_but_shapes() -> None:
    """An element-wise output gets memory beside its input, a RESHAPE's that of its input, if that dies there."""
    assert named(*_planned(line(64, 64, 64))) == {"x0": 0, "x1": 64, "x2": 0}
    assert named(*_planned(line(64, 64, 64, op="RESHAPE"))) == {"x0": 0, "x1": 0, "x2": 0}
    graph = line(64, 64, 64, op="RESHAPE")
    both = replace(graph, outputs=(graph.tensors[1], graph.tensors[2]))
    assert named(*_planned(both)) == {"x0": 0, "x1": 0, "x2": 64}


def _planned(graph: Graph) -> tuple[Graph, dict[Tensor, int]]:
    return graph, places_in_tflm(graph)


def test_what_needs_no_place() -> None:
    """Constants, variables, handles, empty tensors and packed types; what nobody touches lies at 0."""
    x = Tensor("x", "INT8", (4,))
    others = [
        Tensor("constant", "INT8", (4,), data=np.zeros(4, np.int8)),
        Tensor("variable", "INT8", (4,), variable=True),
        Tensor("handle", "RESOURCE", ()),
        Tensor("empty", "INT8", (0, 4)),
        Tensor("packed", "INT4", (4,)),
    ]
    spare = Tensor("spare", "INT8", (4,))
    graph = Graph("odd", (x, *others, spare), (), (x,), (x,))
    assert named(*_planned(graph)) == {"x": 0, "spare": 0}


def test_room_for_scratch() -> None:
    """Of placements as high as the largest pair, the one whose tops are low at other operators, too."""
    graph = line(192, 96, 64, 16)
    places = places_in_tflm(graph)
    assert named(graph, places) == {"x0": 96, "x1": 0, "x2": 96, "x3": 0}
    assert bytes_in_tflm(places) == 288


def test_two_gigabytes() -> None:
    with pytest.raises(UnsupportedOperatorError, match="2 GiB"):
        places_in_tflm(line(1 << 30, (1 << 30) - 5))
    assert bytes_in_tflm(places_in_tflm(line(1 << 30, (1 << 30) - 16))) == (1 << 31) - 16


def test_what_is_wrong_is_said() -> None:
    graph = line(64, 64, 64)
    assert fault(graph, at(graph, 0, 64, 0)) == ""
    assert fault(graph, at(graph, 0, 72, 0)) == "tensor 'x1' INT8[64] lies at byte 72, which is no multiple of 16"
    assert fault(graph, at(graph, 0, -16, 0)) == "tensor 'x1' INT8[64] lies at byte -16, outside of any arena"
    assert "2147483632, outside" in fault(graph, at(graph, 0, (1 << 31) - 16, 0))
    wrong = "tensor 'x0' INT8[64] in bytes 0 to 63 and tensor 'x1' INT8[64] in bytes 48 to 111 are in use at once"
    assert fault(graph, at(graph, 0, 48, 128)) == wrong
    assert fault(graph, at(graph, 48, 0, 128)).endswith("are in use at once"), "below as above"
    assert fault(graph, at(graph, 0, 0, 128)) != "", "RELU reads what it would write"


def test_in_place_where_it_is_safe() -> None:
    """A RESHAPE at the same byte, or at others; a custom operator as it likes, but for what others still need."""
    graph = line(64, 64, 64, op="RESHAPE")
    assert fault(graph, at(graph, 0, 0, 64)) == ""
    assert fault(graph, at(graph, 0, 16, 128)) != "", "a copy over a part of itself"
    own = line(64, 64, 64, op=OWN)
    assert fault(own, at(own, 0, 16, 32)) == ""
    kept = replace(own, outputs=(own.tensors[0], own.tensors[2]))
    assert fault(kept, at(own, 0, 64, 128)) == ""
    assert fault(kept, at(own, 0, 16, 128)) != ""


def test_a_variable_lives_for_ever() -> None:
    x, level, y, z = (Tensor(n, "INT8", (16,), variable=n == "level") for n in ("x", "level", "y", "z"))
    nodes = (Node("ADD", (x, level), (y,)), Node("RELU", (y,), (z,)))
    graph = Graph("state", (x, level, y, z), nodes, (x,), (z,))
    assert fault(graph, at(graph, 0, 32, 16, 0)) == ""
    assert "'level'" in fault(graph, at(graph, 0, 32, 16, 32))
