"""The audio front end's operators over many runs. Single runs: test_ops.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import SEED, cases_of, graph_of, runs_of

from twinfer.aot.build.host import compile_plans
from twinfer.bench.peers.engines import open_peer
from twinfer.converter.passes import run as optimized
from twinfer.runtime.graph import Array, Graph, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.signal import circular_buffer, delay, framer, overlap_add, spectral_subtraction, stacker
from twinfer.runtime.ops.signal._custom import custom, runs
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST
from twinfer.runtime.write.tflite import write

RUNS = 9
STATEFUL = {
    module.OP.name: module for module in (circular_buffer, delay, framer, overlap_add, spectral_subtraction, stacker)
}


def stateful() -> list[Any]:
    return [pytest.param(case.node, id=name) for op in STATEFUL for name, case in cases_of(op).items()]


def values(graph: Graph, count: int) -> list[Array]:
    """Inputs of ``count`` runs, over the whole range of the type in some and near zero in others."""
    (x,), rng = graph.inputs, np.random.default_rng(SEED)
    if x.dtype.kind == "f":
        return [rng.normal(size=x.shape).astype(x.dtype) for _ in range(count)]
    info = np.iinfo(x.dtype)
    shifts = rng.integers(0, info.bits, count)
    return [rng.integers(info.min, info.max, x.shape, x.dtype, endpoint=True) >> s for s in shifts.astype(x.dtype)]


def streamed(engine: Session, stream: Sequence[Array]) -> list[list[Array]]:
    return runs_of(engine, [[value] for value in stream])


def same(got: Sequence[Sequence[Array]], want: Sequence[Sequence[Array]]) -> bool:
    return [[v.tobytes() for v in row] for row in got] == [[v.tobytes() for v in row] for row in want]


@pytest.mark.parametrize("node", stateful())
def test_many_runs(node: Node) -> None:
    """numpy, the interpreter and TFLM agree in every run, and again after a reset."""
    graph, module = graph_of(node), STATEFUL[node.op]
    stream = values(graph, RUNS)
    want = runs(node, module.fresh, module.step, stream)
    engine = Session(make_plan(graph, HOST))
    assert same(streamed(engine, stream), want)
    assert same(streamed(engine, stream[::-1]), runs(node, module.fresh, module.step, stream[::-1]))
    if node.op == "CUSTOM:CIRCULAR_BUFFER" and not node.output.variable:
        return  # in TFLM it then begins with what was in memory
    peer = open_peer("tflm", write(graph), len(graph.outputs))
    for ours, value in zip(want, stream, strict=True):
        theirs = peer([value])
        for mine, their, written in zip(ours, theirs, _written(node, ours), strict=True):
            assert np.array_equal(mine[written], np.asarray(their).reshape(mine.shape)[written])


def _written(node: Node, outputs: Sequence[Array]) -> list[Any]:
    """Where TFLM writes an output: everywhere, but for frames that are not there yet."""
    if node.op not in ("CUSTOM:SignalFramer", "CUSTOM:SignalStacker") or outputs[1]:
        return [...] * len(outputs)
    none_yet = np.zeros(outputs[0].shape, bool)
    return [none_yet if node.op == "CUSTOM:SignalStacker" else outputs[0].any(axis=-1), ...]


@pytest.mark.parametrize("op", STATEFUL)
def test_many_runs_compiled(op: str) -> None:
    graphs = {f"runs_{name}".replace("-", "_"): graph_of(case.node) for name, case in cases_of(op).items()}
    engines = compile_plans({name: make_plan(graph, HOST) for name, graph in graphs.items()})
    for name, graph in graphs.items():
        stream = values(graph, RUNS)
        want = streamed(Session(make_plan(graph, HOST)), stream)
        assert same(streamed(engines[name], stream), want), name
        assert same(streamed(engines[name], stream), want), f"{name} after a reset"


def test_a_stream_in_one_piece_and_in_many() -> None:
    """A delay of a stream does not depend on how it is cut."""
    stream = np.arange(60, dtype=np.int16)
    results = []
    for size in (60, 20, 5, 1):
        x, y = (tensor((size,), "INT16", name=name) for name in "xy")
        node = Node("CUSTOM:SignalDelay", (x,), (y,), extra=custom(delay_length=7))
        engine = Session(make_plan(graph_of(node), HOST))
        results.append(np.concatenate([part[0] for part in streamed(engine, stream.reshape(-1, size))]))
    assert all(np.array_equal(result, [*[0] * 7, *range(53)]) for result in results)


@pytest.mark.parametrize("op", STATEFUL)
def test_a_state_is_not_folded_away(op: str) -> None:
    """Over a constant input, the result of the first run is not that of the next."""
    (case, *_) = cases_of(op).values()
    value = np.ones(case.node.input(0).shape, case.node.input(0).dtype)
    node = replace(case.node, inputs=(replace(case.node.input(0), data=value),))
    graph = replace(graph_of(node), inputs=())
    assert [n.op for n in optimized(graph).nodes] == [op]


@pytest.mark.parametrize("start", [0, 5])
def test_energies_are_tflms_where_it_writes_them(start: int) -> None:
    x, y = tensor((514,), "INT16", name="x"), tensor((257,), "UINT32", name="y")
    node = Node("CUSTOM:SignalEnergy", (x,), (y,), extra=custom(start_index=start, end_index=241))
    graph = graph_of(node)
    value = np.random.default_rng(SEED).integers(-32768, 32768, 514).astype(np.int16)
    engine = Session(make_plan(graph, HOST))
    (got,), (want,) = streamed(engine, [value])[0], open_peer("tflm", write(graph), 1)([value])
    assert np.array_equal(got[start:241], want[start:241])
    assert not got[:start].any()
    assert not got[241:].any()
