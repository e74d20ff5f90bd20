"""Times every way to compute each layer on this computer: what ``twinfer tune`` keeps and shows."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twinfer.bench.measure.compare import same_bits
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.tuned import Setting, Settings, alternatives, key
from twinfer.runtime.program import COPY, Step
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session

#: Layer by layer, so that every layer has a time of its own.
OPTIONS = Options(memory="layers")

#: How much faster than the usual way another must be to be kept, as a share: times differ as much from run to run.
MARGIN = 0.03

#: Ways that are so many times as slow as the usual one are timed once.
HOPELESS = 1.5


@dataclass(frozen=True)
class Tuned:
    """A layer by its number in the plan: the way that it usually gets, and the shortest time of each way, in ns."""

    index: int
    node: Node
    usual: Setting
    times: Mapping[Setting, int]

    @property
    def best(self) -> Setting:
        """The fastest way; the usual one, unless another is faster by ``MARGIN``."""
        best = min(self.times, key=lambda way: self.times[way])
        return best if self.times[best] < (1 - MARGIN) * self.times[self.usual] else self.usual


class _Trials:
    """Plans of one model that differ in how they compute layers; together they have every way of every layer."""

    def __init__(self, graph: Graph) -> None:
        target = isa.this_computer()
        self.plan = make_plan(graph, target, OPTIONS, {})
        self._ways = {key(step.node): [way for way, _ in alternatives(step.node, target)] for step in layers(self.plan)}
        count = max(map(len, self._ways.values()), default=1)
        self._sessions = [Session(make_plan(graph, target, OPTIONS, self._settings(i))) for i in range(count)]
        self.times: defaultdict[str, dict[Setting, int]] = defaultdict(dict)

    def _settings(self, i: int) -> Settings:
        return {name: each[i % len(each)] for name, each in self._ways.items()}

    def check(self) -> None:
        """RuntimeError if two ways give other bits."""
        given = random_inputs(self.plan.graph)
        for session in self._sessions:
            session.feed(given)
            session.run()
        first, *others = (session.outputs() for session in self._sessions)
        if not all(same_bits(first, other) for other in others):
            raise RuntimeError(f"{self.plan.graph.name!r}: variants of a kernel differ in their outputs")

    def time(self) -> None:
        """One run of every plan that still has a way which may be the fastest."""
        for i, session in enumerate(self._sessions):
            settings = self._settings(i)
            if not any(self._hopes(name, way) for name, way in settings.items()):
                continue
            for step, ns in zip(session.plan.steps, session.profile(1), strict=True):
                name = key(step.node)
                if way := settings.get(name):
                    self.times[name][way] = min(ns, self.times[name].get(way, ns))

    def _hopes(self, name: str, way: Setting) -> bool:
        known = self.times[name]
        return way not in known or known[way] <= HOPELESS * known[self._ways[name][0]]

    def tuned(self) -> Iterator[Tuned]:
        """What is known of the layers that can be computed in several ways."""
        for i, step in enumerate(self.plan.steps):
            every = self._ways.get(key(step.node), ())
            if len(every) > 1 and step.call.kernel != COPY:
                yield Tuned(i, step.node, every[0], self.times[key(step.node)])


def layers(plan: Plan) -> list[Step]:
    """The steps that compute something."""
    return [step for step in plan.steps if step.call.kernel != COPY]


def tune(graph: Graph, seconds: float, told: Callable[[float], None] = lambda share: None) -> list[Tuned]:
    """The layers of a model that can be computed in several ways, which take turns for ``seconds``.

    Layers of the same shape count as one. RuntimeError if two ways give other bits.
    """
    trials = _Trials(graph)
    trials.check()
    start = time.perf_counter()
    while (share := (time.perf_counter() - start) / seconds) < 1:
        told(share)
        trials.time()
    return list(trials.tuned())


def settings_of(tuned: Sequence[Tuned]) -> Settings:
    """What to keep of it."""
    return {key(layer.node): layer.best for layer in tuned}


def loss(tuned: Sequence[Tuned]) -> float:
    """How much longer the layers take as they usually are than as they are best, as a share."""
    usual, best = (sum(layer.times[getattr(layer, way)] for layer in tuned) for way in ("usual", "best"))
    return usual / best - 1 if best else 0.0
