"""Which values integers would lose for what is done with them next; these are computed in float.

Some functions make much of small differences. The power of a spectrum spans many decades: 255 steps hold its loudest
part, and LOG or SQRT behind it wants all of it. A variance that rounds to 0 becomes infinite by RSQRT. So calibration
keeps what some samples bring to such a node. The node runs on what integers would hold of that. If its result is poor,
the node becomes float, and as many of those before it as it takes.

Arithmetic with constants for each feature, as normalisation of a graph's inputs has, is such a function, too: no
feature may be lost behind it, however small it is beside the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinfer.converter.passes._rewrite import new_node, with_tensors
from twinfer.converter.passes.elementwise_constants import affine
from twinfer.converter.quantize.affine import activation
from twinfer.converter.quantize.masks import named_outputs
from twinfer.converter.quantize.observed import Calibration
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Array, Graph, Node, Tensor, consumers
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

#: A node is helped if the energy of its error is a larger share than POOR (20 dB; 35 dB where integers have 16 bits),
#: until it is no more than GOOD (10 dB less). Layers with weights cost more: they become float only while it is poor,
#: and no more than LAYERS of them in a row: those of a spectrum, and those of its bands.
POOR = {"INT8": 1e-2, "INT16": 10**-3.5}
LAYERS = 2
GOOD = {"INT8": 1e-3, "INT16": 10**-4.5}

#: The error must shrink to this share of itself; of the regions that do as well as the best, but for CLOSE, the
#: smallest is taken.
WORTH, CLOSE = 0.5, 1.26

#: The most nodes that become float for one, and the samples whose values are kept: also late ones, as a stream may
#: begin with silence. The most bytes of them.
REACH, KEPT, MOST_BYTES = 32, (0, 2, 5, 11, 23, 47), 1 << 28

#: The most nodes behind one that say what becomes of its error.
NEXT = 8

#: What one sample brings to the nodes that are looked at.
Values = Mapping[Tensor, Array]


@dataclass(frozen=True)
class Cone:
    """A node, those that lead to it (``before``, in order), and what is done next with its result alone (``after``).

    ``apart``: every feature of the result counts.
    """

    node: Node
    before: tuple[Node, ...]
    after: tuple[Node, ...]
    apart: bool

    @property
    def result(self) -> Tensor:
        """By which integers are judged."""
        return (self.after[-1] if self.after else self.node).output

    @property
    def tensors(self) -> set[Tensor]:
        """What must be kept of a sample."""
        return {self.result, *(t for n in (*self.before, self.node, *self.after) for t in _values(n))}


def cones(graph: Graph) -> list[Cone]:
    """The nodes that integers may spoil, each with up to REACH nodes before it."""
    makers = {t: node for node in graph.nodes for t in node.outputs}
    readers, outputs = consumers(graph), {*graph.outputs, *named_outputs(graph)}
    order = {node: i for i, node in enumerate(graph.nodes)}
    found = []
    for node in graph.nodes:
        apart, at = _scales_features(node, makers), row_of(node).magnifies
        if not apart and (at is None or node.input(at).data is not None):
            continue
        before = dict[Node, None]()
        front = [node]
        while front and len(before) < REACH:
            near = [makers[t] for each in front for t in _values(each) if t in makers]
            front = [n for n in dict.fromkeys(near) if n not in before and row_of(n).state is None]
            before |= dict.fromkeys(front)
        after: list[Node] = []
        while not apart and len(after) < NEXT:
            last = (after[-1] if after else node).output
            one = readers.get(last, [])
            if last in outputs or len(one) != 1 or not _is_plain(one[0]):
                break
            after.append(one[0])
        found.append(Cone(node, tuple(sorted(before, key=order.__getitem__)), tuple(after), apart))
    return found


def is_layer(node: Node) -> bool:
    """Whether the node sums products, so that float costs much."""
    row = row_of(node)
    return not (row.elementwise or row.moves is not None or row.reduces or row.dimensions is not None)


def _is_plain(node: Node) -> bool:
    """Whether the node only moves values, or computes each from those at its place, or sums of them."""
    row = row_of(node)
    plain = row.elementwise or row.moves is not None or row.reduces
    return plain and len(node.outputs) == 1 and node.output.type == "FLOAT32" and not node.output.variable


def _values(node: Node) -> list[Tensor]:
    return [t for t in node.inputs if t is not None and t.data is None]


def _scales_features(node: Node, makers: Mapping[Tensor, Node]) -> bool:
    """Whether the node is arithmetic with a constant for each feature, behind nothing but such and a graph input."""
    form = affine(node)
    if form is None or max(form.scale.size, form.offset.size) <= 1:
        return False
    source = form.x
    while source in makers:
        maker = makers[source]
        before = affine(maker)
        if before is None and (row_of(maker).moves is None or len(_values(maker)) != 1):
            return False
        source = before.x if before else maker.input(0)
    return not source.variable


def keep(wanted: Iterable[Tensor], session: Session) -> Values:
    """Copies of what a run left in these tensors."""
    return {t: session.view(t).copy() for t in wanted if t in session.plan.offsets and t.size}


def note(found: Sequence[Cone], samples: Sequence[Values], seen: Calibration, types: Iterable[str]) -> None:
    """Notes for every tensor in which integer types it would be lost (``Observed.lost``)."""
    known = [cone for cone in found if samples and cone.tensors <= samples[0].keys()]
    for type in types:
        for cone in known:
            for tensor in _lost(cone, samples, seen, type) & seen.keys():  # an integer tensor has been chosen for
                seen[tensor].lost.add(type)


def _lost(cone: Cone, samples: Sequence[Values], seen: Calibration, type: str) -> set[Tensor]:
    """The results of nodes that must become float, and the graph inputs that must stay so."""
    trial = _Trial(cone, samples, seen, type)
    region, inputs, poor, good, spent = [cone.node], set[Tensor](), POOR[type], GOOD[type], 0
    trail: list[tuple[float, set[Tensor]]] = []
    while True:
        coarse = [t for t in _inputs(region) if t in seen and t not in inputs and type not in seen[t].lost]
        share, whole = trial.share(region, coarse)
        trail.append((math.sqrt(share * whole), {t for n in region for t in n.outputs} | inputs))
        if coarse and len(trail) == 1 and share <= poor:
            return set()
        if share <= good or not coarse or len(region) > REACH:
            break
        bad = coarse if len(coarse) == 1 else [t for t in coarse if trial.share(region, [t])[0] > good / 2]
        makers = [trial.makers[t] for t in bad if t in trial.makers]
        more = [n for n in makers if not is_layer(n)]
        if not more and spent < LAYERS and whole > poor:
            spent, more, inputs = spent + 1, makers, {t for t in bad if cone.apart and t not in trial.makers}
        if not more and not inputs.intersection(coarse):
            break
        region = [n for n in (*cone.before, cone.node) if n in more or n in region]
    best = min(share for share, _ in trail)
    if best > WORTH * trail[0][0]:
        return set()
    return next(tensors for share, tensors in trail if share <= CLOSE * best)


def _inputs(nodes: Sequence[Node]) -> list[Tensor]:
    """What the nodes read, and do not make themselves."""
    made = {t for n in nodes for t in n.outputs}
    return [t for t in dict.fromkeys(t for n in nodes for t in _values(n)) if t not in made]


class _Trial:
    """A cone, of which parts run on integers."""

    def __init__(self, cone: Cone, samples: Sequence[Values], seen: Calibration, type: str) -> None:
        self.cone, self.samples, self.seen, self.type = cone, samples, seen, type
        self.makers = {t: n for n in cone.before for t in n.outputs}
        self.wanted = np.stack([values[cone.result] for values in samples]).astype(np.float64)

    def share(self, region: Sequence[Node], coarse: Sequence[Tensor]) -> tuple[float, float]:
        """The energy of the error as a share of the result's, if these inputs of the region are integers, and so is all
        between them and the layers before: the mean over the samples, of which quiet ones count as much as loud ones,
        or over the features; and that of the whole."""
        behind, front = dict[Node, None](), list(coarse)
        while front:
            near = dict.fromkeys(self.makers[t] for t in front if t in self.makers)
            nodes = [n for n in near if n not in behind and n not in region and not is_layer(n)]
            behind |= dict.fromkeys(nodes)
            front = [t for n in nodes for t in _values(n)]
        held = {*coarse, *(t for n in behind for t in (*_values(n), *n.outputs))}
        held = {t for t in held if t in self.seen and self.type not in self.seen[t].lost}
        held -= {t for n in region for t in n.outputs}
        nodes = [n for n in self.cone.before if n in behind or n in region]
        session = self._session(
            [*nodes, self.cone.node, *self.cone.after], held - {t for n in region for t in n.outputs}
        )
        got = np.empty_like(self.wanted)
        for i, values in enumerate(self.samples):
            for t in session.plan.graph.inputs:
                session.view(t)[...] = values[t]
            session.run()
            got[i] = session.view(self.cone.result)
        return self._shares(got)

    def _shares(self, got: Array) -> tuple[float, float]:
        axes = tuple(range(got.ndim)[:-1] if self.cone.apart else range(got.ndim)[1:])
        middle = self.wanted.mean(axes) if self.cone.apart else 0.0
        signal = np.atleast_1d(((self.wanted - middle) ** 2).sum(axes))
        with np.errstate(over="ignore", invalid="ignore"):
            noise = np.atleast_1d(np.nan_to_num((got - self.wanted) ** 2, nan=np.inf).sum(axes))
        alive = signal > 0
        if not alive.any():
            return 0.0, 0.0
        each = np.minimum(noise[alive] / signal[alive], 1.0).mean()
        return float(each), float(each if self.cone.apart else noise.sum() / signal.sum())

    def _session(self, nodes: Sequence[Node], held: set[Tensor]) -> Session:
        """The nodes on their own, with some tensors rounded to integers and back."""
        rounded: dict[Tensor, Tensor] = {}
        written: list[Node] = []
        for t in (t for t in _inputs(nodes) if t in held):
            written += self._rounded(t, rounded)
        for node in nodes:
            written.append(with_tensors(node, rounded))
            for t in (t for t in node.outputs if t in held):
                written += self._rounded(t, rounded)
        tensors = dict.fromkeys(t for n in written for t in (*n.inputs, *n.outputs) if t is not None)
        part = Graph("part", tuple(tensors), tuple(written), tuple(_inputs(nodes)), (self.cone.result,))
        return Session(make_plan(part, options=Options(preserve_all=True)))

    def _rounded(self, t: Tensor, rounded: dict[Tensor, Tensor]) -> list[Node]:
        """QUANTIZE and DEQUANTIZE behind a tensor."""
        quant = activation((self.seen[t].low, self.seen[t].high), self.type)
        integer = replace(t, name=f"{t.name}/integer", type=self.type, quant=quant)
        rounded[t] = replace(t, name=f"{t.name}/rounded")
        return [new_node("QUANTIZE", (t,), integer), new_node("DEQUANTIZE", (integer,), rounded[t])]
