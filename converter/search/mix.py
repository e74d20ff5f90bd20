"""Which precision each layer should have, from the least cost to the least noise.

The noise that a layer adds is measured with that layer alone quantised, the cost of a layer is estimated for the
target. Where neighbours differ in type, a QUANTIZE or DEQUANTIZE lies between them and costs, too. For a price of noise
the best choice is found by dynamic programming along the order of execution; a sweep over prices gives a list of mixes
(a Lagrangian relaxation of the knapsack: Everett 1963, "Generalized Lagrange multiplier method"). Noises of layers
hardly add up exactly, so every mix that counts is measured as a whole afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations

import numpy as np

from twinfer.converter.loops import found
from twinfer.converter.quantize.compare import noises
from twinfer.converter.quantize.forms import precision_of
from twinfer.converter.quantize.observed import Calibration
from twinfer.converter.quantize.quantize import Options, quantize
from twinfer.converter.quantize.recipe import Choice, Recipe
from twinfer.converter.quantize.samples import Samples, samples_of
from twinfer.converter.search.costs import Figures
from twinfer.runtime.graph import Graph, Node, consumers
from twinfer.runtime.options import Options as PlanOptions
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.price import instructions
from twinfer.runtime.target import Target

#: Name of a layer's output, and its precision.
Layers = tuple[tuple[str, str], ...]

#: Instructions for each element and bytes of code that a QUANTIZE or DEQUANTIZE takes (``prices.toml``).
CONVERTED, CONVERSION = 15.0, 60

#: How many prices of noise are tried.
PRICES = 48

#: Outputs that are in memory at a time, for the part that one has in the arena: the real one is measured afterwards.
LIVE = 4

#: Runs of the graph from a layer on that measure its noise (``compare.MOST_RUNS`` is for reports), and the
#: multiplications that these may take; passes over the graph.
RUNS, WORK, PASSES = 4000, 10e9, 4


@dataclass
class _Part:
    """Layers that have one precision together: a layer, or all steps of a loop. ``costs`` and ``noises`` by precision;
    ``edges``: parts that read its outputs or that it reads, and the elements between."""

    nodes: list[Node]
    costs: dict[str, float] = field(default_factory=dict)
    noises: dict[str, float] = field(default_factory=dict)
    edges: dict[int, int] = field(default_factory=dict)


def mixes(
    graph: Graph,
    seen: Calibration,
    recipe: Recipe,
    precisions: Sequence[str],
    samples: Samples,
    target: Target,
    weights: Figures,
) -> list[Layers]:
    """Mixes of precisions, the cheapest first and the least noisy last; each gives every layer that has a choice one.

    ``recipe`` gives the methods, and precisions that its rules set; ``precisions`` are those to choose from for all
    others. ``weights`` say what is cheap.
    """
    parts = _parts(graph)
    of = {node: part for part in parts for node in part.nodes}
    made = {}
    for precision in precisions:
        whole = Recipe(recipe.rules, Choice(precision, None, recipe.default.method))
        made[precision] = graph if precision == "float" else quantize(graph, seen, whole, Options("LAYERS"))
    integers = [precision for precision in precisions if precision != "float"]
    rows = list(samples_of(graph, samples))
    runs = int(min(RUNS, WORK / max(1, make_plan(graph).macs)))
    noise = dict(zip(integers, noises(graph, [made[p] for p in integers], rows, runs), strict=True))
    for precision in precisions:
        able = [p for p in parts if any(precision_of(n, Choice(precision)).precision == precision for n in p.nodes)]
        own, costs = noise.get(precision, {}), _costs(made[precision], target, weights)
        for part in able:
            part.noises[precision] = sum(own.get(node, 0.0) for node in part.nodes)
            part.costs[precision] = sum(costs.get(node.output.name, 0.0) for node in part.nodes)
    free = [p for p in parts if len(p.costs) > 1 and not any(recipe.sets_precision(node) for node in p.nodes)]
    _join(graph, free, of)
    between = weights.instructions * CONVERTED, weights.flash * CONVERSION
    mixed: dict[Layers, None] = {}
    for noise_price in _prices(free):
        labels = _cheapest(free, noise_price, between)
        names = {n.output.name: label for part, label in zip(free, labels, strict=True) for n in part.nodes}
        mixed[tuple(sorted(names.items()))] = None
    return list(mixed)


def _prices(parts: Sequence[_Part]) -> Sequence[float]:
    """From below the price at which the first part takes a dearer precision to beyond that of the last one."""
    ratios = []
    for part in parts:
        for one, other in permutations(part.costs, 2):
            more, less = part.costs[other] - part.costs[one], part.noises[one] - part.noises[other]
            if more > 0 and less > 0:
                ratios.append(more / less)
    return [
        float(price) for price in np.geomspace(min(ratios, default=1.0) / 10, max(ratios, default=1.0) * 100, PRICES)
    ]


def _parts(graph: Graph) -> list[_Part]:
    """Every node by itself, but the steps of a loop together, in the order of execution."""
    loops, taken = found(graph), set[Node]()
    parts = []
    for node in graph.nodes:
        if node not in taken:
            loop = next((loop for loop in loops if node in loop.all_nodes), None)
            nodes = [node] if loop is None else list(loop.all_nodes)
            taken |= set(nodes)
            parts.append(_Part(nodes))
    return parts


def _costs(graph: Graph, target: Target, weights: Figures) -> Mapping[str, float]:
    """Name of a node's output -> what the node costs: instructions, constants, and its output's share of the RAM."""
    plan = make_plan(graph, target, PlanOptions(memory="layers"))
    costs: dict[str, float] = {}
    for step in plan.steps:
        for out in step.node.outputs[:1]:
            constants = sum(t.data.nbytes for t in step.node.inputs if t is not None and t.data is not None)
            own = Figures(instructions([step], target), constants, out.nbytes / LIVE)
            costs[out.name] = costs.get(out.name, 0.0) + own.times(weights)
    return costs


def _join(graph: Graph, parts: Sequence[_Part], of: Mapping[Node, _Part]) -> None:
    """Notes between which parts tensors go."""
    numbers = {id(part): i for i, part in enumerate(parts)}
    at = {node: numbers[id(of[node])] for node in graph.nodes if id(of[node]) in numbers}
    readers = consumers(graph)
    for node, one in at.items():
        for tensor in node.outputs:
            for other in {at[reader] for reader in readers.get(tensor, ()) if reader in at} - {one}:
                for a, b in ((one, other), (other, one)):
                    parts[a].edges[b] = parts[a].edges.get(b, 0) + tensor.size


def _cheapest(parts: Sequence[_Part], price: float, between: tuple[float, float]) -> list[str]:
    """The precision of every part at the least sum of costs and ``price`` times noise.

    Exact along a chain. Where tensors skip parts, the choices of the last pass stand for the ends that are elsewhere.
    """
    own = [{p: part.costs[p] + price * part.noises[p] for p in part.costs} for part in parts]
    labels = [min(each, key=each.__getitem__) for each in own]
    for _ in range(PASSES):
        before = list(labels)
        best: list[dict[str, tuple[float, str]]] = []  # of parts so far, by the last one's precision
        for i, part in enumerate(parts):
            row: dict[str, tuple[float, str]] = {}
            for label in part.costs:
                far = ((j, size) for j, size in part.edges.items() if abs(i - j) > 1)
                cost = own[i][label] + sum(_crossing(label, labels[j], size, between) for j, size in far) / 2
                size = part.edges.get(i - 1, 0)
                ways = {
                    old: total + (_crossing(old, label, size, between) if size else 0.0)
                    for old, (total, _) in (best[-1].items() if best else ())
                }
                old = min(ways, key=ways.__getitem__) if ways else ""
                row[label] = cost + ways.get(old, 0.0), old
            best.append(row)
        label = min(best[-1], key=lambda name: best[-1][name][0]) if best else ""
        for i in reversed(range(len(parts))):
            labels[i], label = label, best[i][label][1]
        if labels == before:
            break
    return labels


@cache
def _type(precision: str) -> str:
    return Choice(precision).type


def _crossing(one: str, other: str, size: int, between: tuple[float, float]) -> float:
    """What it costs that a tensor of that size changes its type between layers of these precisions."""
    return 0.0 if _type(one) == _type(other) else between[0] * size + between[1]
