"""One inference of every built-in model, interpreted and compiled, and of the peers that are installed."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from twinfer.aot.build.compiled import CompiledModel
from twinfer.bench.models.source import Source, builtin_names, load
from twinfer.bench.peers.engines import installed, open_peer
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter

each_model = pytest.mark.parametrize("name", builtin_names())


@cache
def source(name: str) -> Source:
    return load(name)


@each_model
@pytest.mark.parametrize("kind", [Interpreter, CompiledModel], ids=["interpreted", "compiled"])
def bench_invoke(benchmark: Any, name: str, kind: type[Interpreter]) -> None:
    benchmark.group = name
    model = kind.from_graph(source(name).graph)
    model.allocate_tensors()
    model.session.feed(random_inputs(model.plan.graph))
    benchmark.extra_info["macs"] = model.plan.macs
    benchmark(model.invoke)


@each_model
@pytest.mark.parametrize("peer", ["litert", "tflm"])
def bench_peer(benchmark: Any, name: str, peer: str) -> None:
    if not installed(peer):
        pytest.skip(f"{peer} is not installed")
    benchmark.group = name
    graph = source(name).graph
    model = open_peer(peer, source(name).content, len(graph.outputs))
    model.feed(random_inputs(graph))
    benchmark(model.invoke)
