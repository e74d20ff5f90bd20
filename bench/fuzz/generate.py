"""The models that the fuzzer tries, by seed and number: three nodes of each operator in turn, then a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from twinfer.bench.fuzz import values
from twinfer.bench.fuzz.control import Controlled
from twinfer.bench.fuzz.grow import Growth
from twinfer.bench.fuzz.mutate import random_trial
from twinfer.bench.known.model import JUDGES, Model, Rng, graph_of
from twinfer.runtime.graph import Array, Graph, Tensor

#: Every so many models is a graph; every third of these has control flow.
GRAPH_EVERY = 4


def model(seed: int, number: int, ops: Sequence[str], chosen: Sequence[str], refused: Counter[str]) -> Model:
    """The model of that number. ``ops`` are all operators, ``chosen`` those that must come in turn."""
    rng = np.random.default_rng([seed, number])
    graphs = number // GRAPH_EVERY
    if number % GRAPH_EVERY == GRAPH_EVERY - 1:
        must = chosen[graphs % len(chosen)]
        grow = _controlled if graphs % 3 == 2 else _graph
        return grow(rng, number, refused, [must, *ops])
    return _single(rng, number, refused, chosen[(number - graphs) % len(chosen)])


def _single(rng: Rng, number: int, refused: Counter[str], op: str) -> Model:
    trial = random_trial(rng, op, refused)
    graph = graph_of(trial.node)
    fed = _runs(rng, graph, dict(trial.given))
    name = f"{op.removeprefix('CUSTOM:').lower()}_{number}"
    return Model(name, graph, fed, JUDGES[trial.oracle], trial.tolerance)


def _graph(rng: Rng, number: int, refused: Counter[str], ops: Sequence[str]) -> Model:
    growth = Growth(rng, f"graph_{number}", refused)
    for _ in range(int(rng.integers(1, 3))):
        growth.begin()
    growth.add(ops[0])
    for _ in range(int(rng.integers(1, 6))):
        if rng.random() < 0.7:
            growth.add(str(rng.choice(np.array(ops))))
        else:
            growth.join()
    graph = growth.builder.graph(growth.outputs())
    return Model(graph.name, graph, _runs(rng, graph, growth.given), growth.judges, growth.tolerance)


def _controlled(rng: Rng, number: int, refused: Counter[str], ops: Sequence[str]) -> Model:
    control = Controlled(rng, refused, ops)
    graph = control.grow()
    growth = control.main
    return Model(f"control_{number}", graph, _runs(rng, graph, growth.given, True), growth.judges, growth.tolerance)


def _runs(rng: Rng, graph: Graph, given: dict[Tensor, Array], several: bool = False) -> tuple[tuple[Array, ...], ...]:
    stateful = several or Model("", graph, ()).stateful
    return values.runs(rng, graph, given, values.RUNS_WITH_STATE if stateful else values.RUNS)
